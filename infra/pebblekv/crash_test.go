package pebblekv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"gatebook/events"
	"gatebook/projections"
	"gatebook/projections/projectionstest"
	"gatebook/projections/rebuild"
)

// prefixes gives the fingerprint of the first n events for any n.
type prefixes struct {
	tb   testing.TB
	book projectionstest.Book
	at   map[events.Seq]events.Digest
}

func newPrefixes(tb testing.TB, book projectionstest.Book) *prefixes {
	return &prefixes{tb: tb, book: book, at: map[events.Seq]events.Digest{}}
}

func (p *prefixes) of(seq events.Seq) events.Digest {
	if p.at[seq] == "" {
		s := mustOpen(p.tb, "fresh", Options{FS: vfs.NewMem()})
		fold(p.tb, s, p.book[:seq], rebuild.Options{})
		_, p.at[seq] = look(p.tb, s)
		closeStore(p.tb, s)
	}
	return p.at[seq]
}

// check is the law of every crash: rows and checkpoint agree, and folding what is
// missing gives what a rebuild gives.
func (p *prefixes) check(s *Store) events.Seq {
	p.tb.Helper()
	seq, print := look(p.tb, s)
	if print != p.of(seq) {
		p.tb.Fatalf("rows and checkpoint %d disagree", seq)
	}
	fold(p.tb, s, p.book, rebuild.Options{})
	if _, print = look(p.tb, s); print != p.of(events.Seq(len(p.book))) {
		p.tb.Fatalf("folded on from %d, the views are not those of a rebuild", seq)
	}
	return seq
}

func closeStore(tb testing.TB, s *Store) {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
}

// O-B01 cockroachdb/pebble#1165 the process or the machine dies between syncs.
func TestCrashClones(t *testing.T) {
	book := projectionstest.NewBook(t, projectionstest.Busy(4))
	p := newPrefixes(t, book)
	for name, over := range stores {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			s := mustOpen(t, "views", Options{FS: fs})
			var clones []*vfs.MemFS
			rng := rand.New(rand.NewPCG(1, 2))
			fold(t, over(s), book, rebuild.Options{Batch: 7, Progress: func(seq events.Seq) {
				if seq%70 == 0 {
					if err := s.Sync(); err != nil {
						t.Fatal(err)
					}
				}
				if seq%21 == 0 {
					clones = append(clones, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(seq) % 101, RNG: rng}))
				}
			}})
			closeStore(t, s)
			behind, some := 0, 0
			for i, clone := range clones {
				s := mustOpen(t, "views", Options{FS: clone})
				seq := p.check(s)
				if seq < events.Seq(21*(i+1)) {
					behind++
				}
				if seq > 0 {
					some++
				}
				closeStore(t, s)
			}
			if behind == 0 || some == 0 {
				t.Fatalf("of %d crashes %d lost something and %d left something: the test shows nothing", len(clones), behind, some)
			}
		})
	}
}

// Sync is what bounds the loss: a crash after it loses nothing.
func TestSyncSurvivesCrash(t *testing.T) {
	book := projectionstest.NewBook(t, projectionstest.Busy(1))
	fs := vfs.NewCrashableMem()
	s := mustOpen(t, "views", Options{FS: fs})
	fold(t, s, book, rebuild.Options{})
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	clone := fs.CrashClone(vfs.CrashCloneCfg{})
	closeStore(t, s)
	s = mustOpen(t, "views", Options{FS: clone})
	defer closeStore(t, s)
	if seq, _ := look(t, s); seq != events.Seq(len(book)) {
		t.Fatalf("checkpoint %d of %d after a crash", seq, len(book))
	}
}

// killed is a folder on disk as a process that was killed leaves it: folded in
// small transactions, synced twice, not closed.
func killed(t *testing.T, book projectionstest.Book) string {
	t.Helper()
	fs := vfs.NewCrashableMem()
	s := mustOpen(t, "views", Options{FS: fs})
	fold(t, s, book[:len(book)/2], rebuild.Options{Batch: 5})
	if err := errors.Join(s.Sync(), s.db.Flush()); err != nil {
		t.Fatal(err)
	}
	fold(t, commits{s}, book, rebuild.Options{Batch: 5})
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	clone := fs.CrashClone(vfs.CrashCloneCfg{})
	closeStore(t, s)
	dir := filepath.Join(t.TempDir(), "views")
	if ok, err := vfs.Clone(clone, vfs.Default, "views", dir); err != nil || !ok {
		t.Fatal(ok, err)
	}
	return dir
}

// newest is the last file in dir with the ending or beginning.
func newest(t *testing.T, dir, affix string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), affix) || strings.HasSuffix(e.Name(), affix) {
			found = filepath.Join(dir, e.Name())
		}
	}
	if found == "" {
		t.Fatalf("no %s in %s", affix, dir)
	}
	return found
}

// afterDamage is the law of every damage: the folder does not open and says that
// it is damaged, or it holds the state of an earlier checkpoint. Set aside where
// need be, a fold gives what a rebuild gives.
func afterDamage(t *testing.T, p *prefixes, dir string) (damaged bool) {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		if !errors.Is(err, ErrDamaged) || !errors.Is(err, projections.ErrStore) {
			t.Fatalf("got %v", err)
		}
		if err := SetAside(dir, "t1"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir + ".damaged-t1"); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, dir, Options{})
		damaged = true
	}
	p.check(s)
	closeStore(t, s)
	return damaged
}

// O-B02 cockroachdb/pebble#453 one flipped bit anywhere in the log.
func TestFlippedBitInLog(t *testing.T) {
	book := projectionstest.NewBook(t, projectionstest.Busy(2))
	p := newPrefixes(t, book)
	for part := range 8 {
		t.Run(fmt.Sprintf("at %d eighths", part), func(t *testing.T) {
			dir := killed(t, book)
			log := newest(t, dir, ".log")
			raw, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			raw[len(raw)*part/8+3] ^= 0x10
			if err := os.WriteFile(log, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			afterDamage(t, p, dir)
		})
	}
}

// O-B03 cockroachdb/pebble#1212, cockroachdb/cockroach#68319
func TestDamagedFolder(t *testing.T) {
	book := projectionstest.NewBook(t, projectionstest.Busy(2))
	p := newPrefixes(t, book)
	truncate := func(affix string, to int64) func(*testing.T, string) error {
		return func(t *testing.T, dir string) error { return os.Truncate(newest(t, dir, affix), to) }
	}
	for name, c := range map[string]struct {
		damage func(*testing.T, string) error
		opens  bool
	}{
		"manifest cut":     {truncate("MANIFEST-", 20), false},
		"manifest empty":   {truncate("MANIFEST-", 0), false},
		"manifest missing": {func(t *testing.T, dir string) error { return os.Remove(newest(t, dir, "MANIFEST-")) }, false},
		"table missing":    {func(t *testing.T, dir string) error { return os.Remove(newest(t, dir, ".sst")) }, false},
		"table cut":        {truncate(".sst", 30), false},
		"options garbage": {func(t *testing.T, dir string) error {
			return os.WriteFile(newest(t, dir, "OPTIONS-"), []byte("x"), 0o600)
		}, false},
		"newest log gone":  {func(t *testing.T, dir string) error { return os.Remove(newest(t, dir, ".log")) }, true},
		"newest log empty": {truncate(".log", 0), true},
		"newest log cut":   {truncate(".log", 5000), true},
		"one more log, empty": {func(t *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, "009999.log"), nil, 0o600)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := killed(t, book)
			if err := c.damage(t, dir); err != nil {
				t.Fatal(err)
			}
			if damaged := afterDamage(t, p, dir); damaged == c.opens {
				t.Logf("damaged: %v", damaged)
				t.Fail()
			}
		})
	}
}

func TestSetAsideDeletesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "views")
	closeStore(t, mustOpen(t, dir, Options{}))
	if err := SetAside(dir, "t1"); err != nil {
		t.Fatal(err)
	}
	closeStore(t, mustOpen(t, dir, Options{}))
	if err := SetAside(dir, "t1"); !errors.Is(err, os.ErrExist) {
		t.Fatalf("a taken name gives %v", err)
	}
	for _, stamp := range []string{"", "a/b", "/", "../a"} {
		if err := SetAside(dir, stamp); err == nil {
			t.Errorf("stamp %q is taken", stamp)
		}
	}
}

func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "views")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir, Options{})
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrLocked) || errors.Is(err, ErrDamaged) {
		t.Fatalf("a second store gives %v", err)
	}
	closeStore(t, s)
}

// Where there is room, a Close leaves nothing that only the log has: without the logs
// all rows are there.
func TestCloseWritesTheLogAsTables(t *testing.T) {
	book := projectionstest.NewBook(t, projectionstest.Busy(1))
	for name, room := range map[string]bool{"room": true, "no room": false} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			opt := Options{FS: fs, Room: func() bool { return room }}
			s := mustOpen(t, "views", opt)
			fold(t, s, book, rebuild.Options{})
			_, want := look(t, s)
			closeStore(t, s)
			for _, file := range must(t, func() ([]string, error) { return fs.List("views") }) {
				if strings.HasSuffix(file, ".log") {
					must(t, func() (struct{}, error) { return struct{}{}, fs.Remove(fs.PathJoin("views", file)) })
				}
			}
			s = mustOpen(t, "views", opt)
			defer closeStore(t, s)
			if _, got := look(t, s); (got == want) != room {
				t.Errorf("whole without its logs: %t", got == want)
			}
		})
	}
}
