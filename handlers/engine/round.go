package engine

import (
	"gatebook/events"
	"gatebook/policy"
	"gatebook/projections"
)

// BeginRound is a channel's or an agent's wish to begin a round.
type BeginRound struct {
	Request policy.RoundRequest // Round and NewConversation are given by the loop
	Answer  Answer
}

func (*BeginRound) intent() bool { return true }

func (b *BeginRound) refuse(code, reason string) { b.Answer.send(refused(code, reason)) }

func (b *BeginRound) decide(e *Engine, c *cycle) (plan, error) {
	var err error
	if b.Request.Round, err = newID[events.RoundID](e.ids, c.now); err != nil {
		return plan{}, err
	}
	if b.Request.NewConversation, err = newID[events.ConversationID](e.ids, c.now); err != nil {
		return plan{}, err
	}
	facts, err := b.facts(c)
	if err != nil {
		return plan{}, err
	}
	d := policy.BeginRound(c.catalog, b.Request, facts)
	who, account := asker(b.Request.Channel, b.Request.Agent)
	p := plan{agent: b.Request.Agent, actor: who, facts: d.Events}
	if d.Refusal != nil {
		return reach(who, account, "round.begin", string(b.Request.Agent), *d.Refusal, b.Answer), nil
	}
	p.release = func(events.Record) { e.answerRound(d.Round, len(d.Events) == 0, b.Answer) }
	return p, nil
}

func (b *BeginRound) facts(c *cycle) (policy.RoundBeginFacts, error) {
	var f policy.RoundBeginFacts
	agent, err := agentFacts(c.tx, b.Request.Agent)
	if err != nil {
		return f, err
	}
	same, _, err := projections.RoundByHandle(c.tx, b.Request.HandleHash)
	if err != nil {
		return f, err
	}
	f.Agent, f.SameHandle = agent, roundFacts(same)
	if b.Request.Cause != "" {
		cause, _, err := projections.RoundByID(c.tx, b.Request.Cause)
		if err != nil {
			return f, err
		}
		f.Cause = roundFacts(cause)
		if f.Causing, err = agentFacts(c.tx, cause.Agent); err != nil {
			return f, err
		}
	}
	if b.Request.Conversation != "" {
		row, _, err := projections.ConversationByID(c.tx, b.Request.Conversation)
		if err != nil {
			return f, err
		}
		f.Conversation = conversationFacts(row)
	}
	return f, nil
}

// reach records that somebody reached for what is not theirs, and refuses.
func reach(who events.Actor, account policy.Account, action, subject string, no policy.Refusal, answer Answer) plan {
	return plan{
		actor: who,
		facts: []events.Event{events.AccessRefused{
			Account: string(account), Client: who.ID, Action: action,
			Subject: events.Cut(subject, events.MaxName), Count: 1,
		}},
		release: func(events.Record) {
			answer.send(Refused{Problem{Code: string(no.Code), Reason: no.Reason, Round: no.Round}})
		},
	}
}

// answerRound tells who wished it what the book says about a round.
func (e *Engine) answerRound(id events.RoundID, repeated bool, answer Answer) {
	e.tellRound(id, answer, func(row projections.RoundRow) RoundAnswer { return answerOf(row, repeated) })
}

func (e *Engine) tellRound(id events.RoundID, answer Answer, say func(projections.RoundRow) RoundAnswer) {
	snap := e.cfg.Store.Snapshot()
	defer snap.Close()
	row, found, err := projections.RoundByID(snap, id)
	if err != nil || !found {
		answer.send(refused("unreadable", "the round cannot be read; gatebook doctor says more"))
		return
	}
	answer.send(say(row))
}

func answerOf(row projections.RoundRow, repeated bool) RoundAnswer {
	return RoundAnswer{
		Round: row.Round, Conversation: row.Conversation, Profile: row.Session,
		Principal: row.Principal.ID, Kind: row.Principal.Kind, End: row.End,
		Seq: row.Seq, Repeated: repeated,
	}
}

// EndRound is a channel's or an agent's wish to end a round.
type EndRound struct {
	Request policy.RoundEndRequest
	Answer  Answer
}

func (*EndRound) intent() bool { return true }

func (r *EndRound) refuse(code, reason string) { r.Answer.send(refused(code, reason)) }

func (r *EndRound) decide(e *Engine, c *cycle) (plan, error) {
	row, _, err := projections.RoundByID(c.tx, r.Request.Round)
	if err != nil {
		return plan{}, err
	}
	d := policy.EndRound(r.Request, roundFacts(row))
	who, account := asker(r.Request.Channel, r.Request.Agent)
	if d.Refusal != nil {
		return reach(who, account, "round.end", string(r.Request.Round), *d.Refusal, r.Answer), nil
	}
	return plan{
		agent: row.Agent, actor: who, facts: d.Events,
		release: func(events.Record) {
			delete(e.present, row.Round)
			e.answerRound(row.Round, len(d.Events) == 0, r.Answer)
		},
	}, nil
}

// closeRound ends a round for a reason of the engine's: its time is over, or the
// process that attached to it is gone.
type closeRound struct {
	round events.RoundID
	gone  bool
}

func (closeRound) intent() bool { return false }

func (closeRound) refuse(string, string) {}

func (r closeRound) decide(e *Engine, c *cycle) (plan, error) {
	row, found, err := projections.RoundByID(c.tx, r.round)
	if err != nil {
		return plan{}, err
	}
	if !found { // its begin, that an attach was decided upon, did not get into the book
		delete(e.present, r.round)
		return plan{}, nil
	}
	d := policy.TimeoutRound(roundFacts(row), c.now)
	if r.gone {
		if !e.present[r.round].gone { // it came back since the clock looked
			return plan{}, nil
		}
		d = policy.AbandonRound(roundFacts(row))
	}
	return plan{
		agent: row.Agent, actor: events.Engine(), facts: d.Events,
		release: func(events.Record) {
			if len(d.Events) > 0 { // else it has not ended: a call came meanwhile
				delete(e.present, r.round)
			}
		},
	}, nil
}

// presence is the process that attached to a round. It is not in the book: after
// a restart a process attaches again, and the grace begins anew.
type presence struct {
	agent      events.AgentID
	connection string // what it called its connection; empty for any of the agent's
	since      events.Instant
	gone       bool
}

// Attach says that a process serves a round: when its connection is gone for 30
// seconds, the round ends as cancelled.
type Attach struct {
	Agent      events.AgentID
	Round      events.RoundID
	HandleHash events.Digest
	// Connection is the name that the process gave to its connection. Without one
	// the process counts as gone when the agent has no connection left.
	Connection string
	Answer     Answer
}

func (*Attach) intent() bool { return true }

func (a *Attach) about() events.AgentID { return a.Agent }

func (a *Attach) refuse(code, reason string) { a.Answer.send(refused(code, reason)) }

func (a *Attach) decide(e *Engine, c *cycle) (plan, error) {
	row, _, err := projections.RoundByID(c.tx, a.Round)
	if err != nil {
		return plan{}, err
	}
	if no := policy.MayAttach(a.Agent, a.HandleHash, roundFacts(row)); no != nil {
		return reach(agentActor(a.Agent), policy.AccountAgents, "attach", string(a.Round), *no, a.Answer), nil
	}
	// Now, and not at the release: the disconnect right behind it has to find it.
	e.attach(c, a.Round, a.Agent, a.Connection)
	return plan{release: func(events.Record) {
		e.answerRound(a.Round, true, a.Answer)
	}}, nil
}

// attach notes who serves a round. The end of its connection may have come before.
func (e *Engine) attach(c *cycle, round events.RoundID, agent events.AgentID, connection string) {
	p := presence{agent: agent, connection: connection}
	if e.away.has(agent, connection) {
		p.gone, p.since = true, c.now
	}
	e.present[round] = p
}

// Disconnected says that an agent's connection is gone, as the server saw it.
type Disconnected struct {
	Agent      events.AgentID
	Connection string // its name
	Left       int    // connections that the agent still has
}

func (Disconnected) intent() bool { return false }

func (Disconnected) refuse(string, string) {}

func (d Disconnected) decide(e *Engine, _ *cycle) (plan, error) { return e.change(d), nil }

func (d Disconnected) note(e *Engine) {
	e.offers.drop(d.Agent, func(o *offer) bool {
		return d.Left == 0 || o.connection != "" && o.connection == d.Connection
	})
	e.away.add(d.Agent, d.Connection, d.Left)
}

func (d Disconnected) change(p presence, now events.Instant) presence {
	if p.agent == d.Agent && !p.gone && (d.Left == 0 || p.connection != "" && p.connection == d.Connection) {
		p.gone, p.since = true, now
	}
	return p
}

// Connected says that an agent's connection is there (again).
type Connected struct {
	Agent      events.AgentID
	Connection string // its name
}

func (Connected) intent() bool { return false }

func (Connected) refuse(string, string) {}

func (d Connected) decide(e *Engine, _ *cycle) (plan, error) { return e.change(d), nil }

func (d Connected) note(e *Engine) { e.away.remove(d.Agent, d.Connection) }

func (d Connected) change(p presence, _ events.Instant) presence {
	if p.agent == d.Agent && (p.connection == "" || p.connection == d.Connection) {
		p.gone = false
	}
	return p
}

// away is which connections of an agent were there and are gone, by name; the empty
// name is for all of them. Owned by the loop.
type away map[events.AgentID]map[string]bool

// maxAway bounds the names that are remembered of an agent.
const maxAway = 256

func (w away) add(agent events.AgentID, connection string, left int) {
	if w[agent] == nil || len(w[agent]) >= maxAway {
		w[agent] = map[string]bool{}
	}
	if connection != "" {
		w[agent][connection] = true
	}
	if left == 0 {
		w[agent][""] = true
	}
}

func (w away) remove(agent events.AgentID, connection string) {
	delete(w[agent], connection)
	delete(w[agent], "")
}

func (w away) has(agent events.AgentID, connection string) bool {
	return w[agent][""] || w[agent][connection]
}

// presenceChange is a command that changes who is present and records nothing.
type presenceChange interface {
	// note keeps it for who comes later.
	note(*Engine)
	change(p presence, now events.Instant) presence
}

// change is made when it is decided, as an attach is: nothing is recorded of it, so
// nothing is waited for.
func (e *Engine) change(d presenceChange) plan {
	d.note(e)
	for round, p := range e.present {
		e.present[round] = d.change(p, e.time.Last())
	}
	return plan{}
}

// due is what time itself brings: rounds to end, counts to record.
func (e *Engine) due() ([]Command, error) {
	now, jumped := e.time.Now()
	if jumped != nil {
		return []Command{noteJump{*jumped}}, nil
	}
	e.offers.expire(now)
	if !e.health.OK() {
		return nil, nil
	}
	work := e.takeTurned()
	if e.time.Held() {
		return work, nil // expiry waits until a person accepts the clock
	}
	for round, p := range e.present {
		if p.gone && now.Sub(p.since) >= goneAfter {
			work = append(work, closeRound{round: round, gone: true})
		}
	}
	snap := e.cfg.Store.Snapshot()
	defer snap.Close()
	rows, err := projections.Due(snap, now, maxDue)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		switch row.Kind {
		case projections.DueReview:
			work = append(work, &endReview{review: row.Review})
		case projections.DueAsset:
			work = append(work, expireAsset{row.Asset})
		default:
			work = append(work, closeRound{round: row.Round})
		}
	}
	if e.catalog.HasJobs() {
		work = append(work, &runJobs{})
	}
	return work, nil
}

// asker is who wishes something about a round, and from which account: the agent
// where no channel does.
func asker(channel events.ChannelID, agent events.AgentID) (events.Actor, policy.Account) {
	if channel == "" {
		return agentActor(agent), policy.AccountAgents
	}
	return events.Actor{Kind: events.ActorChannel, ID: string(channel)}, policy.AccountChannels
}
