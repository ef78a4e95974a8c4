package replay_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/replay"
)

// Every kind of fact has words of its own, and one line.
func TestEveryKindIsTold(t *testing.T) {
	for i, d := range eventstest.Samples() {
		line := replay.NewTeller().Tell(events.Recorded{Draft: d, Seq: events.Seq(i + 1)})
		if kind := string(d.Event.Kind()); line.Text == "" || line.Text == kind || line.Seq != events.Seq(i+1) || line.Time != d.Time || line.Agent != d.Agent {
			t.Errorf("%s: %+v", kind, line)
		}
	}
}

// A story has a call's tool at its end, what the gate said, and who decided.
func TestStory(t *testing.T) {
	call, review := eventstest.ID[events.CallID](1), eventstest.ID[events.ReviewID](2)
	teller := replay.NewTeller()
	tell := func(actor events.Actor, e events.Event) string {
		d := eventstest.Draft(1, "alice", e)
		d.Actor = actor
		return teller.Tell(events.Recorded{Draft: d, Seq: 1}).Text
	}
	agent, anna := events.Actor{Kind: events.ActorAgent, ID: "alice"}, events.Actor{Kind: events.ActorPerson, ID: "anna"}
	for _, row := range []struct{ got, want string }{
		{tell(agent, events.RoundBegun{Round: "R", Channel: "chat", Principal: events.Principal{ID: "ada", Kind: events.PrincipalUser}, Effective: "work", Task: events.Personal{Text: "tidy up"}}),
			"ada (user) is talking over chat, profile work: tidy up (round R)"},
		{tell(agent, events.CallDecided{Call: call, Step: 3, Tool: events.ToolKey{Owner: events.OwnerBuiltin, Name: "file.delete"}, Arguments: events.Arguments{Text: events.Plain(`{"path":"a"}`)}, Verdict: events.Stage, Reason: "a person must"}),
			`step 3: file.delete {"path":"a"} -> stage: a person must`},
		{tell(anna, events.ReviewApproved{Review: review, Call: call}), "anna approved step 3, file.delete"},
		{tell(anna, events.CallReleased{Call: call}), "step 3, file.delete, goes on, as anna has approved"},
		{tell(agent, events.CallCompleted{Call: call, Status: events.StatusOK, Duration: 1500, Result: events.Result{Size: 2, Preview: events.Plain("{}")}}),
			"step 3, file.delete, ended: ok, after 1.5ms {}"},
		{tell(agent, events.CallCompleted{Call: call, Status: events.StatusUnknown, Reason: "the engine stopped"}), "call " + string(call) + " ended: unknown, after 0s: the engine stopped"},
		{tell(agent, events.CallDecided{Step: 4, Tool: events.ToolKey{Owner: events.OwnerBuiltin, Name: "x"}, Verdict: events.Deny, Layer: events.LayerRole, Rule: "grant", Reason: "no"}), "step 4: x  -> deny by layer role, rule grant: no"},
	} {
		if row.got != row.want {
			t.Errorf("%q, want %q", row.got, row.want)
		}
	}
	long := tell(agent, events.CallDecided{Step: 5, Tool: events.ToolKey{Owner: events.OwnerBuiltin, Name: "x"}, Arguments: events.Arguments{Text: events.Plain(strings.Repeat("ä", 500))}, Verdict: events.Allow})
	if len(long) > 300 || !strings.Contains(long, "…") {
		t.Errorf("a line of %d bytes", len(long))
	}
}

// A story of a round has all that names it, and what a person decided about its calls,
// which names the call alone.
func TestRoundOfStory(t *testing.T) {
	const mine, other = events.RoundID("R1"), events.RoundID("R2")
	s := replay.NewSelector(replay.Filter{Round: mine})
	s.RoundOfCall = func(c events.CallID) events.RoundID {
		if c == "known" {
			return mine
		}
		return ""
	}
	for _, row := range []struct { // in the order of the book
		name string
		e    events.Event
		want bool
	}{
		{"begun", events.RoundBegun{Round: mine}, true},
		{"another begun", events.RoundBegun{Round: other}, false},
		{"a profile that became the default", events.ProfileDefaulted{Round: mine}, true},
		{"decided", events.CallDecided{Call: "C1", Round: mine, Verdict: events.Stage}, true},
		{"of another decided", events.CallDecided{Call: "C9", Round: other}, false},
		{"asked for", events.ReviewRequested{Call: "C1", Round: mine}, true},
		{"of another asked for", events.ReviewRequested{Call: "C2", Round: other}, false},
		{"of another approved", events.ReviewApproved{Call: "C2"}, false},
		{"approved", events.ReviewApproved{Call: "C1"}, true},
		{"released", events.CallReleased{Call: "C1", Round: mine}, true},
		{"asked for, 2", events.ReviewRequested{Call: "C3", Round: mine}, true},
		{"refused", events.ReviewRefused{Call: "C3"}, true},
		{"asked for, 3", events.ReviewRequested{Call: "C4", Round: mine}, true},
		{"expired", events.ReviewExpired{Call: "C4"}, true},
		{"cancelled, asked for before the story", events.ReviewCancelled{Call: "known"}, true},
		{"approved, of nobody knows what", events.ReviewApproved{Call: "unknown"}, false},
		{"completed", events.CallCompleted{Call: "C1", Round: mine}, true},
		{"tainted", events.RoundTainted{Round: mine}, true},
		{"usage", events.UsageRecorded{Round: mine}, true},
		{"usage of another", events.UsageRecorded{Round: other}, false},
		{"ended", events.RoundEnded{Round: mine}, true},
		{"of the engine", events.EngineStarted{}, false},
	} {
		if got := s.Wants(events.Recorded{Draft: eventstest.Draft(1, "alice", row.e), Seq: 1}); got != row.want {
			t.Errorf("%s: %t", row.name, got)
		}
	}
}

// What a filter wants, each of its fields wants.
func TestFilter(t *testing.T) {
	samples := eventstest.Samples()
	rapid.Check(t, func(rt *rapid.T) {
		d := samples[rapid.IntRange(0, len(samples)-1).Draw(rt, "event")]
		r := events.Recorded{Draft: d, Seq: events.Seq(rapid.IntRange(1, 9).Draw(rt, "seq"))}
		var f replay.Filter
		want := true
		add := func(name string, set func() bool) {
			if rapid.Bool().Draw(rt, name) {
				want = set() && want
			}
		}
		add("agent", func() bool { f.Agent = "alice"; return d.Agent == "alice" })
		add("since", func() bool {
			f.Since = d.Time + events.Instant(rapid.IntRange(-1, 1).Draw(rt, "d"))
			return d.Time >= f.Since
		})
		add("until", func() bool {
			f.Until = d.Time + events.Instant(rapid.IntRange(-1, 1).Draw(rt, "d"))
			return d.Time < f.Until
		})
		add("from", func() bool { f.From = events.Seq(rapid.IntRange(1, 9).Draw(rt, "n")); return r.Seq >= f.From })
		add("to", func() bool { f.To = events.Seq(rapid.IntRange(1, 9).Draw(rt, "n")); return r.Seq <= f.To })
		if replay.NewSelector(f).Wants(r) != want {
			rt.Errorf("%+v of %+v: %t", f, r, !want)
		}
	})
}
