package pebblekv

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"gatebook/events"
	"gatebook/projections"
	"gatebook/projections/projectionstest"
	"gatebook/projections/rebuild"
)

func TestMain(m *testing.M) {
	if os.Getenv(fullDiskEnv) != "" {
		fillDisk()
		os.Exit(0)
	}
	if os.Getenv(noSpaceEnv) != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(m)
}

func TestStore(t *testing.T) {
	projectionstest.TestStore(t, func(t *testing.T) projections.Store {
		return mustOpen(t, "views", Options{FS: vfs.NewMem(), Log: func(s string) { t.Log(s) }})
	})
}

func TestStoreOnDisk(t *testing.T) {
	projectionstest.TestStore(t, func(t *testing.T) projections.Store {
		return mustOpen(t, filepath.Join(t.TempDir(), "views"), Options{})
	})
}

// stores are the ways to write into a store.
var stores = map[string]func(*Store) projections.Store{
	"commits": func(s *Store) projections.Store { return commits{s} },
	"tables":  func(s *Store) projections.Store { return tables(s) },
}

// commits is a store without a loader.
type commits struct{ projections.Store }

// tables is a loader that makes tables of everything soon.
func tables(s *Store) *loader { return &loader{Store: s, size: 4 << 10} }

// TestLoader: a loader whose writing is waited for is a store like any other.
func TestLoader(t *testing.T) {
	for name, few := range map[string]int{"tables": 0, "batches": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			projectionstest.TestStore(t, func(t *testing.T) projections.Store {
				l := tables(mustOpen(t, "views", Options{FS: vfs.NewMem(), Log: func(s string) { t.Log(s) }}))
				l.few = few
				return &synced{l}
			})
		})
	}
}

// TestStoreAfterLoad: what a store wrote before a load is not what it reads after it.
func TestStoreAfterLoad(t *testing.T) {
	s := mustOpen(t, "views", Options{FS: vfs.NewMem()})
	write := func(to projections.Store, value string) {
		t.Helper()
		tx := to.Begin()
		if err := errors.Join(tx.Set([]byte("a"), []byte(value)), tx.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	write(s, "before")
	load := s.Load()
	write(load, "loaded")
	if err := load.Close(); err != nil {
		t.Fatal(err)
	}
	tx := s.Begin()
	if got, err := tx.Get([]byte("a")); string(got) != "loaded" {
		t.Errorf("%q %v", got, err)
	}
	tx.Discard()
	closeStore(t, s)
}

// synced is a loader that writes each commit at once.
type synced struct{ *loader }

func (s *synced) Begin() projections.Tx { return &syncedTx{s.loader.Begin(), s.loader} }

func (s *synced) Close() error { return errors.Join(s.loader.Close(), s.Store.Close()) }

type syncedTx struct {
	projections.Tx
	l *loader
}

func (t *syncedTx) Commit() error {
	if err := t.Tx.Commit(); err != nil {
		return err
	}
	return errors.Join(t.l.write(), t.l.wait())
}

// TestLoadLeavesNoTable: tables that a crash left beside the database go at the next
// start.
func TestLoadLeavesNoTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "views")
	closeStore(t, mustOpen(t, dir, Options{}))
	left := filepath.Join(dir, tablePrefix+"000001.sst")
	if err := os.WriteFile(left, []byte("half a table"), 0o600); err != nil {
		t.Fatal(err)
	}
	closeStore(t, mustOpen(t, dir, Options{}))
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("it is still there: %v", err)
	}
}

func mustOpen(tb testing.TB, dir string, opt Options) *Store {
	tb.Helper()
	s, err := Open(dir, opt)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func fold(tb testing.TB, s projections.Store, book projectionstest.Book, opt rebuild.Options) {
	tb.Helper()
	if err := rebuild.Fold(tb.Context(), book, events.Codec{}, s, opt); err != nil {
		tb.Fatal(err)
	}
}

// look gives the checkpoint and the fingerprint of what is committed.
func look(tb testing.TB, s projections.Store) (events.Seq, events.Digest) {
	tb.Helper()
	snap := s.Snapshot()
	defer snap.Close()
	state, err := projections.LoadState(snap)
	if err != nil {
		tb.Fatal(err)
	}
	print, _, err := rebuild.Fingerprint(snap)
	if err != nil {
		tb.Fatal(err)
	}
	return state.Seq, print
}
