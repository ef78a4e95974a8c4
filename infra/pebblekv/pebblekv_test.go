package pebblekv

import (
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
