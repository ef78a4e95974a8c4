package engine_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
	"gatebook/handlers/redact"
	"gatebook/handlers/tools"
	"gatebook/infra/pebblekv"
	"gatebook/policy"
	"gatebook/projections"
	"gatebook/projections/rebuild"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is an engine over the memory log, views in memory, and one tool that a
// test holds in its hand.
type house struct {
	tb      testing.TB
	log     *eventstest.MemLog
	store   *pebblekv.Store
	live    *rebuild.Live // of store
	blobs   memBlobs
	probe   *probe
	clock   *handClock
	catalog *policy.Compiled
	over    events.Log // what the engine takes for log; nil for log itself
	room    func() error
	reopen  func() error
	// drainTime is how long a stop may take.
	drainTime time.Duration
	failing   atomic.Bool // commits of the views fail
	// offered is a tool that is offered from outside; nil for none.
	offered atomic.Pointer[tools.Entry]

	engine *engine.Engine
	stop   context.CancelFunc
	ended  chan error
	notes  *notes
}

const incarnation = events.Incarnation("01ARZ3NDEKTSV4RRFFQ69G5FAV")

func newHouse(tb testing.TB) *house {
	h := &house{
		tb: tb, log: eventstest.NewMemLog(incarnation), blobs: memBlobs{all: map[events.Digest][]byte{}},
		probe: &probe{runs: map[string]int{}}, clock: &handClock{wall: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)},
		catalog: catalog(tb), notes: &notes{}, drainTime: 10 * time.Second,
	}
	h.openViews()
	return h
}

// openViews begins with empty views and folds the log, as a start after a crash
// does.
func (h *house) openViews() {
	store, err := pebblekv.Open("views", pebblekv.Options{FS: vfs.NewMem()})
	must(h.tb, err)
	h.store, h.live = store, rebuild.NewLive(store)
	must(h.tb, rebuild.Fold(context.Background(), h.log, events.Codec{}, store, rebuild.Options{}))
}

// failingStore is the house's store, whose commits fail while it says so.
type failingStore struct {
	projections.Store
	failing *atomic.Bool
}

func (s failingStore) Begin() projections.Tx { return failingTx{s.Store.Begin(), s.failing} }

type failingTx struct {
	projections.Tx
	failing *atomic.Bool
}

func (t failingTx) Commit() error {
	if t.failing.Load() {
		t.Discard()
		return fmt.Errorf("%w: commit: the disk is broken", projections.ErrStore)
	}
	return t.Tx.Commit()
}

// start runs an engine and puts the catalog in force.
func (h *house) start() {
	answer := h.run()
	select {
	case <-answer:
	case err := <-h.ended:
		h.tb.Fatalf("the engine ended: %v", err)
	case <-time.After(20 * time.Second):
		h.tb.Fatal("the catalog is not in force")
	}
}

// run runs an engine and asks it to put the catalog in force.
func (h *house) run() <-chan any {
	var log events.Log = h.log
	if h.over != nil {
		log = h.over
	}
	h.engine = engine.New(engine.Config{
		Log: log, Reopen: func(ctx context.Context) (events.Log, error) {
			if h.reopen != nil {
				return nil, h.reopen()
			}
			_, err := h.log.State(ctx)
			return h.log, err
		},
		Tools: func(name string) (tools.Entry, bool) {
			if now := h.offered.Load(); now != nil && name == now.Key.String() {
				return *now, true
			}
			entry, known := h.probe.entry()
			return entry, known && name == "probe"
		},
		Store: failingStore{h.live, &h.failing}, ExtraTools: []string{"probe", "mailer/note"}, Blobs: &h.blobs, Redact: redact.New(),
		MAC: testMAC, Clock: h.clock, Entropy: rand.NewChaCha8([32]byte{1}), Writer: eventstest.ID[events.WriterID](1),
		Incarnation: incarnation, Version: "test", Drain: h.drainTime, Publish: h.notes.add,
		Room: func() error {
			if h.room != nil {
				return h.room()
			}
			return nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	h.stop, h.ended = cancel, make(chan error, 1)
	answer := make(chan any, 1)
	must(h.tb, h.engine.Submit(ctx, &engine.LoadCatalog{
		Act: engine.Act{By: anna(), Approves: true, Answer: func(v any) { answer <- v }}, Next: h.catalog,
	}))
	go func() { h.ended <- h.engine.Run(ctx) }()
	return answer
}

// drain stops the engine as SIGTERM does.
func (h *house) drain() {
	h.stop()
	must(h.tb, <-h.ended)
}

// crash loses the views and everything in memory; the log stays. The engine of
// before is stopped without a drain's courtesy: what it still appends is cut off.
func (h *house) crash() {
	h.log.SetDown(true)
	h.stop()
	<-h.ended
	h.probe.letGo()
	h.log.SetDown(false)
	must(h.tb, h.store.Close())
	h.openViews()
}

// close checks what must hold at the end of every test: one end per call, and
// live views equal to a rebuild.
func (h *house) close() {
	h.probe.letGo()
	h.drain()
	h.checkBook()
	live, n := fingerprint(h.tb, h.store)
	must(h.tb, h.store.Close())
	h.openViews()
	again, m := fingerprint(h.tb, h.store)
	must(h.tb, h.store.Close())
	if live != again || n != m {
		h.tb.Errorf("live views (%d rows, %s) differ from a rebuild (%d rows, %s)", n, live, m, again)
	}
}

func fingerprint(tb testing.TB, s *pebblekv.Store) (events.Digest, int64) {
	snap := s.Snapshot()
	defer snap.Close()
	d, n, err := rebuild.Fingerprint(snap)
	must(tb, err)
	return d, n
}

// book reads every event.
func (h *house) book() []events.Recorded {
	var all []events.Recorded
	for r, err := range h.log.Read(context.Background(), 1) {
		must(h.tb, err)
		rec, err := events.Decode(r)
		must(h.tb, err)
		all = append(all, rec)
	}
	return all
}

// checkBook is invariant 2 over the whole log: one end for each call but those that
// wait for a person, which have none and were not released.
func (h *house) checkBook() {
	verdict, ends, waits := map[events.CallID]events.Verdict{}, map[events.CallID]int{}, map[events.CallID]int{}
	for _, r := range h.book() {
		switch e := r.Event.(type) {
		case events.CallDecided:
			verdict[e.Call] = e.Verdict
			if _, final := e.Verdict.Final(); final {
				ends[e.Call]++
			}
		case events.CallCompleted:
			ends[e.Call]++
		case events.ReviewRequested:
			waits[e.Call] = 1
		case events.ReviewApproved:
			delete(waits, e.Call)
		case events.ReviewRefused:
			delete(waits, e.Call)
		case events.ReviewExpired:
			delete(waits, e.Call)
		case events.ReviewCancelled:
			delete(waits, e.Call)
		}
	}
	for call, v := range verdict {
		if ends[call]+waits[call] != 1 {
			h.tb.Errorf("call %s (%s) has %d ends", call, v, ends[call])
		}
	}
	if len(ends)+len(waits) != len(verdict) {
		h.tb.Errorf("%d calls decided, %d ended, %d wait", len(verdict), len(ends), len(waits))
	}
}

// ask submits and waits for the one answer.
func (h *house) ask(make func(engine.Answer) engine.Command) any {
	answer := h.send(make)
	select {
	case v := <-answer:
		return v
	case err := <-h.ended:
		h.ended <- err
		select {
		case v := <-answer: // given before the end
			return v
		default:
			h.tb.Fatalf("the engine ended: %v", err)
		}
	case <-time.After(20 * time.Second):
		h.tb.Fatal("no answer")
	}
	return nil
}

func (h *house) send(make_ func(engine.Answer) engine.Command) <-chan any {
	answer := make(chan any, 2)
	must(h.tb, h.engine.Submit(context.Background(), make_(func(v any) { answer <- v })))
	return answer
}

// begin begins a round for alice with a handle of this name.
func (h *house) begin(handle string) engine.RoundAnswer {
	v := h.ask(func(a engine.Answer) engine.Command {
		return &engine.BeginRound{Answer: a, Request: policy.RoundRequest{
			Channel: "terminal", Agent: "alice", Sender: "anna", HandleHash: hashOf(handle), Task: "test",
		}}
	})
	r, ok := v.(engine.RoundAnswer)
	if !ok {
		h.tb.Fatalf("begin: %+v", v)
	}
	return r
}

// call is a call of the probe under a key with a text argument.
func call(round events.RoundID, handle, key, text string, p *probe) func(engine.Answer) engine.Command {
	args := jsontext.Value(fmt.Sprintf("{\"text\":%q}", text))
	return func(a engine.Answer) engine.Command {
		entry, _ := tools.NewEntry(p)
		return &engine.Call{
			Answer: a, Known: true, Tool: entry, Args: text,
			Request: policy.CallRequest{
				Agent: "alice", Round: round, HandleHash: hashOf(handle), Key: key,
				Tool:      events.ToolKey{Owner: "builtin", Name: "probe"},
				Arguments: events.Arguments{Text: events.Plain(string(args)), Size: int64(len(args)), MAC: testMAC(args)}, Args: args,
			},
		}
	}
}

func (h *house) call(round events.RoundID, handle, key, text string) engine.CallAnswer {
	v := h.ask(call(round, handle, key, text, h.probe))
	a, ok := v.(engine.CallAnswer)
	if !ok {
		h.tb.Fatalf("call: %+v", v)
	}
	return a
}

// probe is a tool that counts its runs by text and can be held.
type probe struct {
	mu   sync.Mutex
	runs map[string]int
	hold chan struct{}
	err  error
	deaf bool // does not stop with its context
	// gives, where not empty, is what runs give.
	gives string
	seen  chan string
}

func (*probe) Definition() tools.Definition {
	return tools.Definition{Name: "probe", Description: "counts", Schema: jsontext.Value(`{}`)}
}

func (p *probe) entry() (tools.Entry, bool) {
	entry, err := tools.NewEntry(p)
	return entry, err == nil
}

func (*probe) Tier() events.Tier { return events.Reversible }

func (*probe) Decode(raw jsontext.Value) (tools.Decoded, error) {
	return tools.Decoded{Args: string(raw)}, nil
}

func (p *probe) Run(ctx context.Context, _ tools.Env, args tools.Args) (jsontext.Value, error) {
	p.mu.Lock()
	p.runs[args.(string)]++
	hold, err, seen, deaf := p.hold, p.err, p.seen, p.deaf
	gives := args.(string)
	if p.gives != "" {
		gives = p.gives
	}
	p.mu.Unlock()
	if seen != nil {
		seen <- args.(string)
	}
	if hold != nil {
		done := ctx.Done()
		if deaf {
			done = nil
		}
		select {
		case <-hold:
		case <-done:
			return nil, context.Cause(ctx)
		}
	}
	result, _ := json.Marshal(map[string]string{"did": gives})
	return result, err
}

// keep makes runs wait until letGo, and report that they began.
func (p *probe) keep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold, p.seen = make(chan struct{}), make(chan string, 100)
}

// next lets the runs of now go and keeps the ones after them.
func (p *probe) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.hold)
	p.hold, p.seen = make(chan struct{}), make(chan string, 100)
}

func (p *probe) letGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold != nil {
		close(p.hold)
		p.hold = nil
	}
}

func (p *probe) count(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[text]
}

// memBlobs keeps blobs in memory.
type memBlobs struct {
	mu  sync.Mutex
	all map[events.Digest][]byte
	err error
}

func (m *memBlobs) Put(data []byte) (events.Digest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return "", m.err
	}
	d := events.DigestOf(data)
	m.all[d] = data
	return d, nil
}

func (m *memBlobs) Get(d events.Digest) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if data, ok := m.all[d]; ok {
		return data, nil
	}
	return nil, errors.New("no such blob")
}

// handClock moves by hand.
type handClock struct {
	mu      sync.Mutex
	wall    time.Time
	elapsed time.Duration
	asked   int
}

func (c *handClock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

func (c *handClock) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return c.elapsed
}

// reads is how often the clock was asked for elapsed time.
func (c *handClock) reads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// pass lets time go by; jump moves only the wall clock.
func (c *handClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.elapsed = c.wall.Add(d), c.elapsed+d
}

func (c *handClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// notes are the messages that went to feed and inboxes.
type notes struct {
	mu       sync.Mutex
	subjects []string
}

func (n *notes) add(_ policy.Account, subject string, _ any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subjects = append(n.subjects, subject)
}

func (n *notes) has(subject string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.subjects, subject)
}

func testMAC(data []byte) events.MAC {
	h := hmac.New(sha256.New, []byte("test"))
	h.Write(data)
	return events.MAC(hex.EncodeToString(h.Sum(nil)))
}

func hashOf(handle string) events.Digest { return events.DigestOf([]byte(handle)) }

func anna() events.Actor { return events.Actor{Kind: events.ActorPerson, ID: "anna"} }

func catalog(tb testing.TB) *policy.Compiled {
	key := func(n byte) events.PublicKey {
		k := make([]byte, 56)
		for i := range k {
			k[i] = 'A' + n
		}
		k[0] = 'U'
		return events.PublicKey(k)
	}
	c, err := policy.Compile(policy.Catalog{
		Schema: 1, Phase: 2,
		Profiles: map[string]policy.Profile{"work": {Tools: []string{"probe"}}, "guest": {}},
		Roles:    map[string]policy.Role{"worker": {Version: 1, Grants: []policy.Rule{{Tool: "probe"}}}},
		Agents:   map[events.AgentID]policy.Agent{"alice": {Role: "worker", Key: key(1)}},
		Channels: map[events.ChannelID]policy.Channel{"terminal": {
			Key: key(2), Agents: []string{"*"},
			Senders: map[string]policy.Sender{"anna": {Principal: "anna", Kind: events.PrincipalUser, Profile: "work"}},
			Guest:   policy.Guest{Profile: "guest"},
		}},
		People: map[events.PersonID]policy.Person{"anna": {
			Key: key(3), ApproveKey: key(4), Approver: true, Supervisor: true, Operator: true, ObservableAgents: []string{"*"},
		}},
	}, "probe")
	must(tb, err)
	return c
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
