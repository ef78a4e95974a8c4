package upstream

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/tools"
	"gatebook/policy"
	"gatebook/policy/outlet"
	"gatebook/policy/upstream"
	"gatebook/projections"
)

// How long things may take.
const (
	lookEvery = time.Second
	startTime = 30 * time.Second
	firstWait = time.Second
	longWait  = time.Minute
	listTime  = time.Second // between two lists of tools, however often a server says that they changed
	steady    = time.Minute // who ran so long is started again at once
)

// maxFailure bounds what a status says of a failure, in bytes.
const maxFailure = 1 << 10

// Server is one that runs. Safe for concurrent use.
type Server interface {
	// Tools are all that it offers; left names those that cannot be taken.
	Tools(context.Context) (all []Tool, left []string, err error)
	// Call runs a tool. An error that wraps [ErrGone] says that the server ended.
	Call(ctx context.Context, name string, args jsontext.Value) (Result, error)
	// Done is closed when it has ended.
	Done() <-chan struct{}
	Close()
}

// Tool is one tool as its server defines it.
type Tool struct {
	tools.Definition
	Hints upstream.Hints
}

// Result is what a call gave; Failed says that the tool itself says so, with Text.
type Result struct {
	Raw    jsontext.Value
	Failed bool
	Text   string
}

// Launch says how to start a server.
type Launch struct {
	Command []string
	Env     map[string]string
	Changed func() // to be called when its tools have changed; it does not block
}

// Config is what a manager needs. All is required.
type Config struct {
	Loop interface {
		Submit(context.Context, engine.Command) error
		Catalog() *policy.Compiled
	}
	Store interface{ Snapshot() projections.Snapshot }
	// Offer takes the tools of an owner in the place of those before.
	Offer  func(owner string, all ...tools.Tool) error
	Start  func(context.Context, Launch) (Server, error)
	Secret func(outlet.Source) (string, error)
	Log    func(level, text string)
}

// Status is how it stands with one server.
type Status struct {
	Server string `json:"server"`
	// State is that of its version on record, or running.
	State string         `json:"state"`
	Asset events.AssetID `json:"asset,omitzero"`
	Tools int            `json:"tools"`
	// Trusted says that what it says of its tools counts, ReadOnly that it was started for
	// phase 1.
	Trusted  bool `json:"trusted,omitzero"`
	ReadOnly bool `json:"read_only,omitzero"`
	// Left are tools that are not offered, and why.
	Left []string `json:"left,omitzero"`
	// Failure is why it did not start, or ended last.
	Failure string `json:"failure,omitzero"`
}

// Manager runs servers. Safe for concurrent use.
type Manager struct {
	cfg  Config
	wake chan struct{}

	mu      sync.Mutex
	waiting map[string]Status // those that may not run
	running map[string]*runner
}

// New gives a manager; nothing runs yet.
func New(cfg Config) *Manager {
	return &Manager{cfg: cfg, wake: make(chan struct{}, 1), running: map[string]*runner{}}
}

// Wake lets the manager look soon. It does not block.
func (m *Manager) Wake() {
	select {
	case m.wake <- struct{}{}:
	default: // it will look already
	}
}

// Status is how it stands with each server of the catalog, in order.
func (m *Manager) Status() (out []Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.waiting {
		out = append(out, s)
	}
	for _, r := range m.running {
		out = append(out, r.status())
	}
	slices.SortFunc(out, func(a, b Status) int { return cmpText(a.Server, b.Server) })
	return out
}

// Run keeps the servers running that should, until ctx ends; then it ends them all.
func (m *Manager) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		m.look(ctx)
		select {
		case <-tick.C:
		case <-m.wake:
		case <-ctx.Done():
		}
	}
	m.keep(map[string]spec{})
}

// spec is everything that says how a server runs.
type spec struct {
	version events.Digest
	asset   events.AssetID
	phase   int
	server  upstream.Server
}

func (s spec) same(t spec) bool {
	return s.version == t.version && s.phase == t.phase && s.server.Trusted == t.server.Trusted
}

// look compares what should run with what does.
func (m *Manager) look(ctx context.Context) {
	c := m.cfg.Loop.Catalog()
	snap := m.cfg.Store.Snapshot()
	defer snap.Close()
	state, err := projections.LoadState(snap)
	if err != nil {
		return // what runs goes on; the store's trouble is told as such
	}
	phase := min(c.PhaseInForce(state.Phase), 2)
	want, waiting := map[string]spec{}, map[string]Status{}
	for id, s := range c.Servers() {
		launch := s.Launch()
		version := events.DigestOf(launch)
		row, met, err := projections.AssetByVersion(snap, events.AssetServer, events.OwnerBuiltin, id, version)
		switch {
		case err != nil:
			return
		case !met:
			_ = m.cfg.Loop.Submit(ctx, &engine.MeetServer{ID: id, Launch: launch})
			waiting[id] = Status{Server: id, State: "new"}
		case row.State != events.AssetStateApproved:
			waiting[id] = Status{Server: id, State: string(row.State), Asset: row.Asset}
		default:
			want[id] = spec{version, row.Asset, phase, s}
		}
	}
	m.keep(want)
	m.mu.Lock()
	m.waiting = waiting
	m.mu.Unlock()
}

// keep ends what should not run, or otherwise, and starts what does not.
func (m *Manager) keep(want map[string]spec) {
	m.mu.Lock()
	var ends []*runner
	for id, r := range m.running {
		if s, wanted := want[id]; !wanted || !r.spec.same(s) {
			ends = append(ends, r)
			delete(m.running, id)
		}
	}
	m.mu.Unlock()
	for _, r := range ends {
		r.stop()
	}
	for _, r := range ends {
		<-r.ended
		m.withdraw(r.id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if m.running[id] == nil {
			m.running[id] = m.start(id, want[id])
		}
	}
}

func (m *Manager) withdraw(id string) {
	if err := m.cfg.Offer(id); err != nil {
		m.cfg.Log("warn", fmt.Sprintf("server %s: its tools stay offered: %v", id, err))
	}
}
