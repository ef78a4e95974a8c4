package people

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gatebook/events"
	"gatebook/projections"
)

// Of too many sums the greatest are kept in their order, also where they come period by
// period, and the others are added up: no message is lost.
func TestSumsAreCut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const most, periods, models = 10, 7, 6
	var all []periodSum
	var got periodSums
	for p := range periods {
		for m := range models {
			s := periodSum{from: events.Instant(p), until: events.Instant(p + 1)}
			s.Model, s.Currency = string(rune('a'+m)), []string{"EUR", "USD"}[m%2]
			s.Messages = random.Int64N(5) + 1
			s.Input.N, s.Cost.Unknown = s.Messages*100, 1
			all, got.kept = append(all, s), append(got.kept, s)
		}
		got.cut(most)
	}
	if len(got.kept) != most || got.left != periods*models-most || !slices.IsSortedFunc(got.kept, periodSum.compare) {
		t.Fatalf("%d sums, %d left", len(got.kept), got.left)
	}
	left := slices.DeleteFunc(slices.Clone(all), func(s periodSum) bool { return slices.Contains(got.kept, s) })
	least := slices.MinFunc(got.kept, func(a, b periodSum) int { return int(a.Messages - b.Messages) })
	want := []projections.UsageSum{{Currency: "EUR"}, {Currency: "USD"}}
	for _, s := range left {
		if s.Messages > least.Messages {
			t.Errorf("%+v is left out, and %+v not", s, least)
		}
		want[slices.Index([]string{"EUR", "USD"}, s.Currency)].Plus(s.UsageSum)
	}
	if !slices.Equal(got.rest, want) {
		t.Errorf("the rest is %+v, want %+v", got.rest, want)
	}
	few := periodSums{kept: slices.Clone(all)}
	if few.cut(len(all)); few.left != 0 || few.rest != nil || !slices.Equal(few.kept, all) {
		t.Errorf("what fits is cut: %+v", few)
	}
}

// What a model used before there were prices is in the row of the only currency, and not
// priced there; of two currencies it is in neither.
func TestInOneCurrency(t *testing.T) {
	sum := func(model, currency string, messages, unpriced int64) projections.UsageSum {
		return projections.UsageSum{Agent: "alice", Model: model, Currency: currency, Messages: messages, Cost: projections.Sum{N: 10 * (messages - unpriced), Unknown: unpriced}}
	}
	given := []projections.UsageSum{
		sum("a", "", 1, 1), sum("a", "EUR", 2, 0), sum("b", "", 3, 3), sum("c", "EUR", 4, 1),
		sum("d", "", 1, 1), sum("d", "EUR", 1, 0), sum("d", "USD", 1, 0),
	}
	before := slices.Clone(given)
	want := []projections.UsageSum{sum("a", "EUR", 3, 1), sum("b", "", 3, 3), sum("c", "EUR", 4, 1), sum("d", "", 1, 1), sum("d", "EUR", 1, 0), sum("d", "USD", 1, 0)}
	if got := inOneCurrency(given); !slices.Equal(got, want) || !slices.Equal(given, before) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
