package blobs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"gatebook/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clock is engine time, moved by hand.
type clock struct {
	mu sync.Mutex
	t  events.Instant
}

func (c *clock) now() events.Instant { c.mu.Lock(); defer c.mu.Unlock(); return c.t }

func (c *clock) set(t events.Instant) { c.mu.Lock(); defer c.mu.Unlock(); c.t = t }

const start events.Instant = 1_700_000_000_000_000

func open(t *testing.T) (*Store, *clock) {
	t.Helper()
	c := &clock{t: start}
	s, err := Open(t.TempDir(), c.now)
	must(t, err)
	return s, c
}

// TestPutGet: what is put is got, under its digest, as one private file.
func TestPutGet(t *testing.T) {
	s, _ := open(t)
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 4096).Draw(t, "data")
		for range 2 {
			d, err := s.Put(data)
			if err != nil || d != events.DigestOf(data) {
				t.Fatalf("put: %s, %v", d, err)
			}
			if got, err := s.Get(d); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("got %d bytes, %v", len(got), err)
			}
		}
	})
	d, err := s.Put([]byte("x"))
	must(t, err)
	info, err := os.Stat(s.path(d))
	must(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if half, _ := filepath.Glob(filepath.Join(s.dir, temporary)); len(half) != 0 {
		t.Errorf("left behind: %v", half)
	}
}

// TestDamage: Get gives the bytes of the digest or an error.
func TestDamage(t *testing.T) {
	data := bytes.Repeat([]byte("gatebook"), 100)
	rows := []struct {
		name   string
		damage func(path string) error
		want   error
	}{
		{"one bit", func(p string) error { return os.WriteFile(p, append([]byte{data[0] ^ 1}, data[1:]...), 0o600) }, ErrDamaged},
		{"cut", func(p string) error { return os.Truncate(p, 100) }, ErrDamaged},
		{"empty", func(p string) error { return os.Truncate(p, 0) }, ErrDamaged},
		{"longer", func(p string) error { return os.Truncate(p, 10_000) }, ErrDamaged},
		{"much longer", func(p string) error { return os.Truncate(p, MaxBlob+1) }, ErrDamaged},
		{"gone", os.Remove, fs.ErrNotExist},
		{"a link", func(p string) error { return errors.Join(os.Rename(p, p+"x"), os.Symlink(p+"x", p)) }, ErrDamaged},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s, _ := open(t)
			d, err := s.Put(data)
			must(t, err)
			must(t, row.damage(s.path(d)))
			if got, err := s.Get(d); !errors.Is(err, row.want) || got != nil {
				t.Fatalf("got %d bytes, %v", len(got), err)
			}
			if again, err := s.Put(data); row.name != "one bit" && (err != nil || again != d) {
				t.Fatalf("put again: %v", err)
			} else if got, err := s.Get(d); row.name != "one bit" && (err != nil || !bytes.Equal(got, data)) {
				t.Fatalf("after putting again: %v", err)
			}
		})
	}
}

// TestNoPath: a digest is never a path.
func TestNoPath(t *testing.T) {
	s, _ := open(t)
	for _, d := range []events.Digest{"", "../x", "/etc/hostname", ".", events.Digest(bytes.Repeat([]byte("A"), 64))} {
		_, get := s.Get(d)
		_, orphan := s.RemoveOrphan(d, start)
		for _, err := range []error{get, orphan, s.Remove(d)} {
			if !errors.Is(err, events.ErrID) {
				t.Errorf("%q: got %v", d, err)
			}
		}
	}
	if _, err := Open("relative", nil); err == nil {
		t.Error("a relative folder was taken")
	}
	if _, err := Open(filepath.Join(s.dir, "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestOrphans: what was put before, is named by nobody, and was not put again.
func TestOrphans(t *testing.T) {
	s, c := open(t)
	put := func(text string, at events.Instant) events.Digest {
		c.set(at)
		d, err := s.Put([]byte(text))
		must(t, err)
		return d
	}
	limit := start.Add(time.Hour)
	old, named, again := put("old", start), put("named", start), put("again", start)
	edge := put("edge", limit)
	put("again", limit.Add(time.Second))
	half := filepath.Join(s.dir, ".new-1")
	must(t, os.WriteFile(half, nil, 0o600))
	must(t, os.Chtimes(half, start.Time(), start.Time()))
	must(t, os.WriteFile(filepath.Join(s.dir, "README"), nil, 0o600))
	must(t, os.Chtimes(filepath.Join(s.dir, "README"), start.Time(), start.Time()))

	got, err := s.Orphans(limit, func(d events.Digest) bool { return d == named })
	if err != nil || !slices.Equal(got, []events.Digest{old}) {
		t.Fatalf("got %v, %v, want %v", got, err, old)
	}
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the half file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "README")); err != nil {
		t.Error(err)
	}
	for d, want := range map[events.Digest]bool{old: true, again: false, edge: false, events.DigestOf(nil): false} {
		if removed, err := s.RemoveOrphan(d, limit); err != nil || removed != want {
			t.Errorf("%s: removed %v, %v", d, removed, err)
		}
	}
	must(t, s.Remove(old)) // gone already: no error
	must(t, s.Remove(named))
	if _, err := s.Get(named); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestPutAgainstCleanUp: what Put answered for is there, whatever is cleaned up
// at the same time.
func TestPutAgainstCleanUp(t *testing.T) {
	s, c := open(t)
	data := []byte("the same")
	d := events.DigestOf(data)
	var clean sync.WaitGroup
	stop := make(chan struct{})
	clean.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = s.RemoveOrphan(d, start.Add(time.Hour))
			}
		}
	})
	for range 100 {
		c.set(start)
		_, err := s.Put(data)
		must(t, err)
		c.set(start.Add(2 * time.Hour))
		_, err = s.Put(data)
		must(t, err)
		if _, err := s.Get(d); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	clean.Wait()
}

func TestTooLarge(t *testing.T) {
	s, _ := open(t)
	if _, err := s.Put(make([]byte, MaxBlob+1)); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
}
