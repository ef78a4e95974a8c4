// Package projections says what is so: the views, each a pure fold of the book
// with its queries beside it.
//
// Start with [Apply], which folds one recorded event into every view and moves
// the checkpoint, and with the queries of a view (agents.go, rounds.go, audit.go,
// calls.go, totals.go, receipts.go, reviews.go, assets.go, alerts.go, due.go, tree.go). [Store] is where rows live.
//
// What the package promises:
//
//   - One fold, any time: views built again from the book ((package rebuild)) equal the live
//     ones byte for byte (rebuild.Fingerprint). A fold sees the event and the rows,
//     nothing else.
//   - Rows and checkpoint change in one transaction. An event at or below the
//     checkpoint changes nothing; one that is not the next is [ErrOrder].
//   - An event that cannot be folded stops the fold ([EventError]); it is never
//     skipped, and changes nothing. The engine folds before it appends, so that
//     such an event does not get into the book.
//   - Lists page with a sequence as the cursor and read one consistent state; the
//     sequence it is true at is in the page.
//
// Keys are a view byte, then ids and big-endian sequences (row.go). Sequences
// are not inverted: calls are listed in both directions, so a [Reader] scans in
// both. Rows are CBOR arrays in the deterministic encoding of RFC 8949.
//
// Dependencies: fxamacker/cbor, because JSON rows cost a rebuild most of its
// speed and a codec of our own would be one more format to prove;
// golang.org/x/mod/sumdb/tlog, the Merkle tree of the Go checksum database.
package projections

import (
	"errors"
	"fmt"

	"gatebook/events"
)

// Apply folds rec into every view, adds its leaf to the tree and moves the
// checkpoint. record holds the bytes that rec was decoded from, or that it will
// be written as; its Seq may still be 0.
//
// An event at or below the checkpoint changes nothing. One that is not the next
// is [ErrOrder]. One that cannot be so after what the views hold is an
// [*EventError] that wraps [ErrFold]. Either way tx is as it was before. After
// an error that wraps [ErrStore] tx MUST be discarded.
func Apply(tx Tx, rec events.Recorded, record events.Record) error {
	state, err := LoadState(tx)
	if err != nil {
		return err
	}
	if rec.Seq == 0 || rec.Seq > state.Seq+1 {
		return fmt.Errorf("%w: checkpoint %d, event %d", ErrOrder, state.Seq, rec.Seq)
	}
	if rec.Seq <= state.Seq {
		return nil
	}
	f := fold{tx: tx, rec: rec, state: state}
	if f.memo, _ = tx.(*memoTx); f.memo != nil {
		f.writes = f.memo.writes[:0]
	}
	if err := f.run(record); err != nil {
		if errors.Is(err, ErrStore) {
			return err
		}
		return &EventError{Seq: rec.Seq, Err: err}
	}
	return f.flush()
}

// fold is the work on one event. It reads from the transaction and keeps its
// writes back until all of the event is known to fit.
type fold struct {
	tx     Tx
	rec    events.Recorded
	state  State
	agent  AgentRow // whom the event is about
	known  bool     // agent has a row
	writes []write
	memo   *memoTx  // nil where there is no memory
	models []string // that the agent's calls are counted by, with the event's own
}

// write is a row to set, in bytes or decoded, or to delete where it has neither.
type write struct {
	key, value []byte
	row        any
}

func (f *fold) put(key, value []byte) { f.writes = append(f.writes, write{key: key, value: value}) }

func (f *fold) drop(key []byte) { f.writes = append(f.writes, write{key: key}) }

// set sets a decoded row, which MUST NOT be changed any more.
func (f *fold) set(key []byte, row any) { f.writes = append(f.writes, write{key: key, row: row}) }

func (f *fold) flush() error {
	for _, w := range f.writes {
		if err := f.write(w); err != nil {
			return err
		}
	}
	if f.memo != nil {
		f.memo.writes = f.writes
	}
	return nil
}

func (f *fold) write(w write) (err error) {
	switch {
	case w.row != nil && f.memo != nil:
		f.memo.setRow(w.key, w.row)
		return nil
	case w.row != nil:
		if w.value, err = encodeRow(w.row); err != nil {
			return err
		}
	case w.value == nil:
		return f.tx.Delete(w.key)
	}
	return f.tx.Set(w.key, w.value)
}

func (f *fold) run(record events.Record) error {
	if record.ID != "" && record.ID != f.rec.ID || record.Seq != 0 && record.Seq != f.rec.Seq {
		return fmt.Errorf("%w: the record is of event %s at %d", ErrFold, events.Quote(string(record.ID)), record.Seq)
	}
	if f.rec.ID <= f.state.LastEvent {
		return fmt.Errorf("%w: event %s does not come after %s: a second copy, or another order", ErrFold,
			events.Quote(string(f.rec.ID)), f.state.LastEvent)
	}
	record.Seq = f.rec.Seq
	if _, first := f.rec.Event.(events.EngineStarted); f.rec.Seq == 1 && !first {
		return fmt.Errorf("%w: a book begins with engine.started", ErrFold)
	}
	if err := f.loadAgent(); err != nil {
		return err
	}
	if err := f.event(); err != nil {
		return err
	}
	f.saveAgent()
	if err := f.leaf(record); err != nil {
		return err
	}
	f.state.Seq, f.state.Time, f.state.LastEvent, f.state.Shape = f.rec.Seq, f.rec.Time, f.rec.ID, shape
	f.set([]byte{viewState}, f.state)
	return nil
}

// event and decision name every member of the closed set, so that a new one cannot be
// forgotten in silence.
func (f *fold) event() error {
	switch e := f.rec.Event.(type) {
	case events.AgentEnrolled:
		return f.agentEnrolled(e)
	case events.AgentReleased:
		return f.agentReleased()
	case events.ProfileSet:
		return f.profileSet(e)
	case events.ChildDeclared:
		return f.childDeclared(e)
	case events.ChildRevoked:
		return f.childRevoked(e)
	case events.ConversationOpened:
		return f.conversationOpened(e)
	case events.ConversationClosed:
		return f.conversationClosed(e)
	case events.RoundBegun:
		return f.roundBegun(e)
	case events.RoundTainted:
		return f.roundTainted(e)
	case events.RoundEnded:
		return f.roundEnded(e)
	case events.CallDecided:
		return f.callDecided(e)
	case events.CallReleased:
		return f.callReleased(e)
	case events.CallCompleted:
		return f.callCompleted(e)
	case events.UsageRecorded:
		return f.usageRecorded(e)
	case events.EngineStarted:
		return f.engineStarted(e)
	case events.CatalogLoaded:
		return f.catalogLoaded(e)
	case events.PhaseChanged:
		return f.phaseChanged(e)
	case events.ClockJumped:
		return f.clockJumped(e)
	case events.JobMissed:
		f.markJob(e.Job)
		return nil
	case events.AlertRaised:
		return f.alertRaised(e)
	case events.AlertDelivered:
		return f.alertDelivered(e)
	case events.ProfileDefaulted, events.TrashDecided, events.TrashEmptied, events.JobRan, events.IntakeRefused, events.AccessRefused, events.SubjectErased:
		return nil // no view shows them yet; they move the checkpoint and the tree
	}
	return f.decision()
}

// decision is event for what people decide about.
func (f *fold) decision() error {
	switch e := f.rec.Event.(type) {
	case events.ReviewRequested:
		return f.reviewRequested(e)
	case events.ReviewApproved:
		f.nameBlob(e.Shown)
		if e.More > 0 {
			return f.reviewHalfApproved(e)
		}
		return f.reviewEnded(e.Review, e.Call, reviewEnd{State: events.ReviewStateApproved, MAC: e.MAC})
	case events.ReviewRefused:
		return f.reviewEnded(e.Review, e.Call, reviewEnd{State: events.ReviewStateRefused, MAC: e.MAC, Reason: e.Reason})
	case events.ReviewExpired:
		return f.reviewEnded(e.Review, e.Call, reviewEnd{State: events.ReviewStateExpired})
	case events.ReviewCancelled:
		return f.reviewEnded(e.Review, e.Call, reviewEnd{State: events.ReviewStateCancelled, Reason: e.Reason})
	case events.AssetRegistered:
		return f.assetRegistered(e)
	case events.AssetApproved:
		return f.assetApproved(e)
	case events.AssetRefused:
		return f.assetRefused(e)
	case events.AssetExpired:
		return f.assetExpired(e)
	case events.AssetRetiered:
		return f.assetRetiered(e)
	}
	return fmt.Errorf("%w: %T", events.ErrUnknownKind, f.rec.Event)
}

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
const shape = 8

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
