package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
	"gatebook/policy"
	"gatebook/projections"
)

// refusals counts what the book has of refusals without a record of their own.
func (h *house) refusals(agent events.AgentID, reason string) (n int64) {
	for _, e := range h.book() {
		if c, ok := e.Event.(events.IntakeRefused); ok && e.Agent == agent && c.Reason == reason {
			n += c.Count
		}
	}
	return n
}

// Invariant 6: a call whose append failed leaves a trace, whether its caller hears
// of it or not.
func TestFailedAppendsAreCounted(t *testing.T) {
	for name, fault := range map[string]eventstest.Fault{
		"nothing is stored":        {Outcome: events.None, Err: events.ErrFull},
		"in doubt, none is stored": {Outcome: events.InDoubt, Err: events.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.start()
			r := h.begin("one")
			var once sync.Once
			failed := make(chan struct{})
			h.log.Before(func(context.Context, events.Seq, [][]events.Record) (f *eventstest.Fault) {
				once.Do(func() {
					f = &fault
					close(failed)
				})
				return f
			})
			must(t, h.engine.Submit(t.Context(), call(r.Round, "one", "a", "x", h.probe)(nil)))
			<-failed
			for h.refusals("alice", "degraded") == 0 && t.Context().Err() == nil {
				yield(t) // at the next tick
			}
			h.close()
			if n := h.refusals("alice", "degraded"); n != 1 {
				t.Errorf("%d refusals are counted, want 1", n)
			}
		})
	}
}

// An intent during the drain is refused and counted, and whoever goes on asking
// does not hold the drain open.
func TestDrainUnderQuestions(t *testing.T) {
	h := newHouse(t)
	h.drainTime = 50 * time.Millisecond
	h.start()
	r := h.begin("one")
	h.probe.keep()
	running := h.send(call(r.Round, "one", "a", "x", h.probe))
	<-h.probe.seen
	h.stop()
	for h.engine.Health().OK() {
		yield(t)
	}
	if a := h.call(r.Round, "one", "b", "y"); a.Verdict != events.Deny || a.Rule != "degraded" || !strings.Contains(a.Reason, "stopping") {
		t.Errorf("an intent during the drain: %+v", a)
	}
	var askers sync.WaitGroup
	for range 4 {
		askers.Go(func() {
			for h.engine.Submit(context.Background(), &engine.Outcome{
				Agent: "alice", Round: r.Round, HandleHash: hashOf("one"), Key: "a", Answer: func(any) {},
			}) == nil {
			}
		})
	}
	select {
	case err := <-h.ended:
		must(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("the drain is held open by questions")
	}
	askers.Wait()
	if a := (<-running).(engine.CallAnswer); a.Status != events.StatusCancelled {
		t.Errorf("the running tool: %+v", a)
	}
	if h.probe.count("y") != 0 || h.refusals("alice", "degraded") != 1 {
		t.Errorf("it ran %d times and %d refusals are counted, want 0 and 1", h.probe.count("y"), h.refusals("alice", "degraded"))
	}
	h.checkBook()
	must(t, h.store.Close())
}

// A stop while nothing is known of an append is no clean end.
func TestStopInDoubt(t *testing.T) {
	h := newHouse(t)
	h.drainTime = 50 * time.Millisecond
	h.start()
	r := h.begin("one")
	h.log.SetDown(true)
	h.call(r.Round, "one", "a", "x")
	h.stop()
	if err := <-h.ended; !errors.Is(err, events.ErrUnavailable) {
		t.Errorf("the loop ended with %v", err)
	}
	must(t, h.store.Close())
}

// Whoever put a catalog in force hears so, also where the loop ends before every
// agent of it is enrolled.
func TestCatalogIsAnsweredAtAStop(t *testing.T) {
	h := newHouse(t)
	h.drainTime = 50 * time.Millisecond
	h.log.Before(func(_ context.Context, _ events.Seq, d [][]events.Record) *eventstest.Fault {
		if rec, err := events.Decode(d[0][0]); err == nil && rec.Event.Kind() == events.KindAgentEnrolled {
			go h.stop() // in its own goroutine, because the loop waits for us
			return &eventstest.Fault{Outcome: events.None, Err: events.ErrUnavailable}
		}
		return nil
	})
	answer := h.run()
	select {
	case v := <-answer:
		if done, ok := v.(engine.Done); !ok || done.Seq == 0 {
			t.Errorf("it heard %+v", v)
		}
	case <-time.After(20 * time.Second):
		t.Error("nobody answered")
	}
	<-h.ended
	must(t, h.store.Close())
}

// A commit of the views that fails after the append ends the process; the next
// start folds what is durable and ends the call, whose tool never ran.
func TestCommitFails(t *testing.T) {
	h := newHouse(t)
	h.start()
	r := h.begin("one")
	h.failing.Store(true)
	answer := h.send(call(r.Round, "one", "a", "x", h.probe))
	if err := <-h.ended; !errors.Is(err, projections.ErrStore) {
		t.Errorf("the loop ended with %v", err)
	}
	if a, ok := (<-answer).(engine.CallAnswer); ok && a.Status == events.StatusOK {
		t.Errorf("answered %+v", a)
	}
	if h.engine.Health().OK() {
		t.Error("it calls itself healthy")
	}
	h.failing.Store(false)
	must(t, h.store.Close())
	h.openViews()
	h.start()
	if a := h.call(r.Round, "one", "a", "x"); a.Status != events.StatusUnknown || !a.Replayed {
		t.Errorf("after the restart: %+v", a)
	}
	if n := h.probe.count("x"); n != 0 {
		t.Errorf("the tool ran %d times", n)
	}
	h.close()
}

// Views that do not end where the book does are not decided upon.
func TestViewsBehind(t *testing.T) {
	h := newHouse(t)
	h.start()
	h.drain()
	state, err := h.log.State(t.Context())
	must(t, err)
	must(t, h.log.Append(t.Context(), state.Last, [][]events.Record{{eventstest.Record(t, 7, "", events.PhaseChanged{Phase: 1})}}))
	h.run()
	if err := <-h.ended; !errors.Is(err, engine.ErrBehind) {
		t.Errorf("the loop ended with %v", err)
	}
	must(t, h.store.Close())
}

// Allowed calls that wait for a place run in the order of their decisions,
// whatever becomes of the limit meanwhile.
func TestHeldCallsKeepTheirOrder(t *testing.T) {
	h := newHouse(t)
	limit := func(n int) {
		c := h.catalog.Catalog()
		c.Limits.RunningTools = n
		next, err := policy.Compile(c, "probe")
		must(t, err)
		h.ask(func(a engine.Answer) engine.Command {
			return &engine.LoadCatalog{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Next: next}
		})
	}
	h.start()
	limit(3)
	r := h.begin("one")
	h.probe.keep()
	for _, text := range []string{"a", "b", "c", "d", "e", "f"} {
		h.send(call(r.Round, "one", text, text, h.probe))
	}
	for range 3 {
		<-h.probe.seen
	}
	limit(1)
	var began []string
	for range 3 { // the three, then one after the other
		h.probe.next()
		began = append(began, <-h.probe.seen)
	}
	h.probe.letGo()
	if got := strings.Join(began, ""); got != "def" {
		t.Errorf("they began as %s", got)
	}
	h.close()
}

// A question that nobody hears the answer of does not take the notice away from
// the agent's inbox.
func TestInboxNoticeDespiteAQuestion(t *testing.T) {
	h := newHouse(t)
	h.start()
	r := h.begin("one")
	h.probe.keep()
	must(t, h.engine.Submit(t.Context(), call(r.Round, "one", "a", "x", h.probe)(nil)))
	<-h.probe.seen
	must(t, h.engine.Submit(t.Context(), &engine.Outcome{Agent: "alice", Round: r.Round, HandleHash: hashOf("one"), Key: "a", Wait: true}))
	h.ask(func(a engine.Answer) engine.Command { // is decided after what was submitted before
		return &engine.AcceptClock{Act: engine.Act{By: anna(), Answer: a}}
	})
	h.probe.letGo()
	h.close()
	if !h.notes.has("inbox.alice") {
		t.Errorf("the notes are %q", h.notes.subjects)
	}
}

// A process that attaches and is gone at once is gone, whatever is on its way.
func TestGoneInFlight(t *testing.T) {
	f := inFlight(t, nil)
	attach := func(a engine.Answer) engine.Command {
		return &engine.Attach{Agent: "alice", Round: f.two.Round, HandleHash: hashOf("two"), Answer: a}
	}
	f.decided(1, func() { f.send(attach) })
	f.decided(1, func() { must(t, f.engine.Submit(t.Context(), engine.Disconnected{Agent: "alice"})) })
	f.landAll(t)
	f.endsGone(t)
}

// A timeout that a call moved away does not forget who attached.
func TestGoneAfterATimeoutThatWasNone(t *testing.T) {
	f := inFlight(t, func(f *flight) {
		f.ask(func(a engine.Answer) engine.Command {
			return &engine.Attach{Agent: "alice", Round: f.two.Round, HandleHash: hashOf("two"), Answer: a}
		})
		f.clock.pass(time.Hour - time.Millisecond)
	})
	f.decided(2, func() { f.clock.pass(2 * time.Millisecond) }) // a tick, and what is due
	f.landAll(t)
	must(t, f.engine.Submit(t.Context(), engine.Disconnected{Agent: "alice"}))
	f.endsGone(t)
}

// endsGone lets the grace pass; the second round then ends as its process's.
func (f *flight) endsGone(t *testing.T) {
	t.Helper()
	f.ask(func(a engine.Answer) engine.Command { // is decided after what was submitted before
		return &engine.AcceptClock{Act: engine.Act{By: anna(), Answer: a}}
	})
	f.clock.pass(31 * time.Second)
	for range 1000 {
		if end, ended := f.roundEnd(f.two.Round); ended {
			if end.End != events.RoundCancelled {
				t.Errorf("it ended as %s", end.End)
			}
			f.house.close()
			return
		}
		yield(t)
	}
	t.Error("the round goes on without its process")
	f.house.close()
}

// Many small steps of the wall clock are one large one.
func TestClockCreeps(t *testing.T) {
	h := newHouse(t)
	h.start()
	r := h.begin("one")
	for range 3 {
		h.clock.jump(25 * time.Minute)
		h.call(r.Round, "one", "", "x")
	}
	h.call(r.Round, "one", "", "x") // the jump is recorded in the cycle after it was seen
	if n := len(h.jumps()); n != 1 {
		t.Errorf("%d jumps are noted, want 1", n)
	}
	h.inOrder()
	h.close()
}
