package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/infra/clock"
	"gatebook/infra/config"
	"gatebook/infra/datadir"
	"gatebook/infra/identity"
	"gatebook/policy"
)

// patience is how long a test waits for what must come, on a machine that is
// busy with other tests.
const patience = 30 * time.Second

// house is a data folder with agents, and what it takes to run an engine on it
// and to talk to that: as a process of its own (start) or inside the test (open).
type house struct {
	t   *testing.T
	app *App
	dir *datadir.Dir
	// command runs an engine: usually the one with the demonstration's tools.
	command []string
	clock   *shifted // of the engines inside the test
}

// newHouse makes a data folder below parent, with its first catalog approved. The
// agents have the role worker, which is granted the tools of the demonstration
// too. Edit, where not nil, changes the catalog's text.
func newHouse(t *testing.T, parent string, edit func(string) string, agents ...events.AgentID) *house {
	t.Helper()
	secrets := t.TempDir()
	pass := filepath.Join(secrets, "passphrase")
	check(t, os.WriteFile(pass, []byte("correct horse\n"), 0o600))
	app := &App{
		In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Random: rand.Reader, Now: time.Now,
		Getenv: func(name string) string {
			if name == identity.PassphraseFile {
				return pass
			}
			return ""
		},
		WorkFactor: 10, Extra: demoTools(),
	}
	app.flags = globalFlags{dir: filepath.Join(parent, "data"), keys: filepath.Join(secrets, "keys"), as: "anna"}
	dir, who, err := app.makeFolder(t.Context())
	check(t, err)
	h := &house{t, app, dir, []string{"demo", "engine"}, &shifted{System: clock.System{Now: time.Now}}}
	h.declare(who, edit, agents)
	return h
}

// declare fills in the first catalog and approves it again.
func (h *house) declare(who events.PersonID, edit func(string) string, agents []events.AgentID) {
	h.t.Helper()
	raw, err := os.ReadFile(h.dir.Catalog())
	check(h.t, err)
	text := strings.NewReplacer(
		"file.trash, file.restore]", "file.trash, file.restore, demo.wait, demo.none]",
		"      - tool: file.restore\n", "      - tool: file.restore\n      - tool: demo.wait\n      - tool: demo.none\n",
	).Replace(string(raw))
	if edit != nil {
		text = edit(text)
	}
	raw = []byte(text)
	for _, id := range agents {
		key, err := identity.CreateKey(identity.AgentKey(h.dir.Keys(), id), rand.Reader)
		check(h.t, err)
		raw, err = config.AddAgent(raw, id, policy.Agent{Role: "worker", Key: key.Public()}, toolNames(h.app.Extra)...)
		check(h.t, err)
	}
	check(h.t, config.Write(h.dir.Catalog(), raw))
	people, _, err := h.app.people()
	check(h.t, err)
	approve, err := people.LoadApprove(who, []byte("correct horse"))
	check(h.t, err)
	check(h.t, h.app.approveFirst(h.dir, who, approve))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// said is what a process printed so far. Safe for concurrent use.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// process is a running engine.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	said  *said
	ended chan struct{}
	err   error // of the process, once ended is closed
}

// start runs an engine and waits until it is ready.
func (h *house) start() *process {
	h.t.Helper()
	p := h.launch()
	waitFor(h.t, "the engine is ready", func() bool { return p.ready() || p.gone() })
	if !p.ready() {
		h.t.Fatalf("the engine ended: %v", p.err)
	}
	return p
}

// launch runs an engine, which may or may not become ready.
func (h *house) launch() *process {
	h.t.Helper()
	p := &process{t: h.t, said: &said{}, ended: make(chan struct{})}
	p.cmd = exec.Command("gatebook", append(h.command, "--dir", h.dir.Path(), "--keys", h.app.flags.keys)...)
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	check(h.t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	h.t.Cleanup(func() {
		p.kill()
		if h.t.Failed() {
			h.t.Logf("an engine said:\n%s", p.said)
		}
	})
	return p
}

func (p *process) ready() bool { return strings.Contains(p.said.String(), "gatebook is ready on") }

func (p *process) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// kill ends the process at once, as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// stop ends the process as a person does.
func (p *process) stop() {
	p.t.Helper()
	check(p.t, p.cmd.Process.Signal(os.Interrupt))
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // for the stacks
		<-p.ended
		p.t.Fatal("the engine does not stop")
	}
	if p.err != nil {
		p.t.Fatalf("the engine ended badly: %v", p.err)
	}
}

// waitFor polls a condition that only shows from outside.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// shifted is the machine's clock and what a test adds to it.
type shifted struct {
	clock.System
	by   atomic.Int64
	wall atomic.Int64 // to the time of day alone, as a hand on the clock does
}

func (c *shifted) Wall() time.Time {
	return c.System.Wall().Add(time.Duration(c.by.Load() + c.wall.Load()))
}

func (c *shifted) Elapsed() time.Duration {
	return c.System.Elapsed() + time.Duration(c.by.Load())
}

// open runs an engine inside the test until the test ends.
func (h *house) open() *node {
	h.t.Helper()
	n, _ := h.openUntil()
	return n
}

// openUntil is open, and gives what ends the loop and closes the node.
func (h *house) openUntil() (*node, func()) {
	h.t.Helper()
	n := h.node(false)
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- n.run(ctx, func() error {
			defer close(ready)
			return h.dir.WriteAddress(n.bus.server.Addr())
		})
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, n.close()); err != nil {
			h.t.Errorf("the engine ended badly: %v", err)
		}
	})
	h.t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		h.t.Fatalf("the engine does not start: %v", err)
	}
	return n, stop
}

// node opens the stores of a folder on which no engine runs.
func (h *house) node(verify bool) *node {
	h.t.Helper()
	dir, err := datadir.Open(h.dir.Path(), false)
	check(h.t, err)
	n, err := openNode(h.t.Context(), nodeConfig{
		dir: dir, verify: verify, smallDisk: true, extra: demoTools(), drain: time.Second,
		clock: h.clock, log: func(string, string) {}, progress: func(string, events.Seq, events.Seq) {},
	})
	check(h.t, err)
	return n
}

// facts decodes the whole book.
func facts(t *testing.T, book events.Log) []events.Recorded {
	t.Helper()
	var all []events.Recorded
	for r, err := range book.Read(t.Context(), 1) {
		check(t, err)
		e, err := events.Decode(r)
		check(t, err)
		all = append(all, e)
	}
	return all
}

// all are the facts of one kind in a book, with their agents.
func all[F events.Event](t *testing.T, n *node) (found []F, of []events.AgentID) {
	t.Helper()
	for _, e := range facts(t, n.stores.book()) {
		if f, ok := e.Event.(F); ok {
			found, of = append(found, f), append(of, e.Agent)
		}
	}
	return found, of
}

// agent connects as an agent.
func (h *house) agent(id events.AgentID, more ...nats.Option) *client {
	h.t.Helper()
	c, err := h.app.agent(id, more...)
	check(h.t, err)
	h.t.Cleanup(c.close)
	return c
}

// begin begins a round of an agent for anna.
func (h *house) begin(id events.AgentID) roundFile {
	h.t.Helper()
	return h.beginAs(id, "anna")
}

// call asks for a tool in a round.
func (c *client) call(ctx context.Context, r roundFile, key, tool, args string) (engine.CallAnswer, error) {
	return c.answer(ctx, "call", callRequest{Round: r.Round, Handle: r.Handle, Key: key, Tool: tool, Args: jsontext.Value(args)})
}

func (c *client) answer(ctx context.Context, verb string, q any) (engine.CallAnswer, error) {
	var a engine.CallAnswer
	err := c.ask(ctx, verb, q, &a)
	return a, err
}

// mustCall is a call that gets an answer.
func (c *client) mustCall(t *testing.T, r roundFile, tool, args string) engine.CallAnswer {
	t.Helper()
	a, err := c.call(t.Context(), r, "", tool, args)
	check(t, err)
	return a
}

// quote makes a JSON string.
func quote(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return string(raw)
}
