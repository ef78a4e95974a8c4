package rebuild_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"gatebook/events"
	"gatebook/infra/pebblekv"
	"gatebook/projections"
	"gatebook/projections/projectionstest"
	"gatebook/projections/rebuild"
)

func open(t *testing.T) projections.Store {
	t.Helper()
	s, err := pebblekv.Open("views", pebblekv.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s projections.Store, value string) {
	t.Helper()
	tx := s.Begin()
	if err := errors.Join(tx.Set([]byte("k"), []byte(value)), tx.Commit()); err != nil {
		t.Fatal(err)
	}
}

// A snapshot goes on reading from the store that it was opened on, which is closed
// only after it.
func TestLiveKeepsWhatIsRead(t *testing.T) {
	first, second := open(t), open(t)
	put(t, first, "old")
	put(t, second, "new")
	live := rebuild.NewLive(first)
	before, other := live.Snapshot(), live.Snapshot()
	old := live.Use(second)
	over, stop := context.WithCancel(t.Context())
	stop()
	for _, reading := range []projections.Snapshot{before, other} {
		if err := old.Close(over); !errors.Is(err, context.Canceled) {
			t.Fatalf("closed while it is read: %v", err)
		}
		if got, err := reading.Get([]byte("k")); err != nil || string(got) != "old" {
			t.Errorf("%q, %v", got, err)
		}
		if err := reading.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := live.Snapshot()
	if got, err := after.Get([]byte("k")); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	if err := errors.Join(after.Close(), live.Sync(), live.Close()); err != nil {
		t.Fatal(err)
	}
}

// A fold up to an event ends there, and a fold of the rest gives what one of the
// whole does.
func TestFoldUpTo(t *testing.T) {
	book := projectionstest.NewBook(t, projectionstest.Busy(3))
	whole, parts := open(t), open(t)
	defer whole.Close()
	defer parts.Close()
	fold := func(s projections.Store, last events.Seq) {
		t.Helper()
		if err := rebuild.Fold(t.Context(), rebuild.UpTo(book, last), events.Codec{}, s, rebuild.Options{Batch: 7}); err != nil {
			t.Fatal(err)
		}
	}
	fold(whole, events.Seq(len(book)))
	for last := events.Seq(0); last < events.Seq(len(book)); last += 11 {
		fold(parts, last)
		if snap := parts.Snapshot(); true {
			state, err := projections.LoadState(snap)
			if err = errors.Join(err, snap.Close()); err != nil || state.Seq != last {
				t.Fatalf("at %d, want %d: %v", state.Seq, last, err)
			}
		}
	}
	fold(parts, events.Seq(len(book))+10)
	if a, b := print(t, whole), print(t, parts); a != b {
		t.Errorf("%s and %s", a, b)
	}
}

func print(t *testing.T, s projections.Store) events.Digest {
	t.Helper()
	snap := s.Snapshot()
	defer snap.Close()
	d, _, err := rebuild.Fingerprint(snap)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A page of an engine, which reads through a live store, has the cheaper get too.
func TestLivePassesNear(t *testing.T) {
	store := open(t)
	put(t, store, "v")
	live := rebuild.NewLive(&noGet{Store: store})
	snap := live.Snapshot()
	near, ok := snap.(projections.Near)
	if !ok {
		t.Fatal("a snapshot has no Near")
	}
	get, done := near.Near([]byte("a"), []byte("z"))
	value, err := get([]byte("k"))
	if err := errors.Join(err, done(), snap.Close(), store.Close()); err != nil || string(value) != "v" {
		t.Errorf("got %q, %v", value, err)
	}
}

// noGet is a store whose snapshots answer only near.
type noGet struct{ projections.Store }

func (s *noGet) Snapshot() projections.Snapshot {
	snap := s.Store.Snapshot()
	return &onlyNear{snap, snap.(projections.Near)}
}

type onlyNear struct {
	projections.Snapshot
	below projections.Near
}

func (o *onlyNear) Near(lower, upper []byte) (func([]byte) ([]byte, error), func() error) {
	return o.below.Near(lower, upper)
}

func (*onlyNear) Get([]byte) ([]byte, error) { return nil, errors.New("a plain get") }

func TestLiveIsAStore(t *testing.T) {
	projectionstest.TestStore(t, func(t *testing.T) projections.Store { return rebuild.NewLive(open(t)) })
}
