package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
)

// flight is a house whose append of twelve decisions is on its way, and a call
// that was decided on top of it meanwhile.
type flight struct {
	*house
	land  chan *eventstest.Fault // how the append ends
	early []<-chan any
	late  <-chan any
}

// inFlight starts the house and waits until the late call is decided.
func inFlight(t *testing.T) *flight {
	f := &flight{house: newHouse(t), land: make(chan *eventstest.Fault)}
	f.start()
	r := f.begin("one")
	arrived := make(chan int)
	f.log.Before(func(_ context.Context, _ events.Seq, decisions [][]events.Record) *eventstest.Fault {
		arrived <- len(decisions)
		return <-f.land
	})
	// The first call keeps the loop busy until the others wait.
	f.early = append(f.early, f.send(call(r.Round, "one", "0", "0", f.probe)))
	<-arrived
	for i := range 11 {
		key := fmt.Sprint(i + 1)
		f.early = append(f.early, f.send(call(r.Round, "one", key, key, f.probe)))
	}
	f.probe.keep()
	f.land <- nil
	if n := <-arrived; n < 11 {
		t.Fatalf("%d decisions are on their way", n)
	}
	reads := f.clock.reads()
	f.late = f.send(call(r.Round, "one", "late", "late", f.probe))
	for f.clock.reads() == reads {
		yield(t)
	}
	f.log.Before(nil)
	return f
}

// texts lists the keys of the decided calls in the order of the book.
func (h *house) texts() []string {
	var keys []string
	for i, e := range h.book() {
		if d, ok := e.Event.(events.CallDecided); ok {
			keys = append(keys, d.Key)
			if d.Step != int64(len(keys)) {
				h.tb.Errorf("event %d is step %d, want %d", i+1, d.Step, len(keys))
			}
		}
	}
	return keys
}

func (f *flight) nothingYet() {
	f.tb.Helper()
	if n := f.probe.count("late"); n != 0 {
		f.tb.Errorf("the late call ran %d times", n)
	}
	select {
	case v := <-f.late:
		f.tb.Errorf("the late call was answered: %+v", v)
	default:
	}
}

// What is decided on top of a cycle that is not durable yet is neither sent nor
// released before that is, and dropped with it.
func TestDecidedInFlight(t *testing.T) {
	t.Run("the append succeeds", func(t *testing.T) {
		f := inFlight(t)
		f.nothingYet()
		f.land <- nil
		f.probe.letGo()
		for i, answer := range append(slices.Clone(f.early), f.late) {
			if a := (<-answer).(engine.CallAnswer); a.Status != events.StatusOK {
				t.Errorf("call %d: %+v", i, a)
			}
		}
		keys := f.texts()
		if len(keys) != 13 || keys[12] != "late" {
			t.Errorf("the book holds %q", keys)
		}
		f.house.close()
	})
	for name, fault := range map[string]eventstest.Fault{
		"nothing is stored":        {Outcome: events.None, Err: events.ErrFull},
		"a part is stored":         {Outcome: events.Prefix, Decisions: 4, Err: events.ErrUnavailable},
		"in doubt, all is stored":  {Outcome: events.InDoubt, Decisions: eventstest.All, Err: events.ErrUnavailable},
		"in doubt, none is stored": {Outcome: events.InDoubt, Err: events.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			f := inFlight(t)
			f.nothingYet()
			f.land <- &fault
			f.probe.letGo()
			for i, answer := range f.early[1:] {
				if a := (<-answer).(engine.CallAnswer); a.Rule != "degraded" {
					t.Errorf("call %d, whose append failed: %+v", i+1, a)
				}
			}
			// Nothing of the late call was sent, so it is decided again or refused.
			if a := (<-f.late).(engine.CallAnswer); a.Status == events.StatusOK != (f.probe.count("late") == 1) {
				t.Errorf("the late call ran %d times: %+v", f.probe.count("late"), a)
			}
			waitHealthy(t, f.house)
			f.texts()
			for i := range f.early[1:] {
				if n := f.probe.count(fmt.Sprint(i + 1)); n != 0 {
					t.Errorf("call %d was answered degraded and ran %d times", i+1, n)
				}
			}
			f.house.close()
		})
	}
	t.Run("the loop ends meanwhile", func(t *testing.T) {
		f := inFlight(t)
		f.stop()
		f.nothingYet()
		f.land <- nil
		f.probe.letGo()
		for i, answer := range append(slices.Clone(f.early), f.late) {
			if a := (<-answer).(engine.CallAnswer); a.Status == "" {
				t.Errorf("call %d: %+v", i, a)
			}
		}
		must(t, <-f.ended)
		f.checkBook()
		must(t, f.store.Close())
	})
	t.Run("another writer took over", func(t *testing.T) {
		f := inFlight(t)
		f.land <- &eventstest.Fault{Outcome: events.InDoubt, Err: events.ErrConflict}
		f.probe.letGo()
		for _, answer := range append(f.early[1:], f.late) {
			<-answer
		}
		waitHealthy(t, f.house) // nobody had, so it goes on
		f.house.close()
	})
}
