package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"gatebook/events"
	"gatebook/handlers/bookclock"
	"gatebook/handlers/engine"
	"gatebook/handlers/health"
	"gatebook/handlers/install"
	"gatebook/handlers/intake"
	"gatebook/handlers/integrity"
	"gatebook/handlers/people"
	"gatebook/handlers/redact"
	"gatebook/handlers/tools"
	"gatebook/handlers/tools/child"
	"gatebook/handlers/tools/file"
	"gatebook/handlers/tools/workspace"
	"gatebook/handlers/upstream"
	"gatebook/handlers/views"
	"gatebook/infra/blobs"
	"gatebook/infra/config"
	"gatebook/infra/datadir"
	"gatebook/policy"
	"gatebook/projections/rebuild"
)

// nodeConfig says how an engine runs on a data folder.
type nodeConfig struct {
	dir    *datadir.Dir
	port   int
	verify bool // compare the whole book before being ready
	// extra are tools beside the built-in ones; the catalog may grant them.
	extra []tools.Tool
	// smallDisk makes no ballast, for folders that live for minutes.
	smallDisk bool
	singles   bool // no batches; for measurements only
	drain     time.Duration
	// stop, once closed, ends a wait for space on the disk; nil for never.
	stop     <-chan struct{}
	clock    bookclock.Clock
	log      func(level, text string)
	getenv   func(string) string // nil for an empty environment
	progress func(what string, done, of events.Seq)
}

// node is an engine with everything around it.
type node struct {
	cfg      nodeConfig
	stores   *stores
	bus      *bus
	engine   *engine.Engine
	intake   *intake.Intake
	people   *people.Handler
	views    *views.Builder
	tellers  tellers
	writer   events.WriterID
	warnings warnings
	who      identities
	seen     *violations
	loader   *install.Installer
	servers  *upstream.Manager
	present  *attendance
	blobs    *blobs.Store
	folders  *workspace.Workspaces
	masks    *redact.Redactor
	guard    datadir.BookGuard // until the start has proven the stores

	mu    sync.Mutex
	scrub integrity.Position
}

// openNode takes the lock, opens and compares the stores, and folds what the
// views lack. What it returns is ready to run. An error that wraps
// integrity.ErrDamage is evidence; nothing was changed then.
func openNode(ctx context.Context, cfg nodeConfig) (_ *node, err error) {
	n, err := openBook(cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = n.close()
		}
	}()
	if n.stores, err = openStores(ctx, cfg, n.bus); err != nil {
		return nil, err
	}
	if err := n.proven(); err != nil {
		return nil, err
	}
	return n, n.assemble()
}

// proven keeps what the opening of the stores did to them: they are whole.
func (n *node) proven() error { return errors.Join(n.stores.adopt(), n.guard.Drop()) }

// openBook takes the lock and opens the bus, and with it the book's store. No key
// may connect.
func openBook(cfg nodeConfig) (*node, error) {
	n := &node{cfg: cfg, who: identities{told: make(chan struct{}), changed: make(chan struct{}, 1)}, present: newAttendance()}
	if err := cfg.dir.Lock(); err != nil {
		return nil, err
	}
	said, err := giveUpBallast(cfg.dir)
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	if said != "" {
		n.warn(said)
	}
	if n.guard, err = guardBook(cfg); err == nil {
		n.bus, err = openBus(cfg, n)
	}
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// maxGuarded is the largest store that a start copies: about a second's work. Of
// a larger one, blocks that the server cuts off are reported and not kept.
const maxGuarded = 512 << 20

// guardBook keeps the book's store as it is until it is proven. Without room for
// that the start goes on.
func guardBook(cfg nodeConfig) (datadir.BookGuard, error) {
	_, total, err := cfg.dir.Free()
	if err != nil {
		return datadir.BookGuard{}, err
	}
	g, err := cfg.dir.GuardBook(watermark(total), maxGuarded)
	if errors.Is(err, datadir.ErrNoRoom) {
		cfg.log("warn", err.Error()+": where the server finds a damaged block, it will cut it off")
		err = nil
	}
	return g, err
}

// assemble makes the handlers; nothing of them runs yet.
func (n *node) assemble() error {
	dir := n.cfg.dir
	extra := toolNames(n.cfg.extra)
	kept, err := blobs.Open(dir.Blobs(), func() events.Instant { return events.InstantOf(n.cfg.clock.Wall()) })
	if err != nil {
		return err
	}
	n.blobs, n.folders = kept, workspace.New(dir.Path())
	mac, err := macKey(dir)
	if err != nil {
		return err
	}
	if n.writer, err = newULID[events.WriterID](n.cfg.clock.Wall(), rand.Reader); err != nil {
		return err
	}
	n.stores.live = rebuild.NewLive(n.stores.views)
	n.masks = redact.New()
	n.loader = n.installer()
	var registry *tools.Registry // of which some tools need the engine
	n.engine = engine.New(engine.Config{
		Log: n.book(), Reopen: n.reopen, Store: n.stores.live, ExtraTools: extra,
		Tools: func(name string) (tools.Entry, bool) { return registry.Lookup(name) },
		Blobs: kept, Redact: n.masks, MAC: mac.MAC, Clock: n.cfg.clock, Entropy: rand.Reader,
		Writer: n.writer, Incarnation: n.stores.incarnation, Version: version(),
		Room: func() error { return room(dir) }, Publish: n.bus.announce, Identities: n.identify, Decided: n.assetDecided, Drain: n.cfg.drain, Last: n.lastNotes,
	})
	registry, err = tools.NewRegistry(registered(n.folders, n.engine, n.masks.Text, n.proposer(), n.cfg.extra)...)
	if err != nil {
		return err
	}
	n.servers = n.upstreams(registry)
	n.intake = intake.New(intake.Config{
		Loop: n.engine, Tools: registry, Blobs: kept, Redact: n.masks, MAC: mac.MAC,
		Send: n.bus.send, Now: n.cfg.clock.Wall, Workers: max(2, runtime.GOMAXPROCS(0)),
	})
	for _, w := range slices.Concat(n.stores.warnings, ownUser()) {
		n.warn(w)
	}
	if !n.cfg.smallDisk {
		if w := makeBallast(dir); w != "" {
			n.warn(w)
		}
	}
	n.views = n.builder()
	n.people = people.New(people.Config{
		Loop: n.engine, Store: n.stores.live, Book: n.stores.book, Views: n.views, Tools: registry, Blob: kept.Get, Redact: n.masks,
		CatalogFile: func() (*policy.Compiled, error) { return compileFile(dir, extra) },
		Scrub:       n.position, Send: func(subject string, v any) { n.bus.send(policy.AccountPeople, subject, v) },
		About:    people.About{Version: version(), Writer: n.writer, Incarnation: n.stores.incarnation},
		Warnings: n.warnings.all, Alerts: n.tellers.status, Installed: n.loader.Status, Servers: n.servers.Status, Bot: n.tellers.botStatus, Process: processNow,
	})
	return nil
}

// book is what the loop appends to.
func (n *node) book() events.Log {
	if n.cfg.singles {
		return oneByOne{currentBook{n.stores}}
	}
	return currentBook{n.stores}
}

// registered are all tools of an engine on the agents' folders.
func registered(folders *workspace.Workspaces, loop child.Loop, mask func(string) (string, bool), proposer tools.Tool, extra []tools.Tool) []tools.Tool {
	return slices.Concat(file.Tools(folders), child.Tools(loop, mask), []tools.Tool{proposer}, extra)
}

func toolNames(all []tools.Tool) []string {
	var names []string
	for _, t := range all {
		if key, err := tools.KeyOf(t); err == nil { // the registry refuses others
			names = append(names, key.String())
		}
	}
	return names
}

// compileFile reads the catalog file of a folder.
func compileFile(dir *datadir.Dir, extra []string) (*policy.Compiled, error) {
	c, _, err := config.Load(dir.Catalog(), extra...)
	if err != nil {
		return nil, err
	}
	return policy.Compile(c, extra...)
}

// run works until ctx ends, then drains. Ready is called once commands are
// taken. When run returns, nothing of the node runs any more.
func (n *node) run(ctx context.Context, ready func() error) error {
	ctx, stopLoop := context.WithCancel(ctx)
	defer stopLoop()
	// The intake outlives the loop's context by the drain: its workers must be
	// able to hand over what they hold, to be refused.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	loop := make(chan error, 1)
	go func() { loop <- n.engine.Run(ctx) }()
	all.Go(func() { n.intake.Run(inner) })
	all.Go(func() { n.housekeep(inner) })
	all.Go(func() { n.watchDisk(inner) })
	all.Go(func() { n.scrubAll(inner) })
	all.Go(func() { n.report(inner) })
	all.Go(func() { n.attend(inner) })
	all.Go(func() { n.cleanUp(inner, n.blobs) })
	all.Go(func() { n.furnish(inner) })
	all.Go(func() { n.tell(inner) })
	all.Go(func() { n.loader.Run(inner) })
	all.Go(func() { n.servers.Run(inner) })
	all.Go(func() { n.views.Run(ctx) })
	if err := n.begin(ctx, inner, ready); err != nil {
		stopLoop()
		return errors.Join(err, <-loop)
	}
	err := <-loop
	stop()
	all.Wait() // the head has one writer at a time
	if err == nil {
		n.keepHead()
	}
	return err
}

// lastNotes are what was counted outside of the loop until now.
func (n *node) lastNotes() []engine.Note {
	notes := n.intake.Refusals()
	for _, fact := range n.seen.take() {
		notes = append(notes, engine.Note{Fact: fact})
	}
	return notes
}

// begin takes commands, once the loop knows who may connect and what is in force.
// It waits until ctx ends, and what it starts goes on until inner ends.
func (n *node) begin(ctx, inner context.Context, ready func() error) error {
	if err := n.bus.bind(inner, n); err != nil {
		return err
	}
	select {
	case <-n.who.told:
	case <-n.engine.Done():
		return nil // Run says why
	case <-ctx.Done():
		return nil
	}
	if err := n.firstCatalog(inner); err != nil {
		return err
	}
	if n.stores.rebuilt != "" {
		_ = n.engine.Submit(inner, engine.Note{Fact: events.AlertRaised{Alert: "views_rebuilt", Reason: n.stores.rebuilt}})
	}
	return ready()
}

// reopen restarts the server below a log that does not answer, repeats the
// start-up checks, and gives the log anew.
func (n *node) reopen(ctx context.Context) (events.Log, error) {
	if err := n.bus.restart(ctx); err != nil {
		return nil, err
	}
	if err := n.stores.reopen(ctx, n.bus); err != nil {
		return nil, err
	}
	return n.book(), n.bus.bind(context.WithoutCancel(ctx), n)
}

// identify takes over who may connect, and cuts who may not any more.
func (n *node) identify(now map[events.PublicKey]policy.Identity) (cut func()) {
	gone := n.who.replace(now)
	select {
	case n.who.changed <- struct{}{}:
	default: // it is said already
	}
	return func() { n.bus.cut(gone) }
}

// identities is who may connect, for the server to ask. Safe for concurrent use.
type identities struct {
	told    chan struct{} // closed once the loop has said who
	changed chan struct{} // holds one value where that has changed since it was read

	mu  sync.Mutex
	now map[events.PublicKey]policy.Identity
}

func (i *identities) find(key events.PublicKey) (policy.Identity, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	id, ok := i.now[key]
	return id, ok
}

// replace gives the keys whose rights are gone or changed.
func (i *identities) replace(now map[events.PublicKey]policy.Identity) []events.PublicKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.now == nil {
		close(i.told)
	}
	var gone []events.PublicKey
	for key, was := range i.now {
		is, still := now[key]
		if !still || !reflect.DeepEqual(was, is) {
			gone = append(gone, key)
		}
	}
	i.now = now
	return gone
}

// housekeep makes the views durable and writes the head, every second. On a full
// disk it waits: with the views behind, the next start folds more.
func (n *node) housekeep(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if room(n.cfg.dir) == nil {
			n.keepHead()
		}
	}
}

// watchDisk looks every second whether there is room to go on.
func (n *node) watchDisk(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if err := room(n.cfg.dir); err != nil {
			n.engine.Health().Set(health.Disk, err.Error())
		} else {
			n.engine.Health().Clear(health.Disk)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (n *node) keepHead() {
	_, err := integrity.Keep(n.stores.live, n.stores.headNow().Size, func(h integrity.Head) error {
		err := n.cfg.dir.WriteHead(datadir.Head{
			Incarnation: h.Incarnation, Size: h.Size, Root: h.Root, Time: events.InstantOf(n.cfg.clock.Wall()),
		})
		if err == nil {
			n.stores.setHead(h)
		}
		return err
	})
	if err != nil {
		n.cfg.log("warn", "the head cannot be written: "+err.Error())
	}
}

func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close lets go of everything; after a half start it puts the book's store back as
// it was.
func (n *node) close() error {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	var errs []error
	if n.stores != nil {
		errs = append(errs, n.stores.close())
	}
	if n.bus != nil {
		errs = append(errs, n.bus.close(ctx))
	}
	errs = append(errs, n.guard.Restore(), n.cfg.dir.Unlock())
	return errors.Join(errs...)
}

// headOf reads the head; a folder that never had one has the zero head.
func headOf(dir *datadir.Dir) (integrity.Head, error) {
	h, err := dir.ReadHead()
	if errors.Is(err, fs.ErrNotExist) {
		return integrity.Head{}, nil
	}
	if errors.Is(err, datadir.ErrDamaged) {
		return integrity.Head{}, &integrity.Damage{Reason: err.Error()}
	}
	return integrity.Head{Incarnation: h.Incarnation, Size: h.Size, Root: tlog.Hash(h.Root)}, err
}

// warnings are what an operator should know of this run. Safe for concurrent use.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (n *node) warn(text string) {
	n.warnings.mu.Lock()
	defer n.warnings.mu.Unlock()
	n.warnings.said = append(n.warnings.said, strings.TrimSpace(text))
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}
