package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/infra/identity"
)

// wayIn is a way to begin a round and to end it.
type wayIn struct {
	name  string
	agent events.AgentID
	begin func(*testing.T, *house) roundFile
	end   func(*testing.T, *house, roundFile) error
	kind  events.PrincipalKind
}

var waysIn = []wayIn{
	{"a channel over NATS", "alice", func(t *testing.T, h *house) roundFile { return h.begin("alice") },
		func(_ *testing.T, h *house, r roundFile) error {
			h.end(r)
			return nil
		}, events.PrincipalUser},
	{"the command line", "alice", func(t *testing.T, h *house) roundFile {
		check(t, h.app.roundBegin(t.Context(), terminalChannel, roundBegin{Agent: "alice", Sender: "anna"}))
		r, err := readRound(h.dir, "alice")
		check(t, err)
		return r
	}, func(t *testing.T, h *house, r roundFile) error {
		return h.app.roundEnd(t.Context(), "alice", roundEnd{End: events.RoundCompleted})
	}, events.PrincipalUser},
	{"the agent itself", "solo", func(t *testing.T, h *house) roundFile {
		r, err := newRound("", rand.Reader)
		check(t, err)
		var a engine.RoundAnswer
		check(t, h.agent("solo").ask(t.Context(), "round.begin", map[string]any{"handle_hash": r.hash(), "task": "by itself"}, &a))
		r.Round = a.Round
		return r
	}, func(t *testing.T, h *house, r roundFile) error {
		return h.agent("solo").ask(t.Context(), "round.end", wishToEnd(r), new(engine.RoundAnswer))
	}, events.PrincipalSelf},
	{"a parent", "kid", func(t *testing.T, h *house) roundFile {
		own := h.begin("boss")
		return acceptRound(t, h, "kid", func() {
			if a := h.agent("boss").mustCall(t, own, "child.begin", `{"child":"kid","task":"look"}`); a.Status != events.StatusOK {
				t.Errorf("begin: %+v", a)
			}
			h.end(own) // which changes nothing for what it caused
		})
	}, endByItself("kid"), events.PrincipalSubAgent},
	{"a job", "clerk", func(t *testing.T, h *house) roundFile {
		return acceptRound(t, h, "clerk", func() {})
	}, endByItself("clerk"), events.PrincipalInternal},
}

// acceptRound is a process of the agent that offers to serve a round, while what
// causes one is done.
func acceptRound(t *testing.T, h *house, agent events.AgentID, cause func()) roundFile {
	t.Helper()
	r, err := newRound("", rand.Reader)
	check(t, err)
	var answer engine.RoundAnswer
	begun := make(chan error, 1)
	c := h.agent(agent)
	go func() {
		begun <- c.ask(t.Context(), "round.accept", roundAccept{HandleHash: r.hash(), Wait: 60}, &answer)
	}()
	cause()
	check(t, <-begun)
	r.Round = answer.Round
	return r
}

// endByItself ends a round that the engine began for the agent.
func endByItself(agent events.AgentID) func(*testing.T, *house, roundFile) error {
	return func(t *testing.T, h *house, r roundFile) error {
		return h.agent(agent).ask(t.Context(), "round.end", wishToEnd(r), new(engine.RoundAnswer))
	}
}

func wishToEnd(r roundFile) roundEnd {
	return roundEnd{Round: r.Round, HandleHash: r.hash(), End: events.RoundCompleted}
}

// Each way in begins and ends a round, and by none can an agent call outside one.
func TestWaysIn(t *testing.T) {
	parent := t.TempDir()
	h := newHouse(t, parent, func(text string) string {
		keys := filepath.Join(parent, "data", "keys")
		var agents strings.Builder
		for _, id := range []events.AgentID{"boss", "clerk", "alice", "solo"} {
			key, err := identity.CreateKey(identity.AgentKey(keys, id), rand.Reader)
			check(t, err)
			role := map[events.AgentID]string{"boss": "boss"}[id]
			fmt.Fprintf(&agents, "  %s:\n    role: %s\n    key: %s\n", id, cmp.Or(role, "worker"), key.Public())
		}
		_, err := identity.CreateKey(identity.AgentKey(keys, "kid"), rand.Reader)
		check(t, err)
		agents.WriteString("    self_rounds: true\n")
		return strings.NewReplacer("agents: {}\n", "agents:\n"+agents.String(), `    agents: ["*"]`, "    agents: [alice, boss]",
			"roles:\n", "roles:\n  boss:\n    version: 1\n    may_declare: [worker]\n    grants: [{tool: file.list}, {tool: child.begin}, {tool: child.declare}]\n",
			"file.restore, demo", "file.restore, child.begin, child.declare, demo").Replace(text) +
			"\njobs:\n  daily:\n    agent: clerk\n    every: 24h\n    task: tidy up\n    profile: work\n"
	})
	n := h.open()
	h.setLongtime(n, "solo", "work")
	h.setLongtime(n, "boss", "work")
	h.declareChild("boss", "kid", "worker", "")
	for _, way := range waysIn {
		t.Run(way.name, func(t *testing.T) {
			agent := h.agent(way.agent)
			outside, err := newRound("", rand.Reader)
			check(t, err)
			outside.Round = events.RoundID("01JZ0000000000000000000000")
			refusedIn(t, agent, outside, "handle")
			r := way.begin(t, h)
			if a := agent.mustCall(t, r, "file.list", `{"path":"."}`); a.Status != events.StatusOK {
				t.Errorf("inside: %+v", a)
			}
			check(t, way.end(t, h, r))
			refusedIn(t, agent, r, "ended")
			begun, _ := all[events.RoundBegun](t, n)
			ended, _ := all[events.RoundEnded](t, n)
			last := begun[len(begun)-1]
			if last.Round != r.Round || last.Principal.Kind != way.kind || len(ended) != len(begun) || ended[len(ended)-1].Round != r.Round {
				t.Errorf("begun %+v, %d of %d ended", last, len(ended), len(begun))
			}
		})
	}
	t.Run("not for an agent that a channel serves", func(t *testing.T) {
		r, err := newRound("", rand.Reader)
		check(t, err)
		err = h.agent("alice").ask(t.Context(), "round.begin", map[string]any{"handle_hash": r.hash()}, new(engine.RoundAnswer))
		var no *problem
		if !errors.As(err, &no) || no.Code != "not_allowed" {
			t.Errorf("it heard %v", err)
		}
	})
}

// declareChild declares a child with a key that is in the folder, in a round of anna's.
func (h *house) declareChild(parent, kid events.AgentID, role, allow string) {
	h.t.Helper()
	key, err := identity.LoadKey(identity.AgentKey(h.dir.Keys(), kid))
	check(h.t, err)
	own := h.begin(parent)
	args := fmt.Sprintf(`{"child":%q,"key":%q,"role":%q,"allow":%q}`, kid, key.Public(), role, allow)
	if a := h.agent(parent).mustCall(h.t, own, "child.declare", args); a.Status != events.StatusOK {
		h.t.Fatalf("declare: %+v", a)
	}
	h.end(own)
}

// end ends a round that begin began.
func (h *house) end(r roundFile) {
	h.t.Helper()
	c, err := h.app.channel(r.Channel)
	check(h.t, err)
	defer c.close()
	check(h.t, c.ask(h.t.Context(), "round.end", wishToEnd(r), new(engine.RoundAnswer)))
}

// refusedIn is a call that the round does not allow.
func refusedIn(t *testing.T, agent *client, r roundFile, rule string) {
	t.Helper()
	if a := agent.mustCall(t, r, "file.list", `{"path":"."}`); a.Status != events.StatusDenied || a.Layer != events.LayerRound || a.Rule != rule {
		t.Errorf("outside: %+v", a)
	}
}

// setLongtime sets an agent's longtime profile as an approver does.
func (h *house) setLongtime(n *node, agent events.AgentID, profile string) {
	h.t.Helper()
	done := make(chan any, 1)
	check(h.t, n.engine.Submit(h.t.Context(), &engine.SetLongtime{
		Act: engine.Act{
			By: events.Actor{Kind: events.ActorPerson, ID: "anna"}, Approves: true, Answer: func(v any) { done <- v },
		},
		Agent: agent, Profile: profile,
	}))
	if v, ok := (<-done).(engine.Done); !ok || !v.Changed {
		h.t.Fatalf("longtime profile: %+v", v)
	}
}
