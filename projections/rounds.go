package projections

import (
	"fmt"
	"slices"

	"gatebook/events"
)

// RoundRow is what the views know of one round.
type RoundRow struct {
	Round        events.RoundID
	Agent        events.AgentID
	Conversation events.ConversationID
	Channel      events.ChannelID
	HandleHash   events.Digest
	Principal    events.Principal
	// Requested is the session profile that was asked for, Session the one in
	// force; empty for none.
	Requested, Session string
	Task               events.Personal
	Model              events.Model
	Timeout            events.Micros // without a call; 0 for none
	// CausedBy is the parent's round that started this one, Job the job that did;
	// empty for neither.
	CausedBy events.RoundID
	Job      string
	// LastCall is the decision of the last call; 0 before the first.
	Begun, LastCall, Ended events.Instant
	End                    events.RoundEnd // empty while open
	EndReason              string
	Steps                  int64      // calls decided
	OpenCalls              int64      // of them without an end
	Staged                 int64      // of those, how many wait for a person
	Used                   []Count    // allowed calls by tool, but for those that the tool refused; sorted by name
	Seq                    events.Seq // of round.begun; the cursor of lists
}

// Open says that the round has not ended.
func (r RoundRow) Open() bool { return r.End == "" }

// Deadline is when the round times out unless a call comes, and whether it does.
func (r RoundRow) Deadline() (events.Instant, bool) {
	if !r.Open() || r.Timeout <= 0 {
		return 0, false
	}
	return max(r.Begun, r.LastCall) + events.Instant(r.Timeout), true
}

// storedRound is a RoundRow in the store.
type storedRound struct {
	_                      struct{} `cbor:",toarray"`
	Round                  events.RoundID
	Agent                  events.AgentID
	Conversation           events.ConversationID
	Channel                events.ChannelID
	HandleHash             events.Digest
	PrincipalID            string
	PrincipalKind          events.PrincipalKind
	Requested, Session     string
	Task                   storedPersonal
	ModelName, ModelKnown  string
	Timeout                events.Micros
	CausedBy               events.RoundID
	Job                    string
	Begun, LastCall, Ended events.Instant
	End                    events.RoundEnd
	EndReason              string
	Steps, OpenCalls       int64
	Staged                 int64
	Used                   []Count
	Seq                    events.Seq
}

// UsedOf is how many calls of a tool the round has had.
func (r RoundRow) UsedOf(tool events.ToolKey) int64 {
	if at, found := findCount(r.Used, toolName(tool)); found {
		return r.Used[at].N
	}
	return 0
}

// use counts calls of a tool. Others may remember the list as it was.
func (r *RoundRow) use(tool events.ToolKey, n int64) {
	r.Used = addCount(slices.Clone(r.Used), toolName(tool), n)
}

func storeRound(r RoundRow) storedRound {
	return storedRound{
		Round: r.Round, Agent: r.Agent, Conversation: r.Conversation, Channel: r.Channel, HandleHash: r.HandleHash,
		PrincipalID: r.Principal.ID, PrincipalKind: r.Principal.Kind, Requested: r.Requested, Session: r.Session,
		Task: storePersonal(r.Task), ModelName: r.Model.Name, ModelKnown: r.Model.Known, Timeout: r.Timeout,
		CausedBy: r.CausedBy, Job: r.Job,
		Begun: r.Begun, LastCall: r.LastCall, Ended: r.Ended, End: r.End, EndReason: r.EndReason,
		Steps: r.Steps, OpenCalls: r.OpenCalls, Staged: r.Staged, Used: r.Used, Seq: r.Seq,
	}
}

func (s storedRound) row() RoundRow {
	return RoundRow{
		Round: s.Round, Agent: s.Agent, Conversation: s.Conversation, Channel: s.Channel, HandleHash: s.HandleHash,
		Principal: events.Principal{ID: s.PrincipalID, Kind: s.PrincipalKind}, Requested: s.Requested, Session: s.Session,
		Task: s.Task.personal(), Model: events.Model{Name: s.ModelName, Known: s.ModelKnown}, Timeout: s.Timeout,
		CausedBy: s.CausedBy, Job: s.Job,
		Begun: s.Begun, LastCall: s.LastCall, Ended: s.Ended, End: s.End, EndReason: s.EndReason,
		Steps: s.Steps, OpenCalls: s.OpenCalls, Staged: s.Staged, Used: s.Used, Seq: s.Seq,
	}
}

// RoundByID finds a round, open or ended.
func RoundByID(r Reader, id events.RoundID) (RoundRow, bool, error) {
	s, ok, err := loadRow[storedRound](r, keyOf(viewRound, string(id)))
	return s.row(), ok, err
}

// RoundByHandle finds the round, open or ended, whose handle has this hash.
func RoundByHandle(r Reader, hash events.Digest) (RoundRow, bool, error) {
	id, err := r.Get(keyOf(viewRoundHandle, string(hash)))
	if err != nil || id == nil || hash == "" {
		return RoundRow{}, false, err
	}
	return RoundByID(r, events.RoundID(id))
}

// RoundFilter says which rounds to list. Its zero value lists all, newest first.
type RoundFilter struct {
	Agent      events.AgentID // empty: of every agent
	OpenOnly   bool
	Before     events.Seq                // begun below this sequence; 0: from the newest
	Limit      int                       // see [PageSize]
	Observable func(events.AgentID) bool // nil: all
}

// RoundPage is a page of rounds, newest first.
type RoundPage struct {
	Rows []RoundRow
	Next events.Seq // Before of the next page; 0: there is none
	AsOf events.Seq // the checkpoint that the page is true at
}

// Rounds lists rounds by the sequence of their begin, newest first. It looks at
// no more than [MaxVisits] rows.
func Rounds(r Reader, f RoundFilter) (RoundPage, error) {
	state, err := LoadState(r)
	if err != nil {
		return RoundPage{}, err
	}
	rows, next, err := page(r, f.list(), func(_ events.Seq, id []byte) (RoundRow, bool, error) {
		row, ok, err := RoundByID(r, events.RoundID(id))
		if err == nil && !ok {
			err = fmt.Errorf("%w: round %s is listed and has no row", ErrStore, events.Quote(string(id)))
		}
		return row, f.wants(row), err
	})
	return RoundPage{Rows: rows, Next: next, AsOf: state.Seq}, err
}

func (f RoundFilter) list() list {
	prefix := []byte{viewRoundList}
	switch {
	case f.OpenOnly:
		prefix = []byte{viewRoundOpen} // few, so that an agent's are found by looking
	case f.Agent != "":
		prefix = listKey(viewRoundAgent, string(f.Agent))
	}
	return list{prefixes: [][]byte{prefix}, before: f.Before, limit: f.Limit, visits: MaxVisits}
}

func (f RoundFilter) wants(row RoundRow) bool {
	return (f.Agent == "" || row.Agent == f.Agent) && (f.Observable == nil || f.Observable(row.Agent))
}

func (f *fold) roundBegun(e events.RoundBegun) error {
	if err := f.enrolledAgent(); err != nil {
		return err
	}
	if err := f.newRound(e); err != nil {
		return err
	}
	if err := f.causedRound(e); err != nil {
		return err
	}
	conversation, err := f.openConversation(e.Conversation)
	if err != nil {
		return err
	}
	if conversation.OpenRound != "" {
		return fmt.Errorf("%w: conversation %s has round %s open", ErrFold, e.Conversation, conversation.OpenRound)
	}
	conversation.OpenRound = e.Round
	f.setConversation(conversation)
	f.agent.OpenRounds++
	f.agent.LastActivity = f.rec.Time
	f.put(seqKey(viewRoundList, f.rec.Seq), []byte(e.Round))
	f.put(seqKey(viewRoundOpen, f.rec.Seq), []byte(e.Round))
	f.put(withSeq(listKey(viewRoundAgent, string(f.rec.Agent)), f.rec.Seq), []byte(e.Round))
	if e.HandleHash != "" {
		f.put(keyOf(viewRoundHandle, string(e.HandleHash)), []byte(e.Round))
	}
	row := RoundRow{
		Round: e.Round, Agent: f.rec.Agent, Conversation: e.Conversation, Channel: e.Channel, HandleHash: e.HandleHash,
		Principal: e.Principal, Requested: e.Requested, Session: e.Effective, Task: e.Task, Model: e.Model,
		Timeout: e.Timeout, CausedBy: e.CausedBy, Job: e.Job, Begun: f.rec.Time, Seq: f.rec.Seq,
	}
	if e.Job != "" {
		f.markJob(e.Job)
	}
	f.moveDue(RoundRow{}, row)
	f.setRound(row)
	return nil
}

// newRound is the law that neither the id nor the handle belongs to a round.
func (f *fold) newRound(e events.RoundBegun) error {
	_, ok, err := RoundByID(f.tx, e.Round)
	if err != nil {
		return err
	}
	if ok || e.Round == "" {
		return fmt.Errorf("%w: round %s cannot begin again", ErrFold, events.Quote(string(e.Round)))
	}
	earlier, ok, err := RoundByHandle(f.tx, e.HandleHash)
	if err == nil && ok {
		err = fmt.Errorf("%w: round %s has the handle of round %s", ErrFold, e.Round, earlier.Round)
	}
	return err
}

// causedRound is the law that what causes a round is a round of the agent's parent.
func (f *fold) causedRound(e events.RoundBegun) error {
	if e.CausedBy == "" {
		return nil
	}
	cause, ok, err := RoundByID(f.tx, e.CausedBy)
	if err == nil && (!ok || f.agent.Parent == "" || cause.Agent != f.agent.Parent) {
		err = fmt.Errorf("%w: round %s is not caused by a round of the agent's parent", ErrFold, e.Round)
	}
	return err
}

func (f *fold) roundTainted(e events.RoundTainted) error {
	round, err := f.ownRound(e.Round)
	if err != nil {
		return err
	}
	conversation, err := f.ownConversation(round.Conversation)
	if err != nil {
		return err
	}
	conversation.Tainted = true
	f.setConversation(conversation)
	return nil
}

func (f *fold) roundEnded(e events.RoundEnded) error {
	round, err := f.ownRound(e.Round)
	if err != nil {
		return err
	}
	if !round.Open() || e.End == "" {
		return fmt.Errorf("%w: round %s cannot end as %s", ErrFold, e.Round, events.Quote(string(e.End)))
	}
	conversation, err := f.ownConversation(round.Conversation)
	if err != nil {
		return err
	}
	conversation.OpenRound = ""
	f.setConversation(conversation)
	before := round
	round.End, round.EndReason, round.Ended = e.End, e.Reason, f.rec.Time
	f.agent.OpenRounds--
	f.agent.LastActivity = f.rec.Time
	f.drop(seqKey(viewRoundOpen, round.Seq))
	f.moveDue(before, round)
	f.setRound(round)
	return nil
}

// ownRound finds a round of the event's agent.
func (f *fold) ownRound(id events.RoundID) (RoundRow, error) {
	row, ok, err := RoundByID(f.tx, id)
	if err != nil {
		return row, err
	}
	if !ok || row.Agent != f.rec.Agent {
		return row, fmt.Errorf("%w: %s has no round %s", ErrFold,
			events.Quote(string(f.rec.Agent)), events.Quote(string(id)))
	}
	return row, nil
}

func (f *fold) setRound(row RoundRow) {
	f.set(keyOf(viewRound, string(row.Round)), storeRound(row))
}
