package engine

import (
	"errors"
	"fmt"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/policy/trash"
	"gatebook/projections"
)

// Act is what every person's act carries: who, and whether it came with the
// approving credential.
type Act struct {
	By       events.Actor
	Approves bool
	Answer   Answer
}

func (*Act) intent() bool { return true }

func (a *Act) refuse(code, reason string) { a.Answer.send(refused(code, reason)) }

// no is the plan of a refused act: recorded, answered.
func (a *Act) no(action, subject string, r policy.Refusal) plan {
	return reach(a.By, policy.AccountPeople, action, subject, r, a.Answer)
}

func (a *Act) done(at events.Record) { a.Answer.send(Done{Seq: at.Seq, Changed: at.Seq != 0}) }

// LoadCatalog puts a catalog in force.
type LoadCatalog struct {
	Act
	Next *policy.Compiled

	unkept error // why the catalog's bytes could not be kept
}

// prepare keeps the bytes, so that the loop does not wait for the disk; those of a
// catalog that is not loaded go as an orphan.
func (l *LoadCatalog) prepare(e *Engine) { _, l.unkept = e.cfg.Blobs.Put(l.Next.Canonical()) }

func (l *LoadCatalog) decide(e *Engine, c *cycle) (plan, error) {
	facts, no := policy.LoadCatalog(c.catalog, policy.CatalogRequest{By: l.By, Approves: l.Approves, Next: l.Next})
	if no != nil {
		return l.no("catalog", string(l.Next.Digest()), *no), nil
	}
	if len(facts) > 0 && l.unkept != nil {
		return plan{release: func(events.Record) { l.refuse("degraded", "the catalog cannot be kept: "+l.unkept.Error()) }}, nil
	}
	p := plan{actor: l.By, facts: facts}
	if len(facts) > 0 {
		p.catalog = l.Next
	}
	p.release = func(at events.Record) {
		if at.Seq == 0 {
			l.done(at)
			return
		}
		e.again = append(e.again, &enrol{cause: at.ID, then: func() { l.done(at) }})
	}
	return p, nil
}

// enrol brings the agents of the book in line with the catalog in force: one
// event each, in later cycles than the catalog's own.
type enrol struct {
	cause events.EventID
	then  func()
}

func (*enrol) intent() bool { return false }

// refuse answers whoever waits: the catalog is in force, and the next start
// enrols who is not enrolled yet.
func (n *enrol) refuse(string, string) {
	if n.then != nil {
		n.then()
	}
}

func (n *enrol) decide(e *Engine, c *cycle) (plan, error) {
	known, err := knownAgents(c.tx)
	if err != nil {
		return plan{}, err
	}
	todo := policy.Enrolments(c.catalog, known)
	if len(todo) == 0 {
		return plan{release: func(events.Record) {
			cut := e.tellIdentities()
			if n.then != nil {
				n.then()
			}
			cut()
		}}, nil
	}
	first := todo[0]
	return plan{
		agent: first.Agent, actor: events.Engine(), cause: n.cause, facts: []events.Event{first.Event},
		release: func(events.Record) {
			if _, gone := first.Event.(events.AgentReleased); gone {
				e.afterRelease(first.Agent)
			}
			e.again = append(e.again, n)
		},
	}, nil
}

// ReleaseAgent lets an agent go for good.
type ReleaseAgent struct {
	Act
	Agent  events.AgentID
	Reason string
}

func (r *ReleaseAgent) decide(e *Engine, c *cycle) (plan, error) {
	agent, err := agentFacts(c.tx, r.Agent)
	if err != nil {
		return plan{}, err
	}
	facts, no := policy.ReleaseAgent(c.catalog, r.By, r.Approves, agent, r.Reason)
	if no != nil {
		return r.no("agent.release", string(r.Agent), *no), nil
	}
	return plan{agent: r.Agent, actor: r.By, facts: facts, release: func(at events.Record) {
		e.afterRelease(r.Agent)
		e.again = append(e.again, &enrol{cause: at.ID}) // its children go with it
		cut := e.tellIdentities()
		r.done(at)
		cut()
	}}, nil
}

// afterRelease ends what a released agent had running and open.
func (e *Engine) afterRelease(agent events.AgentID) {
	e.cancelAgent(agent, errGone)
	delete(e.away, agent)
	e.offers.drop(agent, func(*offer) bool { return true })
	for _, r := range e.offers.parked[agent] {
		e.again = append(e.again, r) // to be refused
	}
	delete(e.offers.parked, agent)
	e.again = append(e.again, closeReleased{agent}, endReviews{agent: agent})
}

// closeReleased ends the rounds of a released agent, each by its own event of a
// later cycle.
type closeReleased struct{ agent events.AgentID }

func (closeReleased) intent() bool { return false }

func (closeReleased) refuse(string, string) {}

func (r closeReleased) decide(e *Engine, c *cycle) (plan, error) {
	page, err := projections.Rounds(c.tx, projections.RoundFilter{Agent: r.agent, OpenOnly: true, Limit: 1})
	if err != nil || len(page.Rows) == 0 {
		return plan{}, err
	}
	row := page.Rows[0]
	d := policy.CloseRound(roundFacts(row), events.RoundCancelled, errGone.Error())
	return plan{agent: r.agent, actor: events.Engine(), facts: d.Events, release: func(events.Record) {
		delete(e.present, row.Round)
		e.again = append(e.again, r)
	}}, nil
}

// SetPhase is a person's decision on the phase.
type SetPhase struct {
	Act
	Phase int
}

func (s *SetPhase) decide(_ *Engine, c *cycle) (plan, error) {
	state, err := projections.LoadState(c.tx)
	if err != nil {
		return plan{}, err
	}
	facts, no := policy.SetPhase(c.catalog, s.By, s.Approves, s.Phase, state.Phase)
	if no != nil {
		return s.no("phase", fmt.Sprint(s.Phase), *no), nil
	}
	return plan{actor: s.By, facts: facts, release: s.done}, nil
}

// SetLongtime sets or clears an agent's longtime profile.
type SetLongtime struct {
	Act
	Agent   events.AgentID
	Profile string
}

func (s *SetLongtime) decide(_ *Engine, c *cycle) (plan, error) {
	agent, err := agentFacts(c.tx, s.Agent)
	if err != nil {
		return plan{}, err
	}
	facts, no := policy.SetLongtime(c.catalog, s.By, s.Approves, agent, s.Profile)
	if no != nil {
		return s.no("profile.set", string(s.Agent), *no), nil
	}
	return plan{agent: s.Agent, actor: s.By, facts: facts, release: s.done}, nil
}

// AcceptClock takes the wall clock again after a jump.
type AcceptClock struct{ Act }

func (a *AcceptClock) decide(e *Engine, c *cycle) (plan, error) {
	if no := policy.AcceptClock(c.catalog, a.By, a.Approves); no != nil {
		return a.no("clock", "", *no), nil
	}
	if !e.time.Held() {
		return plan{release: a.done}, nil
	}
	return plan{
		actor: a.By, facts: []events.Event{events.ClockJumped{From: c.now, Wall: events.InstantOf(e.cfg.Clock.Wall()), Accepted: true}},
		release: func(at events.Record) {
			e.time.Accept()
			a.done(at)
		},
	}, nil
}

// RebuildViews is a person's wish that the views be built anew. Start begins the work,
// which goes on outside of the loop, and must not wait for it.
type RebuildViews struct {
	Act
	Start func() error
}

func (r *RebuildViews) decide(_ *Engine, c *cycle) (plan, error) {
	if no := policy.RebuildViews(c.catalog, r.By, r.Approves); no != nil {
		return r.no("rebuild", "", *no), nil
	}
	return plan{release: func(events.Record) {
		if err := r.Start(); err != nil {
			r.refuse("conflict", err.Error())
			return
		}
		r.Answer.send(Done{Changed: true})
	}}, nil
}

// Exchange lets other views take the place of those in use. The loop calls Switch
// between two cycles, with no transaction open and nothing on its way to the book,
// which ends at last; it must be short. Done hears once how it ended.
type Exchange struct {
	Switch func(last events.Seq) error
	Done   func(error)
}

func (*Exchange) intent() bool { return false }

func (x *Exchange) refuse(_, reason string) { x.Done(errors.New(reason)) }

func (x *Exchange) decide(e *Engine, _ *cycle) (plan, error) {
	return plan{release: func(events.Record) {
		if e.exchange != nil {
			x.refuse("conflict", "the views are exchanged already")
			return
		}
		e.exchange = x
	}}, nil
}

// calm lets what is decided become durable, so that nothing is open; until then
// nothing more is decided.
func (e *Engine) calm() (landed *cycle) {
	if e.open != nil {
		e.open.full = true
	}
	return e.landed(true)
}

// exchangeViews exchanges the views where that was asked for and nothing is open.
// What was remembered of the rows of the old ones is forgotten.
func (e *Engine) exchangeViews() {
	if e.exchange == nil || e.open != nil || e.flying != nil {
		return
	}
	x := e.exchange
	e.exchange = nil
	err := x.Switch(e.last)
	e.memo = projections.NewMemo()
	x.Done(err)
}

// Note records what was seen outside the loop: refusals that the intake counted,
// accesses that the server refused.
type Note struct {
	Agent events.AgentID // empty for none
	Cause events.EventID // empty for none
	Fact  events.Event
}

func (Note) intent() bool { return false }

func (Note) refuse(string, string) {}

func (n Note) decide(*Engine, *cycle) (plan, error) {
	return plan{agent: n.Agent, cause: n.Cause, actor: events.Engine(), facts: []events.Event{n.Fact}}, nil
}

// EmptyTrash asks what of an agent's trash goes for good, by the limits in force and
// by engine time. Answer gets a [Condemned] once that is durable, or a [Refused].
// While the clock is held nothing goes: how old an entry is, is not known then.
type EmptyTrash struct {
	Agent   events.AgentID
	Entries []trash.Entry
	Answer  Answer
}

// Condemned is what goes, and the event that says so. Where nothing goes there is none.
type Condemned struct {
	At      events.EventID
	Entries []trash.Entry
}

func (*EmptyTrash) intent() bool { return true }

func (t *EmptyTrash) about() events.AgentID { return t.Agent }

func (t *EmptyTrash) refuse(code, reason string) { t.Answer.send(refused(code, reason)) }

func (t *EmptyTrash) decide(e *Engine, c *cycle) (plan, error) {
	p := plan{agent: t.Agent, actor: events.Engine()}
	var goes []trash.Entry
	if !e.time.Held() {
		l := c.catalog.Limits()
		var fact events.TrashDecided
		goes, fact = trash.Choose(trash.Bounds{Age: l.TrashAge, Size: int64(l.TrashSize)}, c.now, t.Entries)
		if len(goes) > 0 {
			p.facts = []events.Event{fact}
		}
	}
	p.release = func(at events.Record) { t.Answer.send(Condemned{at.ID, goes}) }
	return p, nil
}

// noteJump records that the clock jumped.
type noteJump struct{ fact events.ClockJumped }

func (noteJump) intent() bool { return false }

func (noteJump) refuse(string, string) {}

func (n noteJump) decide(*Engine, *cycle) (plan, error) {
	return plan{actor: events.Engine(), facts: []events.Event{n.fact}}, nil
}

// tellIdentities says who may connect from now on. What it gives cuts those who
// may not any more: after the answer, because whoever asked may be one of them.
func (e *Engine) tellIdentities() (cut func()) {
	if e.cfg.Identities == nil {
		return func() {}
	}
	snap := e.cfg.Store.Snapshot()
	defer snap.Close()
	known, err := knownAgents(snap)
	if err != nil {
		e.broken = err
		return func() {}
	}
	return e.cfg.Identities(policy.Identities(e.catalog, known))
}
