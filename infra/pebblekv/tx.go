package pebblekv

import (
	"iter"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"gatebook/projections"
)

// tx keeps its writes in a layer until the commit. It reads through the layers of
// the transactions before it, of which the last may not have reached the database.
type tx struct {
	reader
	store *Store
	own   *layer
	below []*layer // newest first
	// unwritten is how many of below, from the newest on, may not be in the database.
	unwritten int
	ended     bool
}

func (t *tx) Get(key []byte) ([]byte, error) {
	if value, ok := t.own.get(key); ok {
		return value, nil
	}
	for _, l := range t.below {
		if value, ok := l.get(key); ok {
			return value, nil
		}
	}
	return t.reader.Get(key)
}

func (t *tx) Set(key, value []byte) error {
	if value == nil {
		value = []byte{}
	}
	t.own.put(key, value)
	return nil
}

func (t *tx) Delete(key []byte) error {
	t.own.put(key, nil)
	return nil
}

// Commit may run beside the reads and writes of the next transaction: it changes
// neither layer.
func (t *tx) Commit() error {
	if t.ended {
		return wrap("commit", errEnded)
	}
	t.ended = true
	if err := t.store.troubles.failure(); err != nil || len(t.own.writes) == 0 {
		return err
	}
	// In key order, because each next place is then found near the last one.
	sorted := slices.Clone(t.own.writes)
	slices.SortFunc(sorted, func(a, b write) int { return strings.Compare(a.key, b.key) })
	return t.store.writeBatch(sorted)
}

// writeBatch commits rows, of which no two have a key in common.
func (s *Store) writeBatch(rows []write) error {
	size := rowOverhead
	for _, w := range rows {
		size += len(w.key) + len(w.value) + rowOverhead
	}
	batch := s.db.NewBatchWithSize(size)
	for _, w := range rows {
		if w.value == nil {
			op := batch.DeleteDeferred(len(w.key))
			copy(op.Key, w.key)
			if err := op.Finish(); err != nil {
				return wrap("delete", err)
			}
			continue
		}
		op := batch.SetDeferred(len(w.key), len(w.value))
		copy(op.Key, w.key)
		copy(op.Value, w.value)
		if err := op.Finish(); err != nil {
			return wrap("set", err)
		}
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		return wrap("commit", err)
	}
	return wrap("commit", batch.Close())
}

func (t *tx) Discard() {
	if !t.ended {
		t.ended = true
		t.store.forget(t.own)
	}
}

func (t *tx) Scan(lower, upper []byte) iter.Seq2[projections.Row, error] {
	return t.scan(lower, upper, false)
}

func (t *tx) ScanBack(lower, upper []byte) iter.Seq2[projections.Row, error] {
	return t.scan(lower, upper, true)
}

func (t *tx) scan(lower, upper []byte, back bool) iter.Seq2[projections.Row, error] {
	rows := t.reader.scan(lower, upper, back)
	for _, l := range slices.Backward(t.below[:t.unwritten]) {
		rows = l.over(rows, lower, upper, back)
	}
	return t.own.over(rows, lower, upper, back)
}
