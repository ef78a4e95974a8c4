package projectionstest

import (
	"fmt"

	"gatebook/events"
	"gatebook/events/eventstest"
)

// busySteps is how many calls a round of [Busy] has.
const busySteps = 20

// Busy is a book of a day's kind: 16 agents, and rounds of 20 allowed calls
// each, 4 rounds open at a time. It has 33 events and 42 for each round.
func Busy(rounds int) []events.Draft {
	const agents, together = 16, 4
	h := newHistory(func(int) int { return 0 })
	for i := range agents {
		id := events.AgentID(fmt.Sprintf("agent-%02d", i))
		a := &agent{id: id, conversations: []*conversation{{id: newID[events.ConversationID](h)}}}
		h.agents = append(h.agents, a)
		h.write(id, events.AgentEnrolled{Role: "worker", Key: events.PublicKey("U" + string(id))})
		h.write(id, events.ConversationOpened{Conversation: a.conversations[0].id, Channel: "chat"})
	}
	for done := 0; done < rounds; done += together {
		n := min(together, rounds-done)
		for i := range n {
			h.begin(h.busyAgent(done + i))
		}
		for step := range busySteps {
			for i := range n {
				a, c := h.busyAgent(done + i)
				h.busyCall(a, c, c.rounds[len(c.rounds)-1], step)
			}
		}
		for i := range n {
			a, c := h.busyAgent(done + i)
			h.write(a.id, events.RoundEnded{Round: c.rounds[len(c.rounds)-1].id, End: events.RoundCompleted})
		}
	}
	return h.drafts
}

func (h *history) busyAgent(i int) (*agent, *conversation) {
	a := h.agents[i%len(h.agents)]
	return a, a.conversations[0]
}

func (h *history) busyCall(a *agent, conv *conversation, r *round, step int) {
	id := newID[events.CallID](h)
	r.steps++
	path := fmt.Sprintf(`{"path":"reports/2026/quarter-%d/summary-%d.md","offset":0,"limit":65536}`, step, h.ids)
	h.write(a.id, events.CallDecided{
		Call: id, Round: r.id, Conversation: conv.id, Step: r.steps, Key: fmt.Sprintf("call-%d", step),
		Tool: events.ToolKey{Owner: "builtin", Name: "file.read"}, Definition: eventstest.Digest(7),
		Arguments: events.Arguments{Text: events.Plain(path), Size: int64(len(path)), MAC: events.MAC(eventstest.Digest(h.ids))},
		Verdict:   events.Allow, Tier: events.ReadOnly, Profile: "guest",
		Principal: events.Principal{ID: "bob", Kind: events.PrincipalUser},
		Facts:     events.CallFacts{Phase: 2, Role: "worker", RoleVersion: 1, SessionProfile: "guest", RoundOpen: true, HandleMatched: true},
	})
	h.write(a.id, events.CallCompleted{
		Call: id, Round: r.id, Status: events.StatusOK, Duration: 812,
		Result: events.Result{
			Size: 2048, MAC: events.MAC(eventstest.Digest(h.ids + 1)), Truncated: true, Blob: eventstest.Digest(h.ids + 2),
			Preview: events.Plain("# Summary of the quarter\n\nRevenue grew; costs did not. See the table below for the regions."),
		},
		Executor: events.ByEngine,
	})
}
