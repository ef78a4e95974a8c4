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

// Near is what a [Reader] may have beside: a cheaper Get for many rows of one range,
// in whatever order. A value is valid until the next get. After done there MUST be no get.
type Near interface {
	Near(lower, upper []byte) (get func(key []byte) ([]byte, error), done func() error)
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

// Memo remembers decoded rows from one transaction to the next, so that what an
// event reads need not be decoded anew for each. It changes no answer. It belongs
// to one store and to the goroutine that folds into it.
type Memo struct {
	rows   map[string]any
	older  map[string]any  // what rows was before it was full; what is asked for comes back
	last   map[byte]string // no key of the view is greater
	writes []write         // room for those of one event
	// keys are those that calls were made under, of rounds whose begin was folded
	// here: of such a round all are known. By the row that says that it is open.
	keys map[string]*roundKeys
	open map[events.RoundID]*roundKeys // the same by round
}

// roundKeys are the idempotency keys of an open round, in rows of viewCallKey.
type roundKeys struct {
	round events.RoundID
	at    string // the row that says that it is open
	rows  map[string]struct{}
}

// maxRounds bounds how many open rounds a Memo knows the keys of, maxKeys how many of
// each.
const (
	maxRounds = 1024
	maxKeys   = 1024
)

// maxMemo bounds what each of the two halves of a Memo remembers, in rows.
const maxMemo = 8192

// NewMemo is a memory of nothing.
func NewMemo() *Memo {
	return &Memo{
		rows: map[string]any{}, older: map[string]any{}, last: map[byte]string{},
		keys: map[string]*roundKeys{}, open: map[events.RoundID]*roundKeys{},
	}
}

// Over gives tx, begun by the store of m, with its memory. All transactions of
// the store MUST be used so, or none.
func (m *Memo) Over(tx Tx) Tx { return &memoTx{tx, m} }

// keep remembers a row. What is in it MUST NOT be changed any more.
func (m *Memo) keep(key []byte, row any) {
	if len(m.rows) >= maxMemo {
		m.rows, m.older = m.older, m.rows
		clear(m.rows)
	}
	m.rows[string(key)] = row
}

// row gives what is remembered of a row; nil for nothing.
func (m *Memo) row(key []byte) any {
	if row, ok := m.rows[string(key)]; ok {
		return row
	}
	row, ok := m.older[string(key)]
	if ok {
		m.keep(key, row)
	}
	return row
}

// forget forgets one row.
func (m *Memo) forget(key []byte) {
	delete(m.rows, string(key))
	delete(m.older, string(key))
}

type memoTx struct {
	Tx
	*Memo
}

func (t *memoTx) Set(key, value []byte) error {
	t.forget(key)
	if last, known := t.last[key[0]]; known && string(key) > last {
		t.last[key[0]] = string(key)
	}
	switch key[0] {
	case viewRoundOpen:
		t.begins(key, events.RoundID(value))
	case viewCallKey:
		t.calls(key)
	}
	return t.Tx.Set(key, value)
}

// begins remembers that the round has no call under a key yet.
func (m *Memo) begins(open []byte, round events.RoundID) {
	if len(m.open) >= maxRounds {
		clear(m.keys)
		clear(m.open)
	}
	known := &roundKeys{round, string(open), map[string]struct{}{}}
	m.keys[string(open)], m.open[round] = known, known
}

// calls remembers that a call was made under a key.
func (m *Memo) calls(key []byte) {
	known := m.open[roundOfCallKey(key)]
	if known == nil {
		return
	}
	if len(known.rows) >= maxKeys {
		m.forgetRound(known)
		return
	}
	known.rows[string(key)] = struct{}{}
}

func (m *Memo) forgetRound(known *roundKeys) {
	delete(m.open, known.round)
	delete(m.keys, known.at)
}

// isFreeIn is [isFree] for a row of viewCallKey, which do not grow over all rounds.
func isFreeIn(r Reader, round events.RoundID, key []byte) (bool, error) {
	if m, ok := r.(*memoTx); ok {
		if known := m.open[round]; known != nil {
			_, taken := known.rows[string(key)]
			return !taken, nil
		}
	}
	value, err := r.Get(key)
	return value == nil, err
}

func (t *memoTx) Delete(key []byte) error {
	t.forget(key)
	if key[0] == viewRoundOpen {
		if known := t.keys[string(key)]; known != nil {
			t.forgetRound(known)
		}
	}
	return t.Tx.Delete(key)
}

// Discard forgets everything: what the transaction wrote never was.
func (t *memoTx) Discard() {
	clear(t.rows)
	clear(t.older)
	clear(t.last)
	clear(t.keys)
	clear(t.open)
	t.Tx.Discard()
}

// isFree says that there is no row of key. Ids grow, so that a new one is mostly
// beyond all others of its view, and that is remembered: to look for what is not
// there costs a store more than to find what is.
func isFree(r Reader, key []byte) (bool, error) {
	if m, ok := r.(*memoTx); ok {
		last, err := m.lastOf(key[0])
		if err != nil || string(key) > last {
			return err == nil, err
		}
	}
	value, err := r.Get(key)
	return value == nil, err
}

func (t *memoTx) lastOf(view byte) (string, error) {
	last, known := t.last[view]
	if known {
		return last, nil
	}
	for row, err := range t.ScanBack([]byte{view}, []byte{view + 1}) {
		if err != nil {
			return "", err
		}
		last = string(row.Key)
		break
	}
	t.last[view] = last
	return last, nil
}
