package engine_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
	"gatebook/policy"
)

// stagedHouse is a house in which each call of the probe waits for a person.
func stagedHouse(t *testing.T) *house {
	t.Helper()
	h := newHouse(t)
	h.recompile(t, func(c *policy.Catalog) { c.Tools = map[string]policy.Tool{"probe": {Staging: policy.StagingApprove}} })
	h.start()
	return h
}

// recompile changes the catalog of the house.
func (h *house) recompile(t *testing.T, edit func(*policy.Catalog)) {
	t.Helper()
	c := h.catalog.Catalog()
	edit(&c)
	var err error
	h.catalog, err = policy.Compile(c, "probe", "mailer/note")
	must(t, err)
}

// wait stages a call and gives its answer and its review.
func (h *house) wait(t *testing.T, round events.RoundID, handle, key string) (engine.CallAnswer, events.ReviewID) {
	t.Helper()
	a := h.call(round, handle, key, key)
	if a.State != engine.StateStaged || a.Verdict != events.Stage || a.Status != "" || a.Layer != events.LayerStaging {
		t.Fatalf("the call does not wait: %+v", a)
	}
	for _, r := range h.book() {
		if e, ok := r.Event.(events.ReviewRequested); ok && e.Call == a.Call {
			return a, e.Review
		}
	}
	t.Fatal("no review was requested")
	return a, ""
}

var seen = eventstest.Digest(7)

// review is a decision of anna, who saw what there is to see.
func review(id events.ReviewID, approve bool) *engine.DecideReview {
	return &engine.DecideReview{
		Act: engine.Act{By: anna(), Approves: true}, Review: id, Approve: approve, Shown: seen, Now: seen, Reason: "too dear",
	}
}

func (h *house) decide(d *engine.DecideReview) any {
	return h.ask(func(a engine.Answer) engine.Command {
		d.Answer = a
		return d
	})
}

// wantNo wants a refusal of a person's decision that is recorded.
func (h *house) wantNo(t *testing.T, answer any, code policy.Code) {
	t.Helper()
	if r, ok := answer.(engine.Refused); !ok || r.Error.Code != string(code) {
		t.Errorf("%+v, want a refusal %s", answer, code)
		return
	}
	book := h.book()
	if e, ok := book[len(book)-1].Event.(events.AccessRefused); !ok || !strings.HasPrefix(e.Action, "review.") {
		t.Errorf("the last event is %T, want the attempt", book[len(book)-1].Event)
	}
}

// outcome asks for a call, and waits for its end.
func (h *house) outcome(round events.RoundID, handle string, call events.CallID) engine.CallAnswer {
	a, _ := h.ask(func(a engine.Answer) engine.Command {
		return &engine.Outcome{Agent: "alice", Round: round, HandleHash: hashOf(handle), Call: call, Wait: true, Answer: a}
	}).(engine.CallAnswer)
	return a
}

// waitSecret stages a call whose arguments are redacted in the book.
func (h *house) waitSecret(t *testing.T, round events.RoundID) (events.CallID, events.ReviewID) {
	t.Helper()
	answer, _ := h.ask(func(a engine.Answer) engine.Command {
		c, _ := call(round, "one", "secret", "secret", h.probe)(a).(*engine.Call)
		c.Request.Arguments.Redacted = true
		return c
	}).(engine.CallAnswer)
	for _, r := range h.book() {
		if e, ok := r.Event.(events.ReviewRequested); ok && e.Call == answer.Call {
			return e.Call, e.Review
		}
	}
	t.Fatalf("the call does not wait: %+v", answer)
	return "", ""
}

func (h *house) eventsOf(call events.CallID) (kinds []string) {
	for _, r := range h.book() {
		switch e := r.Event.(type) {
		case events.CallDecided:
			if e.Call == call {
				kinds = append(kinds, string(e.Kind()))
			}
		case events.ReviewRequested:
			if e.Call == call {
				kinds = append(kinds, string(e.Kind()))
			}
		case events.ReviewApproved:
			if e.Call == call {
				kinds = append(kinds, string(e.Kind())+" by "+r.Actor.ID)
			}
		case events.ReviewRefused:
			if e.Call == call {
				kinds = append(kinds, string(e.Kind())+" by "+r.Actor.ID)
			}
		case events.ReviewExpired:
			if e.Call == call {
				kinds = append(kinds, string(e.Kind()))
			}
		case events.ReviewCancelled:
			if e.Call == call {
				kinds = append(kinds, string(e.Kind()))
			}
		case events.CallReleased:
			if e.Call == call {
				kinds = append(kinds, string(e.Kind()))
			}
		case events.CallCompleted:
			if e.Call == call {
				kinds = append(kinds, string(e.Kind())+" "+string(e.Status))
			}
		}
	}
	return kinds
}

// until waits until the book has n events of a call.
func (h *house) until(t *testing.T, call events.CallID, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(h.eventsOf(call)) < n; {
		if yield(t); time.Now().After(end) {
			t.Fatalf("the book says of the call only %q", h.eventsOf(call))
		}
	}
}

func (h *house) wantEvents(t *testing.T, call events.CallID, want ...string) {
	t.Helper()
	if got := h.eventsOf(call); strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("the book says of the call: %q, want %q", got, want)
	}
}

func TestStagedCallIsApproved(t *testing.T) {
	h := stagedHouse(t)
	r := h.begin("one")
	a, id := h.wait(t, r.Round, "one", "x")
	if n := h.probe.count("x"); n != 0 {
		t.Fatalf("it ran %d times before a person decided", n)
	}
	// O-A08: nothing but a person's decision counts, however often it is asked.
	if again := h.call(r.Round, "one", "x", "x"); !again.Replayed || again.State != engine.StateStaged || again.Call != a.Call {
		t.Errorf("the same key again: %+v", again)
	}
	if _, ok := h.decide(review(id, true)).(engine.Done); !ok {
		t.Fatal("not approved")
	}
	if end := h.outcome(r.Round, "one", a.Call); end.Status != events.StatusOK || end.Verdict != events.Stage {
		t.Errorf("the end: %+v", end)
	}
	h.wantEvents(t, a.Call, "call.decided", "review.requested", "review.approved by anna", "call.released", "call.completed ok")
	// O-A05: it is for one call, and used up.
	h.wantNo(t, h.decide(review(id, true)), policy.CodeReviewDecided)
	h.wantNo(t, h.decide(review(id, false)), policy.CodeReviewDecided)
	// O-R24: and no rule, for the same arguments neither.
	if b, _ := h.wait(t, r.Round, "one", "y"); b.Call == a.Call {
		t.Error("the next call is the same")
	}
	if b := h.call(r.Round, "one", "x again", "x"); b.State != engine.StateStaged || b.Call == a.Call {
		t.Errorf("the same arguments again: %+v", b)
	}
	if n := h.probe.count("x"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	h.close()
}

func TestStagedCallDoesNotRun(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(*testing.T, *house, events.ReviewID, events.CallID)
		end  string
		want []string
	}{
		{"refused by a person", func(t *testing.T, h *house, id events.ReviewID, _ events.CallID) {
			if _, ok := h.decide(review(id, false)).(engine.Done); !ok {
				t.Error("not refused")
			}
		}, "denied review refused", []string{"review.refused by anna", "call.completed denied"}},
		{"O-A12 openhuman: approved too late", func(t *testing.T, h *house, id events.ReviewID, _ events.CallID) {
			h.clock.pass(24*time.Hour + time.Second)
			h.wantNo(t, h.decide(review(id, true)), policy.CodeReviewExpired)
		}, "expired review expired", []string{"review.expired", "call.completed expired"}},
		{"the rights at release are less", func(t *testing.T, h *house, id events.ReviewID, _ events.CallID) {
			h.recompile(t, func(c *policy.Catalog) { c.Baseline.Deny = []policy.Rule{{Tool: "probe"}} })
			h.ask(func(a engine.Answer) engine.Command {
				return &engine.LoadCatalog{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Next: h.catalog}
			})
			h.decide(review(id, true))
		}, "denied baseline deny", []string{"review.approved by anna", "call.completed denied"}},
		{"O-A19 its agent was released", func(t *testing.T, h *house, id events.ReviewID, call events.CallID) {
			h.ask(func(a engine.Answer) engine.Command {
				return &engine.ReleaseAgent{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Agent: "alice", Reason: "done"}
			})
			h.until(t, call, 4)
			h.wantNo(t, h.decide(review(id, true)), policy.CodeReviewDecided)
		}, "cancelled review released", []string{"review.cancelled", "call.completed cancelled"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := stagedHouse(t)
			r := h.begin("one")
			a, id := h.wait(t, r.Round, "one", "x")
			row.do(t, h, id, a.Call)
			if end := h.outcome(r.Round, "one", a.Call); fmt.Sprint(end.Status, " ", end.Layer, " ", end.Rule) != row.end {
				t.Errorf("the end: %+v, want %s", end, row.end)
			}
			h.wantEvents(t, a.Call, append([]string{"call.decided", "review.requested"}, row.want...)...)
			if n := h.probe.count("x"); n != 0 {
				t.Errorf("it ran %d times", n)
			}
			h.close()
		})
	}
}

// Nobody but an approver with the approving key decides, and only about what was seen.
func TestWhoDecides(t *testing.T) {
	h := stagedHouse(t)
	r := h.begin("one")
	a, id := h.wait(t, r.Round, "one", "x")
	for name, row := range map[string]struct {
		edit func(*engine.DecideReview)
		code policy.Code
	}{
		"O-A07 ai-memory-mcp#1787 an agent":    {func(d *engine.DecideReview) { d.By = events.Actor{Kind: events.ActorAgent, ID: "alice"} }, policy.CodeNotAllowed},
		"O-A07 an agent of an approver's name": {func(d *engine.DecideReview) { d.By.Kind = events.ActorAgent }, policy.CodeNotAllowed},
		"the reading key":                      {func(d *engine.DecideReview) { d.Approves = false }, policy.CodeNotAllowed},
		"somebody unknown":                     {func(d *engine.DecideReview) { d.By.ID = "zoe" }, policy.CodeNotAllowed},
		"O-A09 a prefix of the id":             {func(d *engine.DecideReview) { d.Review = id[:20] }, policy.CodeNoReview},
		"O-A09 no id":                          {func(d *engine.DecideReview) { d.Review = "" }, policy.CodeNoReview},
		"O-A09 another spelling":               {func(d *engine.DecideReview) { d.Review = events.ReviewID(strings.ToLower(string(id))) }, policy.CodeNoReview},
		"O-A21 the world changed since":        {func(d *engine.DecideReview) { d.Now = eventstest.Digest(8) }, policy.CodeConflict},
		"nothing was seen":                     {func(d *engine.DecideReview) { d.Shown = "" }, policy.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			d := review(id, true)
			row.edit(d)
			h.wantNo(t, h.decide(d), row.code)
		})
	}
	h.wantEvents(t, a.Call, "call.decided", "review.requested")
	if n := h.probe.count("x"); n != 0 {
		t.Errorf("it ran %d times", n)
	}
	h.close()
}

// O-A06: of many approvals at once one counts.
func TestApprovedManyTimesAtOnce(t *testing.T) {
	h := stagedHouse(t)
	r := h.begin("one")
	a, id := h.wait(t, r.Round, "one", "x")
	var mu sync.Mutex
	var wg sync.WaitGroup
	done := 0
	for range 50 {
		wg.Go(func() {
			answer := h.decide(review(id, true))
			mu.Lock()
			defer mu.Unlock()
			if _, ok := answer.(engine.Done); ok {
				done++
			}
		})
	}
	wg.Wait()
	h.outcome(r.Round, "one", a.Call)
	if n := h.probe.count("x"); n != 1 || done != 1 {
		t.Errorf("%d approvals counted, and it ran %d times", done, n)
	}
	h.close()
}

// O-A18: identical calls that wait are one, and a round has no more than twenty.
func TestTooManyStaged(t *testing.T) {
	h := stagedHouse(t)
	r := h.begin("one")
	first, id := h.wait(t, r.Round, "one", "0")
	for i := range 5 {
		if a := h.call(r.Round, "one", fmt.Sprint("same", i), "0"); a.Status != events.StatusDenied || a.Rule != "same" || !strings.Contains(a.Reason, "same as "+string(first.Call)) {
			t.Errorf("the same again: %+v", a)
		}
	}
	for i := 1; i < policy.MaxStaged; i++ {
		h.wait(t, r.Round, "one", fmt.Sprint(i))
	}
	if a := h.call(r.Round, "one", "more", "more"); a.Status != events.StatusDenied || a.Layer != events.LayerStaging || a.Rule != "staged_calls" {
		t.Errorf("one more: %+v", a)
	}
	h.decide(review(id, false))
	h.wait(t, r.Round, "one", "more again")
	two := h.begin("two")
	if a := h.call(two.Round, "two", "k", "1"); a.Rule != "same" {
		t.Errorf("the same from another round: %+v", a)
	}
	h.close()
}

// A staged call outlives its round and its engine, with the same arguments, but not
// where they were a secret.
func TestStagedOverARestart(t *testing.T) {
	for _, row := range []struct {
		name string
		stop func(*house)
	}{{"stopped", (*house).drain}, {"killed", func(h *house) { h.crash() }}} {
		t.Run(row.name, func(t *testing.T) {
			h := stagedHouse(t)
			r := h.begin("one")
			a, id := h.wait(t, r.Round, "one", "x")
			hidden, secret := h.waitSecret(t, r.Round)
			h.end(r.Round, "one")
			row.stop(h)
			if row.name == "stopped" {
				must(t, h.store.Close())
				h.openViews()
			}
			h.start()
			h.until(t, hidden, 4)
			h.wantEvents(t, hidden, "call.decided", "review.requested", "review.cancelled", "call.completed cancelled")
			h.wantNo(t, h.decide(review(secret, true)), policy.CodeReviewDecided)
			if _, ok := h.decide(review(id, true)).(engine.Done); !ok {
				t.Fatal("not approved")
			}
			if end := h.outcome(r.Round, "one", a.Call); end.Status != events.StatusOK {
				t.Errorf("the end: %+v", end)
			}
			if n := h.probe.count(`{"text":"x"}`); n != 1 {
				t.Errorf("it ran %d times with its arguments", n)
			}
			h.wantEvents(t, a.Call, "call.decided", "review.requested", "review.approved by anna", "call.released", "call.completed ok")
			h.close()
		})
	}
}

// A kill behind an approval leaves the call unknown, and it never runs again.
func TestKilledBehindAnApproval(t *testing.T) {
	h := stagedHouse(t)
	r := h.begin("one")
	a, id := h.wait(t, r.Round, "one", "x")
	h.probe.keep()
	h.decide(review(id, true))
	<-h.probe.seen
	h.crash()
	h.start()
	if end := h.outcome(r.Round, "one", a.Call); end.Status != events.StatusUnknown {
		t.Errorf("the end: %+v", end)
	}
	h.wantNo(t, h.decide(review(id, true)), policy.CodeReviewDecided)
	if n := h.probe.count("x"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	h.close()
}

// Who approves while a start still ends the calls of the former writer, approves one of
// this writer's.
func TestApprovedAtTheStart(t *testing.T) {
	h := stagedHouse(t)
	r := h.begin("one")
	first, firstID := h.wait(t, r.Round, "one", "first")
	a, id := h.wait(t, r.Round, "one", "x")
	h.probe.keep()
	h.decide(review(firstID, true))
	<-h.probe.seen
	h.crash()
	answer := h.run()
	done := h.send(func(to engine.Answer) engine.Command {
		d := review(id, true)
		d.Answer = to
		return d
	})
	<-answer
	if _, ok := (<-done).(engine.Done); !ok {
		t.Fatal("not approved")
	}
	if end := h.outcome(r.Round, "one", a.Call); end.Status != events.StatusOK {
		t.Errorf("the end: %+v", end)
	}
	h.until(t, first.Call, 5)
	h.wantEvents(t, first.Call, "call.decided", "review.requested", "review.approved by anna", "call.released", "call.completed unknown")
	h.close()
}

// unread is a log of which the first read fails, or ends the start meanwhile.
type unread struct {
	*eventstest.MemLog
	once sync.Once
	stop context.CancelFunc
}

func (l *unread) Read(ctx context.Context, from events.Seq) iter.Seq2[events.Record, error] {
	failed := false
	l.once.Do(func() {
		if failed = l.stop == nil; !failed {
			l.stop()
		}
	})
	if failed || ctx.Err() != nil {
		return func(yield func(events.Record, error) bool) { yield(events.Record{}, events.ErrUnavailable) }
	}
	return l.MemLog.Read(ctx, from)
}

// What could not be read back at a start waits on: the start fails, and nothing is given
// up.
func TestStartThatCannotReadBack(t *testing.T) {
	for _, name := range []string{"stopped while it starts", "one read fails"} {
		t.Run(name, func(t *testing.T) {
			h := stagedHouse(t)
			r := h.begin("one")
			a, id := h.wait(t, r.Round, "one", "x")
			h.drain()
			log := &unread{MemLog: h.log}
			if name == "stopped while it starts" {
				log.stop = func() { h.stop() }
			}
			h.over = log
			h.run()
			if err := <-h.ended; err == nil {
				t.Error("the start does not fail")
			}
			h.over = nil
			h.wantEvents(t, a.Call, "call.decided", "review.requested")
			h.start()
			if _, ok := h.decide(review(id, true)).(engine.Done); !ok {
				t.Error("not approved")
			}
			if end := h.outcome(r.Round, "one", a.Call); end.Status != events.StatusOK {
				t.Errorf("the end: %+v", end)
			}
			h.close()
		})
	}
}

// Who waits for the end of a staged call hears at a stop that it is staged.
func TestWaiterOfAStagedCall(t *testing.T) {
	h := stagedHouse(t)
	r := h.begin("one")
	a, _ := h.wait(t, r.Round, "one", "x")
	answer := h.send(func(to engine.Answer) engine.Command {
		return &engine.Outcome{Agent: "alice", Round: r.Round, HandleHash: hashOf("one"), Call: a.Call, Wait: true, Answer: to}
	})
	h.ask(func(to engine.Answer) engine.Command { // behind it
		return &engine.Outcome{Agent: "alice", Round: r.Round, HandleHash: hashOf("one"), Call: a.Call, Answer: to}
	})
	h.drain()
	if got, ok := (<-answer).(engine.CallAnswer); !ok || got.State != engine.StateStaged || got.Verdict != events.Stage {
		t.Errorf("%+v", got)
	}
	h.checkBook()
	must(t, h.store.Close())
}

// Whatever happens, in whatever order, with faults of the log and kills: a call runs at
// most once, and only behind its release; everybody is answered.
func TestStagedAnything(t *testing.T) {
	for seed := range int64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(seed), 1))
			h := stagedHouse(t)
			h.drainTime = 30 * time.Millisecond
			r := h.begin("one")
			var answers []<-chan any
			settle := func() {
				for _, a := range answers {
					select {
					case <-a:
					case <-time.After(time.Minute):
						t.Fatal("somebody hears nothing")
					}
				}
				answers = nil
			}
			for n := range 40 {
				switch rnd.IntN(9) {
				case 0, 1, 2:
					answers = append(answers, h.send(call(r.Round, "one", fmt.Sprint(n), fmt.Sprint(n), h.probe)))
				case 3, 4, 5:
					if ids := h.reviews(); len(ids) > 0 {
						for range 1 + rnd.IntN(3) {
							d := review(ids[rnd.IntN(len(ids))], rnd.IntN(4) > 0)
							answers = append(answers, h.send(func(to engine.Answer) engine.Command {
								d.Answer = to
								return d
							}))
						}
					}
				case 6:
					h.log.Fail([]eventstest.Fault{
						{Outcome: events.InDoubt, Decisions: eventstest.All, Err: events.ErrUnavailable},
						{Outcome: events.InDoubt, Err: events.ErrUnavailable},
						{Outcome: events.None, Err: events.ErrUnavailable},
						{Outcome: events.InDoubt, Decisions: 1, Err: events.ErrUnavailable},
					}[rnd.IntN(4)])
				case 7:
					h.clock.pass(time.Duration(rnd.IntN(20)) * time.Minute)
				case 8:
					if settle(); rnd.IntN(2) == 0 {
						h.crash()
						h.start()
					}
				}
			}
			settle()
			waitHealthy(t, h)
			h.drainTime = time.Second
			h.close()
			released := 0
			for _, rec := range h.book() {
				if _, ok := rec.Event.(events.CallReleased); ok {
					released++
				}
			}
			runs := 0
			for text, n := range h.probe.runs {
				if runs += n; n > 1 {
					t.Errorf("%s ran %d times", text, n)
				}
			}
			if runs > released || released == 0 {
				t.Errorf("%d runs, %d released", runs, released)
			}
		})
	}
}

func (h *house) reviews() (ids []events.ReviewID) {
	for _, rec := range h.book() {
		if e, ok := rec.Event.(events.ReviewRequested); ok {
			ids = append(ids, e.Review)
		}
	}
	return ids
}

// Where it is not known whether a call that is to wait got into the book, its caller
// hears so late as it is known, and what it hears is true.
func TestStagedInDoubt(t *testing.T) {
	for name, fault := range map[string]eventstest.Fault{
		"it is in the book":     {Outcome: events.InDoubt, Decisions: eventstest.All, Err: events.ErrUnavailable},
		"it is not in the book": {Outcome: events.InDoubt, Err: events.ErrUnavailable},
		"nothing is stored":     {Outcome: events.None, Err: events.ErrFull},
	} {
		t.Run(name, func(t *testing.T) {
			h := stagedHouse(t)
			r := h.begin("one")
			h.log.Fail(fault)
			a, id := h.wait(t, r.Round, "one", "x")
			waitHealthy(t, h)
			if _, ok := h.decide(review(id, true)).(engine.Done); !ok {
				t.Fatal("not approved")
			}
			if end := h.outcome(r.Round, "one", a.Call); end.Status != events.StatusOK || h.probe.count("x") != 1 {
				t.Errorf("it ran %d times: %+v", h.probe.count("x"), end)
			}
			h.close()
		})
	}
}
