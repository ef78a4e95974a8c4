package trash

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gatebook/events"
)

func call(n int) events.CallID { return events.CallID(fmt.Sprintf("01J%023d", n)) }

func entry(n int, at events.Instant, bytes int64) Entry {
	return Entry{Name: string(call(n)), Call: call(n), Time: at, Bytes: bytes}
}

func TestChoose(t *testing.T) {
	const now = 1000
	for name, row := range map[string]struct {
		all  []Entry
		want string
		fact events.TrashDecided
	}{
		"nothing there":    {nil, "[]", events.TrashDecided{}},
		"as old as may be": {[]Entry{entry(1, now-100, 1)}, "[]", events.TrashDecided{}},
		"older": {
			[]Entry{entry(2, now-50, 1), entry(1, now-101, 1)}, "[1]",
			events.TrashDecided{Entries: 1, Bytes: 1, ByAge: 1, First: call(1), Last: call(1)},
		},
		"exactly full": {[]Entry{entry(1, now, 5), entry(2, now, 5)}, "[]", events.TrashDecided{}},
		"too large": {
			[]Entry{entry(3, now-1, 6), entry(2, now-2, 3), entry(1, now-3, 4)}, "[1]",
			events.TrashDecided{Entries: 1, Bytes: 4, BySize: 1, First: call(1), Last: call(1)},
		},
		"one that is too large by itself": {
			[]Entry{entry(1, now, 11)}, "[1]",
			events.TrashDecided{Entries: 1, Bytes: 11, BySize: 1, First: call(1), Last: call(1)},
		},
		"age and size": {
			[]Entry{entry(1, now-200, 1), entry(2, now-9, 9), entry(3, now-8, 2)}, "[1 2]",
			events.TrashDecided{Entries: 2, Bytes: 10, ByAge: 1, BySize: 1, First: call(1), Last: call(2)},
		},
		"O-T03 (var.) a name from the future never goes by age, and is no older than others": {
			[]Entry{entry(9, math.MaxInt64, 1), entry(1, now-101, 1)}, "[1]",
			events.TrashDecided{Entries: 1, Bytes: 1, ByAge: 1, First: call(1), Last: call(1)},
		},
		"sizes that overflow": {
			[]Entry{entry(1, now-2, math.MaxInt64), entry(2, now-1, math.MaxInt64), entry(3, now, 3)}, "[1 2]",
			events.TrashDecided{Entries: 2, Bytes: math.MaxInt64, BySize: 2, First: call(1), Last: call(2)},
		},
		"begun, then what no call made": {
			[]Entry{{Name: "x", Time: now - 200, Bytes: 1}, {Name: string(call(5)), Call: call(5), Time: now, Bytes: 2, Begun: true}}, "[5 x]",
			events.TrashDecided{Entries: 2, Bytes: 3, ByAge: 1, Again: 1, Others: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			gone, fact := Choose(Bounds{100, 10}, now, row.all)
			names := []string{}
			for _, e := range gone {
				var n int
				if _, err := fmt.Sscanf(e.Name, "01J%023d", &n); err == nil {
					e.Name = fmt.Sprint(n)
				}
				names = append(names, e.Name)
			}
			row.fact.Age, row.fact.Size = 100, 10
			if got := fmt.Sprint(names); got != row.want || fact != row.fact {
				t.Errorf("%s %+v, want %s %+v", got, fact, row.want, row.fact)
			}
		})
	}
	many := make([]Entry, MaxChosen+5)
	for i := range many {
		many[i] = entry(i, 0, 1)
	}
	if gone, fact := Choose(Bounds{}, now, many); len(gone) != MaxChosen || fact.Entries != MaxChosen || fact.Last != call(MaxChosen-1) {
		t.Errorf("%d chosen, %+v", len(gone), fact)
	}
}

// TestChooseLaws: what goes is the oldest, no more than has to, whatever the order in
// which it was found; and wider bounds never take more.
func TestChooseLaws(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		now := events.Instant(1000)
		var all []Entry
		for n := range r.IntN(12) {
			e := entry(n, events.Instant(n*100+r.IntN(100)), r.Int64N(20))
			if r.IntN(5) == 0 {
				e.Call, e.Name = "", fmt.Sprint("other", n)
			}
			e.Begun = e.Call != "" && r.IntN(8) == 0
			all = append(all, e)
		}
		b := Bounds{events.Micros(r.IntN(1500)), r.Int64N(120)}
		gone, fact := Choose(b, now, all)
		shuffled := slices.Clone(all)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		again, sameFact := Choose(b, now, shuffled)
		if !slices.Equal(gone, again) || fact != sameFact {
			t.Fatalf("seed %d: the order of what was found counts", seed)
		}
		stays, held := []Entry{}, int64(0)
		for _, e := range all {
			if !slices.ContainsFunc(gone, func(g Entry) bool { return g.Name == e.Name }) {
				stays, held = append(stays, e), held+e.Bytes
			}
		}
		if fact.Entries != int64(len(gone)) || fact.ByAge+fact.BySize+fact.Again != fact.Entries {
			t.Fatalf("seed %d: the reasons do not add up: %+v", seed, fact)
		}
		for _, s := range stays {
			if s.Begun || int64(now-s.Time) > int64(b.Age) {
				t.Fatalf("seed %d: %+v stays", seed, s)
			}
			for _, g := range gone {
				if !g.Begun && g.Time > min(s.Time, now) {
					t.Fatalf("seed %d: %+v goes before %+v", seed, g, s)
				}
				if !g.Begun && s.Call != "" && g.Call != "" && s.Call >= fact.First && s.Call <= fact.Last {
					t.Fatalf("seed %d: %+v stays, which the fact says goes: %+v", seed, s, fact)
				}
			}
		}
		if held > b.Size {
			t.Fatalf("seed %d: %d bytes stay, bound %d", seed, held, b.Size)
		}
		if n := len(gone); fact.BySize > 0 && held+gone[n-1].Bytes <= b.Size {
			t.Fatalf("seed %d: %+v went without need", seed, gone[n-1])
		}
		if fewer, _ := Choose(Bounds{b.Age + 1, b.Size + 1}, now, all); len(fewer) > len(gone) {
			t.Fatalf("seed %d: wider bounds take more", seed)
		}
	}
}
