package engine

import (
	"context"
	"slices"
	"sync/atomic"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/projections"
)

// offer is a process that waits to serve the next round that the engine begins for its
// agent. It made the handle, which leaves it as little as a channel's does.
type offer struct {
	handle     events.Digest
	connection string // its name, by which it is attached to the round; empty for neither
	until      events.Instant
	answer     Answer
	ended      bool // answered already, with something else than a round
}

// end tells the process to ask again, unless it has heard something.
func (o *offer) end(code, reason string) {
	if o != nil && !o.ended {
		o.ended = true
		o.answer.send(refused(code, reason))
	}
}

const askAgain = "no round began while you waited; ask again"

// offers are the processes that wait for a round, and the wishes for a round that wait
// for a process. They are not in the book: after a restart both ask again. Owned by
// the loop.
type offers struct {
	waiting map[events.AgentID][]*offer
	parked  map[events.AgentID][]*CauseRound
}

func newOffers() offers {
	return offers{map[events.AgentID][]*offer{}, map[events.AgentID][]*CauseRound{}}
}

// take gives the offer that waits longest; nil for none.
func (o *offers) take(agent events.AgentID, now events.Instant) *offer {
	o.drop(agent, func(one *offer) bool { return one.ended || one.until <= now })
	list := o.waiting[agent]
	if len(list) == 0 {
		return nil
	}
	o.keep(agent, list[1:])
	return list[0]
}

func (o *offers) putBack(agent events.AgentID, one *offer) {
	o.waiting[agent] = append([]*offer{one}, o.waiting[agent]...)
}

func (o *offers) keep(agent events.AgentID, list []*offer) {
	if o.waiting[agent] = list; len(list) == 0 {
		delete(o.waiting, agent)
	}
}

// drop ends the offers that fit, with an answer that the process ask again.
func (o *offers) drop(agent events.AgentID, fits func(*offer) bool) {
	o.keep(agent, slices.DeleteFunc(o.waiting[agent], func(one *offer) bool {
		if !fits(one) {
			return false
		}
		one.end("no_round", askAgain)
		return true
	}))
}

// stop ends everything that waits.
func (o *offers) stop(reason string) {
	for _, list := range o.waiting {
		for _, one := range list {
			one.end("stopped", reason)
		}
	}
	for _, list := range o.parked {
		for _, r := range list {
			r.refuse("stopped", reason)
		}
	}
	clear(o.waiting)
	clear(o.parked)
}

// expire ends what has waited long enough.
func (o *offers) expire(now events.Instant) {
	for agent := range o.waiting {
		o.drop(agent, func(one *offer) bool { return one.until <= now })
	}
	for agent, list := range o.parked {
		o.parked[agent] = slices.DeleteFunc(list, func(r *CauseRound) bool { return r.Context.Err() != nil })
		if len(o.parked[agent]) == 0 {
			delete(o.parked, agent)
		}
	}
}

// AcceptRound is a process's offer to serve the next round that the engine begins for
// its agent: a job's, or one that its parent causes.
type AcceptRound struct {
	Agent      events.AgentID
	HandleHash events.Digest
	Connection string        // as of [Attach], which it then stands for
	Wait       events.Micros // for a round
	Answer     Answer

	offer *offer // made by an earlier decision, that did not get into the book
}

func (*AcceptRound) intent() bool { return true }

func (a *AcceptRound) refuse(code, reason string) {
	if a.offer != nil {
		a.offer.end(code, reason)
		return
	}
	a.Answer.send(refused(code, reason))
}

func (a *AcceptRound) decide(e *Engine, c *cycle) (plan, error) {
	if a.offer != nil {
		return plan{}, nil
	}
	agent, err := agentFacts(c.tx, a.Agent)
	if err != nil {
		return plan{}, err
	}
	same, _, err := projections.RoundByHandle(c.tx, a.HandleHash)
	if err != nil {
		return plan{}, err
	}
	begun, no := policy.AcceptRound(a.Agent, agent, a.HandleHash, roundFacts(same))
	switch {
	case no != nil:
		return reach(agentActor(a.Agent), policy.AccountAgents, "round.accept", string(a.Agent), *no, a.Answer), nil
	case e.away.has(a.Agent, a.Connection) && a.Connection != "":
		return plan{release: func(events.Record) { a.refuse("no_round", "your connection has ended") }}, nil
	case begun != "": // asked again after a lost answer
		return plan{release: func(events.Record) { e.answerAccepted(begun, true, a.Answer) }}, nil
	case len(e.offers.waiting[a.Agent]) >= maxOffers:
		return plan{release: func(events.Record) { a.refuse("busy", "too many processes of this agent wait for a round already") }}, nil
	}
	e.offers.drop(a.Agent, func(one *offer) bool {
		if one.handle == a.HandleHash {
			one.end(string(policy.CodeConflict), "another request with this handle waits in the place of this one")
		}
		return one.ended
	})
	a.offer = &offer{handle: a.HandleHash, connection: a.Connection, until: c.now.Add(a.Wait.Duration()), answer: a.Answer}
	e.offers.waiting[a.Agent] = append(e.offers.waiting[a.Agent], a.offer)
	for _, r := range e.offers.parked[a.Agent] {
		e.again = append(e.again, r)
	}
	delete(e.offers.parked, a.Agent)
	return plan{}, nil
}

// answerAccepted tells a process which round it serves, and what for.
func (e *Engine) answerAccepted(id events.RoundID, repeated bool, answer Answer) {
	e.tellRound(id, answer, func(row projections.RoundRow) RoundAnswer {
		a := answerOf(row, repeated)
		a.Task, a.CausedBy, a.Job = row.Task.Text, row.CausedBy, row.Job
		return a
	})
}

// CauseRound is the wish of an agent, by an allowed call, that a round of a child of
// its own begin, as soon as a process of the child offers to serve it.
type CauseRound struct {
	// Context is the call's: the wish ends with it, unless it has come true; see
	// [CauseRound.Withdraw].
	Context context.Context
	Request policy.RoundRequest // Agent is the child, Cause the round of the call
	By      events.AgentID
	Because events.EventID // the call's decision
	Answer  Answer

	settled atomic.Bool // begun or withdrawn
	told    bool        // it has its answer
	offer   *offer      // taken for it
}

// Withdraw takes the wish back and says whether that came in time: else its answer is
// on the way.
func (r *CauseRound) Withdraw() bool { return r.settled.CompareAndSwap(false, true) }

func (*CauseRound) intent() bool { return true }

func (r *CauseRound) refuse(code, reason string) {
	if r.offer != nil {
		r.offer.end(code, reason)
	} else if !r.settled.CompareAndSwap(false, true) {
		return // withdrawn: nobody listens
	}
	r.tell(refused(code, reason))
}

// tell answers once.
func (r *CauseRound) tell(v any) {
	if !r.told {
		r.told = true
		r.Answer.send(v)
	}
}

func (r *CauseRound) decide(e *Engine, c *cycle) (plan, error) {
	if r.Context.Err() != nil && r.offer == nil {
		return plan{}, nil // nobody waits for it any more
	}
	begin := &BeginRound{Request: r.Request}
	facts, err := begin.facts(c)
	if err != nil {
		return plan{}, err
	}
	if no := policy.MayCause(c.catalog, r.Request, facts); no != nil {
		r.offer.end("no_round", askAgain)
		return reach(agentActor(r.By), policy.AccountAgents, policy.ToolChildBegin, string(r.Request.Agent), *no, r.tell), nil
	}
	if r.offer == nil {
		o := e.offers.take(r.Request.Agent, c.now)
		if o == nil {
			return e.park(r), nil
		}
		if !r.settled.CompareAndSwap(false, true) {
			e.offers.putBack(r.Request.Agent, o)
			return plan{}, nil // withdrawn
		}
		r.offer = o
	}
	p, err := e.beginOffered(c, begin, r.offer, r.tell)
	p.cause = r.Because
	return p, err
}

func (e *Engine) park(r *CauseRound) plan {
	list := e.offers.parked[r.Request.Agent]
	if slices.Contains(list, r) { // by an earlier decision
		return plan{}
	}
	if len(list) >= maxOffers {
		return plan{release: func(events.Record) { r.refuse("busy", "too many rounds of this child wait for a process already") }}
	}
	e.offers.parked[r.Request.Agent] = append(list, r)
	return plan{}
}

// beginOffered begins a round for the process of an offer, which serves it from then
// on; also hears of it too.
func (e *Engine) beginOffered(c *cycle, begin *BeginRound, o *offer, also Answer) (plan, error) {
	begin.Request.HandleHash = o.handle
	begin.Answer = func(v any) {
		o.ended = true
		o.answer.send(v)
		also.send(v)
	}
	p, err := begin.decide(e, c)
	if err != nil {
		return p, err
	}
	if len(p.facts) > 0 && p.agent != "" { // else it was refused
		round := begin.Request.Round
		p.actor = events.Engine()
		if o.connection != "" { // it has attached, too
			e.attach(c, round, p.agent, o.connection)
		}
		p.release = func(events.Record) {
			o.ended = true
			e.answerAccepted(round, false, o.answer)
			e.answerRound(round, false, also)
		}
	}
	return p, nil
}

// runJobs begins the rounds of the jobs that are due, for which a process waits, and
// notes what nobody served for a whole period as missed. It is decided like everything
// else: what a cycle before it has begun is not due any more.
type runJobs struct {
	agent events.AgentID
	offer *offer // of the agent; nil before one is taken
}

func (*runJobs) intent() bool { return true }

func (r *runJobs) refuse(code, reason string) { r.offer.end(code, reason) }

func (r *runJobs) decide(e *Engine, c *cycle) (plan, error) {
	due, err := c.catalog.JobsDue(c.now, e.began, func(job string) (events.Instant, error) {
		at, _, err := projections.JobLast(c.tx, job)
		return at, err
	})
	if err != nil {
		return plan{}, err
	}
	for _, job := range due {
		if r.offer == nil {
			r.agent, r.offer = job.Agent, e.offers.take(job.Agent, c.now)
		}
		if r.offer != nil && r.agent == job.Agent {
			e.again = append(e.again, &runJobs{}) // the others
			return e.beginOffered(c, &BeginRound{Request: policy.RoundRequest{Agent: job.Agent, Job: job.Job, Task: job.Task}}, r.offer, nil)
		}
		if job.Missed && r.offer == nil {
			e.again = append(e.again, &runJobs{})
			return plan{actor: events.Engine(), facts: []events.Event{events.JobMissed{Job: job.Job, Due: job.Due}}}, nil
		}
	}
	r.offer.end("no_round", askAgain)
	return plan{}, nil
}
