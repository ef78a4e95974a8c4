package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"gatebook/events"
	"gatebook/projections"
	"gatebook/projections/projectionstest"
	"gatebook/projections/rebuild"
)

// fullAfter fails every write, creation and sync once n writes are done. The
// endings limit it to some files.
func fullAfter(fs vfs.FS, n int64, endings ...string) vfs.FS {
	var writes atomic.Int64
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !ends(op.Path, endings) || writes.Add(1) <= n {
			return nil
		}
		return fmt.Errorf("write %s: %w", op.Path, syscall.ENOSPC)
	}))
}

func ends(path string, endings []string) bool {
	for _, e := range endings {
		if strings.HasSuffix(path, e) {
			return true
		}
	}
	return len(endings) == 0
}

// O-B04 cockroachdb/pebble#270 no space after N writes: the fold ends with an
// error or a *Fatal, never with a wrong state, and goes on once there is space.
// It runs in a process of its own, for what a *Fatal leaves behind goes with it.
func TestNoSpace(t *testing.T) {
	if os.Getenv(noSpaceEnv) == "" {
		cmd := exec.CommandContext(t.Context(), must(t, os.Executable), "-test.run=^TestNoSpace$")
		cmd.Env = append(os.Environ(), noSpaceEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	book := projectionstest.NewBook(t, projectionstest.Busy(2))
	p := newPrefixes(t, book)
	failed := 0
	for n := int64(0); n < 120; n += 9 {
		fs := vfs.NewCrashableMem()
		err := foldOnFullDisk(t, "views", fullAfter(fs, n), book, stores["commits"])
		if err != nil {
			failed++
			var fatal *Fatal
			if !errors.Is(err, projections.ErrStore) && !errors.As(err, &fatal) {
				t.Fatalf("after %d writes: %v", n, err)
			}
			if errors.Is(err, ErrDamaged) {
				t.Fatalf("after %d writes a full disk is taken for damage: %v", n, err)
			}
		}
		s := mustOpen(t, "views", Options{FS: fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})})
		p.check(s)
		closeStore(t, s)
	}
	if failed == 0 {
		t.Fatal("no write failed: the test shows nothing")
	}
}

// TestNoSpaceForTables is [TestNoSpace] for a loader. Pebble compacts its tables in
// goroutines of its own, where a *Fatal ends the process: each fold has one.
func TestNoSpaceForTables(t *testing.T) {
	book := projectionstest.NewBook(t, projectionstest.Busy(2))
	if text := os.Getenv(noSpaceEnv); text != "" {
		var dir string
		var n int64
		if _, err := fmt.Sscan(text, &n, &dir); err != nil {
			t.Fatal(err)
		}
		if err := foldOnFullDisk(t, dir, fullAfter(vfs.Default, n), book, stores["tables"]); err != nil {
			t.Fatal(err)
		}
		return
	}
	p := newPrefixes(t, book)
	failed, some := 0, 0
	for n := int64(0); n < 250; n += 23 {
		dir := filepath.Join(t.TempDir(), "views")
		cmd := exec.CommandContext(t.Context(), must(t, os.Executable), "-test.run=^TestNoSpaceForTables$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", noSpaceEnv, n, dir))
		out, err := cmd.CombinedOutput()
		if err != nil {
			failed++
			if !strings.Contains(string(out), syscall.ENOSPC.Error()) || strings.Contains(string(out), ErrDamaged.Error()) {
				t.Fatalf("after %d writes: %v\n%s", n, err, out)
			}
		}
		s := mustOpen(t, dir, Options{})
		if p.check(s) > 0 {
			some++
		}
		closeStore(t, s)
	}
	if failed == 0 || some == 0 {
		t.Fatalf("%d folds failed, %d left something: the test shows nothing", failed, some)
	}
}

// foldOnFullDisk returns the panic of a commit as an error. The process would end
// by it, so the store is left as it is.
func foldOnFullDisk(t *testing.T, dir string, fs vfs.FS, book projectionstest.Book, over func(*Store) projections.Store) (err error) {
	s, err := Open(dir, Options{FS: fs})
	if err != nil {
		return err
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = p
		default:
			panic(p)
		}
	}()
	err = rebuild.Fold(t.Context(), book, events.Codec{}, over(s), rebuild.Options{Batch: 10, Progress: func(events.Seq) {
		if err := s.Sync(); err != nil {
			panic(err)
		}
	}})
	return errors.Join(err, s.Close())
}

// Variables that make this test binary another process.
const (
	fullDiskEnv = "PEBBLEKV_TEST_FULL_DISK"
	noSpaceEnv  = "PEBBLEKV_TEST_NO_SPACE"
)

func must[T any](t *testing.T, get func() (T, error)) T {
	t.Helper()
	got, err := get()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// fillDisk is a process whose disk takes the log and no table, so that flushes
// fail and fail again. It does not come to its end.
func fillDisk() {
	failures := 0
	s, err := Open("views", Options{FS: fullAfter(vfs.NewMem(), 0, ".sst"), Log: func(string) { failures++ }})
	if err != nil {
		fmt.Println("open:", err)
		return
	}
	tx := s.Begin()
	_ = tx.Set([]byte("a"), []byte("1"))
	if err := tx.Commit(); err != nil {
		fmt.Println("first commit:", err)
		return
	}
	_ = s.db.Flush()
	fmt.Println("flush returned after", failures, "lines")
}

// O-B04: work in the background that fails is not repeated for ever.
func TestFailingFlushEndsTheProcess(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), must(t, os.Executable))
	cmd.Env = append(os.Environ(), fullDiskEnv+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), fmt.Sprintf("%d failures in a row", maxFailures)) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// After a failure in the background nothing more is taken, until a new process.
func TestBackgroundFailureStopsWriting(t *testing.T) {
	s := mustOpen(t, "views", Options{FS: vfs.NewMem()})
	defer closeStore(t, s)
	tell := s.troubles.listener()
	tell.BackgroundError(syscall.ENOSPC)
	tx := s.Begin()
	_ = tx.Set([]byte("a"), []byte("1"))
	if err := tx.Commit(); !errors.Is(err, projections.ErrStore) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("commit gives %v", err)
	}
	if err := s.Sync(); !errors.Is(err, projections.ErrStore) {
		t.Fatalf("sync gives %v", err)
	}
	for range 3 * maxFailures { // failures with a success between them are not in a row
		tell.BackgroundError(syscall.ENOSPC)
		tell.FlushEnd(pebble.FlushInfo{})
	}
}

// A fold that is cut off leaves no goroutine and no open transaction.
func TestFoldCutOff(t *testing.T) {
	book := projectionstest.NewBook(t, projectionstest.Busy(2))
	s := mustOpen(t, "views", Options{FS: vfs.NewMem()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := rebuild.Fold(ctx, book, events.Codec{}, s, rebuild.Options{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	closeStore(t, s)
}
