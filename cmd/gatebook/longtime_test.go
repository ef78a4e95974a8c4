package main

import (
	"os"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
)

// unprofiled takes the profile of the sender anna out of the catalog file.
func (h *testFolder) unprofiled() {
	h.t.Helper()
	path := h.folder().Catalog()
	raw, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	text := strings.Replace(string(raw), "        profile: work\n", "", 1)
	if text == string(raw) {
		h.t.Fatal("the first catalog gives anna no profile")
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (g *agentAtWork) mustBe(want events.Status, layer events.Layer, tool, args string) engine.CallAnswer {
	g.t.Helper()
	a, err := g.call(tool, args, "")
	if err != nil || a.Status != want || a.Layer != layer {
		g.t.Fatalf("%s: %+v, %v; want %s by %q", tool, a, err, want, layer)
	}
	return a
}

// longtime gives an agent's longtime profile, as people see it.
func (h *testFolder) longtime(id events.AgentID) string {
	h.t.Helper()
	for _, a := range decodeAs[people.AgentsAnswer](h.t, h.must("agent", "list", "--json")).Agents {
		if a.Agent == id {
			return a.Longtime
		}
	}
	h.t.Fatalf("no agent %s", id)
	return ""
}

// DESIGN 8: where the round has no session profile the longtime profile decides.
// It outlives rounds and restarts, and a release clears it.
func TestLongtimeProfile(t *testing.T) {
	const write, read = `{"path":"a.txt","content":"a"}`, `{"path":"a.txt"}`
	h := newFolder(t)
	first := startEngine(t, h)
	alice := connectAgent(t, h, "alice")
	alice.beginRound(h, "with a session profile")
	alice.mustBe(events.StatusOK, "", "file.write", write)

	h.unprofiled()
	if out := h.diff(); !strings.Contains(out, "the agent's longtime profile") {
		t.Errorf("the difference does not say what decides: %s", out)
	}
	h.must("catalog", "approve")
	alice.mustBe(events.StatusOK, "", "file.write", write) // the open round keeps its own
	alice.beginRound(h, "without one")
	alice.mustBe(events.StatusDenied, events.LayerProfile, "file.read", read)

	h.must("agent", "profile", "alice", "guest")
	alice.mustBe(events.StatusOK, "", "file.read", read)
	alice.mustBe(events.StatusDenied, events.LayerProfile, "file.write", write)
	allowed := alice.mustBe(events.StatusOK, "", "file.list", `{"path":"."}`)
	if out := h.must("explain", string(allowed.Call)); !strings.Contains(out, "in effect guest (session -, longtime guest)") {
		t.Errorf("explain does not say what decided:\n%s", out)
	}

	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	startEngine(t, h)
	round := alice.r
	alice = reconnectAgent(t, h, "alice")
	alice.r = round
	alice.mustBe(events.StatusOK, "", "file.read", read)
	alice.beginRound(h, "after the restart")
	alice.mustBe(events.StatusOK, "", "file.read", read)
	alice.mustBe(events.StatusDenied, events.LayerProfile, "file.write", write)

	h.must("agent", "release", "alice")
	if got := h.longtime("alice"); got != "" {
		t.Errorf("a released agent has the longtime profile %q", got)
	}
}

func (h *testFolder) diff() string {
	_, out, errs := h.run("catalog", "diff")
	return out + errs
}
