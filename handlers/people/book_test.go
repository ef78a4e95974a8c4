package people

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/policy"
)

// catalogLoop is a loop that only has a catalog.
type catalogLoop struct {
	Loop
	catalog *policy.Compiled
}

func (l catalogLoop) Catalog() *policy.Compiled { return l.catalog }

// annasCatalog knows anna, who may see everything.
func annasCatalog(t *testing.T) *policy.Compiled {
	t.Helper()
	c, err := policy.Compile(policy.Catalog{Schema: 1, Phase: 2, People: map[events.PersonID]policy.Person{"anna": {
		Key: events.PublicKey("U" + strings.Repeat("A", 55)), Supervisor: true, Operator: true, ObservableAgents: []string{"*"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What stands before an event that cannot be read is given, then an answer that names it.
func TestTornBook(t *testing.T) {
	const good = 3
	log := eventstest.NewMemLog("01ARZ3NDEKTSV4RRFFQ69G5FAV")
	var all [][]events.Record
	for n := 1; n <= good; n++ {
		all = append(all, []events.Record{eventstest.Record(t, n, "", events.PhaseChanged{Phase: n})})
	}
	torn := eventstest.Record(t, good+1, "", events.PhaseChanged{Phase: 9})
	torn.Body = torn.Body[:len(torn.Body)-1]
	all = append(all, []events.Record{torn})
	if err := log.Append(t.Context(), 0, all); err != nil {
		t.Fatal(err)
	}
	h := New(Config{Loop: catalogLoop{catalog: annasCatalog(t)}, Book: func() events.Log { return log }})
	ask := func(body string) any {
		return h.book(request{ctx: context.Background(), person: "anna", data: []byte(body)})
	}
	first, ok := ask(`{}`).(BookAnswer)
	if !ok || len(first.Events) != good || first.Next != good+1 || first.AsOf != good {
		t.Fatalf("got %+v", first)
	}
	if second := ask(`{"from":4}`); !strings.Contains(fmt.Sprint(second), "event 4 cannot be read") {
		t.Errorf("got %+v", second)
	}
	log.Remove(2)
	if got, ok := ask(`{}`).(BookAnswer); !ok || len(got.Events) != 1 || got.Next != 2 {
		t.Errorf("with a gap: %+v", got)
	}
	if got := ask(`{"from":2}`); !strings.Contains(fmt.Sprint(got), "from event 2 on") {
		t.Errorf("from the gap: %+v", got)
	}
}
