package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
	"gatebook/handlers/tools"
	"gatebook/infra/pebblekv"
	"gatebook/policy"
	"gatebook/policy/outlet"
	"gatebook/policy/upstream"
	"gatebook/projections/projectionstest"
	"gatebook/projections/rebuild"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a manager over views that the test writes, a registry, and servers that are
// processes in name only: what a real one does, infra/mcpclient proves.
type house struct {
	t        *testing.T
	store    *pebblekv.Store
	drafts   []events.Draft
	assets   map[events.Digest]events.AssetID
	approved events.AssetID
	catalog  *policy.Compiled
	registry *tools.Registry
	m        *Manager

	mu      sync.Mutex
	started []Launch
	servers []*fake
	refuse  error // of the next starts
	offers  func() []Tool
	logged  []string
}

func newHouse(t *testing.T, servers map[string]upstream.Server) *house {
	t.Helper()
	h := &house{t: t, assets: map[events.Digest]events.AssetID{}, offers: func() []Tool { return []Tool{named("look")} }}
	var err error
	h.store, err = pebblekv.Open("views", pebblekv.Options{FS: vfs.NewMem()})
	h.ok(err)
	h.registry, err = tools.NewRegistry()
	h.ok(err)
	h.declare(2, servers)
	h.m = New(Config{
		Loop: h, Store: h.store, Offer: h.registry.Offer, Start: h.start,
		Secret: func(s outlet.Source) (string, error) {
			if s.Env == "GONE" {
				return "", errors.New("the variable GONE is empty")
			}
			return "canary", nil
		},
		Log: func(level, text string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.logged = append(h.logged, level+" "+text)
		},
	})
	h.fold(events.EngineStarted{Incarnation: eventstest.ID[events.Incarnation](0), Version: "test"})
	t.Cleanup(func() {
		h.m.keep(nil)
		h.ok(h.store.Close())
	})
	return h
}

func (h *house) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) declare(phase int, servers map[string]upstream.Server) {
	h.t.Helper()
	c, err := policy.Compile(policy.Catalog{Schema: 1, Phase: phase, Servers: servers})
	h.ok(err)
	h.catalog = c
}

func (h *house) fold(e events.Event) {
	h.t.Helper()
	h.drafts = append(h.drafts, eventstest.Draft(len(h.drafts)+1, "", e))
	h.ok(rebuild.Fold(h.t.Context(), projectionstest.NewBook(h.t, h.drafts), events.Codec{}, h.store, rebuild.Options{}))
}

func (h *house) Catalog() *policy.Compiled { return h.catalog }

// Submit puts a server on record, as the engine does.
func (h *house) Submit(_ context.Context, cmd engine.Command) error {
	m := cmd.(*engine.MeetServer)
	version := events.DigestOf(m.Launch)
	h.assets[version] = eventstest.ID[events.AssetID](100 + len(h.assets))
	h.fold(events.AssetRegistered{
		Asset: h.assets[version], Type: events.AssetServer, Owner: events.OwnerBuiltin, Name: m.ID, Version: version,
		Tier: events.Privileged, State: events.AssetStateBlocked,
	})
	return nil
}

func (h *house) approve(s upstream.Server) {
	h.t.Helper()
	version := events.DigestOf(s.Launch())
	h.fold(events.AssetApproved{Asset: h.assets[version], Version: version, Shown: eventstest.Digest(1), Replaces: h.approved})
	h.approved = h.assets[version]
}

func (h *house) start(_ context.Context, l Launch) (Server, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = append(h.started, l)
	if h.refuse != nil {
		return nil, h.refuse
	}
	s := &fake{h: h, done: make(chan struct{})}
	h.servers = append(h.servers, s)
	return s, nil
}

func (h *house) starts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.started)
}

func (h *house) last() (*fake, Launch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.servers[len(h.servers)-1], h.started[len(h.started)-1]
}

// look looks and gives the state of the only server.
func (h *house) look() Status {
	h.t.Helper()
	h.m.look(h.t.Context())
	all := h.m.Status()
	if len(all) != 1 {
		h.t.Fatalf("%+v", all)
	}
	return all[0]
}

// until waits for what a runner does by itself.
func (h *house) until(what string, is func() bool) {
	h.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !is(); <-tick.C {
		if time.Now().After(end) {
			h.t.Fatalf("it does not come that %s: %+v", what, h.m.Status())
		}
	}
}

func (h *house) offered(names ...string) {
	h.t.Helper()
	h.until(fmt.Sprintf("%q are offered", names), func() bool { return slices.Equal(h.registry.Names(), names) })
}

// fake is a server in name only.
type fake struct {
	h    *house
	done chan struct{}
	once sync.Once
	err  error // of its calls
}

func (f *fake) Tools(context.Context) ([]Tool, []string, error) {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	return f.h.offers(), nil, nil
}

func (f *fake) Call(_ context.Context, name string, args jsontext.Value) (Result, error) {
	return Result{Raw: args, Failed: name == "fail", Text: "it fails"}, f.err
}

func (f *fake) Done() <-chan struct{} { return f.done }

func (f *fake) Close() { f.once.Do(func() { close(f.done) }) }

func (f *fake) isClosed() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

func named(name string) Tool {
	return Tool{Definition: tools.Definition{Name: name, Schema: jsontext.Value(`{"type":"object"}`)}}
}

func plain() upstream.Server { return upstream.Server{Command: []string{"/bin/files"}} }

// Nothing is started before a person approved exactly that.
func TestOnlyWhatIsApproved(t *testing.T) {
	one := plain()
	h := newHouse(t, map[string]upstream.Server{"files": one})
	if s := h.look(); s.State != "new" {
		t.Errorf("%+v", s)
	}
	if s := h.look(); s.State != "blocked" || s.Asset == "" || h.starts() != 0 {
		t.Errorf("%+v, started %d times", s, h.starts())
	}
	h.approve(one)
	h.look()
	h.offered("files/look")
	first, _ := h.last()

	two := plain() // O-A15 CVE-2025-54136: another argument under the same name
	two.Command = append(two.Command, "--root", "/")
	h.declare(2, map[string]upstream.Server{"files": two})
	h.look()
	h.offered()
	if s := h.look(); s.State != "blocked" || h.starts() != 1 || !first.isClosed() {
		t.Errorf("%+v, started %d times", s, h.starts())
	}
	h.approve(two)
	h.look()
	h.offered("files/look")
	if _, l := h.last(); len(l.Command) != 3 {
		t.Errorf("started is %+v", l)
	}
	h.declare(2, map[string]upstream.Server{"files": one}) // and back, between two looks
	h.approve(one)
	h.look()
	h.until("it runs as before", func() bool { _, l := h.last(); return len(l.Command) == 1 })
	h.declare(2, map[string]upstream.Server{"files": two})
	h.approve(two)
	h.look()
	h.until("it runs as then", func() bool { return h.starts() == 4 })
	h.offered("files/look")
	second, _ := h.last()
	h.fold(events.AssetRefused{Asset: h.assets[events.DigestOf(two.Launch())]})
	if s := h.look(); s.State != "refused" || !second.isClosed() {
		t.Errorf("%+v", s)
	}
	h.offered()
	h.declare(2, nil)
	h.m.look(t.Context())
	if all := h.m.Status(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// A change of the phase starts it anew, with what the catalog gives it for that.
func TestPhases(t *testing.T) {
	s := plain()
	s.Env, s.ReadOnlyEnv = map[string]string{"A": "1"}, map[string]string{"A": "2", "READ_ONLY": "1"}
	s.Secrets = map[string]outlet.Source{"TOKEN": {Env: "T"}}
	h := newHouse(t, map[string]upstream.Server{"files": s})
	h.look()
	h.approve(s)
	h.look()
	h.offered("files/look")
	if _, l := h.last(); fmt.Sprint(l.Env) != "map[A:1 TOKEN:canary]" {
		t.Errorf("in phase 2 it has %v", l.Env)
	}
	h.fold(events.PhaseChanged{Phase: 1})
	h.look()
	h.until("it runs again", func() bool { return h.starts() == 2 })
	if _, l := h.last(); fmt.Sprint(l.Env) != "map[A:2 READ_ONLY:1 TOKEN:canary]" {
		t.Errorf("in phase 1 it has %v", l.Env)
	}
	h.offered("files/look")
	if st := h.look(); !st.ReadOnly || h.starts() != 2 {
		t.Errorf("%+v, started %d times", st, h.starts())
	}
	if s.Env["A"] != "1" {
		t.Error("the catalog was changed")
	}
}

// What a server names twice neither of both is offered; what it offers later is offered.
func TestOffers(t *testing.T) {
	s := plain()
	h := newHouse(t, map[string]upstream.Server{"files": s})
	bad := named("bad")
	bad.Schema = jsontext.Value(`{`)
	h.offers = func() []Tool { return []Tool{named("a"), named("b"), named("b"), named("c/d"), bad} }
	h.look()
	h.approve(s)
	h.look()
	h.offered("files/a", "files/c/d") // O-R17 stella#2675: never "last wins"
	h.until("it is told", func() bool { return len(h.m.Status()[0].Left) == 2 })
	if left := strings.Join(h.m.Status()[0].Left, "; "); !strings.Contains(left, `"b": it is there twice`) || !strings.Contains(left, `"bad"`) {
		t.Errorf("left out are %s", left)
	}
	h.mu.Lock()
	h.offers = func() []Tool { return []Tool{named("a"), named("new")} }
	h.mu.Unlock()
	_, l := h.last()
	for range 3 {
		l.Changed()
	}
	h.offered("files/a", "files/new") // O-R23 netclaw#1978
}

// A server that says without end that its tools changed is asked now and then.
func TestChangesWithoutEnd(t *testing.T) {
	s := plain()
	h := newHouse(t, map[string]upstream.Server{"files": s})
	var lists []time.Time
	h.offers = func() []Tool {
		lists = append(lists, time.Now())
		h.started[0].Changed()
		return []Tool{named("look")}
	}
	h.look()
	h.approve(s)
	h.look()
	h.until("it is asked thrice", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(lists) >= 3
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if took := lists[2].Sub(lists[0]); took < 2*listTime*9/10 {
		t.Errorf("it is asked thrice in %v", took)
	}
}

// A server that ends is started again; meanwhile its tools fail, and nothing is repeated.
func TestEnds(t *testing.T) {
	s := plain()
	h := newHouse(t, map[string]upstream.Server{"files": s})
	h.offers = func() []Tool { return []Tool{named("fail"), named("look")} }
	h.look()
	h.approve(s)
	h.look()
	h.offered("files/fail", "files/look")
	run := func(name string) (jsontext.Value, error) {
		t.Helper()
		entry, found := h.registry.Lookup("files/" + name)
		if !found {
			t.Fatalf("no tool %s", name)
		}
		args, err := entry.Decode(jsontext.Value(`{"a":1}`))
		h.ok(err)
		return entry.Run(t.Context(), tools.Env{}, args.Args)
	}
	if got, err := run("look"); err != nil || string(got) != `{"a":1}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := run("fail"); err == nil || err.Error() != "it fails" {
		t.Errorf("%v", err)
	}
	server, _ := h.last()
	server.err = fmt.Errorf("read: %w", ErrGone)
	if _, err := run("look"); !errors.Is(err, tools.ErrUnknown) {
		t.Errorf("%v", err)
	}
	h.mu.Lock()
	h.refuse = errors.New("no such program")
	h.mu.Unlock()
	server.Close()
	h.until("it does not run", func() bool { return h.m.Status()[0].State == "not running" && h.m.Status()[0].Failure != "" })
	if _, err := run("look"); err == nil || errors.Is(err, tools.ErrUnknown) || !strings.Contains(err.Error(), "does not run now") {
		t.Errorf("%v", err)
	}
	h.until("it is tried again", func() bool { return h.starts() >= 2 && h.m.Status()[0].Failure == "no such program" })
	h.mu.Lock()
	h.refuse = nil
	h.mu.Unlock()
	h.until("it runs again", func() bool { return h.m.Status()[0].State == "running" })
	if got, err := run("look"); err != nil || string(got) != `{"a":1}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := (&tool{}).Decode(jsontext.Value(`[]`)); err == nil {
		t.Error("a list is taken for arguments")
	}
}

// A secret that is not there, and an owner that the program has, keep a server from
// running, and say so; nothing of a secret is told.
func TestDoesNotStart(t *testing.T) {
	s := plain()
	s.Secrets = map[string]outlet.Source{"TOKEN": {Env: "GONE"}, "OTHER": {Env: "T"}}
	h := newHouse(t, map[string]upstream.Server{"files": s})
	h.look()
	h.approve(s)
	h.look()
	h.until("it fails", func() bool {
		return strings.Contains(h.m.Status()[0].Failure, "its variable TOKEN: the variable GONE is empty")
	})
	if h.starts() != 0 {
		t.Error("it was started")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.Contains(strings.Join(h.logged, "\n"), "canary") {
		t.Errorf("%q", h.logged)
	}
}

// Run ends everything with its context.
func TestRun(t *testing.T) {
	s := plain()
	h := newHouse(t, map[string]upstream.Server{"files": s})
	h.look()
	h.approve(s)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { h.m.Run(ctx); close(done) }()
	h.offered("files/look")
	stop()
	<-done
	if server, _ := h.last(); !server.isClosed() || len(h.registry.Names()) != 0 {
		t.Errorf("after its end %q are offered", h.registry.Names())
	}
}
