package engine_test

import (
	"testing"
	"time"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/policy"
)

// restarts are the ways in which an engine comes again over the same book: with the
// views that it left, or with ones that are folded anew.
var restarts = map[string]func(*house){
	"after a stop":  func(h *house) { h.drain(); h.start() },
	"after a crash": func(h *house) { h.crash(); h.start() },
}

// over runs a test over every way to restart.
func over(t *testing.T, test func(t *testing.T, restart func(*house))) {
	for name, restart := range restarts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, restart)
		})
	}
}

// hourly is a job of alice's.
var hourly = map[string]policy.Job{"nightly": {Agent: "alice", Every: events.MicrosOf(time.Hour), Task: "tidy up"}}

// jobRounds are the rounds of jobs in the book, and how many were missed.
func (h *house) jobRounds() (begun []events.RoundID, missed int) {
	for _, e := range h.book() {
		switch e := e.Event.(type) {
		case events.RoundBegun:
			if e.Job != "" {
				begun = append(begun, e.Round)
			}
		case events.JobMissed:
			missed++
		}
	}
	return begun, missed
}

// soon is what an answer says, if it comes.
func soon(t *testing.T, answer <-chan any) any {
	t.Helper()
	select {
	case v := <-answer:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("no answer")
	}
	return nil
}

// served waits for the round that an offer gets.
func (h *house) served(t *testing.T, offer <-chan any) engine.RoundAnswer {
	t.Helper()
	v := soon(t, offer)
	round, ok := v.(engine.RoundAnswer)
	if !ok {
		t.Fatalf("no round: %+v", v)
	}
	return round
}

func (h *house) waitEnd(t *testing.T, round events.RoundID) {
	t.Helper()
	for range 1000 {
		if _, over := h.roundEnd(round); over {
			return
		}
		yield(t)
	}
	t.Fatalf("the round %s goes on", round)
}

// nothingFor fails where an offer gets anything within a tick.
func (h *house) nothingFor(t *testing.T, offer <-chan any, when string) {
	t.Helper()
	h.ticks(1)
	select {
	case v := <-offer:
		t.Errorf("%s: %+v", when, v)
	default:
	}
}

// A job that was due before a restart, and that nobody served, runs once after it. One
// that has run is not due again because of one, and one that came due while there was no
// engine is not missed.
func TestJobsOverARestart(t *testing.T) {
	over(t, func(t *testing.T, restart func(*house)) {
		h := familyHouse(t, hourly)
		h.ticks(1) // it is due, and nobody is there
		restart(h)
		first := h.served(t, h.send(accept("alice", "a", "")))
		h.nothingFor(t, h.send(accept("alice", "b", "")), "it runs again")
		h.clock.pass(time.Minute)
		restart(h)
		h.nothingFor(t, h.send(accept("alice", "c", "")), "after another restart it runs again")
		begun, missed := h.jobRounds()
		if len(begun) != 1 || begun[0] != first.Round || missed != 0 {
			t.Errorf("the rounds %v began, %d were missed, want %s alone", begun, missed, first.Round)
		}
		h.stop()
		must(t, <-h.ended)
		h.clock.pass(150 * time.Minute)
		h.start()
		h.ticks(1)
		second := h.served(t, h.send(accept("alice", "d", "")))
		h.nothingFor(t, h.send(accept("alice", "e", "")), "it runs again for the hours without an engine")
		if begun, missed = h.jobRounds(); len(begun) != 2 || begun[1] != second.Round || second.Job != "nightly" || missed != 0 {
			t.Errorf("the rounds %v began, %d were missed; the second is %+v", begun, missed, second)
		}
		h.close()
	})
}

// An offer that was accepted before a restart is not accepted again: who asks again hears
// which round it serves, open or ended, and nothing begins for it, whatever waits.
func TestAcceptedOffersOverARestart(t *testing.T) {
	over(t, func(t *testing.T, restart func(*house)) {
		h := familyHouse(t, hourly)
		h.declare(t)
		of := h.begin("one").Round
		ofJob := h.served(t, h.send(accept("alice", "a", "")))
		offer := h.send(accept("kid", "k", ""))
		h.ask(cause(t.Context(), of))
		caused := h.served(t, offer)
		restart(h)
		for _, over := range []bool{false, true} {
			if over {
				h.clock.pass(61 * time.Minute) // the rounds time out, and the job is due again
				h.waitEnd(t, ofJob.Round)
				h.waitEnd(t, caused.Round)
			}
			for handle, want := range map[string]engine.RoundAnswer{"a": ofJob, "k": caused} {
				agent := map[string]events.AgentID{"a": "alice", "k": "kid"}[handle]
				got := h.served(t, h.send(accept(agent, handle, "")))
				if !got.Repeated || got.Round != want.Round || got.Task != want.Task || got.Job != want.Job || got.CausedBy != want.CausedBy || (got.End != "") != over {
					t.Errorf("%s asked again: %+v, want %+v", agent, got, want)
				}
			}
		}
		if no, ok := h.ask(accept("kid", "a", "")).(engine.Refused); !ok || no.Error.Code != string(policy.CodeConflict) {
			t.Errorf("the handle of another agent's round: %+v", no)
		}
		if next := h.served(t, h.send(accept("alice", "new", ""))); next.Job != "nightly" || next.Round == ofJob.Round || next.Repeated {
			t.Errorf("a new offer got %+v", next)
		}
		begun := 0
		for _, e := range h.book() {
			if b, ok := e.Event.(events.RoundBegun); ok && b.HandleHash != hashOf("one") {
				begun++
			}
		}
		if begun != 3 {
			t.Errorf("%d rounds began, want the three that were served", begun)
		}
		h.close()
	})
}

// Wishes and offers that waited at a restart are told so, and nothing begins for them
// after it.
func TestWaitingOffersOverARestart(t *testing.T) {
	over(t, func(t *testing.T, restart func(*house)) {
		h := familyHouse(t, nil)
		h.declare(t)
		of := h.begin("one").Round
		offer := h.send(accept("alice", "a", ""))
		wish := h.send(cause(t.Context(), of))
		h.ask(func(a engine.Answer) engine.Command { // both are decided
			return &engine.AcceptClock{Act: engine.Act{By: anna(), Answer: a}}
		})
		restart(h)
		for name, answer := range map[string]<-chan any{"the offer": offer, "the wish": wish} {
			if no, ok := soon(t, answer).(engine.Refused); !ok || no.Error.Code != "stopped" {
				t.Errorf("%s heard %+v", name, no)
			}
		}
		late := h.send(accept("kid", "k", ""))
		h.nothingFor(t, late, "a wish of before the restart")
		got, _ := h.ask(cause(t.Context(), of)).(engine.RoundAnswer)
		if taken := h.served(t, late); taken.Round != got.Round || got.Round == "" {
			t.Errorf("the wish %+v, the process %+v", got, taken)
		}
		h.close()
	})
}

// An open caused round goes on after a restart: with its handle, with the rights that
// were frozen in it and no others, and with a new grace for its process.
func TestCausedRoundsOverARestart(t *testing.T) {
	over(t, func(t *testing.T, restart func(*house)) {
		h := newHouse(t)
		h.catalog = withProfiles(t, func(c *policy.Catalog) {
			worker := c.Roles["worker"]
			worker.MayDeclare = []string{"worker"}
			c.Roles["worker"] = worker
			c.Profiles["guest"] = policy.Profile{Tools: []string{"file.list", "file.read"}}
			c.Principals.IDs = map[string]policy.Policy{"terminal-guest": {Deny: []policy.Rule{{Tool: "file.list"}}}}
		})
		h.start()
		h.declare(t)
		alice, kid := h.party(t, "alice"), h.party(t, "kid")
		alice.longtime("owner")
		kid.longtime("owner")
		caused := func(sender, handle, connection string) *turn {
			of := alice.begin(sender, "", "")
			offer := h.send(accept("kid", handle, connection))
			h.ask(cause(t.Context(), of.Round))
			r := &turn{RoundAnswer: h.served(t, offer), handle: handle}
			alice.end(of, events.RoundCompleted)
			return r
		}
		ofGuest, ofOwner := caused(guest, "k1", "c1"), caused(owner, "k2", "")
		check := func(when string) {
			t.Helper()
			kid.may(ofGuest, guestTools, "the guest's round "+when)
			kid.may(ofOwner, ownerTools, "the owner's round "+when)
		}
		check("before")
		must(t, h.engine.Submit(t.Context(), engine.Disconnected{Agent: "kid", Connection: "c1"}))
		alice.longtime("owner") // is decided after it
		restart(h)
		h.clock.pass(31 * time.Second)
		h.ticks(1)
		check("after the restart")
		alice.longtime("guest")
		kid.may(ofOwner, guestTools, "the owner's round, when its parent may less")
		if v, ok := h.ask(func(a engine.Answer) engine.Command {
			return &engine.EndRound{Answer: a, Request: policy.RoundEndRequest{
				Agent: "kid", Self: true, Round: ofOwner.Round, HandleHash: hashOf("k2"), End: events.RoundCompleted,
			}}
		}).(engine.RoundAnswer); !ok || v.End != events.RoundCompleted {
			t.Errorf("the end: %+v", v)
		}
		kid.may(ofOwner, "", "the round that ended")
		kid.may(ofGuest, guestTools, "the other")
		h.close()
	})
}
