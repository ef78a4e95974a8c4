package engine_test

import (
	"testing"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/policy"
)

// O-A01 (extra-org/extra#139, openclaw/openclaw#112946): an approval is of one call with
// its arguments. Here it lets that very call run, so that the same again asks again too.
func TestApprovalIsOfTheseArguments(t *testing.T) {
	h := stagedHouse(t)
	defer h.close()
	r := h.begin("one")
	a, id := h.wait(t, r.Round, "one", "a.txt")
	h.approved(t, r.Round, "one", a.Call, id)
	h.wait(t, r.Round, "one", "b.txt")
	if again := h.call(r.Round, "one", "another key", "a.txt"); again.State != engine.StateStaged {
		t.Errorf("O-A01 the same arguments again: %+v", again)
	}
	if a, b := h.probe.count("a.txt"), h.probe.count("b.txt"); a != 1 || b != 0 {
		t.Errorf("O-A01 a.txt ran %d times, b.txt %d times", a, b)
	}
}

// O-A02 (extra-org/extra#139), O-R18 (IBM/chuk-tool-processor#53): arguments of the same
// shape for a tool of another name or another owner are not covered.
func TestApprovalIsOfThisTool(t *testing.T) {
	h := newHouse(t)
	c := h.catalog.Catalog()
	c.Profiles["work"] = policy.Profile{Tools: []string{"probe", "mailer/note"}}
	c.Roles["worker"] = policy.Role{Version: 1, Grants: []policy.Rule{{Tool: "probe"}, {Tool: "mailer/note"}}}
	c.Tools = map[string]policy.Tool{"probe": {Staging: policy.StagingApprove}, "mailer/note": {Staging: policy.StagingApprove}}
	var err error
	h.catalog, err = policy.Compile(c, "probe", "mailer/note")
	must(t, err)
	h.start()
	defer h.close()
	r := h.begin("one")
	first, id := h.wait(t, r.Round, "one", "x")
	other := h.ask(func(a engine.Answer) engine.Command {
		k := h.callNote(r.Round, "one", note{h.probe, "1", events.Reversible}, "x")(a).(*engine.Call)
		k.Request.Key = "k2"
		return k
	}).(engine.CallAnswer)
	if other.State != engine.StateStaged {
		t.Fatalf("O-A02 the other tool's call: %+v", other)
	}
	h.approved(t, r.Round, "one", first.Call, id)
	if n := h.probe.count("x"); n != 1 {
		t.Errorf("O-A02 one approval let %d calls run", n)
	}
	h.wantEvents(t, other.Call, "call.decided", "review.requested")
}

// O-A13 (MoonshotAI/kimi-code#2908, primerhq/primer#212): an id that a provider uses again
// in another round names another call, with a request and a result of its own.
func TestProviderUsesAnIDAgain(t *testing.T) {
	h := stagedHouse(t)
	defer h.close()
	one := h.begin("one")
	a, first := h.wait(t, one.Round, "one", "Bash_0")
	h.ask(func(to engine.Answer) engine.Command {
		return &engine.EndRound{Answer: to, Request: policy.RoundEndRequest{Channel: "terminal", Round: one.Round, HandleHash: hashOf("one"), End: events.RoundCompleted}}
	})
	two := h.begin("two")
	b := h.call(two.Round, "two", "Bash_0", "other arguments")
	if b.State != engine.StateStaged || b.Call == a.Call {
		t.Fatalf("O-A13 the second: %+v", b)
	}
	h.approved(t, one.Round, "one", a.Call, first)
	if x, y := h.probe.count("Bash_0"), h.probe.count("other arguments"); x != 1 || y != 0 {
		t.Errorf("O-A13 the first ran %d times, the second %d times", x, y)
	}
}

// approved approves a call and waits until it has run.
func (h *house) approved(t *testing.T, round events.RoundID, handle string, call events.CallID, id events.ReviewID) {
	t.Helper()
	if _, ok := h.decide(review(id, true)).(engine.Done); !ok {
		t.Fatal("not approved")
	}
	if end := h.outcome(round, handle, call); end.Status != events.StatusOK {
		t.Fatalf("it did not run: %+v", end)
	}
}
