package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatebook/events"
	"gatebook/handlers/health"
	"gatebook/handlers/integrity"
	"gatebook/projections"
)

// resolve follows an append that did not wholly succeed. Nothing of it is
// believed but what the log itself holds: the transaction is dropped, and that of
// the cycle decided on top of it, the log is read until it answers, what is
// durable is folded, and all other commands are decided again. It says how many
// plans are durable, and returns an error where the loop must end.
func (e *Engine) resolve(ctx context.Context, c *cycle) (durable int, err error) {
	c.tx.Discard()
	e.takeBack(e.open)
	e.open = nil
	e.health.Set(health.Book, c.failed.Error())
	e.abandon(c)
	defer func() {
		if err != nil {
			e.refuseUnknown(c)
		}
	}()
	// An append that fails again and again for no reason that the log shows must
	// not spin: from the second failure on the log is opened anew, after a pause.
	e.failures++
	if e.failures > 1 {
		if err := e.refuseFor(min(retryFirst*time.Duration(e.failures), retryMost)); err != nil {
			return 0, err
		}
	}
	records, err := e.readBack(ctx, c, e.failures > 1 || needsReopen(c.failed))
	if err != nil {
		return 0, err
	}
	if err := e.foldBack(c, records); err != nil {
		return 0, err
	}
	durable = e.durablePlans(c, len(records))
	var undone []Command
	for _, p := range c.plans[durable:] {
		if k, ok := p.cmd.(*Call); ok && k.abandoned {
			k.settle(false) // its caller was told that nothing would run
			e.countRefusal(k, "degraded")
			continue
		}
		undone = append(undone, p.cmd)
	}
	e.again = append(undone, e.again...)
	e.health.Clear(health.Book)
	return durable, nil
}

// needsReopen says that the log will not take another append as it is.
func needsReopen(cause error) bool {
	var ae *events.AppendError
	return !errors.As(cause, &ae) || ae.Outcome == events.InDoubt ||
		errors.Is(cause, events.ErrFull) || errors.Is(cause, events.ErrUnavailable)
}

// abandon answers the calls of the cycle now: their callers need not wait for a
// log that may not answer for long. One that is to wait for a person anyway is answered
// when it is known whether it does: else a person could let a call run of which its
// caller has heard that it would not.
func (e *Engine) abandon(c *cycle) {
	for _, p := range c.plans {
		if k, ok := p.cmd.(*Call); ok && len(p.records) > 0 && !p.stages() {
			k.deny("degraded", e.reason()+"; whether this call is recorded is not known yet: ask for its outcome by its key")
			k.abandoned, k.Answer = true, nil
		}
	}
}

// letGo answers those who wait for the end of a call: it cannot be recorded now.
func (e *Engine) letGo() {
	for id, waiters := range e.waiters {
		delete(e.waiters, id)
		for _, w := range waiters {
			a := CallAnswer{
				Call: id, State: StateRunning, Verdict: events.Allow,
				Reason: "the end of this call cannot be recorded now; ask for its outcome later",
			}
			if _, waits := e.waiting.get(id); waits {
				a.State, a.Verdict = StateStaged, events.Stage
			}
			w.send(a)
		}
	}
}

// refusal is what is counted into one event per second.
type refusal struct {
	agent  events.AgentID
	reason string
	second events.Instant
}

// turnAway refuses a command that leaves no record of its own, and counts it.
func (e *Engine) turnAway(cmd Command, code, reason string) {
	cmd.refuse(code, reason)
	e.countRefusal(cmd, code)
}

func (e *Engine) countRefusal(cmd Command, code string) {
	r := refusal{reason: code, second: events.InstantOf(e.cfg.Clock.Wall().Truncate(time.Second))}
	if a, ok := cmd.(interface{ about() events.AgentID }); ok {
		r.agent = a.about()
	}
	if cmd.intent() && (len(e.turned) < maxHeld || e.turned[r] > 0) {
		e.turned[r]++
	}
}

// takeTurned gives what was counted, to be recorded, and begins anew.
func (e *Engine) takeTurned() []Command {
	var work []Command
	for r, n := range e.turned {
		work = append(work, Note{Agent: r.agent, Fact: events.IntakeRefused{Reason: r.reason, Count: n, Second: r.second}})
	}
	clear(e.turned)
	return work
}

// notNow answers a command that the engine does not act on now, and says whether
// it did: intents are refused, outcomes are read from the views.
func (e *Engine) notNow(cmd Command) bool {
	if o, ok := cmd.(*Outcome); ok {
		e.readOutcome(o)
		return true
	}
	if cmd.intent() {
		e.turnAway(cmd, "degraded", e.reason())
		return true
	}
	return false
}

// readBack reads what the log holds after the cycle's start, refusing intents
// while it does not answer.
func (e *Engine) readBack(ctx context.Context, c *cycle, reopen bool) ([]events.Record, error) {
	pause := retryFirst
	for {
		records, err := e.tryRead(ctx, c, reopen)
		if err == nil {
			return records, nil
		}
		if fatal(err) || e.health.Damaged() {
			return nil, err
		}
		e.health.Set(health.Book, err.Error())
		e.letGo()
		e.again = slices.DeleteFunc(e.again, e.notNow)
		reopen = true
		if err := e.refuseFor(pause); err != nil {
			return nil, err
		}
		pause = min(2*pause, retryMost)
	}
}

func (e *Engine) tryRead(ctx context.Context, c *cycle, reopen bool) ([]events.Record, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), readTime)
	defer stop()
	if reopen {
		if e.cfg.Room != nil {
			if err := e.cfg.Room(); err != nil {
				return nil, err
			}
		}
		log, err := e.cfg.Reopen(ctx)
		if err != nil {
			return nil, err
		}
		e.log = log
	}
	state, err := e.log.State(ctx)
	if err != nil {
		return nil, err
	}
	if state.Last < c.after {
		return nil, fmt.Errorf("%w: it ended at %d and now ends at %d", events.ErrGap, c.after, state.Last)
	}
	var records []events.Record
	for r, err := range e.log.Read(ctx, c.after+1) {
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, ours(c, records)
}

// ours checks that everything after the cycle's start was written by it: the
// same bytes in the same order.
func ours(c *cycle, records []events.Record) error {
	var sent []events.Record
	for _, d := range c.decisions() {
		sent = append(sent, d...)
	}
	for i, r := range records {
		if i >= len(sent) || r.Subject != sent[i].Subject || string(r.Body) != string(sent[i].Body) {
			return fmt.Errorf("%w: sequence %d is not this writer's", events.ErrConflict, r.Seq)
		}
	}
	return nil
}

// fatal says that trying again cannot help: another writer, or damage.
func fatal(err error) bool {
	return errors.Is(err, events.ErrConflict) || errors.Is(err, events.ErrGap) || errors.Is(err, events.ErrSettings) ||
		errors.Is(err, integrity.ErrDamage)
}

// foldBack folds what is durable by the ordinary fold.
func (e *Engine) foldBack(c *cycle, durable []events.Record) error {
	tx := e.memo.Begin(e.cfg.Store)
	for _, r := range durable {
		rec, err := events.Decode(r)
		if err == nil {
			err = projections.Apply(tx, rec, r)
		}
		if err != nil {
			tx.Discard()
			return fmt.Errorf("fold sequence %d: %w", r.Seq, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	e.last = c.after + events.Seq(len(durable))
	return nil
}

// durablePlans is how many plans, from the first on, are wholly durable. A log
// keeps a decision whole, so the count never ends inside one.
func (e *Engine) durablePlans(c *cycle, records int) int {
	for i, p := range c.plans {
		if records < len(p.records) || records == 0 {
			return i
		}
		records -= len(p.records)
		if p.catalog != nil {
			e.useCatalog(p.catalog)
		}
	}
	return len(c.plans)
}

// refuseFor waits and answers everybody who asks meanwhile. Ends of tools stay
// in their channel until they can be recorded.
func (e *Engine) refuseFor(pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case cmd := <-e.in:
			if e.notNow(cmd) {
				continue
			}
			if p, ok := cmd.(presenceChange); ok { // it asks nothing of the book
				e.change(p)
				continue
			}
			if _, note := cmd.(Note); !note || len(e.again) < maxHeld {
				e.again = append(e.again, cmd)
			}
		case <-timer.C:
			return nil
		case <-e.drained:
			// What is open ends as unknown at the next start.
			return fmt.Errorf("%w: the engine stopped before the book answered; what it holds after event %d the next start finds out",
				events.ErrUnavailable, e.last)
		}
	}
}
