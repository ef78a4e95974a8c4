package telegram

import (
	"context"

	"gatebook/events"
)

// Desk is what people can do here. Everything that it records names the person. It
// decides who may do what; this package only says who asks.
//
// Its methods are called concurrently for different people, and MUST return soon after
// their context ends. An error that is meant for the person is a [*Refused]; the text of
// any other stays inside.
type Desk interface {
	// Pending lists what waits and the person may see, the oldest first, at most some
	// tens; more says that there is more.
	Pending(ctx context.Context, who events.PersonID) (waiting []Waiting, more bool, err error)
	// Show gives everything that a decision is about.
	Show(ctx context.Context, who events.PersonID, id events.ReviewID) (Shown, error)
	// Decide decides. It MUST refuse an approval whose digest is not that of what there is
	// to see now, and any decision on what is decided.
	Decide(ctx context.Context, who events.PersonID, d Decision) error
}

// Waiting is one review that waits.
type Waiting struct {
	Review  events.ReviewID
	Agent   events.AgentID
	Tool    string
	Expires events.Instant
}

// Shown is one review as a person sees it.
type Shown struct {
	Review events.ReviewID
	// Text is the lines for people. Nothing in it is escaped but that a value of one line
	// is on one line.
	Text string
	// Digest stands for all of it. Empty: it cannot be approved.
	Digest events.Digest
	// Elided says that Text is cut, Masked that something in it is masked.
	Elided, Masked bool
	// Open says that it waits for a decision.
	Open    bool
	Expires events.Instant
}

// Decision is what a person decides on a review. Shown is the digest of what they saw;
// it may be empty where they refuse.
type Decision struct {
	Review  events.ReviewID
	Approve bool
	Shown   events.Digest
	Reason  string
}

// Refused is an error of a [Desk] whose reason the person is told.
type Refused struct{ Reason string }

func (r *Refused) Error() string { return r.Reason }

// People says who a user is in a chat, by the catalog in force. It is asked for each
// update, and again before the update is worked on.
type People func(chat, user int64) (events.PersonID, bool)
