package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/tools"
	"gatebook/policy"
	"gatebook/policy/upstream"
)

// A server that the catalog declares is put on record once for each way to start it; one
// that it does not declare is not, whatever asks for it.
func TestMeetServer(t *testing.T) {
	h := newHouse(t)
	one, other := upstream.Server{Command: []string{"/bin/files"}}, upstream.Server{Command: []string{"/bin/other"}}
	h.recompile(t, func(c *policy.Catalog) { c.Servers = map[string]upstream.Server{"files": one} })
	h.start()
	defer h.close()
	meet := func(id string, s upstream.Server) {
		t.Helper()
		must(t, h.engine.Submit(t.Context(), &engine.MeetServer{ID: id, Launch: s.Launch()}))
		h.ask(func(a engine.Answer) engine.Command { // is decided after it
			return &engine.SetPhase{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Phase: 2}
		})
	}
	meet("files", one)
	meet("files", one)
	meet("files", other)
	meet("mailer", one)
	all := h.assets()
	if len(all) != 1 {
		t.Fatalf("on record: %+v", all)
	}
	want := events.AssetRegistered{
		Asset: all[0].Asset, Type: events.AssetServer, Owner: events.OwnerBuiltin, Name: "files", Version: events.DigestOf(one.Launch()),
		Tier: events.Privileged, State: events.AssetStateBlocked,
	}
	if all[0] != want {
		t.Errorf("on record: %+v, want %+v", all[0], want)
	}
	if kept, err := h.blobs.Get(want.Version); err != nil || string(kept) != string(one.Launch()) {
		t.Errorf("kept is %q, %v", kept, err)
	}
	for _, rec := range h.book() {
		if rec.Event == (events.Event)(want) && rec.Actor != events.Engine() {
			t.Errorf("it is by %+v", rec.Actor)
		}
	}
}

// O-A14 CVE-2025-54136: where a tool is offered anew with another definition while a call
// of it waits, nobody has seen what would run: the approval is refused with the true
// reason, and the call ends. The same definition of another process runs.
func TestToolIsOfferedAnew(t *testing.T) {
	for _, row := range []struct {
		name, version string
		want          events.Status
	}{{"the same", "1", events.StatusOK}, {"another", "2", events.StatusCancelled}} {
		t.Run(row.name, func(t *testing.T) {
			h := assetHouse(t)
			defer h.close()
			r := h.begin("one")
			n := note{h.probe, "1", events.Reversible}
			h.ask(h.callNote(r.Round, "one", n, "first"))
			h.recompile(t, func(c *policy.Catalog) { c.Tools["mailer/note"] = policy.Tool{Staging: policy.StagingApprove} })
			h.ask(func(a engine.Answer) engine.Command {
				return &engine.LoadCatalog{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Next: h.catalog}
			})
			waits := h.ask(h.callNote(r.Round, "one", n, "waits")).(engine.CallAnswer)
			if waits.State != engine.StateStaged {
				t.Fatalf("%+v", waits)
			}
			now, err := tools.NewEntry(note{h.probe, row.version, events.Reversible})
			must(t, err)
			h.offered.Store(&now)
			ids := h.reviews()
			answer := h.decide(review(ids[len(ids)-1], true))
			if no, refused := answer.(engine.Refused); refused != (row.want != events.StatusOK) || refused && no.Error.Code != string(policy.CodeConflict) {
				t.Errorf("the person hears %+v", answer)
			}
			if end := h.outcome(r.Round, "one", waits.Call); end.Status != row.want {
				t.Errorf("%+v, want %s", end, row.want)
			}
			if ran := h.probe.count("waits"); (ran == 1) != (row.want == events.StatusOK) {
				t.Errorf("it ran %d times", ran)
			}
			approved := slices.ContainsFunc(h.book(), func(rec events.Recorded) bool { return rec.Event.Kind() == events.KindReviewApproved })
			if approved != (row.want == events.StatusOK) {
				t.Errorf("an approval is on record: %t", approved)
			}
		})
	}
}

// A call of a server's tool waits over a restart, and over the time until the server runs
// again: until then nothing is decided, and a release runs what is offered then.
func TestServerComesLater(t *testing.T) {
	for _, row := range []struct {
		name, version string
		want          events.Status
	}{{"the same tool", "1", events.StatusOK}, {"another definition", "2", events.StatusCancelled}} {
		t.Run(row.name, func(t *testing.T) {
			h := assetHouse(t)
			defer h.close()
			r := h.begin("one")
			n := note{h.probe, "1", events.Reversible}
			h.ask(h.callNote(r.Round, "one", n, "first"))
			h.recompile(t, func(c *policy.Catalog) {
				c.Tools["mailer/note"] = policy.Tool{Staging: policy.StagingApprove}
				c.Servers = map[string]upstream.Server{"mailer": {Command: []string{"/bin/mailer"}}}
			})
			h.ask(func(a engine.Answer) engine.Command {
				return &engine.LoadCatalog{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Next: h.catalog}
			})
			waits := h.ask(h.callNote(r.Round, "one", n, "waits")).(engine.CallAnswer)
			h.crash()
			h.start()
			ids := h.reviews()
			id := ids[len(ids)-1]
			if no, ok := h.decide(review(id, true)).(engine.Refused); !ok || no.Error.Code != string(policy.CodeConflict) {
				t.Errorf("before the server runs: %+v", no)
			}
			if s, err := h.engine.Staged(t.Context(), waits.Call); err != nil || s.Definition != mustEntry(t, n).Digest {
				t.Errorf("it shows %+v, %v", s, err)
			}
			now := mustEntry(t, note{h.probe, row.version, events.Reversible})
			h.offered.Store(&now)
			answer := h.decide(review(id, true))
			if _, done := answer.(engine.Done); done != (row.want == events.StatusOK) {
				t.Errorf("%+v", answer)
			}
			if end := h.outcome(r.Round, "one", waits.Call); end.Status != row.want {
				t.Errorf("%+v, want %s", end, row.want)
			}
			// The arguments are what the tool makes of the bytes on record.
			if ran := h.probe.count(`{"text":"waits"}`); (ran == 1) != (row.want == events.StatusOK) {
				t.Errorf("it ran %d times", ran)
			}
		})
	}
}

func mustEntry(t *testing.T, tool tools.Tool) tools.Entry {
	t.Helper()
	e, err := tools.NewEntry(tool)
	must(t, err)
	return e
}

// What nobody can say the end of is unknown, and not an error.
func TestToolDoesNotKnow(t *testing.T) {
	h := newHouse(t)
	h.start()
	defer h.close()
	h.probe.err = fmt.Errorf("the server ended: %w", tools.ErrUnknown)
	r := h.begin("one")
	if a := h.ask(call(r.Round, "one", "k", "x", h.probe)).(engine.CallAnswer); a.Status != events.StatusUnknown || a.Reason == "" {
		t.Errorf("%+v", a)
	}
}
