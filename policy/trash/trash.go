// Package trash chooses what of an agent's trash goes for good. It is a pure function:
// who looks into the trash hands over what is there, and who empties it does what is
// chosen and nothing else.
//
// Start with [Choose]. What it promises:
//
//   - The oldest goes first. What is chosen is a beginning of the trash in the order
//     of time, so that the first and the last call say which entries those are.
//   - What is older than [Bounds.Age] goes; of the rest the oldest, until what stays
//     holds at most [Bounds.Size].
//   - A time in the future counts as now: such a name makes an entry stay for the age
//     in force, not for ever. Names are not proof, though: who writes to the folder by
//     other ways than a tool can give a thing the name of an old call, or one that says
//     that its removal has begun, and then it goes although it is young and whole.
package trash

import (
	"cmp"
	"math"
	"slices"

	"gatebook/events"
)

// MaxChosen is how many entries one choice takes; what else is due, the next one does.
const MaxChosen = 10_000

// Entry is one thing in the trash.
type Entry struct {
	Name string
	// Call made it, and its name says so; empty for what no call put there.
	Call  events.CallID
	Time  events.Instant // since when it is there
	Bytes int64          // in all files of it
	// Begun says that a kill ended its removal in the middle: it was chosen before.
	Begun bool
}

// Bounds are the limits in force.
type Bounds struct {
	Age  events.Micros
	Size int64
}

// Choose gives what goes, in the order in which it goes, and the fact to be recorded
// before that. Where nothing goes the fact has no entries.
func Choose(b Bounds, now events.Instant, all []Entry) ([]Entry, events.TrashDecided) {
	all = slices.Clone(all)
	for i := range all {
		all[i].Time = min(all[i].Time, now)
		all[i].Bytes = max(all[i].Bytes, 0)
	}
	slices.SortFunc(all, func(x, y Entry) int {
		return cmp.Or(rank(x)-rank(y), cmp.Compare(x.Time, y.Time), cmp.Compare(x.Name, y.Name))
	})
	// held[i] is what the trash holds without the first i.
	held := make([]int64, len(all)+1)
	for i := len(all) - 1; i >= 0; i-- {
		held[i] = sum(held[i+1], all[i].Bytes)
	}
	fact := events.TrashDecided{Age: b.Age, Size: b.Size}
	n := 0
	for ; n < min(len(all), MaxChosen); n++ {
		if !count(&fact, all[n], now, held[n]) {
			break
		}
	}
	fact.Entries = int64(n)
	return all[:n], fact
}

// rank brings what was chosen before to the front: it is not whole any more.
func rank(e Entry) int {
	if e.Begun {
		return 0
	}
	return 1
}

// count adds e to the fact where it goes; held is what it and all younger ones hold.
func count(fact *events.TrashDecided, e Entry, now events.Instant, held int64) bool {
	switch {
	case e.Begun:
		fact.Again++
		fact.Bytes = sum(fact.Bytes, e.Bytes)
		return true
	case int64(now-e.Time) > int64(fact.Age):
		fact.ByAge++
	case held > fact.Size:
		fact.BySize++
	default:
		return false
	}
	fact.Bytes = sum(fact.Bytes, e.Bytes)
	if e.Call == "" {
		fact.Others++
		return true
	}
	fact.First = cmp.Or(fact.First, e.Call)
	fact.Last = e.Call
	return true
}

// sum does not overflow: a file may claim any size.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
