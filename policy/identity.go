package policy

import (
	"slices"

	"gatebook/events"
)

// Account is the account of the bus that a credential belongs to. Accounts share
// nothing, so an agent and a person may have the same id.
type Account string

// The accounts of parties outside the engine.
const (
	AccountAgents   Account = "AGENTS"
	AccountChannels Account = "CHANNELS"
	AccountTools    Account = "TOOLS"
	AccountPeople   Account = "PEOPLE"
)

// Identity is what a verified public key may do on the bus.
type Identity struct {
	Key     events.PublicKey
	Account Account
	Actor   events.Actor
	// Approves says that the key is the person's approving key.
	Approves  bool
	Publish   []string // the only subjects it may publish on
	Subscribe []string // the only subjects it may subscribe; the own inbox is one
	// Inbox is the only prefix a reply may be under, with its last dot.
	Inbox string
}

// Identities gives the identity of every key that may connect: of the agents
// that are enrolled, not released, and in the catalog with the same key, and of the
// children that are not released; of the channels; of the people, who have one for
// each key. The approving key of somebody who is no approver gives none.
func Identities(c *Compiled, known []KnownAgent) map[events.PublicKey]Identity {
	out := map[events.PublicKey]Identity{}
	if c == nil {
		return out
	}
	for _, k := range known { // before the others, whose keys are theirs
		if k.Parent != "" && !k.Released {
			out[k.Key] = agentIdentity(k.Agent, k.Key)
		}
	}
	for _, k := range known {
		if a, ok := c.catalog.Agents[k.Agent]; ok && !k.Released && k.Parent == "" && a.Key == k.Key {
			out[k.Key] = agentIdentity(k.Agent, k.Key)
		}
	}
	for id, ch := range c.catalog.Channels {
		out[ch.Key] = identity(ch.Key, AccountChannels, events.Actor{Kind: events.ActorChannel, ID: string(id)},
			InboxOf(string(id)), "channel."+string(id)+".>")
	}
	for id, p := range c.catalog.People {
		out[p.Key] = readingIdentity(id, p)
		if p.Approver {
			out[p.ApproveKey] = approvingIdentity(id, p)
		}
	}
	return out
}

// InboxOf is the prefix of the replies of an agent, a channel, or a person's
// reading key.
func InboxOf(id string) string { return "_INBOX_" + id + "." }

// ApproveInboxOf is the prefix of the replies of a person's approving key. No
// id can collide with it: ids have no upper case.
func ApproveInboxOf(id string) string { return "_INBOX_APPROVE_" + id + "." }

func identity(key events.PublicKey, account Account, actor events.Actor, inbox string, publish ...string) Identity {
	return Identity{Key: key, Account: account, Actor: actor, Inbox: inbox, Publish: publish, Subscribe: []string{inbox + ">"}}
}

func agentIdentity(id events.AgentID, key events.PublicKey) Identity {
	i := identity(key, AccountAgents, events.Actor{Kind: events.ActorAgent, ID: string(id)},
		InboxOf(string(id)), "intent."+string(id)+".>")
	i.Subscribe = append(i.Subscribe, "inbox."+string(id))
	return i
}

// services are the standard questions to the request endpoints, for all people.
func services() []string {
	return []string{"$SRV.PING", "$SRV.PING.>", "$SRV.INFO", "$SRV.INFO.>", "$SRV.STATS", "$SRV.STATS.>"}
}

func readingIdentity(id events.PersonID, p Person) Identity {
	i := identity(p.Key, AccountPeople, person(id), InboxOf(string(id)), services()...)
	if p.Supervisor || p.Operator || p.Approver {
		i.Publish = append(i.Publish, "view."+string(id)+".>")
	}
	if p.Operator {
		i.Publish = append(i.Publish, "control."+string(id)+".>")
	}
	if !p.Supervisor {
		return i
	}
	for _, a := range p.ObservableAgents {
		if a == "*" {
			i.Subscribe = append(i.Subscribe, "audit.>")
		} else {
			i.Subscribe = append(i.Subscribe, "audit."+a+".>")
		}
	}
	return i
}

// approvingIdentity has subjects and an inbox of its own, so that which key came
// is known from what the server enforced.
func approvingIdentity(id events.PersonID, p Person) Identity {
	i := identity(p.ApproveKey, AccountPeople, person(id), ApproveInboxOf(string(id)), services()...)
	i.Approves = true
	i.Publish = append(i.Publish, "review."+string(id)+".>", "view."+string(id)+".>")
	return i
}

func person(id events.PersonID) events.Actor {
	return events.Actor{Kind: events.ActorPerson, ID: string(id)}
}

// MayObserve says whether the person may see anything of the agent. An agent
// outside of what they may observe must get the same answer as one that does
// not exist.
func MayObserve(c *Compiled, id events.PersonID, agent events.AgentID) bool {
	p := c.person(person(id))
	return p.Supervisor && (slices.Contains(p.ObservableAgents, "*") || slices.Contains(p.ObservableAgents, string(agent)))
}

// MaySeeCatalog says whether the person may read the catalog and its changes,
// which name every agent: approvers, operators, and who may observe all.
func MaySeeCatalog(c *Compiled, id events.PersonID) bool {
	p := c.person(person(id))
	return p.Approver || p.Operator || p.Supervisor && slices.Contains(p.ObservableAgents, "*")
}
