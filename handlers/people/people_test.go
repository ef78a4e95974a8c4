package people

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/infra/pebblekv"
	"gatebook/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Whatever the page, neither rows nor the cursor tell of an agent that may not be
// seen.
func TestSeenTellsOfNobodyElse(t *testing.T) {
	store, err := pebblekv.Open("views", pebblekv.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	all := []events.AgentID{"aaron", "alice", "bob", "carl", "dora", "zed"}
	enrol(t, store, all)
	snap := store.Snapshot()
	defer snap.Close()
	for _, may := range [][]events.AgentID{nil, {"alice"}, {"alice", "dora"}, all} {
		for limit := 1; limit <= len(all); limit++ {
			var got []events.AgentID
			after := events.AgentID("")
			for more := true; more; {
				var rows []projections.AgentRow
				rows, more, err = seen(snap, after, limit, func(a events.AgentID) bool { return slices.Contains(may, a) })
				if err != nil || len(rows) > limit || more && len(rows) == 0 {
					t.Fatalf("%v by %d: %d rows, more %t, %v", may, limit, len(rows), more, err)
				}
				for _, r := range rows {
					got, after = append(got, r.Agent), r.Agent
				}
			}
			if !slices.Equal(got, may) {
				t.Errorf("%v by %d: got %v", may, limit, got)
			}
		}
	}
}

func enrol(t *testing.T, store projections.Store, agents []events.AgentID) {
	t.Helper()
	tx := store.Begin()
	drafts := []events.Draft{eventstest.Draft(1, "", events.EngineStarted{Incarnation: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Version: "1"})}
	for i, a := range agents {
		drafts = append(drafts, eventstest.Draft(i+2, a, events.AgentEnrolled{Role: "worker", Key: events.PublicKey("U" + a)}))
	}
	for i, d := range drafts {
		r := eventstest.Encode(t, d)
		r.Seq = events.Seq(i + 1)
		if err := projections.Apply(tx, events.Recorded{Draft: d, Seq: r.Seq}, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}
