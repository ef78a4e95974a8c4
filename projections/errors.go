package projections

import (
	"errors"
	"fmt"

	"gatebook/events"
)

var (
	// ErrOrder marks an event that is not the next one after the checkpoint.
	ErrOrder = errors.New("event is not the next after the views' checkpoint")
	// ErrFold marks an event that cannot be true after what the views hold: the
	// end of an unknown call, a round begun twice. It is damage, or a decision
	// that must not be written.
	ErrFold = errors.New("event does not fit what the views hold")
	// ErrStore marks a store that cannot be read or written, or a row of it that
	// does not decode.
	ErrStore = errors.New("the view store failed")
	// ErrTreeSize marks a size or a leaf that the tree does not have.
	ErrTreeSize = errors.New("the tree of the book is not of that size")
)

// EventError is an event that stopped a fold: it cannot be decoded
// ([events.ErrMalformed], [events.ErrUnknownKind]), or it does not fit
// ([ErrFold]). Events before Seq are folded, Seq and later ones are not.
type EventError struct {
	Seq events.Seq
	Err error
}

func (e *EventError) Error() string {
	return fmt.Sprintf("event %d cannot be folded: %v", e.Seq, e.Err)
}

func (e *EventError) Unwrap() error { return e.Err }
