package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatebook/events"
	"gatebook/handlers/bookclock"
	"gatebook/handlers/health"
	"gatebook/handlers/integrity"
	"gatebook/policy"
	"gatebook/projections"
)

// ErrBehind marks views that do not end where the book does.
var ErrBehind = errors.New("the views do not end where the book does")

// begin is the start of a writer: engine.started is its first event, and only
// after it are the open calls of the former one closed.
func (e *Engine) begin(ctx context.Context) error {
	state, err := e.loadState(ctx)
	if err != nil {
		return err
	}
	if err := e.loadCatalog(state.Catalog); err != nil {
		return err
	}
	if err := e.ids.after(state.LastEvent); err != nil {
		return err
	}
	var jumped *events.ClockJumped
	e.time, jumped = bookclock.Start(e.cfg.Clock, state.Time, state.ClockHeld)
	e.began = e.time.Last()
	e.again = append(e.again, started{events.EngineStarted{
		Incarnation: e.cfg.Incarnation, Version: e.cfg.Version, After: e.last,
	}})
	if jumped != nil {
		e.again = append(e.again, noteJump{*jumped})
	}
	e.again = append(e.again, &closeOpen{upTo: e.last}, &enrol{})
	if err := e.loadWaiting(ctx); err != nil {
		return err
	}
	return e.closeReleased()
}

// closeReleased ends what a former writer had no time to end.
func (e *Engine) closeReleased() error {
	snap := e.cfg.Store.Snapshot()
	defer snap.Close()
	known, err := knownAgents(snap)
	for _, k := range known {
		if k.Released {
			e.again = append(e.again, closeReleased{k.Agent})
		}
	}
	return err
}

func (e *Engine) loadState(ctx context.Context) (projections.State, error) {
	snap := e.cfg.Store.Snapshot()
	defer snap.Close()
	state, err := projections.LoadState(snap)
	if err != nil {
		return state, err
	}
	log, err := e.log.State(ctx)
	if err != nil {
		return state, err
	}
	if log.Last != state.Seq {
		return state, fmt.Errorf("%w: views at %d, book at %d", ErrBehind, state.Seq, log.Last)
	}
	e.last = state.Seq
	return state, nil
}

// loadCatalog reads the catalog in force from its blob. None is in force before
// the first; nothing is allowed then.
func (e *Engine) loadCatalog(digest events.Digest) error {
	if digest == "" {
		return nil
	}
	raw, err := e.cfg.Blobs.Get(digest)
	if err != nil {
		return fmt.Errorf("the catalog in force: %w", err)
	}
	parsed, err := policy.ParseCatalog(raw)
	if err != nil {
		return fmt.Errorf("the catalog in force: %w", err)
	}
	compiled, err := policy.Compile(parsed, e.cfg.ExtraTools...)
	if err != nil {
		return fmt.Errorf("the catalog in force: %w", err)
	}
	e.useCatalog(compiled)
	return nil
}

// started is a writer's first event.
type started struct{ fact events.EngineStarted }

func (started) intent() bool { return false }

func (started) refuse(string, string) {}

func (s started) decide(*Engine, *cycle) (plan, error) {
	return plan{actor: events.Engine(), facts: []events.Event{s.fact}}, nil
}

// closeOpen ends the calls that the former writer left open: what became of them
// is unknown, and they are never run again. Calls of this writer, which other
// commands of the same cycles may allow or release, are after upTo.
type closeOpen struct{ upTo events.Seq }

func (*closeOpen) intent() bool { return false }

func (*closeOpen) refuse(string, string) {}

func (o *closeOpen) decide(e *Engine, c *cycle) (plan, error) {
	rows, err := projections.OpenCalls(c.tx, 1)
	if err != nil || len(rows) == 0 || rows[0].Opened() > o.upTo {
		return plan{}, err
	}
	row := rows[0]
	return plan{
		agent: row.Agent, actor: events.Engine(),
		facts: []events.Event{events.CallCompleted{
			Call: row.Call, Round: row.Round, Status: events.StatusUnknown, Executor: events.ByEngine,
			Reason: "the engine stopped while the call ran; it is not run again",
		}},
		release: func(at events.Record) {
			e.announce(row.Agent, string(events.StatusUnknown), Notice{Call: row.Call, Seq: at.Seq, Tool: row.Tool.String()})
			e.answerEnded(row.Call)
			e.again = append(e.again, o)
		},
	}, nil
}

// startDrain begins the time that running tools, and a log that does not answer,
// have to come to an end.
func (e *Engine) startDrain() {
	e.health.Set(health.Drain, "the engine is stopping")
	time.AfterFunc(e.cfg.Drain, func() { close(e.drained) })
}

// drainOver cancels the running tools once, when their time is over.
func (e *Engine) drainOver() {
	if !e.cancelled {
		e.cancelled = true
		e.cancelTools()
	}
}

// drainStep is collect after the context has ended: no new intents, running
// tools finish or are cancelled, and everything final gets into the book. Once the
// time is over only ends are taken: whoever goes on asking holds up nothing.
func (e *Engine) drainStep(work []Command) ([]Command, *cycle, error) {
	in, drained := e.in, e.drained
	select {
	case <-drained:
		e.drainOver()
		in, drained = nil, nil
	default:
	}
	if work = e.takeFrom(in, work); len(work) > 0 {
		return work, nil, nil
	}
	if len(e.running) == 0 && e.flying == nil {
		if work = e.lastCounts(); len(work) > 0 {
			return work, nil, nil
		}
		return nil, nil, errDrained
	}
	select {
	case c := <-e.ended:
		work = append(work, c)
	case c := <-in:
		work = append(work, c)
	case err := <-e.answer():
		return nil, e.land(err), nil
	case <-drained:
		return nil, nil, nil // the next step sees it
	}
	return e.takeFrom(in, work), nil, nil
}

// lastCounts are the refusals of the drain itself, which no tick records any more.
func (e *Engine) lastCounts() []Command {
	if e.noted {
		return nil
	}
	e.noted = true
	work := e.takeTurned()
	if e.cfg.Last != nil {
		for _, note := range e.cfg.Last() {
			work = append(work, note)
		}
	}
	return work
}

// refuseWaiting ends the loop: whoever still waits hears that nothing was done.
func (e *Engine) refuseWaiting(err error) error {
	switch {
	case errors.Is(err, errDrained):
	case errors.Is(err, integrity.ErrDamage), errors.Is(err, events.ErrGap),
		errors.Is(err, projections.ErrOrder), errors.Is(err, projections.ErrFold):
		e.health.Set(health.Damage, err.Error())
	default:
		e.health.Set(health.Book, err.Error())
	}
	e.letGo()
	e.ground()
	if x := e.exchange; x != nil {
		e.exchange = nil
		x.refuse("stopped", e.reason())
	}
	for _, cmd := range e.again {
		cmd.refuse("stopped", e.reason())
	}
	e.refuseAll()
	e.offers.stop(e.reason())
	if errors.Is(err, errDrained) {
		return e.cfg.Store.Sync()
	}
	return err
}

// ground waits for the cycle in flight when the loop ends. Whether it is durable
// the next start finds out; nothing of it is released.
func (e *Engine) ground() {
	e.takeBack(e.open)
	e.open = nil
	c := e.landed(true)
	if c == nil {
		return
	}
	c.tx.Discard()
	e.abandon(c)
	e.refuseUnknown(c)
}

// refuseUnknown answers those of a cycle in doubt that [Engine.abandon] did not,
// when the loop ends. The arguments of a call stay: the book may name them.
func (e *Engine) refuseUnknown(c *cycle) {
	for _, p := range c.plans {
		if k, ok := p.cmd.(*Call); !ok || !k.abandoned {
			p.cmd.refuse("stopped", "the engine stops; whether this is recorded is not known")
		}
	}
}
