package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"gatebook/handlers/people"
	"gatebook/policy"
	"gatebook/scripts/harness"
)

const (
	// tool is the one that does nothing, so that the gate is what is measured.
	tool = "demo.none"
	// privileged does nothing either, and runs as an asset.
	privileged = "demo/act"
	// agents is how many the folder has.
	agents = 256
)

// demoEngine starts an engine with the demonstration's tools.
var demoEngine = []string{"demo", "engine"}

// makeTemplate makes the folder that each engine gets a copy of.
func (b *bench) makeTemplate(ctx context.Context) (*harness.Folder, error) {
	return harness.MakeFolder(ctx, harness.Setup{
		Binary: b.binary, Dir: b.dir, Command: demoEngine, Agents: agents, Role: "bench",
		ExtraTools: []string{tool, "demo.wait", privileged},
		More: []harness.Insert{
			{Below: "\nprofiles:\n", Text: "  bench:\n    tools: [demo.none, demo/act]\n"},
			{Below: "\nroles:\n", Text: "  bench:\n    version: 1\n    grants:\n      - tool: demo.none\n      - tool: demo/act\n"},
			{Below: "\nphase: 2\n", Text: "tools:\n  demo/act:\n    staging: auto\n"},
		},
	})
}

// crew is agents with a connection and an open round each.
type crew struct {
	workers  []*worker
	answered atomic.Int64 // calls that ended well since the crew was made
	measured atomic.Bool  // whether latencies are kept
}

// worker is one agent. Its fields belong to one goroutine at a time.
type worker struct {
	conn    *harness.Wire
	subject string
	reply   string
	head    []byte // of each request, up to the key
	body    []byte // of the last request
	keys    bool
	calls   int64
	latency []time.Duration
}

// sample is what a load gave.
type sample struct {
	calls   int64
	elapsed time.Duration
	latency []time.Duration
}

func (s sample) rate() int64 { return perSecond(s.calls, s.elapsed) }

// start starts an engine on a copy of the folder, and the agents with a round
// each.
func (b *bench) start(ctx context.Context, name string, n int, flags ...string) (_ *harness.Engine, _ *crew, err error) {
	folder, err := b.folder.CopyTo(b.dir, name)
	if err != nil {
		return nil, nil, err
	}
	e, err := harness.Start(ctx, b.binary, folder, slices.Concat(demoEngine, flags)...)
	if err != nil {
		return nil, nil, err
	}
	c := &crew{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close(), e.Stop())
		}
	}()
	channel, err := b.folder.Channel(e)
	if err != nil {
		return nil, nil, err
	}
	defer channel.Close()
	for i := range n {
		w, err := b.newWorker(ctx, e, channel, i)
		if err != nil {
			return nil, nil, err
		}
		c.workers = append(c.workers, w)
	}
	return e, c, nil
}

func (b *bench) newWorker(ctx context.Context, e *harness.Engine, channel *nats.Conn, i int) (*worker, error) {
	id := harness.AgentID(i)
	round, err := harness.BeginRound(ctx, channel, id, "")
	if err != nil {
		return nil, err
	}
	inbox := policy.InboxOf(string(id))
	w := &worker{
		keys: b.opt.keys, subject: "intent." + string(id) + ".call", reply: inbox + "answer",
		head: fmt.Appendf(nil, `{"round":%q,"handle":%q,"tool":%q,"args":{}`, round.ID, round.Handle, tool),
	}
	if w.conn, err = harness.Dial(ctx, e.Addr, b.folder.Agents[i], w.reply); err != nil {
		return nil, fmt.Errorf("connect agent %s: %w", id, err)
	}
	return w, nil
}

// approve puts the privileged tool on record and approves it, as a person does.
func (b *bench) approve(ctx context.Context, e *harness.Engine) error {
	if _, err := b.folder.Run(ctx, e, "asset", "register", privileged); err != nil {
		return err
	}
	var list people.AssetsAnswer
	if err := b.ask(ctx, e, &list, "assets"); err != nil || len(list.Assets) != 1 {
		return errors.Join(err, fmt.Errorf("%d assets are on record", len(list.Assets)))
	}
	id := string(list.Assets[0].Asset)
	var one people.AssetDetail
	if err := b.ask(ctx, e, &one, "asset", "show", id); err != nil {
		return err
	}
	_, err := b.folder.Run(ctx, e, "asset", "approve", id, "--shown", string(one.Shown))
	return err
}

func (b *bench) ask(ctx context.Context, e *harness.Engine, answer any, args ...string) error {
	out, err := b.folder.Run(ctx, e, append(args, "--json")...)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, answer)
}

// calling lets every agent of the crew call this tool from now on.
func (c *crew) calling(name string) {
	for _, w := range c.workers {
		w.calling(name)
	}
}

func (w *worker) calling(name string) {
	begin, _, _ := bytes.Cut(w.head, []byte(`"tool":`))
	w.head = fmt.Appendf(begin[:len(begin):len(begin)], `"tool":%q,"args":{}`, name)
}

func (c *crew) close() (err error) {
	for _, w := range c.workers {
		err = errors.Join(err, w.conn.Close())
	}
	return err
}

// load lets every agent call, one call after the other, for warm and then for
// the window that is measured. A wrong answer ends it with an error.
func (c *crew) load(ctx context.Context, warm, window time.Duration) (sample, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan struct{})
	var all sync.WaitGroup
	for _, w := range c.workers {
		all.Go(func() {
			if err := w.work(ctx, done, c); err != nil {
				stop(err)
			}
		})
	}
	wait(ctx, warm)
	c.measured.Store(true)
	began, before := time.Now(), c.answered.Load()
	wait(ctx, window)
	s := sample{calls: c.answered.Load() - before, elapsed: time.Since(began)}
	c.measured.Store(false)
	close(done)
	all.Wait()
	for _, w := range c.workers {
		s.latency = append(s.latency, w.latency...)
		w.latency = w.latency[:0]
	}
	return s, context.Cause(ctx)
}

// wait returns after d or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// work calls until done is closed.
func (w *worker) work(ctx context.Context, done <-chan struct{}, c *crew) error {
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return nil
		default:
		}
		began := time.Now()
		answer, err := w.conn.Ask(w.subject, w.reply, w.request())
		if err != nil {
			return fmt.Errorf("%s: %w", w.subject, err)
		}
		if !bytes.Contains(answer, []byte(`"status":"ok"`)) {
			return fmt.Errorf("%s: the call did not end well: %s", w.subject, answer)
		}
		c.answered.Add(1)
		if c.measured.Load() {
			w.latency = append(w.latency, time.Since(began))
		}
	}
}

// request is the next call. Connections copy what they send.
func (w *worker) request() []byte {
	w.calls++
	w.body = append(w.body[:0], w.head...)
	if w.keys {
		w.body = append(w.body, `,"key":"`...)
		w.body = strconv.AppendInt(w.body, w.calls, 10)
		w.body = append(w.body, '"')
	}
	w.body = append(w.body, '}')
	return w.body
}
