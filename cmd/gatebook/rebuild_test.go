package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/handlers/people"
)

// viewFolders are the names below views/.
func viewFolders(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "views"))
	check(t, err)
	var names []string
	for _, e := range entries {
		if e.Name() != "CURRENT" {
			names = append(names, e.Name())
		}
	}
	return names
}

// The views of a running engine are built anew under load. No call is refused
// or lost, who reads and who follows sees each once, and the views are those of a
// rebuild afterwards.
func TestRebuildUnderLoad(t *testing.T) {
	h := newFolder(t)
	e := startEngine(t, h)
	var agents []*agentAtWork
	for i := range 3 {
		g := connectAgent(t, h, events.AgentID(fmt.Sprintf("agent-%d", i)))
		g.beginRound(h, "be loaded")
		agents = append(agents, g)
	}
	follow, stopFollow := context.WithCancel(t.Context())
	defer stopFollow()
	lines, followed := new(printed), make(chan int, 1)
	go func() {
		followed <- h.app(lines, new(printed)).Run(follow, []string{"--dir", h.dir, "audit", "--follow", "--json", "--limit=1000"})
	}()
	loaded, stopLoad := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var made atomic.Int64
	for _, g := range agents {
		for range 4 {
			all.Go(func() {
				for loaded.Err() == nil {
					if a, err := g.call("no.such", "{}", ""); err != nil || a.Status != events.StatusNotFound {
						t.Errorf("call: %+v, %v", a, err)
						return
					}
					made.Add(1)
				}
			})
		}
	}
	waitFor(t, "calls", func() bool { return made.Load() > 500 })
	was := h.views()
	for range 3 {
		before := made.Load()
		r := decodeAs[rebuilt](t, h.must("rebuild", "--json"))
		if !r.Equal || !r.Compared || r.Events == 0 || r.Kept != "" || filepath.Base(h.views()) != r.Views || h.views() == was || exists(was) {
			t.Errorf("%+v", r)
		}
		was = h.views()
		waitFor(t, "calls after it", func() bool { return made.Load() > before+100 })
		if got := audited(t, h, "--limit", "200"); len(got.Calls) != 200 || got.AsOf < r.Events {
			t.Errorf("%d calls as of %d, after a rebuild of %d events", len(got.Calls), got.AsOf, r.Events)
		}
	}
	if out := h.must("rebuild"); !strings.Contains(out, "were equal and are deleted") {
		t.Error(out)
	}
	stopLoad()
	all.Wait()
	last := audited(t, h, "--limit", "1").Calls[0]
	lines.wait(t, fmt.Sprintf(`"seq":%d,`, last.Seq))
	stopFollow()
	if code := <-followed; code != exitYes {
		t.Errorf("follow ended with exit code %d", code)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(lines.String()) {
		c := string(decodeAs[people.Entry](t, line).Call)
		if seen[c] {
			t.Errorf("call %s was printed twice", c)
		}
		seen[c] = true
	}
	if int64(len(seen)) != made.Load() {
		t.Errorf("%d calls were followed, %d were answered", len(seen), made.Load())
	}
	stopped(t, e)
	if names := viewFolders(t, h.dir); len(names) != 1 {
		t.Errorf("the views hold %q", names)
	}
	if r := decodeAs[rebuilt](t, h.must("rebuild", "--json")); !r.Equal {
		t.Errorf("with no engine running: %+v", r)
	}
}

// While somebody reads from the old views they stay, and a second rebuild is refused.
func TestRebuildWaitsForReaders(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	n := h.open()
	alice, r := h.agent("alice"), h.begin("alice")
	alice.mustCall(t, r, "demo.none", `{}`)
	was, err := viewsFolder(h.dir)
	check(t, err)
	reading := n.stores.live.Snapshot()
	rebuild := func() (int, string) {
		app, errs := *h.app, new(printed)
		app.Err = errs
		code := app.Run(t.Context(), []string{"--dir", h.dir.Path(), "--keys", h.app.flags.keys, "--as", "anna", "rebuild"})
		return code, errs.String()
	}
	first := make(chan int, 1)
	go func() {
		code, _ := rebuild()
		first <- code
	}()
	waitFor(t, "the exchange", func() bool {
		now, err := viewsFolder(h.dir)
		return err == nil && now != was
	})
	alice.mustCall(t, r, "demo.none", `{}`)
	if code, errs := rebuild(); code != exitNo || !strings.Contains(errs, "conflict: the views are being rebuilt already") {
		t.Errorf("a second one: exit code %d, %s", code, errs)
	}
	if value, err := reading.Get([]byte{0}); err != nil || !exists(was) {
		t.Errorf("the old views: %x, %v", value, err)
	}
	check(t, reading.Close())
	if code := <-first; code != exitYes || exists(was) {
		t.Errorf("exit code %d, the old views are there: %t", code, exists(was))
	}
	if code, errs := rebuild(); code != exitYes {
		t.Errorf("another one: exit code %d, %s", code, errs)
	}
}

// Views that are not what the book says are found by the running engine, and kept.
func TestRebuildOfChangedViews(t *testing.T) {
	h := newFolder(t)
	e := startEngine(t, h)
	alice := connectAgent(t, h, "alice")
	alice.beginRound(h, "make calls")
	alice.calls(50)
	stopped(t, e)
	h.changeRow()
	e = startEngine(t, h)
	was := h.views()
	code, out, errs := h.run("rebuild", "--json")
	r := decodeAs[rebuilt](t, out)
	if code != exitDamage || r.Equal || !r.Compared || r.Kept != was || !exists(was) || h.views() == was || !strings.Contains(errs, "kept in "+was) {
		t.Errorf("exit code %d, %+v, %s", code, r, errs)
	}
	alice = reconnectAgent(t, h, "alice")
	alice.beginRound(h, "make more")
	alice.calls(20)
	if got := audited(t, h); len(got.Calls) == 0 {
		t.Error("nothing can be read")
	}
	if r := decodeAs[rebuilt](t, h.must("rebuild", "--json")); !r.Equal {
		t.Errorf("again: %+v", r)
	}
	stopped(t, e)
	stopped(t, startEngine(t, h))
	if !exists(was) {
		t.Error("the changed views are gone")
	}
	if n := h.alerts("views_rebuilt"); n != 1 {
		t.Errorf("%d alerts", n)
	}
}

// A kill in the middle leaves the old views in use or the new ones, whole, and
// nothing else once an engine has started.
func TestKillDuringRebuild(t *testing.T) {
	seed := randomSeed(t)
	t.Logf("seed %d (GATEBOOK_SEED repeats it)", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	h := newHouse(t, t.TempDir(), nil, "alice")
	p := h.start()
	alice, r := h.agent("alice"), h.begin("alice")
	for range 300 {
		alice.mustCall(t, r, "demo.none", `{}`)
	}
	switched, told := 0, 0
	for range 8 {
		was, err := viewsFolder(h.dir)
		check(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			app := *h.app
			said := new(printed)
			app.Err = said
			code := app.Run(t.Context(), []string{"--dir", h.dir.Path(), "--keys", h.app.flags.keys, "--as", "anna", "rebuild"})
			if text := said.String(); code == exitUnreachable && strings.Contains(text, "it ended while it rebuilt the views") && !strings.Contains(text, "in use by") {
				told++
			}
		}()
		pause(t.Context(), time.Duration(random.IntN(400_000))*time.Microsecond)
		p.kill()
		<-ended
		now, err := viewsFolder(h.dir)
		check(t, err)
		if now != was {
			switched++
		}
		p = h.start()
		if names := viewFolders(t, h.dir.Path()); len(names) != 1 || names[0] != filepath.Base(now) {
			t.Errorf("in use is %s, the views hold %q", filepath.Base(now), names)
		}
		h.agent("alice").mustCall(t, r, "demo.none", `{}`)
	}
	t.Logf("%d of 8 kills came after the exchange; %d times the command said that the engine ended", switched, told)
	p.stop()
	n := h.node(true)
	check(t, n.close())
	app, out := *h.app, new(printed)
	app.Out = out
	if code := app.Run(t.Context(), []string{"--dir", h.dir.Path(), "--json", "rebuild"}); code != exitYes || !decodeAs[rebuilt](t, out.String()).Equal {
		t.Errorf("exit code %d, %s", code, out)
	}
}
