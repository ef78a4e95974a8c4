package main

import (
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
		func(t *testing.T, h *house, r roundFile) error {
			c, err := h.app.channel(terminalChannel)
			check(t, err)
			defer c.close()
			return c.ask(t.Context(), "round.end", wishToEnd(r), new(engine.RoundAnswer))
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
		for _, id := range []events.AgentID{"alice", "solo"} {
			key, err := identity.CreateKey(identity.AgentKey(keys, id), rand.Reader)
			check(t, err)
			fmt.Fprintf(&agents, "  %s:\n    role: worker\n    key: %s\n", id, key.Public())
		}
		agents.WriteString("    self_rounds: true\n")
		return strings.NewReplacer("agents: {}\n", "agents:\n"+agents.String(), `    agents: ["*"]`, "    agents: [alice]").Replace(text)
	})
	n := h.open()
	h.setLongtime(n, "solo", "work")
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
