package projections

import (
	"errors"
	"fmt"
	"iter"

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

// Reader reads rows. Every error wraps [ErrStore].
type Reader interface {
	// Get returns the value, or nil where there is none; an empty value is not
	// nil. The caller MUST NOT change it.
	Get(key []byte) ([]byte, error)
	// Scan yields the rows of [lower, upper) in key order. Key and value are
	// valid only until the next step and MUST NOT be changed. It stops at the
	// first error, which it yields with a zero Row. What it holds open is closed
	// when the loop ends. Nothing may be written to a [Tx] during its Scan.
	Scan(lower, upper []byte) iter.Seq2[Row, error]
	// ScanBack is Scan from the last row to the first.
	ScanBack(lower, upper []byte) iter.Seq2[Row, error]
}

// Row is one row of a scan.
type Row struct{ Key, Value []byte }

// Tx is a transaction of the one writer: its reads see its own writes. It MUST
// be ended by Commit or Discard, and not used after; Discard after Commit does
// nothing. Not safe for concurrent use, but its Commit may run beside the use of
// the transaction begun after it.
type Tx interface {
	Reader
	// Set copies key and takes over value: the caller MUST NOT change it after.
	// Value may be empty, not nil.
	Set(key, value []byte) error
	// Delete of a key without a row does nothing.
	Delete(key []byte) error
	// Commit applies the rows at once, atomically, without an fsync: the log is
	// the truth, and [Store.Sync] bounds what a start has to fold again.
	Commit() error
	Discard()
}

// Snapshot is one consistent state for reading. It MUST be closed. Safe for
// concurrent use.
type Snapshot interface {
	Reader
	Close() error
}

// Store keeps the rows of all views. Implementations: infra/pebblekv, and a map
// in the tests of this package; both pass projectionstest.TestStore.
type Store interface {
	// Begin opens a transaction that sees what the one before it wrote, ended or
	// not. There MUST be at most two at a time, ended in the order of their
	// begins, and where one is discarded, the one begun after it too.
	Begin() Tx
	// Snapshot opens the state of the last commit. Safe for concurrent use.
	Snapshot() Snapshot
	// Sync makes every commit so far durable.
	Sync() error
	// Close MUST come after the end of the transaction and of every snapshot.
	Close() error
}
