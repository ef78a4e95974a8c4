package engine_test

import (
	"testing"
	"time"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/policy"
	"gatebook/policy/usage"
)

// jumps lists the clock.jumped events of the book.
func (h *house) jumps() []events.ClockJumped {
	var all []events.ClockJumped
	for _, e := range h.book() {
		if j, ok := e.Event.(events.ClockJumped); ok {
			all = append(all, j)
		}
	}
	return all
}

// inOrder checks that engine time never goes back.
func (h *house) inOrder() {
	last := events.Instant(0)
	for _, e := range h.book() {
		if e.Time < last {
			h.tb.Errorf("sequence %d has time %s after %s", e.Seq, e.Time, last)
		}
		last = e.Time
	}
}

func TestClock(t *testing.T) {
	for _, c := range []struct {
		name  string
		jump  time.Duration
		noted bool
	}{
		{"O-L10 teleport#56373 an hour back between two events", -time.Hour, true},
		{"O-E21 nats-server#7302 two hours back", -2 * time.Hour, true},
		{"O-E21 openclaw#123950 forty days ahead", 40 * 24 * time.Hour, true},
		{"(control) a few seconds back: time stands, nothing to say", -5 * time.Second, false},
		{"(control) half an hour ahead", 30 * time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.start()
			r := h.begin("one")
			h.call(r.Round, "one", "a", "x")
			h.clock.jump(c.jump)
			h.clock.pass(time.Second)
			h.call(r.Round, "one", "b", "y")
			h.call(r.Round, "one", "c", "z")
			if got := h.jumps(); (len(got) == 1) != c.noted {
				t.Errorf("jumps noted: %+v", got)
			}
			h.inOrder()
			if c.noted {
				h.checkHeld(r.Round)
			}
			h.close()
		})
	}
}

// checkHeld: while the clock is held nothing expires, across a restart too; a
// person's acceptance ends that.
func (h *house) checkHeld(round events.RoundID) {
	h.clock.pass(24 * time.Hour)
	h.crash()
	h.start()
	if a := h.call(round, "one", "d", "w"); a.Status != events.StatusOK {
		h.tb.Errorf("the round ended while the clock was held: %+v", a)
	}
	v := h.ask(func(a engine.Answer) engine.Command {
		return &engine.AcceptClock{Act: engine.Act{By: anna(), Answer: a}}
	})
	if done, ok := v.(engine.Done); !ok || !done.Changed {
		h.tb.Errorf("accept: %+v", v)
	}
	if n := len(h.jumps()); n != 2 {
		h.tb.Errorf("%d clock events, want the jump and its acceptance", n)
	}
	h.inOrder()
}

func TestOldBook(t *testing.T) {
	h := newHouse(t)
	h.start()
	r := h.begin("one")
	h.call(r.Round, "one", "a", "x")
	h.crash()
	h.clock.pass(8 * 24 * time.Hour)
	h.start()
	if n := len(h.jumps()); n != 1 {
		t.Errorf("%d jumps for a book whose last event is 8 days old", n)
	}
	if a := h.call(r.Round, "one", "b", "y"); a.Status != events.StatusOK {
		t.Errorf("nothing may expire before a person accepts the clock: %+v", a)
	}
	h.inOrder()
	h.close()
}

func TestRoundEndsByTime(t *testing.T) {
	h := newHouse(t)
	h.start()
	r := h.begin("one")
	for range 3 { // calls keep it open
		h.clock.pass(50 * time.Minute)
		if a := h.call(r.Round, "one", "", "x"); a.Status != events.StatusOK {
			t.Fatalf("within the timeout: %+v", a)
		}
	}
	h.clock.pass(59 * time.Minute)
	h.clock.pass(2 * time.Minute)
	for range 1000 {
		if end, ok := h.roundEnd(r.Round); ok {
			if end.End != events.RoundTimedOut {
				t.Errorf("ended %s", end.End)
			}
			h.close()
			return
		}
		yield(t)
	}
	t.Fatal("the round did not time out")
}

func (h *house) roundEnd(id events.RoundID) (events.RoundEnded, bool) {
	for _, e := range h.book() {
		if end, ok := e.Event.(events.RoundEnded); ok && end.Round == id {
			return end, true
		}
	}
	return events.RoundEnded{}, false
}

func TestGone(t *testing.T) {
	h := newHouse(t)
	h.start()
	attached, other := h.begin("one"), h.begin("two")
	h.ask(func(a engine.Answer) engine.Command {
		return &engine.Attach{Agent: "alice", Round: attached.Round, HandleHash: hashOf("one"), Answer: a}
	})
	must(t, h.engine.Submit(t.Context(), engine.Disconnected{Agent: "alice", Left: 0}))
	h.ask(func(a engine.Answer) engine.Command { // it is decided after what was submitted before
		return &engine.AcceptClock{Act: engine.Act{By: anna(), Answer: a}}
	})
	h.clock.pass(31 * time.Second)
	for range 1000 {
		if end, ok := h.roundEnd(attached.Round); ok {
			if end.End != events.RoundCancelled {
				t.Errorf("ended %s", end.End)
			}
			break
		}
		yield(t)
	}
	if _, ok := h.roundEnd(attached.Round); !ok {
		t.Error("the attached round goes on without its process")
	}
	if _, ok := h.roundEnd(other.Round); ok {
		t.Error("a round that nobody attached to cannot be gone")
	}
	h.close()
}

// A day after a round's end nothing changes what is recorded of its messages, also not a
// report in a later round.
func TestUsageIsFinal(t *testing.T) {
	h := newHouse(t)
	h.start()
	report := func(r engine.RoundAnswer, handle string, output int64) any {
		return h.ask(func(a engine.Answer) engine.Command {
			return &engine.RecordUsage{Answer: a, Report: usage.Report{
				Agent: "alice", Round: r.Round, HandleHash: hashOf(handle), Message: "m",
				Tokens: events.Tokens{Output: events.AmountOf(output)},
			}}
		})
	}
	recorded := func(v any) {
		t.Helper()
		if _, ok := v.(engine.UsageAnswer); !ok {
			t.Errorf("answered %+v", v)
		}
	}
	one := h.begin("one")
	recorded(report(one, "one", 1))
	v := h.end(one.Round, "one")
	if _, ok := v.(engine.RoundAnswer); !ok {
		t.Fatalf("end: %+v", v)
	}
	h.clock.pass(usage.Late)
	two := h.begin("two")
	recorded(report(two, "two", 2))
	h.clock.pass(time.Second)
	v = report(two, "two", 3)
	no, ok := v.(engine.Refused)
	if !ok || no.Error.Code != string(policy.CodeRoundEnded) || no.Error.Round != one.Round {
		t.Errorf("after more than a day: %+v", v)
	}
	h.close()
}
