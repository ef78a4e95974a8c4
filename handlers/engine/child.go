package engine

import (
	"gatebook/events"
	"gatebook/policy"
	"gatebook/projections"
)

// DeclareChild is the wish of an agent, by an allowed call, to have a child or to
// leave one another policy.
type DeclareChild struct {
	Request policy.ChildRequest
	Cause   events.EventID // of the call's decision
	Answer  Answer
}

func (*DeclareChild) intent() bool { return true }

func (d *DeclareChild) refuse(code, reason string) { d.Answer.send(refused(code, reason)) }

func (d *DeclareChild) decide(e *Engine, c *cycle) (plan, error) {
	var f policy.ChildFacts
	var err error
	if f.Parent, err = agentFacts(c.tx, d.Request.Parent); err != nil {
		return plan{}, err
	}
	if f.Child, err = agentFacts(c.tx, d.Request.Child); err != nil {
		return plan{}, err
	}
	if f.Known, err = knownAgents(c.tx); err != nil {
		return plan{}, err
	}
	facts, no := policy.DeclareChild(c.catalog, d.Request, f)
	who := agentActor(d.Request.Parent)
	if no != nil {
		return reach(who, policy.AccountAgents, policy.ToolChildDeclare, string(d.Request.Child), *no, d.Answer), nil
	}
	return plan{agent: d.Request.Child, actor: who, cause: d.Cause, facts: facts, release: func(at events.Record) {
		cut := e.tellIdentities()
		d.Answer.send(Done{Seq: at.Seq, Changed: at.Seq != 0})
		cut()
	}}, nil
}

// RevokeChild is the wish of an agent, by an allowed call, that a child of its own can
// do nothing any more.
type RevokeChild struct {
	Request policy.ChildRequest // Parent, Call and Child
	Reason  string
	Cause   events.EventID // of the call's decision
	Answer  Answer
}

func (*RevokeChild) intent() bool { return true }

func (r *RevokeChild) refuse(code, reason string) { r.Answer.send(refused(code, reason)) }

func (r *RevokeChild) decide(e *Engine, c *cycle) (plan, error) {
	child, err := agentFacts(c.tx, r.Request.Child)
	if err != nil {
		return plan{}, err
	}
	facts, no := policy.RevokeChild(r.Request, child, r.Reason)
	who := agentActor(r.Request.Parent)
	if no != nil {
		return reach(who, policy.AccountAgents, policy.ToolChildRevoke, string(r.Request.Child), *no, r.Answer), nil
	}
	return plan{agent: r.Request.Child, actor: who, cause: r.Cause, facts: facts, release: func(at events.Record) {
		if at.Seq != 0 {
			e.afterRelease(r.Request.Child)
			e.again = append(e.again, &enrol{cause: at.ID}) // its own children go with it
		}
		cut := e.tellIdentities()
		r.Answer.send(Done{Seq: at.Seq, Changed: at.Seq != 0})
		cut()
	}}, nil
}

// parents reads who is above an agent, the nearest first.
func parents(r projections.Reader, row projections.AgentRow) ([]policy.AncestorFacts, error) {
	var all []policy.AncestorFacts
	for up := row.Parent; up != "" && len(all) <= policy.MaxChildDepth; {
		row, _, err := projections.AgentByID(r, up)
		if err != nil {
			return nil, err
		}
		all = append(all, policy.AncestorFacts{
			Agent: up, Parent: row.Parent, Enrolled: row.Agent == up && !row.Released, Role: row.Role,
			Longtime: row.Longtime, ChildAllow: row.ChildAllow, ChildDeny: row.ChildDeny,
		})
		up = row.Parent
	}
	return all, nil
}

// causes reads the rounds that led to a round, the nearest first.
func causes(r projections.Reader, row projections.RoundRow) ([]policy.CauseFacts, error) {
	var all []policy.CauseFacts
	for id := row.CausedBy; id != "" && len(all) <= policy.MaxChildDepth; {
		row, _, err := projections.RoundByID(r, id)
		if err != nil {
			return nil, err
		}
		all = append(all, policy.CauseFacts{Round: id, Agent: row.Agent, Channel: row.Channel, Principal: row.Principal, Session: row.Session})
		id = row.CausedBy
	}
	return all, nil
}
