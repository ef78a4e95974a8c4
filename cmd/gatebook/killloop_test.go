package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/integrity"
	"gatebook/infra/pebblekv"
	"gatebook/projections/rebuild"
)

// load is one agent that asks without end, under keys, and remembers every
// answer. It asks again under the same key until it has one.
type load struct {
	h       *house
	agent   events.AgentID
	round   roundFile
	answers map[string]engine.CallAnswer
	files   map[string]string // what was asked to be written, by key
}

// run asks until stop is closed.
func (l *load) run(ctx context.Context, calls *atomic.Int64) {
	var c *client
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	for n := 0; ctx.Err() == nil; {
		if c == nil {
			if c, _ = l.h.app.agent(l.agent); c == nil {
				pause(ctx, 5*time.Millisecond) // no engine now
				continue
			}
		}
		a, err := l.ask(ctx, c, n)
		if err != nil {
			c.close()
			c = nil
			continue
		}
		if a.Call == "" {
			pause(ctx, time.Millisecond) // refused: nothing was done
			continue
		}
		l.answers[key(n)] = a
		calls.Add(1)
		n++
	}
}

func key(n int) string { return "k" + strconv.Itoa(n) }

// ask writes a file of its own for each key; every fourth call waits instead, so
// that a kill finds calls that run.
func (l *load) ask(ctx context.Context, c *client, n int) (engine.CallAnswer, error) {
	if n%4 == 3 {
		return c.call(ctx, l.round, key(n), "demo.wait", `{"ms":`+strconv.Itoa(n%13)+`}`)
	}
	name := key(n) + ".txt"
	l.files[key(n)] = name
	return c.call(ctx, l.round, key(n), "file.write", fmt.Sprintf(`{"path":%q,"content":%q}`, name, "by "+key(n)))
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// TestKillLoop kills the engine's process at random moments under the load of 20
// agents. After all starts: no acknowledged event is missing, every call has
// exactly one end, no tool ran twice, the views equal a rebuild, and the tree
// verifies. GATEBOOK_KILLS asks for more than the usual 10 kills.
func TestKillLoop(t *testing.T) {
	t.Parallel() // with the tests of full disks, which mostly wait
	kills := 10
	if s := os.Getenv("GATEBOOK_KILLS"); s != "" {
		var err error
		kills, err = strconv.Atoi(s)
		check(t, err)
	}
	seed := randomSeed(t)
	t.Logf("seed %d (GATEBOOK_SEED repeats it)", seed)
	random := mathrand.New(mathrand.NewPCG(seed, 0))
	var ids []events.AgentID
	for i := range 20 {
		ids = append(ids, events.AgentID(fmt.Sprintf("agent-%d", i)))
	}
	h := newHouse(t, t.TempDir(), nil, ids...)
	p := h.start()
	var loads []*load
	for _, id := range ids {
		loads = append(loads, &load{h, id, h.begin(id), map[string]engine.CallAnswer{}, map[string]string{}})
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var calls atomic.Int64
	for _, l := range loads {
		all.Go(func() { l.run(ctx, &calls) })
	}
	for range kills {
		before := calls.Load()
		waitFor(t, "20 more answers", func() bool { return calls.Load() >= before+20 || p.gone() })
		pause(ctx, time.Duration(random.IntN(200_000))*time.Microsecond)
		p.kill()
		p = h.start()
	}
	before := calls.Load()
	waitFor(t, "answers after the last kill", func() bool { return calls.Load() >= before+20 })
	stop()
	all.Wait()
	p.stop()
	t.Logf("%d calls answered over %d kills", calls.Load(), kills)
	account(t, h, loads)
}

func randomSeed(t *testing.T) uint64 {
	t.Helper()
	if s := os.Getenv("GATEBOOK_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		check(t, err)
		return seed
	}
	var raw [8]byte
	_, err := rand.Read(raw[:])
	check(t, err)
	return binary.BigEndian.Uint64(raw[:])
}

// lives is the account of every call in a book.
type lives struct {
	decided map[events.CallID]events.CallDecided
	by      map[events.CallID]events.AgentID
	ends    map[events.CallID][]events.Status
	seqs    map[events.CallID][]events.Seq
	keys    map[string][]events.CallID // "<agent> <key>"
}

func livesIn(all []events.Recorded) lives {
	v := lives{
		map[events.CallID]events.CallDecided{}, map[events.CallID]events.AgentID{}, map[events.CallID][]events.Status{},
		map[events.CallID][]events.Seq{}, map[string][]events.CallID{},
	}
	for _, e := range all {
		switch f := e.Event.(type) {
		case events.CallDecided:
			v.decided[f.Call], v.by[f.Call] = f, e.Agent
			v.seqs[f.Call] = append(v.seqs[f.Call], e.Seq)
			if f.Key != "" {
				v.keys[string(e.Agent)+" "+f.Key] = append(v.keys[string(e.Agent)+" "+f.Key], f.Call)
			}
			if status, final := f.Verdict.Final(); final {
				v.ends[f.Call] = append(v.ends[f.Call], status)
			}
		case events.CallCompleted:
			v.ends[f.Call] = append(v.ends[f.Call], f.Status)
			v.seqs[f.Call] = append(v.seqs[f.Call], e.Seq)
		}
	}
	return v
}

// account compares answers, book, files and views, on a folder without engine.
func account(t *testing.T, h *house, loads []*load) {
	t.Helper()
	n := h.node(true)
	defer func() { check(t, n.close()) }()
	book := livesIn(facts(t, n.stores.book()))
	for id, ends := range book.ends {
		if len(ends) != 1 {
			t.Errorf("call %s has the ends %v", id, ends)
		}
	}
	unknown := 0
	for id := range book.decided {
		if len(book.ends[id]) != 1 {
			t.Errorf("call %s has the ends %v", id, book.ends[id])
		} else if book.ends[id][0] == events.StatusUnknown {
			unknown++
		}
	}
	t.Logf("%d calls in the book, %d of them ended as unknown", len(book.decided), unknown)
	for _, l := range loads {
		l.compare(t, book)
	}
	sameAsRebuilt(t, n)
}

// compare holds what an agent heard against the book and its files.
func (l *load) compare(t *testing.T, book lives) {
	t.Helper()
	for k, a := range l.answers {
		calls := book.keys[string(l.agent)+" "+k]
		if len(calls) != 1 || calls[0] != a.Call || book.by[a.Call] != l.agent {
			t.Errorf("%s %s: answered as call %s, the book has %v", l.agent, k, a.Call, calls)
			continue
		}
		if ends := book.ends[a.Call]; a.State != engine.StateFinal || len(ends) != 1 || ends[0] != a.Status {
			t.Errorf("%s %s: answered %q (%s), the book has %v", l.agent, k, a.Status, a.State, ends)
		}
		if seqs := book.seqs[a.Call]; seqs[len(seqs)-1] != a.Seq {
			t.Errorf("%s %s: answered event %d, the book has %v", l.agent, k, a.Seq, seqs)
		}
		if a.Status != events.StatusOK && a.Status != events.StatusUnknown {
			t.Errorf("%s %s: %s %s: %s", l.agent, k, a.Status, a.Rule, a.Reason)
		}
	}
	for name, calls := range book.keys {
		if len(calls) != 1 {
			t.Errorf("%s: the book has %d calls under this key", name, len(calls))
		}
	}
	l.compareFiles(t, book)
}

// compareFiles: what was answered with ok is there, and nothing was written
// twice: that would have left its first version in the trash.
func (l *load) compareFiles(t *testing.T, book lives) {
	t.Helper()
	folder := filepath.Join(l.h.dir.Path(), "agents", string(l.agent), "Workspace")
	for k, name := range l.files {
		text, err := os.ReadFile(filepath.Join(folder, name))
		calls := book.keys[string(l.agent)+" "+k]
		switch {
		case len(calls) == 0 && !errors.Is(err, fs.ErrNotExist):
			t.Errorf("%s: %s is there without a decision (%v)", l.agent, name, err)
		case l.answers[k].Status == events.StatusOK && string(text) != "by "+k:
			t.Errorf("%s: %s holds %q after the answer ok (%v)", l.agent, name, text, err)
		}
	}
	// What replaces a file describes the former version; a kill in the middle of
	// a first write leaves content without a description.
	twice, err := filepath.Glob(filepath.Join(folder, ".trash", "*", "meta.json"))
	check(t, err)
	if len(twice) > 0 {
		t.Errorf("%s: written twice: %v", l.agent, twice)
	}
}

// sameAsRebuilt folds the book anew beside the views and compares every byte,
// and the tree with every leaf.
func sameAsRebuilt(t *testing.T, n *node) {
	t.Helper()
	fresh, err := pebblekv.Open(filepath.Join(t.TempDir(), "fresh"), pebblekv.Options{})
	check(t, err)
	defer func() { check(t, fresh.Close()) }()
	check(t, fold(t.Context(), n.stores.book(), fresh, n.cfg.progress))
	live, rebuilt := n.stores.views.Snapshot(), fresh.Snapshot()
	defer func() { check(t, errors.Join(live.Close(), rebuilt.Close())) }()
	a, rows, err := rebuild.Fingerprint(live)
	check(t, err)
	b, others, err := rebuild.Fingerprint(rebuilt)
	check(t, err)
	if a != b || rows != others {
		t.Errorf("the views (%d rows) are not a rebuild (%d rows)", rows, others)
	}
	check(t, integrity.Check(t.Context(), n.stores.book(), live, n.stores.headNow(), true, func(events.Seq, events.Seq) {}))
	check(t, integrity.CheckRoot(live, n.stores.headNow()))
}
