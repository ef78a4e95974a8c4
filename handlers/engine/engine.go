package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/policy"
	"gatebook/projections"
)

// Blobs keeps bytes by their SHA-256. Safe for concurrent use.
type Blobs interface {
	Put(data []byte) (events.Digest, error)
	Get(events.Digest) ([]byte, error)
}

// Redactor masks secrets in canonical JSON. Safe for concurrent use.
type Redactor interface {
	JSON(jsontext.Value) (redacted jsontext.Value, changed bool, err error)
	Text(string) (redacted string, changed bool)
}

// Config is what an engine needs. All fields but those that say so are required.
type Config struct {
	Log events.Log
	// Reopen gives a log that answers again after one that did not: it restarts
	// what is below and repeats the start-up checks.
	Reopen func(context.Context) (events.Log, error)
	Store  projections.Store
	Tools  *tools.Registry
	// ExtraTools names tools that a catalog may grant beside the closed list.
	ExtraTools []string
	Blobs      Blobs
	Redact     Redactor
	MAC        func([]byte) events.MAC
	Clock      Clock
	Entropy    io.Reader // for ULIDs
	Writer     events.WriterID
	// Incarnation of the data folder; the book's first engine.started carries it.
	Incarnation events.Incarnation
	Version     string
	// Room says what is missing where the volume is too full to go on; nil for
	// always room.
	Room func() error
	// Publish sends a feed or inbox message; it must not block. Nil for none.
	Publish func(policy.Account, string, any)
	// Identities hears of every change of who may connect; what it gives cuts
	// those who may not any more. Nil for nobody.
	Identities func(map[events.PublicKey]policy.Identity) (cut func())
	// Drain is how long running tools may finish after the context ended.
	Drain time.Duration
	// OnFold, where not nil, hears of every settled cycle. For heads and tests.
	OnFold func(events.Seq)
}

// Engine is the loop and what it owns.
type Engine struct {
	cfg    Config
	in     chan Command
	ended  chan Command  // outcomes of tools; drained whatever happens
	done   chan struct{} // closed when Run has returned
	tools  sync.WaitGroup
	health Health
	// inForce is the catalog for readers outside of the loop.
	inForce atomic.Pointer[policy.Compiled]

	// Owned by the loop.
	log     events.Log
	last    events.Seq
	catalog *policy.Compiled
	time    *engineTime
	ids     *ids
	again   []Command // decided in vain, first in the next cycle
	// failures counts appends in a row that did not wholly succeed.
	failures int
	waiters  map[events.CallID][]Answer
	running  map[events.CallID]*run
	busy     map[events.AgentID]int // running tools
	held     map[events.AgentID][]heldCall
	turned   map[refusal]int64 // refused without a record, to be counted into one
	broken   error             // why the loop must end
	present  map[events.RoundID]presence

	drained   chan struct{} // closed Drain after the context ended
	cancelled bool          // running tools were told to end
}

// New prepares an engine. Nothing runs before [Engine.Run].
func New(cfg Config) *Engine {
	return &Engine{
		cfg: cfg, log: cfg.Log,
		in: make(chan Command, waiting), ended: make(chan Command, waiting),
		done:    make(chan struct{}),
		drained: make(chan struct{}),
		ids:     newIDs(cfg.Entropy),
		waiters: map[events.CallID][]Answer{},
		running: map[events.CallID]*run{},
		busy:    map[events.AgentID]int{},
		held:    map[events.AgentID][]heldCall{},
		turned:  map[refusal]int64{},
		present: map[events.RoundID]presence{},
	}
}

// Health is what keeps the engine from deciding.
func (e *Engine) Health() *Health { return &e.health }

// Catalog is the catalog in force; nil before the first. Safe for concurrent use.
func (e *Engine) Catalog() *policy.Compiled { return e.inForce.Load() }

// Done is closed when Run has returned.
func (e *Engine) Done() <-chan struct{} { return e.done }

// Submit hands a command to the loop. It waits while the loop is behind, and
// fails only when ctx ends first or the loop has stopped ([ErrStopped]); then
// the command was not taken.
func (e *Engine) Submit(ctx context.Context, c Command) error {
	select {
	case <-e.done:
		return ErrStopped
	default:
	}
	select {
	case e.in <- c:
	case <-e.done:
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("submit: %w", context.Cause(ctx))
	}
	select {
	case <-e.done: // the loop may have ended without seeing it
		e.refuseAll()
	default:
	}
	return nil
}

// refuseAll answers what waits when no loop will.
func (e *Engine) refuseAll() {
	for {
		waiting := e.takeWaiting(nil)
		for _, cmd := range waiting {
			cmd.refuse("stopped", e.reason())
		}
		if len(waiting) == 0 {
			return
		}
	}
}

// Run is the loop. It returns nil after ctx ended and everything that ran is in
// the book, and an error where it cannot go on: a replaced writer
// ([events.ErrConflict]), damage ([integrity.ErrDamage], [events.ErrGap],
// [projections.ErrOrder], [projections.ErrFold]) or a broken view store
// ([projections.ErrStore]).
func (e *Engine) Run(ctx context.Context) error {
	defer e.tools.Wait()
	defer close(e.done)
	defer e.cancelTools()
	defer context.AfterFunc(ctx, e.startDrain)()
	if err := e.begin(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		work, err := e.collect(ctx, ticker.C)
		if err != nil {
			return e.refuseWaiting(err)
		}
		c, err := e.decide(work)
		if err != nil {
			return e.refuseWaiting(fmt.Errorf("decide: %w", err))
		}
		if err := e.commit(ctx, c); err != nil {
			if err := e.resolve(ctx, c, err); err != nil {
				return e.refuseWaiting(fmt.Errorf("resolve: %w", err))
			}
			continue
		}
		if err := e.settle(c); err != nil {
			return e.refuseWaiting(err)
		}
		e.release(c, len(c.plans))
		if e.broken != nil {
			return e.refuseWaiting(e.broken)
		}
	}
}

// ErrStopped says that the loop has ended and takes no commands.
var ErrStopped = errors.New("the engine has stopped")

// errDrained ends the loop after everything that ran is in the book.
var errDrained = errors.New("drained")

// collect waits for the first command and takes what else is there.
func (e *Engine) collect(ctx context.Context, tick <-chan time.Time) ([]Command, error) {
	work := e.again
	e.again = nil
	if ctx.Err() != nil {
		return e.drainStep(work)
	}
	if len(work) == 0 {
		select {
		case c := <-e.ended:
			work = append(work, c)
		case c := <-e.in:
			work = append(work, c)
		case <-tick:
			due, err := e.due()
			if err != nil {
				return nil, err
			}
			work = append(work, due...)
		case <-ctx.Done():
			return e.drainStep(work)
		}
	}
	return e.takeWaiting(work), nil
}

// takeWaiting adds what is there without waiting: outcomes first, because they
// free what others wait for.
func (e *Engine) takeWaiting(work []Command) []Command {
	for len(work) < maxCommands {
		select {
		case c := <-e.ended:
			work = append(work, c)
			continue
		default:
		}
		select {
		case c := <-e.in:
			work = append(work, c)
		default:
			return work
		}
	}
	return work
}

// decide turns commands into plans, each seeing the facts of those before it.
func (e *Engine) decide(work []Command) (*cycle, error) {
	c := e.newCycle()
	for i, cmd := range work {
		if !e.health.OK() && e.notNow(cmd) {
			continue
		}
		fits, err := e.plan(c, cmd)
		if err != nil {
			c.tx.Discard()
			e.again = append(c.commands(), work[i:]...)
			return nil, err
		}
		if !fits {
			e.again = append(e.again, work[i:]...)
			break
		}
	}
	return c, nil
}

// commit makes the events of the cycle durable.
func (e *Engine) commit(ctx context.Context, c *cycle) error {
	decisions := c.decisions()
	if len(decisions) == 0 {
		return nil
	}
	return e.log.Append(context.WithoutCancel(ctx), c.after, decisions)
}

// settle commits the rows. The log has the events already: where this fails the
// process must end, and the next start folds them again.
func (e *Engine) settle(c *cycle) error {
	if c.count == 0 {
		c.tx.Discard()
		return nil
	}
	if err := c.tx.Commit(); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	e.last, e.failures = c.last(), 0
	e.useCatalog(c.catalog)
	if e.cfg.OnFold != nil {
		e.cfg.OnFold(e.last)
	}
	return nil
}

func (e *Engine) useCatalog(c *policy.Compiled) {
	e.catalog = c
	e.inForce.Store(c)
}

// release acts on the first n plans, which are durable: tools start, answers go.
func (e *Engine) release(c *cycle, n int) {
	for _, p := range c.plans[:n] {
		if p.release != nil {
			p.release(p.lastRecord())
		}
	}
}

func (e *Engine) reason() string {
	why := e.health.Why()
	if len(why) == 0 {
		return "the engine is not ready; ask again"
	}
	return "the engine does not act now (" + why[0] + "); nothing was done, ask again later"
}
