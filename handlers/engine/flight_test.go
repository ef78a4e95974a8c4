package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
)

// flight is a house whose append of twelve decisions is on its way, and a call
// that was decided on top of it meanwhile.
type flight struct {
	*house
	land     chan *eventstest.Fault // how the append ends
	early    []<-chan any
	late     <-chan any
	one, two engine.RoundAnswer
}

// inFlight starts the house and waits until the late call is decided, in the
// second round. before, where not nil, is done before the calls.
func inFlight(t *testing.T, before func(*flight)) *flight {
	f := &flight{house: newHouse(t), land: make(chan *eventstest.Fault)}
	family(t, f.house, nil)
	f.drainTime = 50 * time.Millisecond
	f.start()
	f.one, f.two = f.begin("one"), f.begin("two")
	if before != nil {
		before(f)
	}
	r := f.one
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
	f.decided(1, func() { f.late = f.send(call(f.two.Round, "two", "late", "late", f.probe)) })
	f.log.Before(nil)
	return f
}

// decided does something and waits until the loop has asked for the time n times:
// once for what it decides, and once for each tick.
func (f *flight) decided(n int, do func()) {
	reads := f.clock.reads()
	do()
	for f.clock.reads() < reads+n {
		yield(f.tb.(*testing.T))
	}
}

// texts lists the keys of the decided calls in the order of the book.
func (h *house) texts() []string {
	var keys []string
	steps := map[events.RoundID]int64{}
	for i, e := range h.book() {
		if d, ok := e.Event.(events.CallDecided); ok {
			keys = append(keys, d.Key)
			if steps[d.Round]++; d.Step != steps[d.Round] {
				h.tb.Errorf("event %d is step %d, want %d", i+1, d.Step, steps[d.Round])
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
		f := inFlight(t, nil)
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
			f := inFlight(t, nil)
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
		f := inFlight(t, nil)
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
	t.Run("in doubt, and nobody else wrote", func(t *testing.T) {
		f := inFlight(t, nil)
		f.land <- &eventstest.Fault{Outcome: events.InDoubt, Err: events.ErrConflict}
		f.probe.letGo()
		for i, answer := range f.early[1:] {
			if a := (<-answer).(engine.CallAnswer); a.Rule != "degraded" {
				t.Errorf("call %d: %+v", i+1, a)
			}
		}
		<-f.late // decided again or refused, as above
		waitHealthy(t, f.house)
		f.house.close()
	})
}

// A round whose call is in flight has not timed out, and one whose process came
// back meanwhile is not abandoned, whatever the settled rows say.
func TestDueInFlight(t *testing.T) {
	t.Run("a call moved the deadline", func(t *testing.T) {
		f := inFlight(t, func(f *flight) { f.clock.pass(time.Hour - time.Millisecond) })
		f.decided(2, func() { f.clock.pass(2 * time.Millisecond) }) // a tick, and what is due
		f.landAll(t)
		f.house.close()
		if end, ended := f.roundEnd(f.two.Round); ended {
			t.Errorf("the round of the late call ended: %+v", end)
		}
	})
	t.Run("its process came back", func(t *testing.T) {
		f := inFlight(t, func(f *flight) {
			f.ask(func(a engine.Answer) engine.Command {
				return &engine.Attach{Agent: "alice", Round: f.two.Round, HandleHash: hashOf("two"), Answer: a}
			})
			f.decided(1, func() { must(t, f.engine.Submit(t.Context(), engine.Disconnected{Agent: "alice"})) })
			f.clock.pass(30*time.Second - time.Millisecond)
		})
		f.decided(1, func() { must(t, f.engine.Submit(t.Context(), engine.Connected{Agent: "alice"})) })
		f.decided(1, func() { f.clock.pass(2 * time.Millisecond) }) // a tick
		f.landAll(t)
		f.house.close()
		if end, ended := f.roundEnd(f.two.Round); ended {
			t.Errorf("the round ended: %+v", end)
		}
	})
}

// While an append is on its way the log is told how the next one begins, and that one
// keeps to it.
func TestToldInFlight(t *testing.T) {
	f := inFlight(t, nil)
	for i := range 12 {
		key := fmt.Sprint("more", i)
		f.early = append(f.early, f.send(call(f.two.Round, "two", key, key, f.probe)))
	}
	after, told := f.log.Told()
	for len(told) < 13 {
		yield(t)
		after, told = f.log.Told()
	}
	f.landAll(t)
	f.house.close()
	want := slices.Concat(told...)
	for r, err := range f.log.Read(t.Context(), after+1) {
		must(t, err)
		if r.Subject != want[0].Subject || !bytes.Equal(r.Body, want[0].Body) {
			t.Fatalf("event %d is not the one that was told: %s", r.Seq, r.Body)
		}
		if want = want[1:]; len(want) == 0 {
			return
		}
	}
	t.Errorf("%d events that were told are missing", len(want))
}

// landAll lets everything end well.
func (f *flight) landAll(t *testing.T) {
	f.land <- nil
	f.probe.letGo()
	for i, answer := range append(slices.Clone(f.early), f.late) {
		if a := (<-answer).(engine.CallAnswer); a.Status != events.StatusOK {
			t.Errorf("call %d: %+v", i, a)
		}
	}
}

// Tools whose calls became durable after the others were told to end do not start.
func TestDrainInFlight(t *testing.T) {
	f := inFlight(t, nil)
	f.decided(1, f.stop) // the first call's tool is cancelled, and its end decided
	f.land <- nil
	select {
	case err := <-f.ended:
		must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the drain does not end")
	}
	for i := range f.early[1:] {
		if n := f.probe.count(fmt.Sprint(i + 1)); n != 0 {
			t.Errorf("call %d ran %d times", i+1, n)
		}
	}
	f.checkBook()
	must(t, f.store.Close())
}

// What records nothing is bounded too, while an append is on its way.
func TestReadsInFlight(t *testing.T) {
	f := inFlight(t, nil)
	ctx, full := context.WithCancel(t.Context())
	taken := 0
	for taken < 10_000 {
		late := time.AfterFunc(time.Second, full)
		err := f.engine.Submit(ctx, &engine.Outcome{
			Agent: "alice", Round: f.one.Round, HandleHash: hashOf("one"), Key: "0", Answer: func(any) {},
		})
		late.Stop()
		if err != nil {
			break
		}
		taken++
	}
	full()
	if taken >= 10_000 {
		t.Errorf("%d reads were taken and not answered", taken)
	}
	f.landAll(t)
	f.house.close()
}
