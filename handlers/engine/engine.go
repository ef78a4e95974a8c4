// Package engine is the loop: the one writer of the book.
//
// Start with [New] and [Engine.Run]; work enters by [Engine.Submit] as a
// [Command]. Run reads as its five steps: collect what waits, decide each
// command in order, commit the events of the cycle to the log, settle the views,
// and only then release: start the tools that were allowed and answer the rest.
// While the append of one cycle is on its way, the next is decided on top of it,
// in a transaction that stands on the one before; it is sent when that has
// settled, and dropped with it.
//
// What the package promises:
//
//   - No record, no action. A tool starts after its call.decided is durable; a
//     result leaves after its call.completed is durable.
//   - Exactly one end per call. Calls that a former writer left open end as
//     "unknown" right after this writer's engine.started.
//   - On an append that did not wholly succeed nothing is answered from memory:
//     the transaction is dropped, the log is read until it is known what is
//     durable, that is folded, and the rest is decided again, but for calls.
//   - A call that waits for a person runs only behind its call.released, once, and is
//     kept as it was decided until then; a start reads back what waits.
//   - While the book cannot be written, every command is refused and
//     [Engine.Health] says why; reading goes on.
//
// Concurrency: one goroutine (Run) owns the transactions, the waiters and the
// clock; an append on its way has another, and at most one is. Submit, Health, Catalog,
// Staged and Waiting are safe for concurrent use. Every running tool has a goroutine whose
// end, or giving up, Run waits for. The package decides nothing itself:
// it reads facts from views, asks policy, and records the answer.
//
// Beside DESIGN, sections 3 and 4, in one place: a call whose append did not wholly
// succeed is answered "degraded" at once, because its caller need not wait for a
// book that may not answer for long. It is not decided again: where it turns out
// to be durable its tool is not started and it ends as "cancelled", else it is
// counted into an intake.refused.
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
	"gatebook/handlers/bookclock"
	"gatebook/handlers/health"
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
	// Tools finds the tool of a call that waited for a person when the last engine
	// stopped. It is asked by Run, and no sooner.
	Tools func(name string) (tools.Entry, bool)
	// ExtraTools names tools that a catalog may grant beside the closed list.
	ExtraTools []string
	Blobs      Blobs
	Redact     Redactor
	MAC        func([]byte) events.MAC
	Clock      bookclock.Clock
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
	// Decided hears of every decision about an asset; it must not block. Nil for none.
	Decided func()
	// Identities hears of every change of who may connect; what it gives cuts
	// those who may not any more. Nil for nobody.
	Identities func(map[events.PublicKey]policy.Identity) (cut func())
	// Drain is how long running tools may finish after the context ended.
	Drain time.Duration
	// Last, where not nil, gives what was counted outside of the loop and is not
	// recorded yet. It is asked once, at the end of a drain.
	Last func() []Note
}

// Engine is the loop and what it owns.
type Engine struct {
	cfg    Config
	in     chan Command
	ended  chan Command  // outcomes of tools; drained whatever happens
	done   chan struct{} // closed when Run has returned
	tools  sync.WaitGroup
	health health.State
	// inForce is the catalog for readers outside of the loop.
	inForce atomic.Pointer[policy.Compiled]

	// Owned by the loop.
	log     events.Log
	open    *cycle     // being decided; nil where nothing is
	flying  *cycle     // its append is on the way; nil where none is
	last    events.Seq // settled
	memo    *projections.Memo
	catalog *policy.Compiled
	time    *bookclock.Time
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
	away     away
	offers   offers
	waiting  waitingCalls
	exchange *Exchange      // of the views, asked for; nil for none
	began    events.Instant // of this engine

	drained   chan struct{} // closed Drain after the context ended
	cancelled bool          // running tools were told to end
	noted     bool          // the last counts are taken
}

// New prepares an engine. Nothing runs before [Engine.Run].
func New(cfg Config) *Engine {
	return &Engine{
		cfg: cfg, log: cfg.Log,
		in: make(chan Command, waiting), ended: make(chan Command, waiting),
		done:    make(chan struct{}),
		drained: make(chan struct{}),
		ids:     newIDs(cfg.Entropy),
		memo:    projections.NewMemo(),
		waiters: map[events.CallID][]Answer{},
		running: map[events.CallID]*run{},
		busy:    map[events.AgentID]int{},
		held:    map[events.AgentID][]heldCall{},
		turned:  map[refusal]int64{},
		present: map[events.RoundID]presence{},
		away:    away{},
		offers:  newOffers(),
		waiting: newWaitingCalls(),
	}
}

// Health is what keeps the engine from deciding.
func (e *Engine) Health() *health.State { return &e.health }

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
	if p, ok := c.(interface{ prepare(*Engine) }); ok {
		p.prepare(e)
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
		e.exchangeViews()
		work, landed, err := e.collect(ctx, ticker.C)
		if err != nil {
			return e.refuseWaiting(err)
		}
		if err := e.decide(work); err != nil {
			return e.refuseWaiting(fmt.Errorf("decide: %w", err))
		}
		e.commit(ctx, landed)
		if landed == nil {
			continue
		}
		durable, err := e.settle(ctx, landed)
		if err != nil {
			return e.refuseWaiting(err)
		}
		e.release(landed, durable)
		if e.broken != nil {
			return e.refuseWaiting(e.broken)
		}
	}
}

// ErrStopped says that the loop has ended and takes no commands.
var ErrStopped = errors.New("the engine has stopped")

// errDrained ends the loop after everything that ran is in the book.
var errDrained = errors.New("drained")

// collect waits for the first command and takes what else is there, or gives the
// cycle in flight once the book has answered.
func (e *Engine) collect(ctx context.Context, tick <-chan time.Time) (work []Command, landed *cycle, err error) {
	if e.exchange != nil {
		return nil, e.calm(), nil
	}
	if landed := e.landed(e.open != nil && e.open.full); landed != nil {
		return nil, landed, nil
	}
	work = e.again
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
		case err := <-e.answer():
			return nil, e.land(err), nil
		case <-tick:
			due, err := e.due()
			if err != nil {
				return nil, nil, err
			}
			work = append(work, due...)
		case <-ctx.Done():
			return e.drainStep(work)
		}
	}
	return e.takeWaiting(work), nil, nil
}

// takeWaiting adds what is there without waiting: outcomes first, because they
// free what others wait for.
func (e *Engine) takeWaiting(work []Command) []Command { return e.takeFrom(e.in, work) }

// takeFrom is takeWaiting; in is nil where only outcomes count.
func (e *Engine) takeFrom(in <-chan Command, work []Command) []Command {
	for len(work) < maxCommands {
		select {
		case c := <-e.ended:
			work = append(work, c)
			continue
		default:
		}
		select {
		case c := <-in:
			work = append(work, c)
		default:
			return work
		}
	}
	return work
}

// decide turns commands into plans of the open cycle, each seeing the facts of
// those before it, those in flight too.
func (e *Engine) decide(work []Command) error {
	if len(work) == 0 {
		return nil
	}
	if e.open == nil {
		e.open = e.newCycle()
	}
	var jumped *events.ClockJumped
	if e.open.now, jumped = e.time.Now(); jumped != nil {
		e.again = append(e.again, noteJump{*jumped})
	}
	for i, cmd := range work {
		if !e.health.OK() && e.notNow(cmd) {
			continue
		}
		fits, err := e.plan(e.open, cmd)
		if err != nil || !fits {
			e.open.full = true
			e.again = append(e.again, work[i:]...)
			return err
		}
	}
	return nil
}

// commit sends the events of the open cycle on their way to become durable, one
// cycle at a time; what comes meanwhile is decided into the next. What waits
// already is decided first: an append costs the same for few events and for many.
func (e *Engine) commit(ctx context.Context, landed *cycle) {
	e.prepare()
	if e.flying != nil || e.open == nil || landed != nil && landed.failed != nil {
		return
	}
	c, log := e.open, e.log
	if ctx.Err() == nil && e.health.OK() && !c.full && c.looks < maxLooks && len(e.in)+len(e.ended) > 0 {
		c.looks++
		return
	}
	e.open, e.flying = nil, c
	decisions := c.decisions()
	if len(decisions) == 0 {
		c.answer <- nil
		return
	}
	send := func() { c.answer <- log.Append(context.WithoutCancel(ctx), c.after, decisions) }
	if c.count <= events.MaxSingles && landed == nil && len(e.in)+len(e.ended) == 0 {
		send() // there is nothing to do meanwhile
		return
	}
	go send()
}

// settle commits the rows of a cycle that is durable, and says how many of its
// plans are. The log has the events already: where this fails the process must
// end, and the next start folds them again.
func (e *Engine) settle(ctx context.Context, c *cycle) (durable int, err error) {
	if c.failed != nil {
		durable, err := e.resolve(ctx, c)
		if err != nil {
			return 0, fmt.Errorf("resolve: %w", err)
		}
		return durable, nil
	}
	if err := c.tx.Commit(); err != nil {
		e.abandon(c)
		e.refuseUnknown(c)
		return 0, fmt.Errorf("settle: %w", err)
	}
	if c.count == 0 {
		return len(c.plans), nil
	}
	e.last, e.failures = c.last(), 0
	e.useCatalog(c.catalog)
	return len(c.plans), nil
}

func (e *Engine) useCatalog(c *policy.Compiled) {
	if e.time != nil && c != e.catalog { // what was not declared before was not missed
		e.began = e.time.Last()
	}
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

// Every bound of the loop in one place.
const (
	// maxCommands is how many commands are decided before the loop looks again
	// whether the book has answered.
	maxCommands = 64
	// maxLooks is how often a cycle that could be sent takes what waits first.
	maxLooks = 4
	// maxDue is how many rounds time out at one tick.
	maxDue = 400
	// maxCycleEvents and maxCycleBytes keep a cycle within one atomic batch.
	maxCycleEvents = events.MaxBatchEvents
	maxCycleBytes  = 3 << 20
	// waiting is how many prepared commands wait for the loop before the intake
	// workers wait too.
	waiting = 1024
	// maxHeld is how many notes wait for a book that does not answer; more of
	// them are dropped, because nobody waits for a note.
	maxHeld = 4 * waiting
	// maxHeldCalls is how many allowed calls of one agent wait for a place to run.
	maxHeldCalls = 1024
	// maxOffers is how many processes of an agent wait for a round, and how many
	// rounds of a child for a process.
	maxOffers = 64
	// maxWaitingCalls and maxWaitingBytes bound what waits for a person, of all agents and
	// of each; the bytes are of arguments, which are kept in memory.
	maxWaitingCalls        = 20_000
	maxWaitingBytes        = 64 << 20
	maxWaitingCallsOfAgent = 400
	maxWaitingBytesOfAgent = 8 << 20
	// MaxWaiters is how many may wait for the end of one call.
	MaxWaiters = 64
	// maxText bounds a reason or an error of a tool, in bytes.
	maxText = 1 << 10
	// MaxAnswer is the size of a request or an answer, in bytes of JSON.
	MaxAnswer = 768 << 10
	// answerHead is room for what stands beside the result in an answer.
	answerHead = 8 << 10
	// ResultPage is how much of a large result one outcome request returns.
	ResultPage = 256 << 10
	// toolGrace is how long a tool may go on after its context ended before its
	// call ends without it.
	toolGrace = 2 * time.Second
	// goneAfter is how long an attached process may be away.
	goneAfter = 30 * time.Second
	// retryFirst and retryMost pace the attempts to reach the book again.
	retryFirst = 20 * time.Millisecond
	retryMost  = 2 * time.Second
	// readTime bounds one attempt to read back what the book holds.
	readTime = 20 * time.Second
)
