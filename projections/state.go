package projections

import (
	"fmt"

	"gatebook/events"
)

// State is what the views know of the book and of the engine: one row, changed
// by every event. Its Seq is the checkpoint.
type State struct {
	_           struct{} `cbor:",toarray"`
	Seq         events.Seq
	Incarnation events.Incarnation
	Writer      events.WriterID // of the last engine.started
	Catalog     events.Digest   // in force; empty before the first catalog.loaded
	ApprovedBy  events.PersonID // of the catalog in force; empty where it only narrowed
	Phase       int             // of the last phase.changed; 0 where there was none
	Time        events.Instant  // of the last event
	LastEvent   events.EventID
	ClockHeld   bool // a clock.jumped that nobody has accepted yet
	// Shape is that of the rows that the views hold; see [shape].
	Shape int
	// Words is how many agents and combinations have a number.
	Words uint32
	// LastDecided is the latest decision of a call. Up to BackTo the order of the book
	// may not be that of time; it is 0 in every book that an engine wrote, as engine
	// time never goes back.
	LastDecided, BackTo events.Instant
}

// shape numbers the rows of all views: it is raised with every change of what a
// row holds or of how an event is folded. Views of another shape are no views of
// this program, and are made anew from the book.
const shape = 6

// ErrShape marks views of another shape: those of another version of the program.
// It is an [ErrStore].
var ErrShape = fmt.Errorf("%w: the views are of another shape", ErrStore)

// LoadState gives the state at the checkpoint, the zero value for empty views. It
// fails with [ErrShape] for views of another shape, of which this row may be one
// that does not decode.
func LoadState(r Reader) (State, error) {
	s, found, err := loadRow[State](r, []byte{viewState})
	switch {
	case found && err != nil:
		err = fmt.Errorf("%w: %w", ErrShape, err)
	case found && s.Shape != shape:
		err = fmt.Errorf("%w: they have shape %d, this program's have shape %d", ErrShape, s.Shape, shape)
	}
	return s, err
}

func (f *fold) engineStarted(e events.EngineStarted) error {
	if e.Incarnation == "" {
		return fmt.Errorf("%w: engine.started without an incarnation", ErrFold)
	}
	if f.state.Incarnation != "" && f.state.Incarnation != e.Incarnation {
		return fmt.Errorf("%w: engine.started of incarnation %s in the book of %s", ErrFold,
			events.Quote(string(e.Incarnation)), f.state.Incarnation)
	}
	f.state.Incarnation = e.Incarnation
	f.state.Writer = f.rec.Writer
	return nil
}

func (f *fold) catalogLoaded(e events.CatalogLoaded) error {
	f.state.Catalog, f.state.ApprovedBy = e.Digest, e.ApprovedBy
	f.nameBlob(e.Digest)
	return nil
}

func (f *fold) phaseChanged(e events.PhaseChanged) error {
	f.state.Phase = e.Phase
	return nil
}

func (f *fold) clockJumped(e events.ClockJumped) error {
	f.state.ClockHeld = !e.Accepted
	return nil
}

// nameBlob keeps that an event names a blob; the empty digest names none.
func (f *fold) nameBlob(d events.Digest) {
	if d != "" {
		f.put(keyOf(viewBlob, string(d)), seqValue(f.rec.Seq))
	}
}

// BlobNamed says whether any event names the blob: a named one is never removed.
func BlobNamed(r Reader, d events.Digest) (bool, error) {
	value, err := r.Get(keyOf(viewBlob, string(d)))
	return value != nil, err
}
