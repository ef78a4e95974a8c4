package engine_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
)

// Whatever happens to appends, the book stays whole: no tool runs without a
// durable decision or twice, every call has one end, nobody hears of a result
// that is not in the book, and views equal a rebuild.
func TestFaultsProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHouse(t)
		h.start()
		r := h.begin("one")
		answers := map[string]<-chan any{}
		for i := range rapid.IntRange(1, 4).Draw(rt, "steps") {
			for range rapid.IntRange(0, 1).Draw(rt, "faults") {
				h.log.Fail(fault(rt))
			}
			for j := range rapid.IntRange(1, 10).Draw(rt, "calls") {
				text := fmt.Sprintf("%d-%d", i, j)
				answers[text] = h.send(call(r.Round, "one", text, text, h.probe))
			}
			if rapid.Bool().Draw(rt, "wait") {
				waitHealthy(t, h)
			}
		}
		said := map[string]engine.CallAnswer{}
		for text, answer := range answers {
			said[text] = (<-answer).(engine.CallAnswer)
		}
		waitHealthy(t, h)
		h.close()
		h.checkSaid(rt, said)
	})
}

// checkSaid compares what callers heard and what ran with the book.
func (h *house) checkSaid(rt *rapid.T, said map[string]engine.CallAnswer) {
	decided, ended := map[string]events.CallDecided{}, map[events.CallID]events.CallCompleted{}
	for _, e := range h.book() {
		switch e := e.Event.(type) {
		case events.CallDecided:
			decided[e.Key] = e
		case events.CallCompleted:
			ended[e.Call] = e
		}
	}
	for text, a := range said {
		d, inBook := decided[text]
		runs := h.probe.count(text)
		if runs > 1 {
			rt.Errorf("call %s ran %d times", text, runs)
		}
		if runs == 1 && (!inBook || d.Verdict != events.Allow) {
			rt.Errorf("call %s ran without a decision", text)
		}
		switch {
		case a.Status == events.StatusOK:
			if runs != 1 || ended[d.Call].Status != events.StatusOK || ended[d.Call].Call != a.Call {
				rt.Errorf("call %s: heard ok, book says %+v", text, ended[d.Call])
			}
		case a.Rule == "degraded":
			if runs != 0 {
				rt.Errorf("call %s was refused and ran", text)
			}
		default:
			rt.Errorf("call %s: %+v", text, a)
		}
	}
}

func fault(rt *rapid.T) eventstest.Fault {
	return rapid.SampledFrom([]eventstest.Fault{
		{Outcome: events.None, Err: events.ErrFull},
		{Outcome: events.None, Err: events.ErrUnavailable},
		{Outcome: events.None, Err: events.ErrConflict},
		{Outcome: events.Prefix, Decisions: 1, Err: events.ErrFull},
		{Outcome: events.Prefix, Decisions: 3, Err: events.ErrConflict},
		{Outcome: events.InDoubt, Decisions: eventstest.All, Err: events.ErrUnavailable},
		{Outcome: events.InDoubt, Decisions: 2, Err: events.ErrUnavailable},
		{Outcome: events.InDoubt, Err: events.ErrUnavailable},
	}).Draw(rt, "fault")
}
