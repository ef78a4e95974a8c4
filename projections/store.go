package projections

import (
	"errors"
	"iter"
)

var (
	// ErrOrder marks an event that is not the next one after the checkpoint.
	ErrOrder = errors.New("event is not the next after the views' checkpoint")
	// ErrStore marks a store that cannot be read or written.
	ErrStore = errors.New("the view store failed")
)

// Reader reads rows. Every error wraps [ErrStore].
type Reader interface {
	// Get returns a copy of the value, or nil where there is none.
	Get(key []byte) ([]byte, error)
	// Scan yields the rows of [lower, upper) in key order. Key and value are
	// valid only until the next step. It stops at the first error, which it
	// yields as the last pair of nil slices through err.
	Scan(lower, upper []byte) iter.Seq2[Row, error]
}

// Row is one row of a scan.
type Row struct{ Key, Value []byte }

// Tx is a transaction of the one writer: its reads see its own writes. It MUST
// be ended by Commit or Discard, and not used after. Not safe for concurrent use.
type Tx interface {
	Reader
	Set(key, value []byte) error
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
	// Begin opens the one transaction. There MUST be at most one at a time.
	Begin() Tx
	// Snapshot opens the state of the last commit. Safe for concurrent use.
	Snapshot() Snapshot
	// Sync makes every commit so far durable.
	Sync() error
	Close() error
}
