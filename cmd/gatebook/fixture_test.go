package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/infra/datadir"
	"gatebook/infra/identity"
)

// longEnough is how long a test waits for what must come.
const longEnough = 60 * time.Second

// testFolder is a data folder and the keys of its first person, anna. Its commands
// run in this process.
type testFolder struct {
	t    *testing.T
	base string // of data and keys
	dir  string // the data folder
	// ahead is how far the wall clock is ahead, in nanoseconds.
	ahead *atomic.Int64
}

// newFolder makes the data folder, as gatebook init does.
func newFolder(t *testing.T) *testFolder {
	t.Helper()
	base := t.TempDir()
	h := &testFolder{t: t, base: base, dir: filepath.Join(base, "data"), ahead: new(atomic.Int64)}
	if err := os.WriteFile(filepath.Join(base, "passphrase"), []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.must("init")
	return h
}

// copyOf is another folder with the same bytes.
func copyOf(t *testing.T, from *testFolder) *testFolder {
	t.Helper()
	base := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(base, os.DirFS(from.base)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(filepath.Join(from.base, strings.TrimPrefix(path, base)))
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	return &testFolder{t: t, base: base, dir: filepath.Join(base, "data"), ahead: new(atomic.Int64)}
}

// app is the program in this house; what it prints goes to out and errs.
func (h *testFolder) app(out, errs *printed) *App {
	app := NewApp()
	app.Out, app.Err, app.In = out, errs, strings.NewReader("")
	app.WorkFactor = 10
	app.Now = func() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }
	app.Terminal = identity.TTY{Path: filepath.Join(h.base, "no", "terminal")}
	app.Getenv = func(name string) string {
		return map[string]string{
			identity.PassphraseFile: filepath.Join(h.base, "passphrase"),
			"XDG_CONFIG_HOME":       filepath.Join(h.base, "config"), "USER": "anna",
		}[name]
	}
	app.flags.dir = h.dir
	return app
}

// run runs one command line.
func (h *testFolder) run(args ...string) (code int, out, errs string) {
	var o, e printed
	code = h.app(&o, &e).Run(h.t.Context(), append([]string{"--dir", h.dir}, args...))
	return code, o.String(), e.String()
}

// must is run for a command that succeeds.
func (h *testFolder) must(args ...string) string {
	h.t.Helper()
	code, out, errs := h.run(args...)
	if code != exitYes {
		h.t.Fatalf("gatebook %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

func (h *testFolder) folder() *datadir.Dir {
	h.t.Helper()
	dir, err := datadir.Open(h.dir, false)
	if err != nil {
		h.t.Fatal(err)
	}
	return dir
}

// runningEngine is an engine in this process.
type runningEngine struct {
	h      *testFolder
	cancel context.CancelFunc
	ended  chan error
	errs   *printed
}

// startEngine starts an engine on the folder and waits until it is ready. It is
// stopped with the test, or by stop.
func startEngine(t *testing.T, h *testFolder) *runningEngine {
	t.Helper()
	r, err := tryEngine(t, h, serveOptions{})
	if err != nil {
		t.Fatalf("start: %v\n%s", err, r.errs)
	}
	return r
}

// tryEngine is startEngine that gives the error of a start that is refused.
func tryEngine(t *testing.T, h *testFolder, opt serveOptions) (*runningEngine, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var out printed
	r := &runningEngine{h: h, cancel: cancel, ended: make(chan error, 1), errs: new(printed)}
	opt.smallDisk = true
	go func() { r.ended <- h.app(&out, r.errs).serve(ctx, opt) }()
	t.Cleanup(func() { _ = r.stop() })
	select {
	case <-out.has("is ready"):
		return r, nil
	case err := <-r.ended:
		r.ended <- err
		return r, err
	case <-time.After(longEnough):
		t.Fatalf("neither ready nor refused: %s%s", &out, r.errs)
		return nil, nil
	}
}

// stop drains the engine; what it returns is the same each time.
func (r *runningEngine) stop() error {
	r.cancel()
	err := <-r.ended
	r.ended <- err
	return err
}

// agentAtWork is an agent's connection and its open round.
type agentAtWork struct {
	t *testing.T
	c *client
	r roundFile
}

// connectAgent enrols the agent and connects with its key.
func connectAgent(t *testing.T, h *testFolder, id events.AgentID) *agentAtWork {
	t.Helper()
	h.must("agent", "add", string(id), "--role", "worker")
	return reconnectAgent(t, h, id)
}

// reconnectAgent connects an agent that is enrolled.
func reconnectAgent(t *testing.T, h *testFolder, id events.AgentID) *agentAtWork {
	t.Helper()
	c, err := h.app(new(printed), new(printed)).agent(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return &agentAtWork{t: t, c: c}
}

// beginRound begins a round over the channel terminal.
func (g *agentAtWork) beginRound(h *testFolder, task string) {
	g.t.Helper()
	agent := events.AgentID(strings.TrimSuffix(strings.TrimPrefix(g.c.prefix, "intent."), "."))
	c, err := h.app(new(printed), new(printed)).channel(terminalChannel)
	if err != nil {
		g.t.Fatal(err)
	}
	defer c.close()
	if g.r, err = newRound(terminalChannel, NewApp().Random); err != nil {
		g.t.Fatal(err)
	}
	answer, err := askBegin(g.t.Context(), c, g.r, roundBegin{Agent: agent, Sender: "anna", Task: task})
	if err != nil {
		g.t.Fatal(err)
	}
	g.r.Round = answer.Round
}

// call calls a tool; key may be empty. Safe for concurrent use.
func (g *agentAtWork) call(tool, args, key string) (engine.CallAnswer, error) {
	var answer engine.CallAnswer
	raw, err := g.c.request(g.t.Context(), "call", callRequest{
		Round: g.r.Round, Handle: g.r.Handle, Key: key, Tool: tool, Args: jsontext.Value(args),
	})
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	return answer, err
}

// calls makes n calls that the gate refuses: one event each, several at once.
func (g *agentAtWork) calls(n int) {
	g.t.Helper()
	var all sync.WaitGroup
	next := make(chan int)
	for range 24 {
		all.Go(func() {
			for range next {
				if a, err := g.call("no.such", "{}", ""); err != nil || a.Status != events.StatusNotFound {
					g.t.Errorf("call: %+v, %v", a, err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// decodeAs reads what a command printed with --json.
func decodeAs[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// hashes are of every file below the data folder, by its path in it.
func (h *testFolder) hashes() map[string]string {
	h.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(h.dir, path)
		all[name] = fmt.Sprintf("%d bytes, %x", len(raw), sha256.Sum256(raw))
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

// printed is what a command prints. Safe for concurrent use; its zero value is
// empty.
type printed struct {
	mu      sync.Mutex
	text    bytes.Buffer
	waiting map[string][]chan struct{}
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Write(b)
	for want, all := range p.waiting {
		if bytes.Contains(p.text.Bytes(), []byte(want)) {
			for _, c := range all {
				close(c)
			}
			delete(p.waiting, want)
		}
	}
	return len(b), nil
}

// has is closed once want was printed.
func (p *printed) has(want string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := make(chan struct{})
	if bytes.Contains(p.text.Bytes(), []byte(want)) {
		close(c)
		return c
	}
	if p.waiting == nil {
		p.waiting = map[string][]chan struct{}{}
	}
	p.waiting[want] = append(p.waiting[want], c)
	return c
}

// wait waits until want was printed.
func (p *printed) wait(t *testing.T, want string) {
	t.Helper()
	select {
	case <-p.has(want):
	case <-time.After(longEnough):
		t.Fatalf("%q was not printed; this was:\n%s", want, p)
	}
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}
