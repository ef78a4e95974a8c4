package engine_test

import (
	"testing"
	"time"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/policy"
)

func TestSameKey(t *testing.T) {
	h := newHouse(t)
	h.drainTime = 100 * time.Millisecond
	h.start()
	r := h.begin("one")
	first := h.call(r.Round, "one", "k", "x")
	again := h.call(r.Round, "one", "k", "x")
	if !again.Replayed || again.Call != first.Call || again.Status != events.StatusOK || again.Digest != first.Digest || again.Preview == "" {
		t.Errorf("the same key: %+v, first %+v", again, first)
	}
	if a := h.call(r.Round, "one", "k", "other"); a.Status != events.StatusRejected || a.Rule != "key" {
		t.Errorf("another body under the key: %+v", a)
	}
	if a := h.call(r.Round, "two", "k", "x"); a.Status != events.StatusDenied || a.Layer != events.LayerRound {
		t.Errorf("a wrong handle must not find the answer: %+v", a)
	}
	h.crash()
	h.start()
	if a := h.call(r.Round, "one", "k", "x"); !a.Replayed || a.Call != first.Call {
		t.Errorf("after a crash: %+v", a)
	}
	h.end(r.Round, "one")
	if a := h.call(r.Round, "one", "k", "x"); !a.Replayed || a.Call != first.Call {
		t.Errorf("after the round: %+v", a)
	}
	if a := h.call(r.Round, "one", "k2", "y"); a.Status != events.StatusDenied || a.Rule != "ended" {
		t.Errorf("a new key after the round: %+v", a)
	}
	h.clock.pass(policy.KeyTime)
	if a := h.call(r.Round, "one", "k", "x"); !a.Replayed || a.Call != first.Call {
		t.Errorf("24 hours after the round: %+v", a)
	}
	h.clock.pass(time.Second)
	if a := h.call(r.Round, "one", "k", "x"); a.Status != events.StatusDenied || a.Rule != "ended" {
		t.Errorf("later: %+v", a)
	}
	if h.probe.count("x") != 1 || h.probe.count("other") != 0 || h.probe.count("y") != 0 {
		t.Errorf("runs: %v", h.probe.runs)
	}
	h.close()
}

// Those who wait for one running call are a bounded number; the others hear that
// it runs.
func TestWaiters(t *testing.T) {
	h := newHouse(t)
	h.start()
	r := h.begin("one")
	h.probe.keep()
	answers := []<-chan any{h.send(call(r.Round, "one", "k", "x", h.probe))}
	<-h.probe.seen
	for i := range 2 * engine.MaxWaiters {
		if i%2 == 0 {
			answers = append(answers, h.send(call(r.Round, "one", "k", "x", h.probe)))
			continue
		}
		answers = append(answers, h.send(func(a engine.Answer) engine.Command {
			return &engine.Outcome{Agent: "alice", Round: r.Round, HandleHash: hashOf("one"), Key: "k", Wait: true, Answer: a}
		}))
	}
	for _, late := range answers[engine.MaxWaiters:] {
		if a := (<-late).(engine.CallAnswer); a.State != engine.StateRunning || a.Call == "" {
			t.Errorf("one too many: %+v", a)
		}
	}
	h.probe.letGo()
	for _, early := range answers[:engine.MaxWaiters] {
		if a := (<-early).(engine.CallAnswer); a.Status != events.StatusOK {
			t.Errorf("one who waits: %+v", a)
		}
	}
	h.close()
}
