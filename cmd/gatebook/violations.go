package main

import (
	"context"
	"sync"
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
		subject := seen.Subject
		v.count[who] = &events.AccessRefused{
			Account: who.account, Client: who.client, Action: who.action,
			Subject: subject[:min(len(subject), events.MaxName)],
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

// left hands an agent's lost connection to the loop. The server's goroutine must
// not wait, so a loop that is far behind misses it; the round then times out.
func (n *node) left(d natsd.Disconnect) {
	if d.Identity.Account != policy.AccountAgents || n.engine == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer stop()
	_ = n.engine.Submit(ctx, engine.Disconnected{
		Agent: events.AgentID(d.Identity.Actor.ID), Connection: d.Name, Left: d.Left,
	})
}
