package projections

import (
	"iter"
	"testing"

	"gatebook/events"
)

// numbers is a list of n rows with an empty prefix and nothing else.
type numbers int

func (n numbers) Get([]byte) ([]byte, error) { return nil, nil }

func (n numbers) Scan(lower, upper []byte) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for i := range n {
			k := seqKey(viewAudit, events.Seq(i+1))
			if string(k) >= string(lower) && string(k) < string(upper) && !yield(Row{Key: k}, nil) {
				return
			}
		}
	}
}

func (n numbers) ScanBack(lower, upper []byte) iter.Seq2[Row, error] { return n.Scan(lower, upper) }

// A filter that nothing fits looks at so many rows and says where to go on, and
// the pages together look at every row once.
func TestPageStopsAtItsVisits(t *testing.T) {
	seen, pages := 0, 0
	l := list{prefixes: [][]byte{{viewAudit}}, ascending: true, limit: 10, visits: 7}
	for {
		rows, next, err := page(numbers(30), l, func(events.Seq, []byte) (int, bool, error) {
			seen++
			return 0, false, nil
		})
		if err != nil || len(rows) != 0 {
			t.Fatal(rows, err)
		}
		pages++
		if next == 0 {
			break
		}
		if seen != 7*pages || next != events.Seq(seen) {
			t.Fatalf("page %d: %d rows seen, next %d", pages, seen, next)
		}
		l.after = next
	}
	if seen != 30 || pages != 5 {
		t.Fatalf("%d rows seen on %d pages", seen, pages)
	}
}

func TestPageSize(t *testing.T) {
	for ask, want := range map[int]int{-1: DefaultPage, 0: DefaultPage, 1: 1, MaxPage: MaxPage, MaxPage + 1: MaxPage} {
		if got := PageSize(ask); got != want {
			t.Errorf("PageSize(%d) = %d, want %d", ask, got, want)
		}
	}
}

// No two parts of a list key give the same bytes, or one the prefix of another.
func TestListKeysDoNotRunTogether(t *testing.T) {
	a := withSeq(listKey(viewCallAgent, "al"), 1)
	b := withSeq(listKey(viewCallAgent, "alice"), 1)
	if string(a[:5]) == string(b[:5]) {
		t.Fatalf("%x begins like %x", a, b)
	}
}
