package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
	"gatebook/handlers/health"
	"gatebook/handlers/integrity"
)

// What one party sends must not end the loop for the others.
func TestUnwritableFacts(t *testing.T) {
	h := newHouse(t)
	h.start()
	r := h.begin("one")
	for _, odd := range []string{"\xff", "half \xc3", string(make([]byte, events.MaxEvent))} {
		must(t, h.engine.Submit(t.Context(), engine.Note{Fact: events.AccessRefused{Client: "x", Subject: odd}}))
		h.probe.err = errors.New("broken by " + odd)
		if a := h.call(r.Round, "one", "", "x"); a.State != engine.StateFinal || a.Status != events.StatusUnknown && a.Status != events.StatusError {
			t.Errorf("a tool whose error text is %.10q: %+v", odd, a)
		}
	}
	h.probe.err = nil
	if a := h.call(r.Round, "one", "", "y"); a.Status != events.StatusOK {
		t.Errorf("afterwards: %+v", a)
	}
	h.close()
}

// Invariant 6: what is refused without a record of its own is counted.
func TestDegradedIsCounted(t *testing.T) {
	h := newHouse(t)
	h.start()
	r := h.begin("one")
	h.engine.Health().Set(health.Disk, "full")
	for range 3 {
		if a := h.call(r.Round, "one", "", "x"); a.Rule != "degraded" {
			t.Errorf("%+v", a)
		}
	}
	h.engine.Health().Clear(health.Disk)
	for range 1000 {
		var n int64
		for _, e := range h.book() {
			if c, ok := e.Event.(events.IntakeRefused); ok && e.Agent == "alice" && c.Reason == "degraded" {
				n += c.Count
			}
		}
		if n == 3 {
			h.close()
			return
		}
		yield(t)
	}
	t.Error("three refusals were not counted")
}

// A release that was cut short by a crash is finished at the next start.
func TestReleaseEndsRounds(t *testing.T) {
	h := newHouse(t)
	h.drainTime = 100 * time.Millisecond
	h.start()
	r := h.begin("one")
	h.log.Before(func(_ context.Context, _ events.Seq, d [][]events.Record) *eventstest.Fault {
		for _, decision := range d {
			if rec, err := events.Decode(decision[0]); err == nil && rec.Event.Kind() == events.KindRoundEnded {
				return &eventstest.Fault{Outcome: events.None, Err: events.ErrUnavailable}
			}
		}
		return nil
	})
	if v := h.ask(func(a engine.Answer) engine.Command {
		return &engine.ReleaseAgent{Act: engine.Act{By: anna(), Answer: a}, Agent: "alice"}
	}); v.(engine.Done).Seq == 0 {
		t.Errorf("release: %+v", v)
	}
	h.crash()
	h.log.Before(nil)
	if _, ended := h.roundEnd(r.Round); ended {
		t.Fatal("the round ended before the crash")
	}
	h.start()
	if a := h.call(r.Round, "one", "", "x"); a.Status != events.StatusDenied {
		t.Errorf("a released agent: %+v", a)
	}
	if end, ended := h.roundEnd(r.Round); !ended || end.End != events.RoundCancelled {
		t.Errorf("the round of a released agent: %+v", end)
	}
	h.close()
}

// A process that comes back within its grace keeps its round.
func TestBackInTime(t *testing.T) {
	h := newHouse(t)
	h.start()
	r := h.begin("one")
	h.ask(func(a engine.Answer) engine.Command {
		return &engine.Attach{Agent: "alice", Round: r.Round, HandleHash: hashOf("one"), Answer: a}
	})
	must(t, h.engine.Submit(t.Context(), engine.Disconnected{Agent: "alice"}))
	must(t, h.engine.Submit(t.Context(), engine.Connected{Agent: "alice"}))
	if a := h.call(r.Round, "one", "", "x"); a.Status != events.StatusOK {
		t.Errorf("%+v", a)
	}
	h.clock.pass(40 * time.Second)
	h.ticks(2)
	if end, ended := h.roundEnd(r.Round); ended {
		t.Errorf("the round ended: %+v", end)
	}
	h.close()
}

// ticks waits until the loop's timer has fired n times.
func (h *house) ticks(n int) {
	timer := time.NewTimer(time.Duration(n)*time.Second + 100*time.Millisecond)
	defer timer.Stop()
	<-timer.C
}

// Damage that a reopened log shows ends the loop, and is called so.
func TestDamageAtReopen(t *testing.T) {
	h := newHouse(t)
	h.reopen = func() error { return &integrity.Damage{Seq: 3, Reason: "missing"} }
	h.start()
	r := h.begin("one")
	h.log.Fail(eventstest.Fault{Outcome: events.InDoubt, Err: events.ErrUnavailable})
	h.call(r.Round, "one", "", "x")
	if err := <-h.ended; !errors.Is(err, integrity.ErrDamage) || !h.engine.Health().Damaged() {
		t.Errorf("the loop ended with %v, health %v", err, h.engine.Health().Why())
	}
	h.stop()
	must(t, h.store.Close())
}
