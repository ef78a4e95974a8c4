package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/policy/paths"
	"gatebook/policy/trash"
)

// empty is one run of the job for alice, at a time when all is older than it may be.
func (p *place) empty() (trashed []trash.Entry, purged Purged, err error) {
	all, err := p.ws.Weigh(context.Background(), "alice")
	if err != nil {
		return nil, Purged{}, err
	}
	chosen, _ := trash.Choose(trash.Bounds{}, events.InstantOf(time.Now().Add(time.Hour)), all)
	purged, err = p.ws.Purge(context.Background(), "alice", chosen)
	return chosen, purged, err
}

// inTrash are the names in the trash.
func (p *place) inTrash() []string {
	p.t.Helper()
	found, err := os.ReadDir(p.dir + "/" + trashName)
	p.must(err)
	names := []string{}
	for _, e := range found {
		names = append(names, e.Name())
	}
	return names
}

func (p *place) deleteTree() events.CallID {
	p.t.Helper()
	p.put(p.dir+"/d/one.txt", "12345")
	p.put(p.dir+"/d/deep/two.txt", "678")
	stamp := p.stamp()
	_, err := do(p, func(ws *Workspace) (Deleted, error) { return ws.Delete(stamp, p.path("d")) })
	p.must(err)
	return stamp.Call
}

// TestT03LinksAreNotFollowed: links go, and what they point to stays.
func TestT03LinksAreNotFollowed(t *testing.T) {
	id := string(fmtID(900))
	for name, row := range map[string]struct {
		make  func(p *place)
		stays []string
		rule  string
	}{
		"O-T03 golang/go#52745 a link as an entry": {make: func(p *place) { p.must(os.Symlink(p.out, p.dir+"/.trash/old")) }},
		"O-T03 cherrytree#2920 a link in an entry": {make: func(p *place) { p.put(p.dir+"/.trash/d/x", ""); p.must(os.Symlink(p.out, p.dir+"/.trash/d/sub")) }},
		"O-T03 (var.) a link named as an entry":    {make: func(p *place) { p.must(os.Symlink(p.out, p.dir+"/.trash/"+id)) }},
		"O-T03 (var.) a link as content": {make: func(p *place) {
			p.put(p.dir+"/.trash/"+id+"/x", "")
			p.must(os.Symlink(p.out, p.dir+"/.trash/"+id+"/content"))
		}},
		"O-T03 (var.) a link in content": {make: func(p *place) {
			p.put(p.dir+"/.trash/"+id+"/content/x", "")
			p.must(os.Symlink(p.out, p.dir+"/.trash/"+id+"/content/sub"))
		}},
		"O-T03 (var.) a link as what a kill left": {make: func(p *place) { p.must(os.Symlink(p.out, p.dir+"/.trash/"+id+goneSuffix)) }},
		"O-T03 (var.) a second name of a file":    {make: func(p *place) { p.must(os.Link(p.out+"/secret.txt", p.dir+"/.trash/"+id)) }},
		"O-T03 lean4#14476 .trash itself a link":  {make: func(p *place) { p.must(os.Remove(p.dir + "/.trash")); p.must(os.Symlink(p.out, p.dir+"/.trash")) }, rule: "link"},
		"O-T03 (var.) .trash a link to the trash of another": {make: func(p *place) {
			p.must(os.Rename(p.dir+"/.trash", p.host+"/t"))
			p.must(os.Symlink(p.host+"/t", p.dir+"/.trash"))
		}, rule: "link"},
		"O-T03 (var.) .trash a file":                          {make: func(p *place) { p.must(os.Remove(p.dir + "/.trash")); p.put(p.dir+"/.trash", "") }, rule: "none"},
		"O-T03 (var.) the workspace a link to another folder": {make: func(p *place) { p.must(os.RemoveAll(p.dir)); p.must(os.Symlink(p.out, p.dir)) }, rule: "link"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.must(os.Mkdir(p.dir+"/.trash", 0o700))
			row.make(p)
			_, _, err := p.empty()
			p.secretUnchanged()
			switch {
			case row.rule == "" && (err != nil || len(p.inTrash()) > 0):
				t.Errorf("%v, in the trash %q", err, p.inTrash())
			case row.rule == "link" && !refusedAs(err, "link"), row.rule == "none" && err == nil:
				t.Errorf("%v", err)
			}
			if err != nil && (strings.Contains(err.Error(), p.host) || strings.Contains(err.Error(), canary)) {
				t.Errorf("the error shows the host: %v", err)
			}
		})
	}
}

// TestPurgeSwap: a link that takes the place of a folder in the middle is not entered.
func TestPurgeSwap(t *testing.T) {
	for _, step := range []string{"condemned", "entering", "erasing", "erased"} {
		for _, where := range []string{"", "/content", "/content/deep"} {
			p := newPlace(t)
			id := string(p.deleteTree())
			p.put(p.out+"/one.txt", "of somebody")
			at := p.dir + "/.trash/" + id + goneSuffix + where
			done := false
			p.ws.step = func(name string) {
				if _, err := os.Lstat(at); name == step && !done && err == nil {
					done = true
					p.must(os.Rename(at, p.dir+"/aside"))
					p.must(os.Symlink(p.out, at))
				}
			}
			_, _, err := p.empty()
			p.ws.step = nil
			if _, _, again := p.empty(); again != nil || len(p.inTrash()) > 0 {
				t.Errorf("%s, swap of %q: %v, then %v, in the trash %q", step, where, err, again, p.inTrash())
			}
			if !done {
				t.Errorf("%s, swap of %q: never", step, where)
			}
			if raw, err := os.ReadFile(p.out + "/one.txt"); string(raw) != "of somebody" {
				t.Errorf("%s, swap of %q: OUT holds %q %v", step, where, raw, err)
			}
		}
	}
}

// TestPurgeKilled: wherever it is killed, an entry is whole and can be restored, or no
// tool shows it; the next run finishes, and nothing else changes.
func TestPurgeKilled(t *testing.T) {
	ctx := context.Background()
	steps := 0
	for was := true; was; steps++ {
		p := newPlace(t)
		id := p.deleteTree()
		before := p.inPlace()
		was = p.killRun(steps, func() error {
			_, _, err := p.empty()
			return err
		})
		page, err := do(p, func(ws *Workspace) (TrashPage, error) { return ws.Trash(ctx, "") })
		p.must(err)
		_, err = do(p, func(ws *Workspace) (Restored, error) { return ws.Restore(context.Background(), id, nil, anywhere) })
		switch {
		case len(page.Entries) == 1:
			p.must(err)
			one, _ := os.ReadFile(p.dir + "/d/one.txt")
			two, _ := os.ReadFile(p.dir + "/d/deep/two.txt")
			if string(one)+string(two) != "12345678" {
				t.Errorf("killed at step %d: an entry that is shown holds %q %q", steps, one, two)
			}
			p.must(os.RemoveAll(p.dir + "/d"))
		case !errors.Is(err, fs.ErrNotExist):
			t.Errorf("killed at step %d: not shown, restored: %v", steps, err)
		}
		// What had begun goes whatever the bounds are.
		all, err := p.ws.Weigh(ctx, "alice")
		p.must(err)
		chosen, _ := trash.Choose(trash.Bounds{Age: 1 << 60, Size: 1 << 60}, 1<<55, all)
		_, err = p.ws.Purge(ctx, "alice", chosen)
		if left := p.inTrash(); err != nil || len(left) > 0 {
			t.Errorf("killed at step %d: the next run leaves %q, %v", steps, left, err)
		}
		if got := p.inPlace(); got != before {
			t.Errorf("killed at step %d: in place is\n%s", steps, got)
		}
		p.secretUnchanged()
	}
	if steps < 12 {
		t.Errorf("only %d steps", steps)
	}
}

// TestWeigh: the time is that of the call, whatever the description says; a rest of a
// kill is an entry, and nothing is made where nothing is.
func TestWeigh(t *testing.T) {
	p := newPlace(t)
	if all, err := p.ws.Weigh(context.Background(), "nobody"); err != nil || len(all) > 0 {
		t.Errorf("%v %v", all, err)
	}
	if _, err := os.Lstat(p.host + "/agents/nobody"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder was made: %v", err)
	}
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	p.put(p.dir+"/.trash/"+id+"/content", "12345")
	p.put(p.dir+"/.trash/"+id+"/meta.json", `{"path":"x","deleted":"2099-01-01T00:00:00.000000Z"}`)
	p.put(p.dir+"/.trash/"+string(fmtID(1))+"/part/half", "123")
	p.put(p.dir+"/.trash/"+string(fmtID(2))+goneSuffix+"/content", "1")
	p.put(p.dir+"/.trash/somebody's", "12")
	p.must(os.Chtimes(p.dir+"/.trash/somebody's", time.Unix(1, 0), time.Unix(1, 0)))
	all, err := p.ws.Weigh(context.Background(), "alice")
	p.must(err)
	got := map[string]trash.Entry{}
	for _, e := range all {
		got[e.Name] = e
	}
	if e := got[id]; e.Time != events.Instant(1469922850259000) || e.Bytes < 5 || e.Call != id || e.Begun {
		t.Errorf("%+v", e)
	}
	if e := got[string(fmtID(1))]; e.Bytes != 3 || e.Call != fmtID(1) {
		t.Errorf("%+v", e)
	}
	if e := got[string(fmtID(2))+goneSuffix]; !e.Begun || e.Call != fmtID(2) {
		t.Errorf("%+v", e)
	}
	if e := got["somebody's"]; e.Call != "" || time.Since(e.Time.Time()) > time.Hour {
		t.Errorf("set back by whoever put it there: %+v", e)
	}
	if len(all) != 4 {
		t.Errorf("%+v", all)
	}
}

// TestPurgeTakesOnlyWhatWasDecided: what was restored meanwhile stays, and one entry
// that cannot be removed does not keep the others.
func TestPurgeTakesOnlyWhatWasDecided(t *testing.T) {
	ctx := context.Background()
	p := newPlace(t)
	restored, gone := p.deleteTree(), p.deleteTree()
	p.put(p.dir+"/.trash/"+string(gone)+goneSuffix+"/left", "of a run before")
	p.put(p.dir+"/.trash/stuck/x", "")
	p.ws.step = func(step string) { // somebody else goes on writing there
		if _, err := os.Lstat(p.dir + "/.trash/stuck/x"); step == "erasing" && err != nil {
			p.put(p.dir+"/.trash/stuck/y", "")
		}
	}
	all, err := p.ws.Weigh(ctx, "alice")
	p.must(err)
	_, err = do(p, func(ws *Workspace) (Restored, error) {
		return ws.Restore(context.Background(), restored, nil, anywhere)
	})
	p.must(err)
	later := p.deleteTree()
	got, err := p.ws.Purge(ctx, "alice", all)
	if err == nil || !strings.Contains(err.Error(), "stuck") || got.Entries < 1 {
		t.Errorf("%+v %v", got, err)
	}
	if left := p.inTrash(); !slices.Equal(left, []string{string(later), "stuck"}) {
		t.Errorf("in the trash %q", left)
	}
	done, stop := context.WithCancel(ctx)
	stop()
	if got, err := p.ws.Purge(done, "alice", all); !errors.Is(err, context.Canceled) || got.Entries > 0 {
		t.Errorf("%+v %v", got, err)
	}
}

// TestPurgeOfWhatIsTooDeep: what somebody else made deeper than any call can goes too,
// also where a kill ends that in the middle, and nothing of it stays behind.
func TestPurgeOfWhatIsTooDeep(t *testing.T) {
	for _, name := range []string{string(fmtID(3)), "somebody's", strings.Repeat("x", 255)} {
		for n, lifts, killed := 1, 0, true; killed; n++ {
			p := newPlace(t)
			at := p.dir + "/.trash/" + name + "/content" + strings.Repeat("/d", MaxDepth)
			p.must(os.MkdirAll(at, 0o700))
			p.must(os.MkdirAll(p.dir+"/.trash/"+"1"+goneSuffix, 0o700)) // a name that is taken
			root, err := os.OpenRoot(at)
			p.must(err)
			p.must(root.MkdirAll(strings.Repeat("d/", 2*MaxDepth), 0o700))
			p.must(root.WriteFile("file", []byte("12345"), 0o600))
			root.Close()
			killed = false
			p.ws.step = func(step string) {
				if step != "lifted" {
					return
				}
				if lifts++; lifts == n {
					killed = true
					panic("killed")
				}
			}
			func() {
				defer func() {
					if r := recover(); r != nil && r != "killed" {
						panic(r)
					}
				}()
				if _, got, err := p.empty(); err != nil || got.Bytes != 5 {
					t.Errorf("%.20s: %+v %v", name, got, err)
				}
			}()
			if !killed && lifts != 3 {
				t.Errorf("%.20s: %d lifts", name, lifts)
			}
			lifts, p.ws.step = 0, nil
			chosen, _, err := p.empty()
			for _, e := range chosen {
				if e.Begun != strings.HasPrefix(e.Name, string(fmtID(3))) {
					t.Errorf("after a kill at lift %d: %+v", n, e)
				}
			}
			if err != nil || len(p.inTrash()) > 0 {
				t.Errorf("%.20s, after a kill at lift %d: %v, in the trash %.60q", name, n, err, p.inTrash())
			}
		}
	}
}

// TestFurnish: what is missing is made as a whole or not at all, and nothing that is
// there is touched, whatever it is.
func TestFurnish(t *testing.T) {
	p := newPlace(t)
	folder := filepath.Dir(p.dir)
	p.must(os.Symlink(p.out+"/new.txt", folder+"/"+paths.Soul))
	p.must(os.Mkdir(folder+"/"+paths.Settings, 0o700))
	p.must(p.ws.Furnish(context.Background(), "alice", "worker", "test"))
	p.secretUnchanged()
	if to, err := os.Readlink(folder + "/" + paths.Soul); to != p.out+"/new.txt" {
		t.Errorf("%s %v", to, err)
	}
	if raw, err := os.ReadFile(folder + "/" + paths.Identity); !strings.Contains(string(raw), "role: worker") {
		t.Errorf("%q %v", raw, err)
	}
	for steps, was := 0, true; was; steps++ {
		p := newPlace(t)
		folder := p.host + "/agents/bob"
		was = p.killRun(steps, func() error { return p.ws.Furnish(context.Background(), "bob", "worker", "test") })
		for _, name := range []string{paths.Identity, paths.Soul, paths.Settings} {
			if raw, err := os.ReadFile(folder + "/" + name); err == nil && !strings.HasSuffix(string(raw), "\n") {
				t.Errorf("killed at step %d: %s is %q", steps, name, raw)
			}
		}
		p.must(p.ws.Furnish(context.Background(), "bob", "worker", "test"))
		found, err := os.ReadDir(folder)
		if p.must(err); len(found) != 4 {
			t.Errorf("killed at step %d: %v", steps, found)
		}
	}
	p = newPlace(t)
	p.must(os.Symlink(p.out, p.host+"/agents/bob"))
	if err := p.ws.Furnish(context.Background(), "bob", "worker", "test"); !refusedAs(err, "link") {
		t.Errorf("through a link: %v", err)
	}
	p.secretUnchanged()
}
