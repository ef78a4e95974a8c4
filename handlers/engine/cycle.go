package engine

import (
	"errors"
	"fmt"
	"io"

	"github.com/oklog/ulid/v2"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/projections"
)

// Command is something that the loop decides: an intent, an outcome, a person's
// act, a timer. Only this package makes commands; others fill in their fields.
type Command interface {
	// decide reads the facts through the cycle and says what to record and what
	// follows. An error is a broken store and ends the loop.
	decide(e *Engine, c *cycle) (plan, error)
	// intent says that somebody outside asks and can be refused.
	intent() bool
	// refuse answers that nothing was and will be done.
	refuse(code, reason string)
}

// plan is a decision before it is durable.
type plan struct {
	cmd   Command
	agent events.AgentID
	actor events.Actor
	cause events.EventID
	trace string
	facts []events.Event
	// catalog, where not nil, is in force for the decisions after this one.
	catalog *policy.Compiled
	// release acts, once the facts are durable and folded, with the record of the
	// last of them (zero where there are none).
	release func(events.Record)

	records []events.Record
}

// stages says that the plan lets a call wait for a person.
func (p plan) stages() bool {
	if len(p.facts) == 0 {
		return false
	}
	_, waits := p.facts[len(p.facts)-1].(events.ReviewRequested)
	return waits
}

func (p plan) lastRecord() events.Record {
	if len(p.records) == 0 {
		return events.Record{}
	}
	return p.records[len(p.records)-1]
}

// cycle is one turn of the loop: one transaction, one append. While one is in
// flight the next is decided on top of it, as if it were durable already; nothing
// of the next is sent or released before that has come true.
type cycle struct {
	tx      projections.Tx
	after   events.Seq
	catalog *policy.Compiled
	now     events.Instant
	plans   []plan
	count   int
	bytes   int
	full    bool       // something did not fit
	told    int        // how many of its events the log was told ahead
	looks   int        // how often more was decided into it that waited already
	answer  chan error // of the append
	failed  error      // the answer, once landed
}

func (e *Engine) newCycle() *cycle {
	c := &cycle{tx: e.memo.Begin(e.cfg.Store), after: e.last, catalog: e.catalog, answer: make(chan error, 1)}
	if e.flying != nil {
		c.after, c.catalog = e.flying.last(), e.flying.catalog
	}
	return c
}

// answer is where the answer for the cycle in flight comes; nil where none flies.
func (e *Engine) answer() <-chan error {
	if e.flying == nil {
		return nil
	}
	return e.flying.answer
}

// landed gives the cycle in flight where the book has answered; with wait, once
// it has. Nil for none.
func (e *Engine) landed(wait bool) *cycle {
	if wait && e.flying != nil {
		return e.land(<-e.flying.answer)
	}
	select {
	case err := <-e.answer():
		return e.land(err)
	default:
		return nil
	}
}

func (e *Engine) land(err error) *cycle {
	c := e.flying
	c.failed, e.flying = err, nil
	return c
}

// prepare tells the log what of the open cycle is decided, while another flies: then
// less is left to send. A few events are no work.
func (e *Engine) prepare() {
	if c := e.open; c != nil && e.flying != nil && c.count > c.told && c.count > events.MaxSingles {
		c.told = c.count
		e.log.Ahead(c.after, c.decisions())
	}
}

// takeBack drops a cycle of which nothing was sent; its commands come first.
func (e *Engine) takeBack(c *cycle) {
	if c != nil {
		c.tx.Discard()
		e.again = append(c.commands(), e.again...)
	}
}

func (c *cycle) commands() []Command {
	var all []Command
	for _, p := range c.plans {
		all = append(all, p.cmd)
	}
	return all
}

func (c *cycle) last() events.Seq { return c.after + events.Seq(c.count) }

// decisions are the records of each plan that has any.
func (c *cycle) decisions() [][]events.Record {
	out := make([][]events.Record, 0, len(c.plans))
	for _, p := range c.plans {
		if len(p.records) > 0 {
			out = append(out, p.records)
		}
	}
	return out
}

// plan decides one command into the cycle, unless its events do not fit any more.
func (e *Engine) plan(c *cycle, cmd Command) (fits bool, err error) {
	if len(c.plans) >= maxCycleEvents { // those that record nothing count too
		return false, nil
	}
	p, err := cmd.decide(e, c)
	if err != nil {
		return false, err
	}
	p.cmd = cmd
	drafts, err := e.stamp(c, &p)
	var odd *encodeError
	if errors.As(err, &odd) {
		e.unrecordable(cmd, odd)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	size := 0
	for _, r := range p.records {
		size += len(r.Body)
	}
	if c.count > 0 && (c.count+len(p.records) > maxCycleEvents || c.bytes+size > maxCycleBytes) {
		return false, nil
	}
	for i, d := range drafts {
		if err := projections.Apply(c.tx, events.Recorded{Draft: d, Seq: p.records[i].Seq}, p.records[i]); err != nil {
			return false, fmt.Errorf("fold %s: %w", d.Event.Kind(), err)
		}
	}
	c.count += len(p.records)
	c.bytes += size
	c.plans = append(c.plans, p)
	if p.catalog != nil {
		c.catalog = p.catalog
	}
	return true, nil
}

// encodeError is a fact that cannot be written. It concerns the one command
// that led to it and must not stop the others.
type encodeError struct{ error }

func (e *encodeError) Unwrap() error { return e.error }

// unrecordable refuses a command whose facts cannot be written. The end of a call
// is written all the same, without its texts.
func (e *Engine) unrecordable(cmd Command, why *encodeError) {
	if end, ok := cmd.(*toolEnd); ok && !end.bare {
		e.again = append(e.again, end.strip())
		return
	}
	e.turnAway(cmd, "unrecordable", why.Error())
}

// stamp makes drafts and records of a plan's facts: only the engine says when,
// by whom, under which catalog, and at which sequence.
func (e *Engine) stamp(c *cycle, p *plan) ([]events.Draft, error) {
	if len(p.facts) == 0 {
		return nil, nil
	}
	drafts := make([]events.Draft, len(p.facts))
	p.records = make([]events.Record, len(p.facts))
	for i, fact := range p.facts {
		id, err := newID[events.EventID](e.ids, c.now)
		if err != nil {
			return nil, err
		}
		meta := events.Meta{
			ID: id, Time: c.now, Actor: p.actor, Writer: e.cfg.Writer, Agent: p.agent,
			Cause: p.cause, Catalog: c.digest(), Trace: p.trace,
		}
		if i > 0 && meta.Cause == "" {
			meta.Cause = p.records[0].ID
		}
		drafts[i] = events.Draft{Meta: meta, Event: fact}
		if p.records[i], err = events.Encode(drafts[i]); err != nil {
			return nil, &encodeError{err}
		}
		p.records[i].Seq = c.after + events.Seq(c.count+i+1)
	}
	return drafts, nil
}

func (c *cycle) digest() events.Digest {
	if c.catalog == nil {
		return ""
	}
	return c.catalog.Digest()
}

// ids makes ULIDs of engine time that grow without exception, across writers too:
// the views take an id that does not for a second copy. Owned by the loop.
type ids struct {
	entropy ulid.MonotonicReader
	least   uint64 // milliseconds
}

func newIDs(entropy io.Reader) *ids { return &ids{entropy: ulid.Monotonic(entropy, 0)} }

// after makes all further ids greater than last, which another writer made.
func (g *ids) after(last events.EventID) error {
	if last == "" {
		return nil
	}
	u, err := ulid.ParseStrict(string(last))
	if err != nil {
		return fmt.Errorf("the last event's id: %w", err)
	}
	g.least = u.Time() + 1
	return nil
}

func newID[T events.ULIDForm](g *ids, now events.Instant) (T, error) {
	u, err := ulid.New(max(uint64(now.Time().UnixMilli()), g.least), g.entropy)
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return T(u.String()), nil
}
