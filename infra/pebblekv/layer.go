package pebblekv

import (
	"iter"
	"slices"
	"strings"

	"gatebook/projections"
)

// layer is rows that a transaction wrote, over the rows below it. A row that is
// written many times, as the checkpoint is, is in it once.
type layer struct {
	writes []write        // in the order of their first write
	at     map[string]int // key -> place in writes
	bytes  int            // of a batch that holds them
}

// write is the newest value of a row; nil where it is deleted.
type write struct {
	key   string
	value []byte
}

// rowOverhead is at least what a batch adds to a row: its kind and two lengths.
const rowOverhead = 12

func newLayer(room int) *layer {
	return &layer{writes: make([]write, 0, room), at: make(map[string]int, room)}
}

// get gives the row of the key, and whether it was written or deleted here.
func (l *layer) get(key []byte) ([]byte, bool) {
	at, ok := l.at[string(key)]
	if !ok {
		return nil, false
	}
	return l.writes[at].value, true
}

func (l *layer) put(key, value []byte) {
	l.bytes += len(value)
	if at, ok := l.at[string(key)]; ok {
		l.bytes -= len(l.writes[at].value)
		l.writes[at].value = value
		return
	}
	own := string(key)
	l.at[own] = len(l.writes)
	l.writes = append(l.writes, write{own, value})
	l.bytes += len(key) + rowOverhead
}

// over runs over the rows below and those of the layer together.
func (l *layer) over(below iter.Seq2[projections.Row, error], lower, upper []byte, back bool) iter.Seq2[projections.Row, error] {
	return func(yield func(projections.Row, error) bool) {
		own := l.within(string(lower), string(upper), back)
		for row, err := range below {
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
func (l *layer) within(lower, upper string, back bool) []write {
	var own []write
	for _, w := range l.writes {
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
