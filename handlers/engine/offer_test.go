package engine_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
	"gatebook/handlers/health"
	"gatebook/policy"
)

// familyHouse has boss, whose role may declare workers, and a job of alice's.
func familyHouse(t *testing.T, jobs map[string]policy.Job) *house {
	t.Helper()
	h := newHouse(t)
	family(t, h, jobs)
	h.start()
	return h
}

func family(t *testing.T, h *house, jobs map[string]policy.Job) {
	t.Helper()
	base := h.catalog.Catalog()
	worker := base.Roles["worker"]
	worker.MayDeclare = []string{"worker"}
	base.Roles["worker"], base.Jobs = worker, jobs
	var err error
	h.catalog, err = policy.Compile(base, "probe")
	must(t, err)
}

// kidKey is a public key of the right form that nobody has.
const kidKey = events.PublicKey("UKIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")

// declare makes kid a child of alice.
func (h *house) declare(t *testing.T) {
	t.Helper()
	if _, ok := h.ask(func(a engine.Answer) engine.Command {
		return &engine.DeclareChild{Answer: a, Request: policy.ChildRequest{Parent: "alice", Call: "C", Child: "kid", Key: kidKey, Role: "worker"}}
	}).(engine.Done); !ok {
		t.Fatal("alice has no child")
	}
}

func accept(agent events.AgentID, handle, connection string) func(engine.Answer) engine.Command {
	return func(a engine.Answer) engine.Command {
		return &engine.AcceptRound{Agent: agent, HandleHash: hashOf(handle), Connection: connection, Wait: events.MicrosOf(time.Minute), Answer: a}
	}
}

func cause(ctx context.Context, of events.RoundID) func(engine.Answer) engine.Command {
	return func(a engine.Answer) engine.Command {
		return &engine.CauseRound{Context: ctx, By: "alice", Answer: a, Request: policy.RoundRequest{Agent: "kid", Cause: of, Task: "look"}}
	}
}

// The wish and the process find each other, whichever comes first; each round has one
// process, and each process one round.
func TestWishesAndOffersMeet(t *testing.T) {
	h := familyHouse(t, nil)
	h.declare(t)
	of := h.begin("one").Round
	wishes := []<-chan any{h.send(cause(t.Context(), of)), h.send(cause(t.Context(), of))}
	offers := []<-chan any{h.send(accept("kid", "a", "")), h.send(accept("kid", "b", "")), h.send(accept("kid", "c", ""))}
	wishes = append(wishes, h.send(cause(t.Context(), of)))
	began, took := map[events.RoundID]bool{}, map[events.RoundID]bool{}
	for i := range wishes {
		round, ok := (<-wishes[i]).(engine.RoundAnswer)
		began[round.Round] = ok
		round, ok = (<-offers[i]).(engine.RoundAnswer)
		took[round.Round] = ok && round.Task == "look" && round.CausedBy == of
	}
	if len(began) != 3 || len(took) != 3 {
		t.Errorf("began %v, took %v", began, took)
	}
	for round := range began {
		if !took[round] {
			t.Errorf("round %s began for %v, and its process does not know what for", round, took)
		}
	}
	again, ok := h.ask(accept("kid", "a", "")).(engine.RoundAnswer)
	if !ok || !again.Repeated || !took[again.Round] {
		t.Errorf("asked again after a lost answer: %+v", again)
	}
	h.close()
}

// Wishes and offers that were decided on top of a cycle that failed are decided again:
// one round begins, and everybody hears one thing.
func TestOffersAreDecidedAgain(t *testing.T) {
	for name, order := range map[string]bool{"the offer first": true, "the wish first": false} {
		t.Run(name, func(t *testing.T) {
			f := inFlight(t, func(f *flight) { f.declare(t) })
			var offer, wish <-chan any
			offered := func() { f.decided(1, func() { offer = f.send(accept("kid", "a", "")) }) }
			if order {
				offered()
			}
			f.decided(1, func() { wish = f.send(cause(t.Context(), f.two.Round)) })
			if !order {
				offered()
			}
			f.land <- &eventstest.Fault{Outcome: events.None, Err: events.ErrFull}
			f.probe.letGo()
			taken, refusedOffer := (<-offer).(engine.RoundAnswer)
			got, _ := (<-wish).(engine.RoundAnswer)
			waitHealthy(t, f.house)
			rounds := 0
			for _, e := range f.book() {
				if b, ok := e.Event.(events.RoundBegun); ok && b.CausedBy == f.two.Round {
					rounds++
				}
			}
			if got.Round != taken.Round || (rounds == 1) != (got.Round != "") || rounds > 1 {
				t.Errorf("%d rounds; the wish %+v, the process %+v (%t)", rounds, got, taken, refusedOffer)
			}
			f.house.close()
		})
	}
}

// A wish that was taken back in time begins nothing, and leaves the offer to others.
func TestWithdrawnWish(t *testing.T) {
	h := familyHouse(t, nil)
	h.declare(t)
	of := h.begin("one").Round
	wish := cause(t.Context(), of)(func(any) { t.Error("it is answered") }).(*engine.CauseRound)
	must(t, h.engine.Submit(t.Context(), wish))
	if !wish.Withdraw() {
		t.Error("it came true without a process")
	}
	offer := h.send(accept("kid", "a", ""))
	for range 2 { // the offer is decided, and what waited for one after it
		h.ask(func(a engine.Answer) engine.Command {
			return &engine.AcceptClock{Act: engine.Act{By: anna(), Answer: a}}
		})
	}
	next := h.send(cause(t.Context(), of))
	taken, _ := (<-offer).(engine.RoundAnswer)
	var got engine.RoundAnswer
	select {
	case v := <-next:
		got, _ = v.(engine.RoundAnswer)
	case <-time.After(time.Minute):
	}
	if got.Round == "" || taken.Round != got.Round {
		t.Errorf("the next wish: %+v, the process %+v", got, taken)
	}
	h.close()
}

// What may not be begun is refused and recorded, with or without a process.
func TestCauseIsRefused(t *testing.T) {
	h := familyHouse(t, nil)
	of := h.begin("one").Round
	for name, wish := range map[string]func(engine.Answer) engine.Command{
		"no child": cause(t.Context(), of),
		"no round": cause(t.Context(), "01JZ0000000000000000000000"),
	} {
		if no, ok := h.ask(wish).(engine.Refused); !ok || no.Error.Code != string(policy.CodeUnknownAgent) {
			t.Errorf("%s: %+v", name, no)
		}
	}
	h.declare(t)
	h.end(of, "one")
	if no, ok := h.ask(cause(t.Context(), of)).(engine.Refused); !ok || no.Error.Code != string(policy.CodeRoundEnded) {
		t.Errorf("a round that has ended: %+v", no)
	}
	h.close()
}

// An offer ends with its time and with its process.
func TestOffersEnd(t *testing.T) {
	h := familyHouse(t, nil)
	h.declare(t)
	late := h.send(accept("kid", "a", ""))
	gone := h.send(accept("kid", "b", "c1"))
	must(t, h.engine.Submit(t.Context(), engine.Disconnected{Agent: "kid", Connection: "c1", Left: 1}))
	if no, ok := (<-gone).(engine.Refused); !ok || no.Error.Code != "no_round" {
		t.Errorf("of a process that is gone: %+v", no)
	}
	h.clock.pass(61 * time.Second)
	if no, ok := (<-late).(engine.Refused); !ok || no.Error.Code != "no_round" {
		t.Errorf("after its time: %+v", no)
	}
	h.close()
}

// A job begins a round when it is due and somebody is there, once; what nobody serves
// for a whole period is missed once.
func TestJobs(t *testing.T) {
	h := familyHouse(t, map[string]policy.Job{"nightly": {Agent: "alice", Every: events.MicrosOf(time.Hour), Task: "tidy up"}})
	first := h.send(accept("alice", "a", ""))
	round, ok := (<-first).(engine.RoundAnswer)
	if !ok || round.Job != "nightly" || round.Task != "tidy up" || round.Kind != events.PrincipalInternal || round.Principal != "nightly-job" {
		t.Fatalf("the first: %+v", round)
	}
	second := h.send(accept("alice", "b", ""))
	h.ticks(2)
	select {
	case v := <-second:
		t.Errorf("before it is due: %+v", v)
	default:
	}
	h.clock.pass(61 * time.Minute)
	if no, ok := (<-second).(engine.Refused); !ok || no.Error.Code != "no_round" {
		t.Errorf("an offer that ended before: %+v", no)
	}
	h.clock.pass(60 * time.Minute)
	missed := func() (n int) {
		for _, e := range h.book() {
			if m, ok := e.Event.(events.JobMissed); ok && m.Job == "nightly" {
				n++
			}
		}
		return n
	}
	for range 1000 {
		if missed() > 0 {
			break
		}
		yield(t)
	}
	h.ticks(2)
	if missed() != 1 {
		t.Errorf("missed %d times", missed())
	}
	h.close()
}

// A process whose end was seen before it attached is gone, and one that came back is
// not.
func TestGoneBeforeItAttached(t *testing.T) {
	h := newHouse(t)
	h.start()
	gone, back := h.begin("one"), h.begin("two")
	attach := func(round events.RoundID, handle, connection string) {
		h.ask(func(a engine.Answer) engine.Command {
			return &engine.Attach{Agent: "alice", Round: round, HandleHash: hashOf(handle), Connection: connection, Answer: a}
		})
	}
	must(t, h.engine.Submit(t.Context(), engine.Disconnected{Agent: "alice", Connection: "c1", Left: 1}))
	must(t, h.engine.Submit(t.Context(), engine.Disconnected{Agent: "alice", Connection: "c2", Left: 0}))
	must(t, h.engine.Submit(t.Context(), engine.Connected{Agent: "alice", Connection: "c2"}))
	attach(gone.Round, "one", "c1")
	attach(back.Round, "two", "c2")
	h.clock.pass(31 * time.Second)
	for range 1000 {
		if end, ok := h.roundEnd(gone.Round); ok {
			if end.End != events.RoundCancelled {
				t.Errorf("ended %s", end.End)
			}
			if _, ok := h.roundEnd(back.Round); ok {
				t.Error("a process that came back is gone")
			}
			h.close()
			return
		}
		yield(t)
	}
	t.Error("the round goes on without its process")
	h.close()
}

// Questions that keep coming while nothing can be decided do not keep the end of a
// tool out of the book.
func TestQuestionsDoNotHoldUpAnEnd(t *testing.T) {
	h := newHouse(t)
	h.start()
	h.probe.keep()
	r := h.begin("one")
	answer := h.send(call(r.Round, "one", "k1", "x", h.probe))
	<-h.probe.seen
	h.engine.Health().Set(health.Disk, "full")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{}, 4)
	var asked atomic.Int64
	for range cap(ended) {
		go func() {
			defer func() { ended <- struct{}{} }()
			for ctx.Err() == nil {
				_ = h.engine.Submit(ctx, &engine.Outcome{Agent: "alice", Round: r.Round, HandleHash: hashOf("one"), Key: "k1", Answer: func(any) { asked.Add(1) }})
			}
		}()
	}
	for asked.Load() < 5000 {
		runtime.Gosched()
	}
	h.probe.letGo()
	select {
	case <-answer:
	case <-time.After(time.Minute):
		t.Error("no end while questions are asked")
	}
	stop()
	for range cap(ended) {
		<-ended
	}
	h.engine.Health().Clear(health.Disk)
	h.close()
}
