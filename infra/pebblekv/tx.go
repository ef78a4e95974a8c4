package pebblekv

import (
	"iter"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"gatebook/projections"
)

// tx keeps its writes in a map until the commit: a row that is written many
// times in one transaction, as the checkpoint is, reaches the database once.
type tx struct {
	reader
	store  *Store
	writes []write        // in the order of their first write
	at     map[string]int // key -> place in writes
	bytes  int
	ended  bool
}

// write is the newest value of a row; nil where it is deleted.
type write struct {
	key   string
	value []byte
}

func (t *tx) Get(key []byte) ([]byte, error) {
	if at, ok := t.at[string(key)]; ok {
		return t.writes[at].value, nil
	}
	return t.reader.Get(key)
}

func (t *tx) Set(key, value []byte) error {
	if value == nil {
		value = []byte{}
	}
	t.write(key, value)
	return nil
}

func (t *tx) Delete(key []byte) error {
	t.write(key, nil)
	return nil
}

func (t *tx) write(key, value []byte) {
	t.bytes += len(value)
	if at, ok := t.at[string(key)]; ok {
		t.bytes -= len(t.writes[at].value)
		t.writes[at].value = value
		return
	}
	own := string(key)
	t.at[own] = len(t.writes)
	t.writes = append(t.writes, write{own, value})
	t.bytes += len(key) + rowOverhead
}

// rowOverhead is at least what a batch adds to a row: its kind and two lengths.
const rowOverhead = 12

func (t *tx) Commit() error {
	if t.ended {
		return wrap("commit", errEnded)
	}
	defer t.Discard()
	t.store.usual = len(t.writes)
	if err := t.store.troubles.failure(); err != nil {
		return err
	}
	batch := t.store.db.NewBatchWithSize(t.bytes + rowOverhead)
	for _, w := range t.writes {
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

func (t *tx) Discard() { t.ended, t.writes, t.at = true, nil, nil }

func (t *tx) Scan(lower, upper []byte) iter.Seq2[projections.Row, error] {
	return t.merged(lower, upper, false)
}

func (t *tx) ScanBack(lower, upper []byte) iter.Seq2[projections.Row, error] {
	return t.merged(lower, upper, true)
}

// merged runs over the rows of the database and the writes together.
func (t *tx) merged(lower, upper []byte, back bool) iter.Seq2[projections.Row, error] {
	return func(yield func(projections.Row, error) bool) {
		own := t.within(string(lower), string(upper), back)
		for row, err := range t.reader.scan(lower, upper, back) {
			if err != nil {
				yield(projections.Row{}, err)
				return
			}
			for len(own) > 0 && order(own[0].key, string(row.Key), back) < 0 {
				if !yieldWrite(own[0], yield) {
					return
				}
				own = own[1:]
			}
			if len(own) > 0 && own[0].key == string(row.Key) {
				row.Value, own = own[0].value, own[1:]
				if row.Value == nil {
					continue
				}
			}
			if !yield(row, nil) {
				return
			}
		}
		for _, w := range own {
			if !yieldWrite(w, yield) {
				return
			}
		}
	}
}

func yieldWrite(w write, yield func(projections.Row, error) bool) bool {
	return w.value == nil || yield(projections.Row{Key: []byte(w.key), Value: w.value}, nil)
}

// within sorts the writes of a range in the order of the scan.
func (t *tx) within(lower, upper string, back bool) []write {
	var own []write
	for _, w := range t.writes {
		if w.key >= lower && w.key < upper {
			own = append(own, w)
		}
	}
	slices.SortFunc(own, func(a, b write) int { return order(a.key, b.key, back) })
	return own
}

func order(a, b string, back bool) int {
	if back {
		a, b = b, a
	}
	return strings.Compare(a, b)
}
