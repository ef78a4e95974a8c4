package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/scripts/harness"
)

const (
	// shortest and most are how many calls a round has.
	shortest, most = 20, 120
	// emptyAfter is after how many calls an agent's trash is emptied.
	emptyAfter = 400
)

// answered is a call that an agent knows the end of.
type answered struct {
	id     events.CallID
	status events.Status
}

// tally counts what a crew did.
type tally struct {
	Calls   int64 `json:"calls"`
	Refused int64 `json:"refused"` // and other calls that did not end well, as they should
	Rounds  int64 `json:"rounds"`
}

// crew is the agents and the channel that brings their rounds.
type crew struct {
	channel *nats.Conn
	agents  []*agent
	mu      sync.Mutex
	took    []time.Duration // since the last sample
}

// agent calls one tool after the other. It belongs to one goroutine.
type agent struct {
	id      events.AgentID
	crew    *crew
	conn    *harness.Wire
	reply   string
	trash   string        // its folder
	pause   time.Duration // between two calls, counted from their begins
	round   harness.Round
	left    int // calls of the round
	files   files
	answers []answered
	rounds  int64
}

func newCrew(ctx context.Context, f *harness.Folder, e *harness.Engine, opt options) (c *crew, err error) {
	c = &crew{}
	if c.channel, err = f.Channel(e); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	for i := range opt.agents {
		id := harness.AgentID(i)
		a := &agent{
			id: id, crew: c, reply: policy.InboxOf(string(id)) + "answer",
			trash: filepath.Join(e.Folder, "agents", string(id), "Workspace", ".trash"),
			files: files{random: rand.New(rand.NewPCG(uint64(i), 0)), content: map[string]string{}},
		}
		if opt.rate > 0 {
			a.pause = time.Duration(opt.agents) * time.Second / time.Duration(opt.rate)
		}
		if a.conn, err = harness.Dial(ctx, e.Addr, f.Agents[i], a.reply); err != nil {
			return nil, fmt.Errorf("connect agent %s: %w", id, err)
		}
		c.agents = append(c.agents, a)
	}
	return c, nil
}

func (c *crew) close() (err error) {
	for _, a := range c.agents {
		err = errors.Join(err, a.conn.Close())
	}
	c.channel.Close()
	return err
}

// latencies are those since it was last asked.
func (c *crew) latencies() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := c.took
	c.took = nil
	return took
}

func (c *crew) tally() (t tally) {
	for _, a := range c.agents {
		t.Calls += int64(len(a.answers))
		t.Rounds += a.rounds
		for _, one := range a.answers {
			if one.status != events.StatusOK {
				t.Refused++
			}
		}
	}
	return t
}

// work lets all agents call until done is closed. The first fault ends it.
func (c *crew) work(ctx context.Context, done <-chan struct{}) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for _, a := range c.agents {
		all.Go(func() {
			if err := a.work(ctx, done); err != nil {
				stop(fmt.Errorf("agent %s: %w", a.id, err))
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func (a *agent) work(ctx context.Context, done <-chan struct{}) error {
	timer := time.NewTimer(time.Duration(a.files.random.Int64N(int64(a.pause) + 1)))
	defer timer.Stop()
	for {
		select {
		case <-done:
			return a.endRound(ctx)
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		begun := time.Now()
		if a.left == 0 {
			if err := a.nextRound(ctx); err != nil {
				return err
			}
		}
		if err := a.call(a.files.next()); err != nil {
			return err
		}
		a.left--
		if len(a.answers)%emptyAfter == 0 {
			if err := a.emptyTrash(); err != nil {
				return err
			}
		}
		timer.Reset(a.pause - time.Since(begun))
	}
}

// nextRound ends the round and begins another, half of the time in a conversation
// of its own.
func (a *agent) nextRound(ctx context.Context) (err error) {
	if err := a.endRound(ctx); err != nil {
		return err
	}
	in := a.round.Conversation
	if a.files.random.IntN(2) == 0 {
		in = ""
	}
	if a.round, err = harness.BeginRound(ctx, a.crew.channel, a.id, in); err != nil {
		return err
	}
	a.rounds++
	a.left = shortest + a.files.random.IntN(most-shortest)
	return nil
}

func (a *agent) endRound(ctx context.Context) error {
	if a.round.ID == "" {
		return nil
	}
	return a.round.End(ctx, a.crew.channel)
}

// call asks and compares the answer with what must come.
func (a *agent) call(c call) error {
	body, err := json.Marshal(map[string]any{"round": a.round.ID, "handle": a.round.Handle, "tool": c.tool, "args": c.args})
	if err != nil {
		return err
	}
	begun := time.Now()
	raw, err := a.conn.Ask("intent."+string(a.id)+".call", a.reply, body)
	if err != nil {
		return fmt.Errorf("%s: %w", c.tool, err)
	}
	took := time.Since(begun)
	var answer struct {
		Call   events.CallID  `json:"call"`
		Status events.Status  `json:"status"`
		Result jsontext.Value `json:"result"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("%s: %w: %.300s", c.tool, err, raw)
	}
	if answer.Call == "" || answer.Status != c.status {
		return fmt.Errorf("%s did not end as %q: %.300s", c.tool, c.status, raw)
	}
	a.answers = append(a.answers, answered{answer.Call, answer.Status})
	a.crew.mu.Lock()
	a.crew.took = append(a.crew.took, took)
	a.crew.mu.Unlock()
	if c.check == nil {
		return nil
	}
	if err := c.check(answer.Result); err != nil {
		return fmt.Errorf("%s, call %s: %w", c.tool, answer.Call, err)
	}
	return nil
}

// emptyTrash does what a person does from time to time. No call of the agent runs.
func (a *agent) emptyTrash() error {
	entries, err := os.ReadDir(a.trash)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if f := a.files.deleted; f == nil || string(f.id) != e.Name() {
			err = errors.Join(err, os.RemoveAll(filepath.Join(a.trash, e.Name())))
		}
	}
	return err
}
