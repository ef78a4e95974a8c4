package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/infra/natsd"
	"gatebook/policy"
)

// violations counts what the server refused, per client and second, for one
// event each. It is bounded: a client can cause any number. Safe for concurrent
// use.
type violations struct {
	mu    sync.Mutex
	count map[violator]*events.AccessRefused
}

type violator struct{ account, client, action string }

// maxViolators bounds how many clients one second names; the rest count
// together.
const maxViolators = 256

func newViolations() *violations {
	return &violations{count: map[violator]*events.AccessRefused{}}
}

func (v *violations) add(seen natsd.Violation) {
	who := violator{string(seen.Identity.Account), seen.Identity.Actor.ID, string(seen.Action)}
	if who.client == "" {
		who.client = seen.Remote
		if seen.Claimed != "" {
			who.client = "claims " + string(seen.Claimed)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.count) >= maxViolators && v.count[who] == nil {
		who = violator{action: "many"}
	}
	if v.count[who] == nil {
		v.count[who] = &events.AccessRefused{
			Account: who.account, Client: events.Cut(who.client, events.MaxName), Action: who.action,
			Subject: events.Cut(seen.Subject, events.MaxName),
		}
	}
	v.count[who].Count++
}

// take gives what was counted and begins anew.
func (v *violations) take() []events.AccessRefused {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []events.AccessRefused
	for _, f := range v.count {
		all = append(all, *f)
	}
	clear(v.count)
	return all
}

// report records every second what the server refused.
func (n *node) report(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, fact := range n.seen.take() {
			_ = n.engine.Submit(ctx, engine.Note{Fact: fact})
		}
	}
}

// attendance is agents' logins and their ends on their way to the loop, in order.
// The server's goroutines must not wait for a loop that is behind.
type attendance struct {
	waiting chan engine.Command
	missed  atomic.Int64 // found no place in waiting
}

// maxAttendance has room for all connections that a restart of the bus ends, and
// for as many that come back.
const maxAttendance = 2 * 4096

func newAttendance() *attendance {
	return &attendance{waiting: make(chan engine.Command, maxAttendance)}
}

func (a *attendance) add(c engine.Command) {
	select {
	case a.waiting <- c:
	default:
		a.missed.Add(1)
	}
}

// joined hears of every login.
func (n *node) joined(c natsd.Connect) {
	if c.Identity.Account == policy.AccountAgents {
		n.present.add(engine.Connected{Agent: events.AgentID(c.Identity.Actor.ID), Connection: c.Name})
	}
}

// left hears of every login that ended. Where another connection of that name is
// there, the process came back before the server noticed that it had gone.
func (n *node) left(d natsd.Disconnect) {
	if d.Identity.Account == policy.AccountAgents && d.Same == 0 {
		n.present.add(engine.Disconnected{Agent: events.AgentID(d.Identity.Actor.ID), Connection: d.Name, Left: d.Left})
	}
}

// attend hands over who came and who left. What was missed is only logged: a
// round whose end was missed ends by its timeout.
func (n *node) attend(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-n.present.waiting:
			_ = n.engine.Submit(ctx, c) // fails only where the engine stops
		}
		if missed := n.present.missed.Swap(0); missed > 0 {
			n.cfg.log("warn", fmt.Sprintf("%d logins and ends of logins were not noticed, because the engine was behind", missed))
		}
	}
}
