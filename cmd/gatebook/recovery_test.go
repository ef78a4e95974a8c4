package main

import (
	"fmt"
	"os"
	"testing"

	"gatebook/events"
	"gatebook/infra/pebblekv"
	"gatebook/projections"
	"gatebook/projections/rebuild"
)

// O-E12 nats.go#1370, #1729: a restart of the embedded server under a running
// engine; what comes after is there once.
func TestBusRestart(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	n := h.open()
	before := h.agent("alice")
	r := h.begin("alice")
	before.mustCall(t, r, "demo.none", `{}`)
	before.close()
	if _, err := n.reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	alice := h.agent("alice")
	for i := range 10 {
		if a, err := alice.call(t.Context(), r, fmt.Sprint(i), "demo.none", `{}`); err != nil || a.Status != events.StatusOK || a.Replayed {
			t.Fatalf("call %d after the restart: %+v, %v", i, a, err)
		}
	}
	alice.close()
	if ends, _ := all[events.CallCompleted](t, n); len(ends) != 11 {
		t.Errorf("%d ends for 11 calls", len(ends))
	}
}

// O-E11 nats-server#4427, #2488: views that lost their newest thousand events, as
// a kill loses what was not synced, catch up at the next start.
func TestViewsCatchUp(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	p := h.start()
	alice := h.agent("alice")
	r := h.begin("alice")
	for range 10 {
		alice.mustCall(t, r, "demo.none", `{}`)
	}
	alice.close()
	p.stop()
	folder, err := viewsFolder(h.dir)
	check(t, err)
	kept := folder + ".kept"
	check(t, os.CopyFS(kept, os.DirFS(folder)))
	p = h.start()
	alice = h.agent("alice")
	for range 500 {
		alice.mustCall(t, r, "demo.none", `{}`)
	}
	alice.close()
	p.kill()
	check(t, os.RemoveAll(folder))
	check(t, os.Rename(kept, folder))
	n := h.node(true)
	defer func() { check(t, n.close()) }()
	live := sum(t, n.stores.views)
	fresh, err := pebblekv.Open(t.TempDir(), pebblekv.Options{})
	check(t, err)
	check(t, rebuild.Fold(t.Context(), n.stores.book(), events.Codec{}, fresh, rebuild.Options{}))
	if again := sum(t, fresh); again != live {
		t.Errorf("views that caught up have %s, a rebuild %s", live, again)
	}
	check(t, fresh.Close())
}

func sum(t *testing.T, s projections.Store) string {
	t.Helper()
	snap := s.Snapshot()
	defer snap.Close()
	d, rows, err := rebuild.Fingerprint(snap)
	check(t, err)
	return fmt.Sprintf("%d rows, %s", rows, d)
}
