package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/infra/config"
	"gatebook/infra/identity"
	"gatebook/policy"
)

// bossHouse has boss, who may declare children, and the keys of two.
func bossHouse(t *testing.T, edits ...string) (*house, *node) {
	t.Helper()
	parent := t.TempDir()
	h := newHouse(t, parent, func(text string) string {
		keys := parent + "/data/keys"
		boss, err := identity.CreateKey(identity.AgentKey(keys, "boss"), rand.Reader)
		check(t, err)
		for _, id := range []events.AgentID{"kid", "grandkid"} {
			_, err := identity.CreateKey(identity.AgentKey(keys, id), rand.Reader)
			check(t, err)
		}
		return strings.NewReplacer(append(edits,
			"tools: [file.list, file.read]\n", "tools: [file.list, file.read, child.begin]\n",
			"roles:\n", "roles:\n  boss:\n    version: 1\n    may_declare: [worker, boss]\n    grants: [{scope: all}, {tool: child.begin}, {tool: child.declare}, {tool: child.revoke}]\n",
			"scopes:\n", "scopes:\n  all:\n    tools: [file.list, file.read, file.write, file.delete, file.restore]\n",
			"file.restore, demo", "file.restore, child.begin, child.declare, child.revoke, demo",
			"agents: {}\n", "agents:\n  boss:\n    role: boss\n    key: "+string(boss.Public())+"\n",
		)...).Replace(text)
	})
	n := h.open()
	h.setLongtime(n, "boss", "work")
	return h, n
}

// beginAs begins a round for somebody.
func (h *house) beginAs(id events.AgentID, sender string) roundFile {
	h.t.Helper()
	c, err := h.app.channel(terminalChannel)
	check(h.t, err)
	defer c.close()
	r, err := newRound(terminalChannel, rand.Reader)
	check(h.t, err)
	answer, err := askBegin(h.t.Context(), c, r, roundBegin{Agent: id, Sender: sender})
	check(h.t, err)
	r.Round = answer.Round
	return r
}

// cause lets a parent cause a round of its child, which accepts it.
func (h *house) cause(own roundFile, parent, kid events.AgentID) roundFile {
	h.t.Helper()
	return acceptRound(h.t, h, kid, func() {
		args := fmt.Sprintf(`{"child":%q,"task":"look"}`, kid)
		if a := h.agent(parent).mustCall(h.t, own, "child.begin", args); a.Status != events.StatusOK {
			h.t.Errorf("child.begin: %+v", a)
		}
	})
}

// The parent's guest round narrows what it causes, also after its end, and nothing
// else: the child's own round for the owner keeps what the owner has.
func TestOnlyTheCauseNarrowsAChild(t *testing.T) {
	h, _ := bossHouse(t)
	h.declareChild("boss", "kid", "worker", "")
	kid := h.agent("kid")
	write := func(r roundFile) events.Status {
		return kid.mustCall(t, r, "file.write", `{"path":"a.txt","content":"x"}`).Status
	}
	guest := h.beginAs("boss", "visitor")
	owner := h.beginAs("kid", "anna")
	causedByGuest := h.cause(guest, "boss", "kid")
	causedByOwner := h.cause(h.beginAs("boss", "anna"), "boss", "kid")
	steps := func(when string) {
		for name, row := range map[string]struct {
			round roundFile
			want  events.Status
		}{
			"the child's own round for the owner": {owner, events.StatusOK},
			"caused by a guest's round":           {causedByGuest, events.StatusDenied},
			"caused by the owner's round":         {causedByOwner, events.StatusOK},
		} {
			if got := write(row.round); got != row.want {
				t.Errorf("%s, %s: %s, want %s", when, name, got, row.want)
			}
		}
		if a := kid.mustCall(t, causedByGuest, "file.list", `{"path":"."}`); a.Status != events.StatusOK {
			t.Errorf("%s, a guest may list: %+v", when, a)
		}
	}
	steps("while the guest's round is open")
	h.end(guest)
	steps("after its end")
}

// O-R11 anthropics/claude-code#34692: the gate runs for a child as for anybody. Its
// calls are its own in the book, and what ran is what was allowed.
func TestEveryCallOfAChildIsDecided(t *testing.T) {
	h, n := bossHouse(t)
	h.declareChild("boss", "kid", "worker", "guest")
	own := h.beginAs("boss", "anna")
	r := h.cause(own, "boss", "kid")
	kid := h.agent("kid")
	for tool, want := range map[string]events.Status{"file.list": events.StatusOK, "mcp.deploy": events.StatusNotFound, "file.write": events.StatusDenied} {
		args := `{"path":"."}`
		if tool == "file.write" {
			args = `{"path":"a.txt","content":"x"}`
		}
		if a := kid.mustCall(t, r, tool, args); a.Status != want {
			t.Errorf("%s: %+v", tool, a)
		}
	}
	decided, of := all[events.CallDecided](t, n)
	done, _ := all[events.CallCompleted](t, n)
	var seen, allowed, ran int
	for i, d := range decided {
		if d.Round == r.Round && of[i] == "kid" {
			seen++
			if d.Verdict == events.Allow {
				allowed++
			}
			if d.Facts.CausedBy != own.Round || d.Facts.Ancestors != "boss (role boss, longtime work, left -, denied -)" {
				t.Errorf("facts %+v", d.Facts)
			}
		}
	}
	for _, d := range done {
		if d.Round == r.Round {
			ran++
		}
	}
	if seen != 3 || allowed != 1 || ran != allowed {
		t.Errorf("%d decisions, %d allowed, %d ran", seen, allowed, ran)
	}
}

// A revoked child is cut off, and so are its own children; its parent gets nothing
// back, and its id is never given again.
func TestRevokedChildrenAreGone(t *testing.T) {
	h, n := bossHouse(t)
	h.declareChild("boss", "kid", "boss", "")
	h.setLongtime(n, "kid", "work")
	h.declareChild("kid", "grandkid", "worker", "")
	kid, grandkid := h.agent("kid"), h.agent("grandkid")
	own := h.beginAs("boss", "anna")
	r := h.cause(own, "boss", "kid")
	below := h.cause(r, "kid", "grandkid")
	if a := grandkid.mustCall(t, below, "file.list", `{"path":"."}`); a.Status != events.StatusOK {
		t.Fatalf("before: %+v", a)
	}
	boss := h.agent("boss")
	if a := boss.mustCall(t, own, "child.revoke", `{"child":"grandkid"}`); a.Status != events.StatusDenied || a.Rule != "unknown_agent" {
		t.Errorf("a grandchild is another's: %+v", a)
	}
	if a := boss.mustCall(t, own, "child.revoke", `{"child":"kid","reason":"done"}`); a.Status != events.StatusOK {
		t.Fatalf("revoke: %+v", a)
	}
	for name, c := range map[string]*client{"kid": kid, "grandkid": grandkid} {
		waitFor(t, name+" is cut off", func() bool { return !c.conn.IsConnected() })
		if _, err := h.app.agent(events.AgentID(name)); err == nil {
			t.Errorf("%s connects again", name)
		}
	}
	waitFor(t, "their rounds have ended", func() bool {
		ended, _ := all[events.RoundEnded](t, n)
		var n int
		for _, e := range ended {
			if e.Round == r.Round || e.Round == below.Round {
				n++
			}
		}
		return n == 2
	})
	key, err := identity.LoadKey(identity.AgentKey(h.dir.Keys(), "kid"))
	check(t, err)
	if a := boss.mustCall(t, own, "child.declare", fmt.Sprintf(`{"child":"kid","key":%q,"role":"worker"}`, key.Public())); a.Status != events.StatusDenied || a.Rule != "conflict" {
		t.Errorf("declared again: %+v", a)
	}
}

// An agent claims no cause, no kind and no parent; what it may not do to others'
// children is refused and recorded.
func TestNobodyClaimsACause(t *testing.T) {
	h, _ := bossHouse(t)
	h.declareChild("boss", "kid", "worker", "")
	own := h.beginAs("boss", "anna")
	kid := h.agent("kid")
	r, err := newRound("", rand.Reader)
	check(t, err)
	for _, request := range []map[string]any{
		{"handle_hash": r.hash(), "caused_by": own.Round}, {"handle_hash": r.hash(), "job": "daily"},
		{"handle_hash": r.hash(), "kind": "internal"}, {"handle_hash": r.hash(), "parent": "boss"},
	} {
		for _, verb := range []string{"round.begin", "round.accept"} {
			err := kid.ask(t.Context(), verb, request, new(engine.RoundAnswer))
			var no *problem
			if !errors.As(err, &no) || no.Code != "invalid" {
				t.Errorf("%s %v: %v", verb, request, err)
			}
		}
	}
	var no *problem
	if err := kid.ask(t.Context(), "round.begin", map[string]any{"handle_hash": r.hash()}, new(engine.RoundAnswer)); !errors.As(err, &no) || no.Code != "not_allowed" {
		t.Errorf("by itself: %v", err)
	}
	boss := h.agent("boss")
	for args, want := range map[string]events.Status{
		`{"child":"alice","task":"x"}`:                     events.StatusDenied,
		`{"child":"boss","task":"x"}`:                      events.StatusDenied,
		`{"child":"kid","task":"x","profile":"work"}`:      events.StatusRejected,
		`{"child":"kid","task":null}`:                      events.StatusRejected,
		`{"child":"Kid","task":"x"}`:                       events.StatusRejected,
		`{"child":"k\u0456d","task":"x"}`:                  events.StatusRejected,
		`{"child":"kid\n","task":"x"}`:                     events.StatusRejected,
		`{"child":"kid","task":"x","round":"` + "R" + `"}`: events.StatusRejected,
	} {
		if a := boss.mustCall(t, own, "child.begin", args); a.Status != want {
			t.Errorf("%s: %+v", args, a)
		}
	}
}

// Without a process of the child the call ends when its time is over, nothing has
// begun, and nothing begins when one comes after all.
func TestNoProcessOfTheChild(t *testing.T) {
	h, n := bossHouse(t, "tool_time: 30s", "tool_time: 1s")
	h.declareChild("boss", "kid", "worker", "")
	own := h.beginAs("boss", "anna")
	before, _ := all[events.RoundBegun](t, n)
	if a := h.agent("boss").mustCall(t, own, "child.begin", `{"child":"kid","task":"x"}`); a.Status != events.StatusDenied || a.Rule != "no_process" || !strings.Contains(a.Reason, "round.accept") {
		t.Errorf("the call: %+v", a)
	}
	r, err := newRound("", rand.Reader)
	check(t, err)
	var no *problem
	if err := h.agent("kid").ask(t.Context(), "round.accept", roundAccept{HandleHash: r.hash(), Wait: 1}, new(engine.RoundAnswer)); !errors.As(err, &no) || no.Code != "no_round" {
		t.Errorf("the process: %v", err)
	}
	after, _ := all[events.RoundBegun](t, n)
	if len(after) != len(before) {
		t.Errorf("%d rounds began", len(after)-len(before))
	}
}

// narrow puts the catalog file in force with more of it, that only narrows.
func (h *house) narrow(n *node, more string) {
	h.t.Helper()
	raw, err := os.ReadFile(h.dir.Catalog())
	check(h.t, err)
	c, err := config.Parse("gatebook.yaml", append(raw, more...), toolNames(n.cfg.extra)...)
	check(h.t, err)
	next, err := policy.Compile(c, toolNames(n.cfg.extra)...)
	check(h.t, err)
	done := make(chan any, 1)
	check(h.t, n.engine.Submit(h.t.Context(), &engine.LoadCatalog{
		Act: engine.Act{By: events.Engine(), Answer: func(v any) { done <- v }}, Next: next,
	}))
	if v, ok := (<-done).(engine.Done); !ok || !v.Changed {
		h.t.Fatalf("the catalog: %+v", v)
	}
}

// O-R21 anthropics/claude-code#86196: one rule about a path holds for every tool, also
// where no argument names the path and the tool finds it: what was deleted before the
// rule came is not brought out from under it.
func TestOneRuleForEveryTool(t *testing.T) {
	h, n := bossHouse(t)
	own := h.beginAs("boss", "anna")
	boss := h.agent("boss")
	call := func(tool, args string) engine.CallAnswer { return boss.mustCall(t, own, tool, args) }
	if a := call("file.write", `{"path":"private/key.txt","content":"CANARY-7f3a"}`); a.Status != events.StatusOK {
		t.Fatalf("write: %+v", a)
	}
	deleted := call("file.delete", `{"path":"private"}`)
	if deleted.Status != events.StatusOK {
		t.Fatalf("delete: %+v", deleted)
	}
	h.narrow(n, "\nbaseline:\n  deny:\n    - scope: all\n      paths: [private, \"private/**\"]\n")
	id := string(deleted.Call)
	for args, tool := range map[string]string{
		`{"path":"private/key.txt"}`:                     "file.read",
		`{"path":"private"}`:                             "file.list",
		`{"path":"PRIVATE/key.txt"}`:                     "file.read",
		`{"path":"private/key.txt","content":"x"}`:       "file.write",
		`{"path":"."}`:                                   "file.delete",
		`{"id":"` + id + `"}`:                            "file.restore",
		`{"id":"` + id + `","path":"public"}`:            "file.restore",
		`{"id":"` + id + `","path":"private/../public"}`: "file.restore",
	} {
		if a := call(tool, args); a.Status != events.StatusDenied || strings.Contains(fmt.Sprint(a), "CANARY") {
			t.Errorf("%s %s: %+v", tool, args, a)
		}
	}
	if a := call("file.list", `{"path":"."}`); a.Status != events.StatusOK || strings.Contains(string(a.Result), "public") {
		t.Errorf("what is there: %+v", a)
	}
}
