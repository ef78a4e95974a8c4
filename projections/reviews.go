package projections

import (
	"fmt"

	"gatebook/events"
)

// ReviewRow is a staged call's wait for a person.
type ReviewRow struct {
	_         struct{} `cbor:",toarray"`
	Review    events.ReviewID
	Call      events.CallID
	Round     events.RoundID
	Agent     events.AgentID
	ToolOwner string
	Tool      string
	MAC       events.MAC
	Rule      string // why the call waits, for programs
	Why       string // and for people
	State     events.ReviewState
	Requested events.Instant
	Expires   events.Instant
	Decided   events.Instant // 0 while open
	ByKind    events.ActorKind
	ByID      string // who decided
	Reason    string
	Seq       events.Seq // of review.requested; the cursor of lists
	CallSeq   events.Seq // of call.decided
	EndSeq    events.Seq // of what ended the review; 0 while open
	// First approved it, having seen FirstShown, and somebody else must too; empty where
	// nobody has, or one is enough.
	First      events.PersonID
	FirstShown events.Digest
}

// ToolKey is the tool of the call.
func (r ReviewRow) ToolKey() events.ToolKey { return events.ToolKey{Owner: r.ToolOwner, Name: r.Tool} }

// ReviewByID finds a review in any state.
func ReviewByID(r Reader, id events.ReviewID) (ReviewRow, bool, error) {
	if id == "" {
		return ReviewRow{}, false, nil
	}
	return loadRow[ReviewRow](r, keyOf(viewReview, string(id)))
}

// SameStaged finds the staged call of an agent with this tool and these arguments that
// waits for a person; empty where none does.
func SameStaged(r Reader, agent events.AgentID, tool events.ToolKey, mac events.MAC) (events.CallID, error) {
	id, err := r.Get(sameKey(agent, tool.Owner, tool.Name, mac))
	return events.CallID(id), err
}

func sameKey(agent events.AgentID, owner, tool string, mac events.MAC) []byte {
	k := listKey(viewReviewSame, string(agent))
	k = append(k, mac...) // of one length
	return append(append(append(k, owner...), '/'), tool...)
}

// ReviewFilter says which reviews to list. Its zero value lists all, newest first.
type ReviewFilter struct {
	Agent      events.AgentID // empty: of every agent
	OpenOnly   bool
	Ascending  bool
	After      events.Seq                // with Ascending: requested above this sequence
	Before     events.Seq                // requested below this sequence; 0: from the newest
	Limit      int                       // see [PageSize]
	Observable func(events.AgentID) bool // nil: all
}

// ReviewPage is a page of reviews.
type ReviewPage struct {
	Rows []ReviewRow
	Next events.Seq // Before, or After, of the next page; 0: there is none
	AsOf events.Seq
}

// Reviews lists reviews by the sequence of their request. It looks at no more than
// [MaxVisits] rows.
func Reviews(r Reader, f ReviewFilter) (ReviewPage, error) {
	state, err := LoadState(r)
	if err != nil {
		return ReviewPage{}, err
	}
	prefix := []byte{viewReviewList}
	if f.OpenOnly {
		prefix = []byte{viewReviewOpen}
	}
	l := list{prefixes: [][]byte{prefix}, after: f.After, before: f.Before, ascending: f.Ascending, limit: f.Limit, visits: MaxVisits}
	rows, next, err := page(r, l, func(_ events.Seq, id []byte) (ReviewRow, bool, error) {
		row, ok, err := ReviewByID(r, events.ReviewID(id))
		if err == nil && !ok {
			err = fmt.Errorf("%w: review %s is listed and has no row", ErrStore, events.Quote(string(id)))
		}
		return row, (f.Agent == "" || row.Agent == f.Agent) && (f.Observable == nil || f.Observable(row.Agent)), err
	})
	return ReviewPage{Rows: rows, Next: next, AsOf: state.Seq}, err
}

func (f *fold) reviewRequested(e events.ReviewRequested) error {
	call, err := f.openCall(e.Call, e.Round)
	if err != nil {
		return err
	}
	free, err := isFree(f.tx, keyOf(viewReview, string(e.Review)))
	if err != nil {
		return err
	}
	if call.Verdict != events.Stage || call.Review != "" || call.MAC != e.MAC || !free || e.Review == "" {
		return fmt.Errorf("%w: review %s of call %s cannot be requested", ErrFold, events.Quote(string(e.Review)), e.Call)
	}
	row := ReviewRow{
		Review: e.Review, Call: e.Call, Round: e.Round, Agent: f.rec.Agent, ToolOwner: call.Tool.Owner, Tool: call.Tool.Name,
		MAC: e.MAC, Rule: call.Rule, Why: call.Reason, State: events.ReviewStateOpen, Requested: f.rec.Time, Expires: e.Expires, Seq: f.rec.Seq, CallSeq: call.Seq,
	}
	call.Review = e.Review
	f.put(seqKey(viewReviewList, f.rec.Seq), []byte(e.Review))
	f.put(seqKey(viewReviewOpen, f.rec.Seq), []byte(e.Review))
	f.put(sameKey(row.Agent, row.ToolOwner, row.Tool, row.MAC), []byte(e.Call))
	f.put(dueKey(dueSlot(row.Expires), DueReview, string(row.Review)), []byte{})
	f.set(keyOf(viewReview, string(row.Review)), row)
	f.setCall(call)
	return f.alert(AlertRow{Kind: AlertReviewWaits, Of: string(row.Agent), Name: row.ToolKey().String(), Reason: row.Why})
}

// reviewEnd is how a review ended. MAC is empty where nobody decided.
type reviewEnd struct {
	State  events.ReviewState
	MAC    events.MAC
	Reason string
}

// reviewEnded is the law that a review is decided once. What becomes of its call says
// the event behind.
func (f *fold) reviewEnded(id events.ReviewID, call events.CallID, end reviewEnd) error {
	row, ok, err := ReviewByID(f.tx, id)
	if err != nil {
		return err
	}
	if !ok || row.Agent != f.rec.Agent || row.Call != call || row.State != events.ReviewStateOpen || end.MAC != "" && end.MAC != row.MAC {
		return fmt.Errorf("%w: review %s of call %s is not open", ErrFold, events.Quote(string(id)), events.Quote(string(call)))
	}
	f.drop(seqKey(viewReviewOpen, row.Seq))
	f.drop(sameKey(row.Agent, row.ToolOwner, row.Tool, row.MAC))
	f.drop(dueKey(dueSlot(row.Expires), DueReview, string(row.Review)))
	row.State, row.Reason, row.Decided, row.EndSeq = end.State, end.Reason, f.rec.Time, f.rec.Seq
	row.ByKind, row.ByID = f.rec.Actor.Kind, f.rec.Actor.ID
	f.set(keyOf(viewReview, string(id)), row)
	return nil
}

// reviewHalfApproved keeps that one person has approved, of several who must.
func (f *fold) reviewHalfApproved(e events.ReviewApproved) error {
	row, ok, err := ReviewByID(f.tx, e.Review)
	if err != nil {
		return err
	}
	if !ok || row.Agent != f.rec.Agent || row.Call != e.Call || row.State != events.ReviewStateOpen || e.MAC != row.MAC {
		return fmt.Errorf("%w: review %s of call %s is not open", ErrFold, events.Quote(string(e.Review)), events.Quote(string(e.Call)))
	}
	row.First, row.FirstShown = events.PersonID(f.rec.Actor.ID), e.Shown
	f.set(keyOf(viewReview, string(e.Review)), row)
	return nil
}

// reviewIs is the law that a staged call goes on only where its review is in a state.
func (f *fold) reviewIs(call AuditRow, state events.ReviewState) error {
	row, _, err := ReviewByID(f.tx, call.Review)
	if err == nil && row.State != state {
		err = fmt.Errorf("%w: the review of call %s is %s, not %s", ErrFold, call.Call, events.Quote(string(row.State)), state)
	}
	return err
}

// reviewEnds is the law that a call which waits ends with its review or behind it.
func (f *fold) reviewEnds(call AuditRow) error {
	row, found, err := ReviewByID(f.tx, call.Review)
	if err == nil && found && row.State == events.ReviewStateOpen {
		err = fmt.Errorf("%w: call %s ends while review %s is open", ErrFold, call.Call, row.Review)
	}
	return err
}
