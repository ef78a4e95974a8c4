package people

import (
	"fmt"

	"gatebook/events"
	"gatebook/handlers/replay"
	"gatebook/policy"
	"gatebook/projections"
)

// BookRequest asks for events as they stand in the book, from a sequence on; the other
// fields are joined by and.
type BookRequest struct {
	From  events.Seq     `json:"from,omitzero"`
	To    events.Seq     `json:"to,omitzero"`
	Agent events.AgentID `json:"agent,omitzero"`
	Round events.RoundID `json:"round,omitzero"`
	Since events.Instant `json:"since,omitzero"`
	Until events.Instant `json:"until,omitzero"`
}

// BookAnswer is a piece of the book. Next is From of the next piece; absent where the
// book ends, at AsOf.
type BookAnswer struct {
	Events []EventDetail `json:"events"`
	Next   events.Seq    `json:"next,omitzero"`
	AsOf   events.Seq    `json:"as_of"`
}

// maxVisited and maxPiece bound what one answer looks at and holds, in events and in
// bytes of bodies.
const (
	maxVisited = 2000
	maxPiece   = 384 << 10
)

// book reads the log itself. Events of agents that the person may not observe are left
// out; those of nobody, which name everybody, are for who may see the catalog.
func (h *Handler) book(r request) any {
	var q BookRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	c, may := h.cfg.Loop.Catalog(), h.observable(r.person)
	story := replay.NewSelector(replay.Filter{Agent: q.Agent, Round: q.Round, Since: q.Since, Until: q.Until, From: q.From, To: q.To})
	story.RoundOfCall = h.roundOfCall
	a := BookAnswer{Events: []EventDetail{}}
	visited, size := 0, 0
	for record, err := range h.cfg.Book().Read(r.ctx, max(q.From, 1)) {
		if err != nil && visited > 0 {
			a.Next = a.AsOf + 1 // what stands before it is told; the next question gets the error
			return a
		}
		if err != nil {
			return no("unreadable", fmt.Sprintf("the book cannot be read from event %d on: %v", max(q.From, 1), err))
		}
		if q.To != 0 && record.Seq > q.To {
			return a
		}
		if visited == maxVisited || size > maxPiece {
			a.Next = record.Seq
			return a
		}
		rec, err := events.Decode(record)
		if err != nil && visited > 0 {
			a.Next = record.Seq
			return a
		}
		if err != nil {
			return no("unreadable", fmt.Sprintf("event %d cannot be read: %v", record.Seq, err))
		}
		visited++
		a.AsOf = record.Seq
		if !story.Wants(rec) || rec.Agent != "" && !may(rec.Agent) || rec.Agent == "" && !policy.MaySeeCatalog(c, r.person) {
			continue
		}
		size += len(record.Body)
		a.Events = append(a.Events, EventDetail{Seq: record.Seq, Subject: record.Subject, Event: record.Body})
	}
	return a
}

// roundOfCall asks the views, which know of every call; empty where they do not.
func (h *Handler) roundOfCall(call events.CallID) events.RoundID {
	snap := h.cfg.Store.Snapshot()
	defer snap.Close()
	row, _, err := projections.CallByID(snap, call)
	if err != nil {
		return ""
	}
	return row.Round
}
