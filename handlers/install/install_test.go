package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/infra/pebblekv"
	"gatebook/projections"
	"gatebook/projections/projectionstest"
	"gatebook/projections/rebuild"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const kind events.AssetType = "skill"

// house is views that a test writes, blobs, and a folder that is kept.
type house struct {
	t      testing.TB
	store  projections.Store
	drafts []events.Draft
	blobs  map[events.Digest]string
	folder string
	logged []string
	kinds  map[events.AssetType]string
	assets map[string]*version // by name and content
	in     *Installer
}

// version is one version of a name, as the test knows it.
type version struct {
	id            events.AssetID
	name, content string
	state         events.AssetState
}

func newHouse(t testing.TB, dir string) *house {
	store, err := pebblekv.Open("views", pebblekv.Options{FS: vfs.NewMem()})
	h := &house{t: t, store: store, blobs: map[events.Digest]string{}, assets: map[string]*version{}, folder: filepath.Join(dir, "live")}
	h.ok(err)
	h.kinds = map[events.AssetType]string{kind: h.folder}
	h.ok(os.MkdirAll(h.folder, 0o755))
	h.ok(os.MkdirAll(filepath.Join(dir, "data"), 0o755))
	h.in = New(Config{
		Store: store, Data: filepath.Join(dir, "data"), Log: func(level, text string) { h.logged = append(h.logged, level+" "+text) },
		Blob: func(d events.Digest) ([]byte, error) {
			if text, ok := h.blobs[d]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		},
		Kinds: func() map[events.AssetType]string { return h.kinds },
	})
	h.fold(events.EngineStarted{Incarnation: eventstest.ID[events.Incarnation](0), Version: "test"})
	return h
}

func (h *house) close() { h.ok(h.store.Close()) }

func (h *house) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) fold(all ...events.Event) {
	h.t.Helper()
	for _, e := range all {
		h.drafts = append(h.drafts, eventstest.Draft(len(h.drafts)+1, "", e))
	}
	h.ok(rebuild.Fold(h.t.Context(), projectionstest.NewBook(h.t, h.drafts), events.Codec{}, h.store, rebuild.Options{}))
}

// propose puts a version of alice's on record, if it is not.
func (h *house) propose(name, content string) *version {
	h.t.Helper()
	if v := h.assets[name+"\n"+content]; v != nil {
		return v
	}
	v := &version{eventstest.ID[events.AssetID](1000 + len(h.assets)), name, content, events.AssetStateBlocked}
	h.assets[name+"\n"+content] = v
	digest := events.DigestOf([]byte(content))
	h.blobs[digest] = content
	h.fold(events.AssetRegistered{
		Asset: v.id, Type: kind, Owner: "alice", Name: name, Version: digest, Tier: events.Privileged, State: v.state, Commit: "c", Document: "d",
	})
	return v
}

func (h *house) approve(v *version) {
	h.t.Helper()
	if v.state == events.AssetStateApproved {
		return
	}
	yes := events.AssetApproved{Asset: v.id, Version: events.DigestOf([]byte(v.content)), Shown: eventstest.Digest(1)}
	for _, other := range h.assets {
		if other.name == v.name && other.state == events.AssetStateApproved {
			yes.Replaces, other.state = other.id, events.AssetStateReplaced
		}
	}
	v.state = events.AssetStateApproved
	h.fold(yes)
}

func (h *house) refuse(v *version) {
	h.t.Helper()
	if v.state != events.AssetStateRefused {
		v.state = events.AssetStateRefused
		h.fold(events.AssetRefused{Asset: v.id})
	}
}

func (h *house) look() Status {
	h.t.Helper()
	h.in.look(h.t.Context(), h.kinds)
	return h.in.Status()[0]
}

// files is what is in the folder: the content of files, and what else there is by its type.
func (h *house) files() map[string]string {
	h.t.Helper()
	all := map[string]string{}
	h.ok(filepath.WalkDir(h.folder, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(h.folder, path)
		switch {
		case err != nil || name == ".":
		case d.Type().IsRegular():
			text, readErr := os.ReadFile(path)
			all[filepath.ToSlash(name)], err = string(text), readErr
		case d.IsDir():
			entries, readErr := os.ReadDir(path)
			if err = readErr; len(entries) == 0 {
				all[filepath.ToSlash(name)] = "an empty folder"
			}
		default:
			all[filepath.ToSlash(name)] = d.Type().String()
		}
		return err
	}))
	return all
}

func (h *house) same(want map[string]string) {
	h.t.Helper()
	if got := h.files(); !maps.Equal(got, want) {
		h.t.Errorf("the folder holds %q, want %q", got, want)
	}
}

func (h *house) path(name string) string { return filepath.Join(h.folder, filepath.FromSlash(name)) }

// O-G05 and O-G07: what is there is what was approved, whatever is proposed besides.
func TestOnlyWhatIsApproved(t *testing.T) {
	h := newHouse(t, t.TempDir())
	defer h.close()
	one := h.propose("tidy.md", "one")
	h.look()
	h.same(nil) // O-G05 CVE-2025-54135: not before it is approved
	h.approve(one)
	if s := h.look(); s.Installed != 1 || s.Problem != "" {
		t.Errorf("%+v", s)
	}
	h.same(map[string]string{"alice/tidy.md": "one"})
	two := h.propose("tidy.md", "two")
	h.look()
	h.same(map[string]string{"alice/tidy.md": "one"}) // O-G07 fletch#564: not the newest
	h.approve(two)
	h.look()
	h.same(map[string]string{"alice/tidy.md": "two"})
	h.approve(one) // a rollback is a refusal and this
	h.refuse(two)
	h.look()
	h.same(map[string]string{"alice/tidy.md": "one"})
	h.approve(h.propose("a/b/c.yaml", "deep"))
	h.look()
	h.same(map[string]string{"alice/tidy.md": "one", "alice/a/b/c.yaml": "deep"})
	h.refuse(one)
	h.refuse(h.propose("a/b/c.yaml", "deep"))
	h.look()
	h.same(nil) // no empty folders either
	info, err := os.Stat(h.folder)
	h.ok(err)
	if !info.IsDir() {
		t.Error("the folder itself is gone")
	}
}

func TestModes(t *testing.T) {
	h := newHouse(t, t.TempDir())
	defer h.close()
	h.approve(h.propose("run", "#!/bin/sh\n"))
	h.look()
	info, err := os.Lstat(h.path("alice/run"))
	h.ok(err)
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 != 0 {
		t.Errorf("O-G06 fletch#564: its mode is %s", info.Mode())
	}
}

// What somebody does in the folder is undone where it is about what is on record, and
// nothing is written or removed through a link.
func TestByHand(t *testing.T) {
	for _, row := range []struct {
		name    string
		by      func(h *house, outside string)
		want    map[string]string
		problem string
		foreign []string
	}{
		{"O-G07 CowAgent#3231: changed", func(h *house, _ string) {
			h.ok(os.WriteFile(h.path("alice/tidy.md"), []byte("two"), 0o644))
		}, map[string]string{"alice/tidy.md": "one"}, "", nil},
		{"longer", func(h *house, _ string) {
			h.ok(os.WriteFile(h.path("alice/tidy.md"), []byte("one and more"), 0o644))
		}, map[string]string{"alice/tidy.md": "one"}, "", nil},
		{"removed", func(h *house, _ string) { h.ok(os.RemoveAll(h.path("alice"))) }, map[string]string{"alice/tidy.md": "one"}, "", nil},
		{"a link to elsewhere", func(h *house, outside string) {
			h.ok(os.Remove(h.path("alice/tidy.md")))
			h.ok(os.Symlink(outside, h.path("alice/tidy.md")))
		}, map[string]string{"alice/tidy.md": "one"}, "", nil},
		{"a link to the same bytes", func(h *house, _ string) {
			h.ok(os.Rename(h.path("alice/tidy.md"), h.path("other")))
			h.ok(os.Symlink("../other", h.path("alice/tidy.md")))
		}, map[string]string{"alice/tidy.md": "one", "other": "one"}, "", []string{"other"}},
		{"a link above it", func(h *house, outside string) {
			h.ok(os.RemoveAll(h.path("alice")))
			h.ok(os.Symlink(filepath.Dir(outside), h.path("alice")))
		}, map[string]string{"alice/tidy.md": "one"}, "", nil},
		{"a pipe", func(h *house, _ string) {
			h.ok(os.Remove(h.path("alice/tidy.md")))
			h.ok(syscall.Mkfifo(h.path("alice/tidy.md"), 0o644))
		}, map[string]string{"alice/tidy.md": "one"}, "", nil},
		{"an empty folder", func(h *house, _ string) {
			h.ok(os.Remove(h.path("alice/tidy.md")))
			h.ok(os.Mkdir(h.path("alice/tidy.md"), 0o755))
		}, map[string]string{"alice/tidy.md": "one"}, "", nil},
		{"a folder with something in it", func(h *house, _ string) {
			h.ok(os.Remove(h.path("alice/tidy.md")))
			h.ok(os.Mkdir(h.path("alice/tidy.md"), 0o755))
			h.ok(os.WriteFile(h.path("alice/tidy.md/x"), []byte("x"), 0o644))
		}, map[string]string{"alice/tidy.md/x": "x"}, "a folder is in the way", []string{"alice/tidy.md/x"}},
		{"a file above it", func(h *house, _ string) {
			h.ok(os.RemoveAll(h.path("alice")))
			h.ok(os.WriteFile(h.path("alice"), []byte("x"), 0o644))
		}, map[string]string{"alice": "x"}, "a file is where a folder is needed", []string{"alice"}},
		{"O-G05 CVE-2025-54135: a refused version is put there", func(h *house, _ string) {
			h.refuse(h.propose("bad.md", "bad"))
			h.ok(os.WriteFile(h.path("alice/bad.md"), []byte("bad"), 0o644))
		}, map[string]string{"alice/tidy.md": "one"}, "", nil},
		{"something that is on no record", func(h *house, _ string) {
			h.ok(os.Mkdir(h.path("bob"), 0o755))
			h.ok(os.WriteFile(h.path("bob/mine.md"), []byte("x"), 0o644))
		}, map[string]string{"alice/tidy.md": "one", "bob/mine.md": "x"}, "", []string{"bob/mine.md"}},
		{"what a killed look left", func(h *house, _ string) {
			h.ok(os.WriteFile(h.path(temp), []byte("half"), 0o644))
		}, map[string]string{"alice/tidy.md": "one"}, "", nil},
		{"the blob is gone", func(h *house, _ string) { clear(h.blobs) }, nil, "cannot be read as it was approved", nil},
		{"the blob is another", func(h *house, _ string) { h.blobs[events.DigestOf([]byte("one"))] = "two" }, nil, "another digest", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			h := newHouse(t, dir)
			defer h.close()
			outside := filepath.Join(dir, "outside", "tidy.md")
			h.ok(os.Mkdir(filepath.Dir(outside), 0o755))
			h.ok(os.WriteFile(outside, []byte("outside"), 0o644))
			h.approve(h.propose("tidy.md", "one"))
			h.look()
			row.by(h, outside)
			s := h.look()
			h.same(row.want)
			if (s.Problem == "") != (row.problem == "") || !strings.Contains(s.Problem, row.problem) || !slices.Equal(s.Foreign, row.foreign) || s.Strangers != len(row.foreign) {
				t.Errorf("%+v, want problem %q, foreign %q", s, row.problem, row.foreign)
			}
			if text, err := os.ReadFile(outside); string(text) != "outside" {
				t.Errorf("what is outside is %q, %v", text, err)
			}
			for _, line := range append(h.logged, s.Problem) {
				if strings.Contains(line, "one") && row.problem == "" {
					t.Errorf("a content is told: %q", line)
				}
			}
		})
	}
}

// A folder that is not there, is inside the data folder, or around it, is a problem; it is
// logged once, and so is its end.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	h := newHouse(t, dir)
	defer h.close()
	h.approve(h.propose("tidy.md", "one"))
	for _, row := range []struct{ folder, problem string }{
		{filepath.Join(dir, "none"), "there is no folder"},
		{filepath.Join(dir, "none"), "there is no folder"},
		{filepath.Join(dir, "data"), "are not apart"},
		{dir, "are not apart"},
		{h.folder, ""},
		{h.folder, ""},
	} {
		h.kinds[kind] = row.folder
		if s := h.look(); (s.Problem == "") != (row.problem == "") || !strings.Contains(s.Problem, row.problem) {
			t.Errorf("%s: %+v, want %q", row.folder, s, row.problem)
		}
	}
	inside := filepath.Join(dir, "link")
	h.ok(os.Mkdir(filepath.Join(dir, "data", "Workspace"), 0o755))
	h.ok(os.Symlink(filepath.Join(dir, "data", "Workspace"), inside))
	h.kinds[kind] = inside
	if s := h.look(); !strings.Contains(s.Problem, "are not apart") {
		t.Errorf("a link into the data folder: %+v", s)
	}
	if len(h.logged) != 5 || strings.Count(strings.Join(h.logged, "\n"), "warn") != 4 {
		t.Errorf("logged is %q", h.logged)
	}
	h.kinds = nil
	h.in.look(t.Context(), h.kinds)
	if len(h.in.Status()) != 0 {
		t.Errorf("a kind that is gone: %+v", h.in.Status())
	}
	h.same(map[string]string{"alice/tidy.md": "one"})
}

// Whatever happened before, a look leaves exactly what is approved, beside what is on no
// record.
func TestLaw(t *testing.T) {
	names := []string{"a", "b.md", "c/d", "c/e/f"}
	looks := 0
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "law")
		if err != nil {
			rt.Fatal(err)
		}
		h := newHouse(t, dir)
		defer h.close()
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			name := rapid.SampledFrom(names).Draw(rt, "name")
			content := rapid.SampledFrom([]string{"1", "2", "33"}).Draw(rt, "content")
			path := h.path("alice/" + name)
			switch rapid.IntRange(0, 8).Draw(rt, "what") {
			case 0, 1:
				h.approve(h.propose(name, content))
			case 2:
				h.refuse(h.propose(name, content))
			case 3:
				h.propose(name, content)
			case 4:
				h.look()
			case 5: // by hand, as far as that goes
				_ = os.MkdirAll(filepath.Dir(path), 0o755)
				_ = os.WriteFile(path, []byte(content), 0o644)
			case 6:
				_ = os.RemoveAll(path)
			case 7:
				_ = os.MkdirAll(filepath.Dir(path), 0o755)
				_ = os.Remove(path)
				_ = os.Symlink(filepath.Join(dir, "data"), path)
			case 8: // a look is ended on the way
				h.ok(os.WriteFile(h.path(temp), []byte(content), 0o644))
			}
		}
		s := h.look()
		looks++
		want, recorded := map[string]string{}, map[string]bool{}
		for _, v := range h.assets {
			recorded["alice/"+v.name] = true
			if v.state == events.AssetStateApproved {
				want["alice/"+v.name] = v.content
			}
		}
		got := h.files()
		for name, content := range got {
			if recorded[name] && want[name] != content {
				rt.Fatalf("%s is there with %q, approved is %q", name, content, want[name])
			}
		}
		for name := range want {
			if _, there := got[name]; !there && s.Problem == "" {
				rt.Fatalf("%s is not there, and nothing is wrong", name)
			}
		}
		if s.Problem == "" && s.Installed != len(want) {
			rt.Fatalf("%+v, approved are %q", s, want)
		}
	})
	if looks == 0 {
		t.Error("nothing was looked at")
	}
}

// It looks at once, when it is woken, when the catalog has another folder, and every
// minute, and ends with its context.
func TestRun(t *testing.T) {
	h := newHouse(t, t.TempDir())
	defer h.close()
	h.approve(h.propose("tidy.md", "one"))
	var kinds atomic.Pointer[map[events.AssetType]string]
	kinds.Store(&h.kinds)
	h.in.cfg.Kinds = func() map[events.AssetType]string { return *kinds.Load() }
	ctx, stop := context.WithCancel(t.Context())
	tick, done := make(chan time.Time), make(chan struct{})
	go func() { h.in.run(ctx, tick); close(done) }()
	now := time.Unix(1_000_000, 0)
	ticks := func(n int) { // the last of which is handled after those before
		for range n {
			now = now.Add(askEvery)
			tick <- now
		}
	}
	one := map[string]string{"alice/tidy.md": "one"}
	ticks(3) // of which the first is a minute after no time at all
	h.same(one)
	h.ok(os.Remove(h.path("alice/tidy.md")))
	ticks(50)
	h.same(map[string]string{"alice": "an empty folder"})
	ticks(12)
	h.same(one)
	h.ok(os.Remove(h.path("alice/tidy.md")))
	h.in.Wake()
	h.in.Wake()
	ticks(2)
	h.same(one)
	kinds.Store(&map[events.AssetType]string{})
	ticks(2)
	if len(h.in.Status()) != 0 {
		t.Errorf("%+v", h.in.Status())
	}
	stop()
	<-done
}

var errOther = errors.New("other")

func TestFirst(t *testing.T) {
	if err := first(nil, []error{nil, nil}); err != nil {
		t.Error(err)
	}
	if err := first(nil, []error{nil, errOther}); !errors.Is(err, errOther) || err.Error() != errOther.Error() {
		t.Error(err)
	}
	if err := first(errOther, []error{errOther, nil, fs.ErrExist}); !errors.Is(err, errOther) || err.Error() != fmt.Sprintf("%s, and 2 more problems", errOther) {
		t.Error(err)
	}
}
