package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/redact"
	"gatebook/handlers/replay"
	"gatebook/handlers/tools/workspace"
	"gatebook/policy/paths"
	"gatebook/projections"
)

func (h *house) folderOf(id events.AgentID) string {
	h.t.Helper()
	at, err := paths.FolderOf(id)
	check(h.t, err)
	return filepath.Join(h.dir.Path(), at.String())
}

// TestTrashIsEmptied: the job takes the oldest of a trash over its size, says so in the
// book before and after, tells what is wrong with the folder of one agent and goes on
// with the others, and leaves what is younger to be restored.
func TestTrashIsEmptied(t *testing.T) {
	small := func(catalog string) string {
		return strings.Replace(catalog, "trash_size: 1073741824", "trash_size: 100", 1)
	}
	h := newHouse(t, t.TempDir(), small, "alice", "bob")
	n := h.open()
	r, alice := h.begin("alice"), h.agent("alice")
	do := func(tool, args string) engine.CallAnswer {
		t.Helper()
		a, err := alice.call(t.Context(), r, "", tool, args)
		check(t, err)
		if a.Status != events.StatusOK {
			t.Fatalf("%s: %+v", tool, a)
		}
		return a
	}
	ids := map[string]events.CallID{}
	for _, name := range []string{"old", "young"} {
		do("file.write", `{"path":"`+name+`","content":"12345678"}`)
		ids[name] = do("file.delete", `{"path":"`+name+`"}`).Call
	}
	out := filepath.Join(t.TempDir(), "OUT")
	check(t, os.Mkdir(out, 0o700))
	check(t, os.WriteFile(filepath.Join(out, "secret.txt"), []byte("secret"), 0o600))
	check(t, os.MkdirAll(h.folderOf("bob"), 0o700))
	check(t, os.Symlink(out, filepath.Join(h.folderOf("bob"), ".trash")))

	n.emptyTrash(t.Context())
	waitFor(t, "the end is in the book", func() bool { found, _ := all[events.TrashEmptied](t, n); return len(found) >= 2 })
	decided, of := all[events.TrashDecided](t, n)
	want := events.TrashDecided{Entries: 1, Bytes: decided[0].Bytes, BySize: 1, First: ids["old"], Last: ids["old"], Age: 2_592_000_000_000, Size: 100}
	if len(decided) != 1 || decided[0] != want || of[0] != "alice" || want.Bytes < 8 {
		t.Errorf("decided %+v of %s, want %+v", decided, of, want)
	}
	var cause events.EventID
	for _, e := range facts(t, n.stores.book()) {
		switch f := e.Event.(type) {
		case events.TrashDecided:
			cause = e.ID
		case events.TrashEmptied:
			if e.Agent == "alice" && (e.Cause != cause || cause == "" || f.Entries != 1 || f.Bytes != want.Bytes || f.Error != "") {
				t.Errorf("emptied %+v, cause %s of %s", f, e.Cause, cause)
			}
			if e.Agent == "bob" && (f.Entries != 0 || !strings.Contains(f.Error, "link") || strings.Contains(f.Error, out)) {
				t.Errorf("O-T03 lean4#14476 of bob %+v", f)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(out, "secret.txt")); err != nil {
		t.Error(err)
	}
	if a := do("file.trash", `{}`); strings.Contains(string(a.Result), string(ids["old"])) || !strings.Contains(string(a.Result), string(ids["young"])) {
		t.Errorf("the trash shows %s", a.Result)
	}
	do("file.restore", `{"id":"`+string(ids["young"])+`"}`)
	if text, err := os.ReadFile(filepath.Join(h.folderOf("alice"), "young")); string(text) != "12345678" {
		t.Errorf("restored %q %v", text, err)
	}
	var story strings.Builder
	tell := replay.NewTeller()
	for _, e := range facts(t, n.stores.book()) {
		story.WriteString(tell.Tell(e).Text + "\n")
	}
	for _, part := range []string{"1 entry of its trash goes for good", "because the trash held more than 100 bytes", "is gone for good"} {
		if !strings.Contains(story.String(), part) {
			t.Errorf("the story lacks %q:\n%s", part, &story)
		}
	}
}

// TestTrashErrorIsMasked: what somebody put into a trash may be called like a secret, and
// what is wrong with it goes into the book.
func TestTrashErrorIsMasked(t *testing.T) {
	const secret = "ghp_A1b2C3d4A1b2C3d4A1b2C3d4A1b2C3d4A1b2"
	end := emptied(workspace.Purged{Entries: 1, Bytes: 2}, fmt.Errorf(".trash/%s: cannot be used", secret), redact.New())
	if end.Entries != 1 || end.Bytes != 2 || !strings.Contains(end.Error, "cannot be used") || strings.Contains(end.Error, secret) {
		t.Errorf("%+v", end)
	}
}

// TestTrashNeedsARecord: where the loop does not decide, what is due stays.
func TestTrashNeedsARecord(t *testing.T) {
	small := func(catalog string) string {
		return strings.Replace(catalog, "trash_size: 1073741824", "trash_size: 1", 1)
	}
	h := newHouse(t, t.TempDir(), small, "alice")
	n, stop := h.openUntil()
	r, alice := h.begin("alice"), h.agent("alice")
	for _, call := range [][2]string{{"file.write", `{"path":"a","content":"aa"}`}, {"file.delete", `{"path":"a"}`}} {
		_, err := alice.call(t.Context(), r, "", call[0], call[1])
		check(t, err)
	}
	stop()
	if n.emptyTrashOf(t.Context(), "alice") {
		t.Error("there is more to do")
	}
	if left, err := os.ReadDir(filepath.Join(h.folderOf("alice"), ".trash")); len(left) != 1 {
		t.Errorf("the trash holds %v %v", left, err)
	}
}

// TestCleanersBesideRebuilds: what looks for agents and at the clock does so while
// views are exchanged.
func TestCleanersBesideRebuilds(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice", "bob")
	n := h.open()
	ctx, stop := context.WithCancel(t.Context())
	looked := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			_, held := n.clockHeld()
			err = errors.Join(held, n.eachAgent(t.Context(), func(projections.AgentRow) {}))
		}
		looked <- err
	}()
	for range 3 {
		app, errs := *h.app, new(printed)
		app.Err = errs
		if code := app.Run(t.Context(), []string{"--dir", h.dir.Path(), "--keys", h.app.flags.keys, "--as", "anna", "rebuild"}); code != exitYes {
			t.Errorf("exit code %d, %s", code, errs)
		}
	}
	stop()
	check(t, <-looked)
}

// TestHeldClockEmptiesNothing: with a clock that jumped, how old an entry is, is not
// known, and nothing goes by size either; the loop says so even where nobody has
// recorded the jump yet.
func TestHeldClockEmptiesNothing(t *testing.T) {
	small := func(catalog string) string {
		return strings.Replace(catalog, "trash_size: 1073741824", "trash_size: 1", 1)
	}
	h := newHouse(t, t.TempDir(), small, "alice")
	n := h.open()
	r, alice := h.begin("alice"), h.agent("alice")
	for _, call := range [][2]string{{"file.write", `{"path":"a","content":"a"}`}, {"file.delete", `{"path":"a"}`}} {
		_, err := alice.call(t.Context(), r, "", call[0], call[1])
		check(t, err)
	}
	h.clock.wall.Store(int64(40 * 24 * time.Hour))
	n.emptyTrash(t.Context())
	n.emptyTrash(t.Context())
	if found, _ := all[events.TrashDecided](t, n); len(found) > 0 {
		t.Errorf("decided %+v", found)
	}
	if left, err := os.ReadDir(filepath.Join(h.folderOf("alice"), ".trash")); len(left) != 1 {
		t.Errorf("the trash holds %v %v", left, err)
	}
}

// TestFoldersAreFurnished: an agent that is enrolled has its files, and what stands in
// them stays.
func TestFoldersAreFurnished(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	folder := filepath.Dir(h.folderOf("alice"))
	check(t, os.MkdirAll(folder, 0o700))
	check(t, os.WriteFile(filepath.Join(folder, paths.Soul), []byte("mine"), 0o600))
	h.open()
	waitFor(t, "the files are there", func() bool {
		for _, name := range []string{paths.Identity, paths.Settings} {
			info, err := os.Stat(filepath.Join(folder, name))
			if err != nil || info.Mode().Perm() != 0o600 {
				return false
			}
		}
		return true
	})
	identity, err := os.ReadFile(filepath.Join(folder, paths.Identity))
	check(t, err)
	soul, err := os.ReadFile(filepath.Join(folder, paths.Soul))
	check(t, err)
	if string(soul) != "mine" || !strings.Contains(string(identity), "id: alice\nrole: worker\n") {
		t.Errorf("%q %q", soul, identity)
	}
}
