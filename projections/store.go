package projections

import (
	"errors"
	"fmt"
	"iter"
	"sync"

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

// Loader is what a [Store] may be beside: a cheaper way to write many rows.
type Loader interface {
	// Load gives a store that keeps back what is committed; Snapshot need not see it
	// before the next Sync or Close, and a crash takes all of it or none. While it is
	// in use the store below may only be read. Its Close leaves that one open.
	Load() Store
}

// Memo remembers decoded rows from one transaction to the next, so that what an
// event reads need not be decoded anew for each, and what many events change is
// encoded once. It changes no answer. It belongs to one store and to the goroutine
// that folds into it.
type Memo struct {
	rows   map[string]any
	older  map[string]any  // what rows was before it was full; what is asked for comes back
	views  [256]bool       // those that a row of was ever remembered of
	last   map[byte]string // no key of the view is greater
	writes []write         // room for those of one event
	tx     *memoTx         // the last one; nil before the first and after a discard
	// keys are those that calls were made under, of rounds whose begin was folded
	// here: of such a round all are known. By the row that says that it is open.
	keys map[string]*roundKeys
	open map[events.RoundID]*roundKeys // the same by round
	// hours are the last ones of the roll-up, by level.
	hours map[byte]*hourRows
	most  bounds
}

// bounds are how much a Memo remembers.
type bounds struct {
	rows   int // in each of its two halves
	rounds int // open rounds whose keys are known
	keys   int // of each
	hour   int // rows of an hour at one level
}

// roundKeys are the idempotency keys of an open round, in rows of viewCallKey.
type roundKeys struct {
	round events.RoundID
	at    string // the row that says that it is open
	rows  map[string]struct{}
}

// hourRows are the rows that the last hour of the roll-up has at one level.
type hourRows struct {
	prefix string              // of their keys
	rows   map[string]struct{} // nil where they are not known
}

// NewMemo is a memory of nothing.
func NewMemo() *Memo {
	return &Memo{
		rows: map[string]any{}, older: map[string]any{}, last: map[byte]string{},
		keys: map[string]*roundKeys{}, open: map[events.RoundID]*roundKeys{}, hours: map[byte]*hourRows{},
		most: bounds{rows: 8192, rounds: 1024, keys: 1024, hour: 1 << 16},
	}
}

// Begin opens a transaction of the store of m, with its memory. All transactions of
// the store MUST be opened so, or none, and nothing may be written to one after the
// next has begun.
func (m *Memo) Begin(store Store) Tx {
	if m.tx != nil {
		_ = m.tx.settle() // for the new one to see; what is wrong, its Commit says
	}
	m.tx = &memoTx{Tx: store.Begin(), Memo: m, unsettled: map[string]any{}}
	return m.tx
}

// keep remembers a row. What is in it MUST NOT be changed any more.
func (m *Memo) keep(key string, row any) {
	if len(m.rows) >= m.most.rows {
		m.rows, m.older = m.older, m.rows
		clear(m.rows)
	}
	m.rows[key], m.views[key[0]] = row, true
}

// row gives what is remembered of a row; nil for nothing.
func (m *Memo) row(key []byte) any {
	if row, ok := m.rows[string(key)]; ok {
		return row
	}
	row, ok := m.older[string(key)]
	if ok {
		m.keep(string(key), row)
	}
	return row
}

// memoTx is a transaction with a memory. The rows that were set decoded are encoded
// when somebody asks for their bytes, at the latest when it ends or the next begins.
type memoTx struct {
	Tx
	*Memo
	settling  sync.Mutex // Commit may run beside the begin of the next
	unsettled map[string]any
	committed bool
}

// settle writes what is only here to the transaction below.
func (t *memoTx) settle() error {
	t.settling.Lock()
	defer t.settling.Unlock()
	for key, row := range t.unsettled {
		value, err := encodeRow(row)
		if err == nil {
			err = t.Tx.Set([]byte(key), value)
		}
		if err != nil {
			return err
		}
	}
	clear(t.unsettled)
	return nil
}

// setRow is Set of a decoded row, which MUST NOT be changed any more.
func (t *memoTx) setRow(key []byte, row any) {
	own := string(key)
	t.grows(own)
	t.keep(own, row)
	t.unsettled[own] = row
}

// grows keeps that the view of the key may have a greater one now.
func (m *Memo) grows(key string) {
	if last, known := m.last[key[0]]; known && key > last {
		m.last[key[0]] = key
	}
}

func (t *memoTx) Set(key, value []byte) error {
	t.forget(key)
	t.grows(string(key))
	switch key[0] {
	case viewRoundOpen:
		t.begins(key, events.RoundID(value))
	case viewCallKey:
		t.calls(key)
	}
	return t.Tx.Set(key, value)
}

// forget forgets one row.
func (t *memoTx) forget(key []byte) {
	if t.views[key[0]] {
		delete(t.rows, string(key))
		delete(t.older, string(key))
		delete(t.unsettled, string(key))
	}
}

func (t *memoTx) Get(key []byte) ([]byte, error) {
	if row, ok := t.unsettled[string(key)]; ok {
		return encodeRow(row)
	}
	return t.Tx.Get(key)
}

func (t *memoTx) Scan(lower, upper []byte) iter.Seq2[Row, error] {
	return t.settled(t.Tx.Scan, lower, upper)
}

func (t *memoTx) ScanBack(lower, upper []byte) iter.Seq2[Row, error] {
	return t.settled(t.Tx.ScanBack, lower, upper)
}

// settled scans when all is settled.
func (t *memoTx) settled(scan func(lower, upper []byte) iter.Seq2[Row, error], lower, upper []byte) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if err := t.settle(); err != nil {
			yield(Row{}, err)
			return
		}
		scan(lower, upper)(yield)
	}
}

func (t *memoTx) Commit() error {
	if err := t.settle(); err != nil {
		return err
	}
	t.settling.Lock()
	t.committed = true
	t.settling.Unlock()
	return t.Tx.Commit()
}

// begins remembers that the round has no call under a key yet.
func (m *Memo) begins(open []byte, round events.RoundID) {
	if len(m.open) >= m.most.rounds {
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
	if len(known.rows) >= m.most.keys {
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

// Discard forgets everything: what the transaction wrote never was. After a commit it
// does nothing.
func (t *memoTx) Discard() {
	t.settling.Lock()
	committed := t.committed
	t.settling.Unlock()
	if committed {
		return
	}
	clear(t.rows)
	clear(t.older)
	clear(t.last)
	clear(t.keys)
	clear(t.open)
	clear(t.hours)
	t.tx = nil
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

// isFreeHour says that there is no row of a key of the roll-up that [hourKey] made, true
// only where it is sure without a look at the store. Hours come one after the other, so
// that one beyond all others is new, and all its rows are known from then on.
func isFreeHour(r Reader, key []byte) (bool, error) {
	m, ok := r.(*memoTx)
	if !ok {
		return false, nil
	}
	h, err := m.lastHour(key[1])
	if err != nil {
		return false, err
	}
	prefix := key[:hourPrefix]
	if string(prefix) > h.prefix {
		*h = hourRows{prefix: string(prefix), rows: map[string]struct{}{}}
	}
	if string(prefix) != h.prefix || h.rows == nil {
		return false, nil
	}
	if _, taken := h.rows[string(key)]; taken {
		return false, nil
	}
	if h.rows[string(key)] = struct{}{}; len(h.rows) > m.most.hour {
		h.rows = nil
	}
	return true, nil
}

func (t *memoTx) lastHour(level byte) (*hourRows, error) {
	if h := t.hours[level]; h != nil {
		return h, nil
	}
	h := new(hourRows)
	for row, err := range t.ScanBack([]byte{viewHour, level}, []byte{viewHour, level + 1}) {
		if err != nil {
			return nil, err
		}
		h.prefix = string(row.Key[:min(len(row.Key), hourPrefix)])
		break
	}
	t.hours[level] = h
	return h, nil
}
