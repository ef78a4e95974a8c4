package projections

import (
	"iter"

	"gatebook/events"
)

// Bounds of a page.
const (
	// DefaultPage is the size of a page where none is asked for.
	DefaultPage = 100
	// MaxPage is the largest page.
	MaxPage = 1000
	// MaxVisits is how many rows a filtered page looks at before it stops and
	// says where to go on.
	MaxVisits = 100_000
)

// PageSize is limit brought between 1 and [MaxPage]; 0 and less ask for
// [DefaultPage].
func PageSize(limit int) int {
	if limit <= 0 {
		return DefaultPage
	}
	return min(limit, MaxPage)
}

// list is a run of rows whose keys are prefix and a sequence.
type list struct {
	prefix        []byte
	after, before events.Seq // both exclusive; 0 where open
	ascending     bool
	limit         int
	visits        int
}

func (l list) rows(r Reader) iter.Seq2[Row, error] {
	before := l.before
	if before == 0 {
		before = lastSeq
	}
	if l.after >= before {
		return func(func(Row, error) bool) {}
	}
	lower, upper := withSeq(l.prefix, l.after+1), withSeq(l.prefix, before)
	if l.ascending {
		return r.Scan(lower, upper)
	}
	return r.ScanBack(lower, upper)
}

// page collects what take keeps, up to the limit. next is where to go on: the
// last sequence visited, or 0 where the list was at its end.
func page[T any](r Reader, l list, take func(events.Seq, []byte) (T, bool, error)) (rows []T, next events.Seq, err error) {
	limit, visits := PageSize(l.limit), 0
	var seq events.Seq
	for raw, err := range l.rows(r) {
		if err != nil {
			return nil, 0, err
		}
		if len(rows) == limit || visits == l.visits {
			return rows, seq, nil
		}
		visits++
		if seq, err = seqAtEnd(raw.Key); err != nil {
			return nil, 0, err
		}
		row, keep, err := take(seq, raw.Value)
		if err != nil {
			return nil, 0, err
		}
		if keep {
			rows = append(rows, row)
		}
	}
	return rows, 0, nil
}
