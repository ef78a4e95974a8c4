package projections

import (
	"errors"
	"fmt"
	"iter"
	"sort"

	"gatebook/events"
)

// AuditRow is one call and its life: what was asked, what the gate said, how it
// ended.
type AuditRow struct {
	Call events.CallID
	// Round is empty where Step is 0: the call came without the handle of a round
	// of the agent's, and what it claimed is not kept.
	Round        events.RoundID
	Conversation events.ConversationID
	Step         int64 // place in the round, from 1
	Agent        events.AgentID
	Role         string
	Model        events.Model
	Channel      events.ChannelID
	Principal    events.Principal
	Profile      string
	Tool         events.ToolKey
	// ToolKnown says that there was such a tool; else Tool is what the caller wrote.
	ToolKnown   bool
	Key         string // the caller's idempotency key
	MAC         events.MAC
	ArgsPreview events.Personal // at most events.MaxPreview bytes
	ArgsSize    int64           // bytes, before redaction
	Paths       string          // the workspace paths among the arguments, one per line
	Verdict     events.Verdict
	Status      events.Status // empty while open
	// Layer, Rule and Reason are of the refusal, at the decision or after it.
	Layer        events.Layer
	Rule, Reason string
	Error        string
	Result       events.Result
	Executor     events.Executor
	Tier         events.Tier
	Duration     events.Micros
	// Released is when an approved staged call was claimed; 0 before and for
	// every other call. Completed is Decided where the decision was the end.
	Decided, Released, Completed events.Instant
	// Seq is of call.decided; CompletedSeq of call.completed, 0 while open and
	// where the decision was the end.
	Seq, CompletedSeq events.Seq
	// ReleasedSeq is of call.released; 0 before and for every call that was not staged.
	ReleasedSeq events.Seq
	Catalog     events.Digest // in force at the decision
	// Review is that of a staged call; empty for every other.
	Review events.ReviewID
	// Asset is what the tool ran as, or would have; empty for a tool that needs none.
	Asset events.AssetID
}

// storedCall is an AuditRow in the store.
type storedCall struct {
	_                            struct{} `cbor:",toarray"`
	Call                         events.CallID
	Round                        events.RoundID
	Conversation                 events.ConversationID
	Step                         int64
	Agent                        events.AgentID
	Role                         string
	ModelName, ModelKnown        string
	Channel                      events.ChannelID
	PrincipalID                  string
	PrincipalKind                events.PrincipalKind
	Profile                      string
	ToolOwner, Tool              string
	ToolKnown                    bool
	Key                          string
	MAC                          events.MAC
	ArgsPreview                  storedPersonal
	ArgsSize                     int64
	Paths                        string
	Verdict                      events.Verdict
	Status                       events.Status
	Layer                        events.Layer
	Rule, Reason, Error          string
	ResultSize                   int64
	ResultMAC                    events.MAC
	ResultPreview                storedPersonal
	ResultRedacted               bool
	ResultTruncated              bool
	ResultBlob                   events.Digest
	Executor                     events.Executor
	Tier                         events.Tier
	Duration                     events.Micros
	Decided, Released, Completed events.Instant
	Seq, CompletedSeq            events.Seq
	ReleasedSeq                  events.Seq
	Catalog                      events.Digest
	Review                       events.ReviewID
	Asset                        events.AssetID
}

func storeCall(r AuditRow) storedCall {
	return storedCall{
		Call: r.Call, Round: r.Round, Conversation: r.Conversation, Step: r.Step, Agent: r.Agent, Role: r.Role,
		ModelName: r.Model.Name, ModelKnown: r.Model.Known, Channel: r.Channel,
		PrincipalID: r.Principal.ID, PrincipalKind: r.Principal.Kind, Profile: r.Profile,
		ToolOwner: r.Tool.Owner, Tool: r.Tool.Name, ToolKnown: r.ToolKnown, Key: r.Key, MAC: r.MAC,
		ArgsPreview: storePersonal(r.ArgsPreview), ArgsSize: r.ArgsSize, Paths: r.Paths,
		Verdict: r.Verdict, Status: r.Status, Layer: r.Layer, Rule: r.Rule, Reason: r.Reason, Error: r.Error,
		ResultSize: r.Result.Size, ResultMAC: r.Result.MAC, ResultPreview: storePersonal(r.Result.Preview),
		ResultRedacted: r.Result.Redacted, ResultTruncated: r.Result.Truncated, ResultBlob: r.Result.Blob, Executor: r.Executor,
		Tier: r.Tier, Duration: r.Duration, Decided: r.Decided, Released: r.Released, Completed: r.Completed,
		Seq: r.Seq, CompletedSeq: r.CompletedSeq, ReleasedSeq: r.ReleasedSeq, Catalog: r.Catalog, Review: r.Review, Asset: r.Asset,
	}
}

func (s storedCall) row() AuditRow {
	return AuditRow{
		Call: s.Call, Round: s.Round, Conversation: s.Conversation, Step: s.Step, Agent: s.Agent, Role: s.Role,
		Model: events.Model{Name: s.ModelName, Known: s.ModelKnown}, Channel: s.Channel,
		Principal: events.Principal{ID: s.PrincipalID, Kind: s.PrincipalKind}, Profile: s.Profile,
		Tool: events.ToolKey{Owner: s.ToolOwner, Name: s.Tool}, ToolKnown: s.ToolKnown, Key: s.Key, MAC: s.MAC,
		ArgsPreview: s.ArgsPreview.personal(), ArgsSize: s.ArgsSize, Paths: s.Paths,
		Verdict: s.Verdict, Status: s.Status, Layer: s.Layer, Rule: s.Rule, Reason: s.Reason, Error: s.Error,
		Result: events.Result{
			Size: s.ResultSize, MAC: s.ResultMAC, Preview: s.ResultPreview.personal(),
			Redacted: s.ResultRedacted, Truncated: s.ResultTruncated, Blob: s.ResultBlob,
		},
		Executor: s.Executor, Tier: s.Tier, Duration: s.Duration,
		Decided: s.Decided, Released: s.Released, Completed: s.Completed,
		Seq: s.Seq, CompletedSeq: s.CompletedSeq, ReleasedSeq: s.ReleasedSeq, Catalog: s.Catalog, Review: s.Review, Asset: s.Asset,
	}
}

// Open says that the call has no final status yet.
func (r AuditRow) Open() bool { return r.Status == "" }

// CallByID finds a call.
func CallByID(r Reader, id events.CallID) (AuditRow, bool, error) {
	return callAt(r, keyOf(viewCall, string(id)))
}

// CallByKey finds the first call of the round under the idempotency key.
func CallByKey(r Reader, round events.RoundID, key string) (AuditRow, bool, error) {
	if key == "" {
		return AuditRow{}, false, nil
	}
	return callAt(r, callKeyKey(round, key))
}

// callAt follows an index row to the call.
func callAt(r Reader, index []byte) (AuditRow, bool, error) {
	value, err := r.Get(index)
	if err != nil || value == nil {
		return AuditRow{}, false, err
	}
	seq, err := seqOfValue(value)
	if err != nil {
		return AuditRow{}, false, err
	}
	row, err := callBySeq(r, seq)
	return row, err == nil, err
}

// callBySeq reads a call that an index names.
func callBySeq(r Reader, seq events.Seq) (AuditRow, error) {
	s, ok, err := loadRow[storedCall](r, seqKey(viewAudit, seq))
	if err == nil && !ok {
		err = fmt.Errorf("%w: the call decided at %d has no row", ErrStore, seq)
	}
	return s.row(), err
}

// Running and Waiting are states of calls that have no final status: one that may
// run, and one that waits for a person. Filters and totals have them beside the
// statuses.
const (
	Running events.Status = "running"
	Waiting events.Status = "waiting"
)

// State is the status of a call, or what it does while it has none.
func (r AuditRow) State() events.Status {
	switch {
	case !r.Open():
		return r.Status
	case r.Verdict == events.Stage && r.Released == 0:
		return Waiting
	}
	return Running
}

// CallFilter says which calls are meant; its fields are joined by and, and an empty
// one asks for nothing.
type CallFilter struct {
	Agent events.AgentID
	// Tool is "owner/name", or a name of whatever owner.
	Tool      string
	Status    events.Status // or [Running], [Waiting]
	Verdict   events.Verdict
	Layer     events.Layer
	Principal string // its id
	Channel   events.ChannelID
	Profile   string
	Role      string
	// Since and Until bound the time of the decision, Until exclusive; 0: open.
	Since, Until events.Instant
	Observable   func(events.AgentID) bool // nil: all
}

// AuditFilter says which calls to list. Its zero value lists all, newest first.
type AuditFilter struct {
	CallFilter
	// Round lists the calls that belong to the round, not those that claimed it.
	Round events.RoundID
	// After and Before bound the sequence of the decision, exclusive; 0: open.
	After, Before events.Seq
	Ascending     bool // oldest first, for catching up
	Limit         int  // see [PageSize]
}

// AuditPage is a page of calls.
type AuditPage struct {
	Rows []AuditRow
	// Next is Before of the next page, or After where the list ascends; 0: the
	// list was at its end. A page may be short, even empty, and have a Next.
	Next events.Seq
	AsOf events.Seq // the checkpoint that the page is true at
}

// Audit lists calls by the sequence of their decision. It looks at no more than
// [MaxVisits] rows; of an agent and one other field, at those that fit and no more.
func Audit(r Reader, f AuditFilter) (AuditPage, error) {
	state, err := LoadState(r)
	if err != nil {
		return AuditPage{}, err
	}
	empty := AuditPage{AsOf: state.Seq}
	some, err := f.seek(r, state)
	if err != nil || !some {
		return empty, err
	}
	l, err := f.list(r, MaxVisits)
	if err != nil || l.prefixes == nil {
		return empty, err
	}
	get, done := r.Get, func() error { return nil }
	if near, ok := r.(Near); ok {
		get, done = near.Near([]byte{viewAudit}, []byte{viewAudit + 1})
	}
	rows, next, err := page(r, l, func(seq events.Seq, value []byte) (AuditRow, bool, error) {
		if len(value) == 0 { // of an index
			if value, err = get(seqKey(viewAudit, seq)); err != nil {
				return AuditRow{}, false, err
			}
		}
		s, err := decoded[storedCall](value)
		row := s.row()
		return row, f.wants(row), err
	})
	return AuditPage{Rows: rows, Next: next, AsOf: state.Seq}, errors.Join(err, done())
}

// seek turns the bounds of time into bounds of sequence, and says whether anything
// can lie between them.
func (f *AuditFilter) seek(r Reader, s State) (bool, error) {
	if f.Until != 0 && f.Since >= f.Until {
		return false, nil
	}
	if f.Since > s.BackTo {
		first, found, err := firstDecided(r, s, f.Since)
		if err != nil || !found {
			return false, err
		}
		f.After = max(f.After, first-1)
	}
	if f.Until > s.BackTo {
		first, found, err := firstDecided(r, s, f.Until)
		if err != nil {
			return false, err
		}
		if found && (f.Before == 0 || first < f.Before) {
			f.Before = first
		}
	}
	return true, nil
}

// firstDecided finds the first call that was decided at a time or after it. The time MUST
// be after [State.BackTo]: from there on calls stand in the order of time.
func firstDecided(r Reader, s State, at events.Instant) (first events.Seq, found bool, err error) {
	sort.Search(int(s.Seq), func(below int) bool {
		for row, failed := range r.Scan(seqKey(viewAudit, events.Seq(below)+1), []byte{viewAudit + 1}) {
			var call storedCall
			if failed == nil {
				call, failed = decoded[storedCall](row.Value)
			}
			if err = errors.Join(err, failed); err == nil && call.Decided >= at {
				first, found = call.Seq, true
				return true
			}
			return err != nil
		}
		return true
	})
	return first, found && err == nil, err
}

// list is the narrowest run of rows that holds what f asks for: an index whose
// values are empty, or the calls themselves. It has no prefixes where nothing fits.
func (f AuditFilter) list(r Reader, visits int) (list, error) {
	l := list{after: f.After, before: f.Before, ascending: f.Ascending, limit: f.Limit, visits: visits}
	of := f.narrowest()
	switch {
	case f.Round != "":
		l.prefixes = [][]byte{listKey(viewCallRound, string(f.Round))}
	case f.Agent == "":
		l.prefixes = [][]byte{{viewAudit}}
	case of == nil:
		l.prefixes = [][]byte{listKey(viewCallAgent, string(f.Agent))}
	}
	if l.prefixes != nil {
		return l, nil
	}
	for _, v := range of {
		found, err := v.lists(r, f.Agent)
		if err != nil {
			return l, err
		}
		l.prefixes = append(l.prefixes, found...)
	}
	return l, nil
}

func (f AuditFilter) wants(row AuditRow) bool {
	return (f.Agent == "" || row.Agent == f.Agent) &&
		(f.Tool == "" || row.Tool.Name == f.Tool || toolName(row.Tool) == f.Tool || f.Tool == Other && !row.ToolKnown) &&
		(f.Status == "" || row.State() == f.Status) &&
		(f.Verdict == "" || row.Verdict == f.Verdict) &&
		(f.Layer == "" || row.Layer == f.Layer) &&
		(f.Principal == "" || row.Principal.ID == f.Principal) &&
		(f.Channel == "" || row.Channel == f.Channel) &&
		(f.Profile == "" || row.Profile == f.Profile) &&
		(f.Role == "" || row.Role == f.Role) &&
		(f.Since == 0 || row.Decided >= f.Since) &&
		(f.Until == 0 || row.Decided < f.Until) &&
		(f.Observable == nil || f.Observable(row.Agent))
}

// OpenCalls lists the calls that may run: allowed, or released, and without an end.
// They come in the order of the events that let them run ([AuditRow.Opened]), at most
// limit of them (see [PageSize]).
func OpenCalls(r Reader, limit int) ([]AuditRow, error) {
	l := list{prefixes: [][]byte{{viewCallOpen}}, ascending: true, limit: limit, visits: MaxPage}
	rows, _, err := page(r, l, func(_ events.Seq, decided []byte) (AuditRow, bool, error) {
		seq, err := seqOfValue(decided)
		if err != nil {
			return AuditRow{}, false, err
		}
		row, err := callBySeq(r, seq)
		return row, true, err
	})
	return rows, err
}

// unended yields the calls that run, may run, or wait for a person, in no order.
func unended(r Reader) iter.Seq2[AuditRow, error] {
	return func(yield func(AuditRow, error) bool) {
		for row, err := range r.Scan([]byte{viewCallOpen}, []byte{viewCallOpen + 1}) {
			var seq events.Seq
			if err == nil {
				seq, err = seqOfValue(row.Value)
			}
			if !yieldCall(r, seq, err, yield) {
				return
			}
		}
		for row, err := range r.Scan([]byte{viewCallStaged}, []byte{viewCallStaged + 1}) {
			var seq events.Seq
			if err == nil {
				seq, err = seqAtEnd(row.Key)
			}
			if !yieldCall(r, seq, err, yield) {
				return
			}
		}
	}
}

// yieldCall yields the call of a sequence, or the error, which is the last.
func yieldCall(r Reader, seq events.Seq, err error, yield func(AuditRow, error) bool) bool {
	var row AuditRow
	if err == nil {
		row, err = callBySeq(r, seq)
	}
	return yield(row, err) && err == nil
}

// Opened is the sequence of the event that let the call run.
func (r AuditRow) Opened() events.Seq {
	if r.ReleasedSeq != 0 {
		return r.ReleasedSeq
	}
	return r.Seq
}

// toolName is how views write a tool.
func toolName(k events.ToolKey) string { return k.Owner + "/" + k.Name }
