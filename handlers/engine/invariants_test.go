package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
	"gatebook/handlers/tools"
	"gatebook/policy"
	"gatebook/policy/trash"
)

func TestNoRecordNoAction(t *testing.T) {
	t.Run("a tool starts only after its decision is durable", func(t *testing.T) {
		h := newHouse(t)
		h.start()
		r := h.begin("one")
		arrived, pass := make(chan struct{}), make(chan struct{})
		h.log.Before(func(context.Context, events.Seq, [][]events.Record) *eventstest.Fault {
			arrived <- struct{}{}
			<-pass
			return nil
		})
		answer := h.send(call(r.Round, "one", "k", "x", h.probe))
		<-arrived // the decision waits for the disk
		if n := h.probe.count("x"); n != 0 {
			t.Errorf("the tool ran %d times before its decision was durable", n)
		}
		pass <- struct{}{}
		<-arrived // the end waits for the disk
		if n := h.probe.count("x"); n != 1 {
			t.Errorf("the tool ran %d times", n)
		}
		select {
		case v := <-answer:
			t.Errorf("answered before the end was durable: %+v", v)
		default:
		}
		h.log.Before(nil)
		pass <- struct{}{}
		if a := (<-answer).(engine.CallAnswer); a.Status != events.StatusOK {
			t.Errorf("answer %+v", a)
		}
		h.close()
	})
	for _, c := range []struct {
		name string
		err  error
	}{
		{"O-L07 astrid-runtime/astrid#134 error at the decision write", events.ErrUnavailable},
		{"O-L07 infrabroker#133 disk full at the decision write", events.ErrFull},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.start()
			r := h.begin("one")
			h.log.Fail(eventstest.Fault{Outcome: events.None, Err: c.err})
			a := h.call(r.Round, "one", "k", "x")
			if a.Verdict != events.Deny || a.Status != events.StatusDenied || a.Layer != events.LayerEngine || a.Rule != "degraded" {
				t.Errorf("answer %+v", a)
			}
			waitHealthy(t, h)
			if n := h.probe.count("x"); n != 0 {
				t.Errorf("the tool ran %d times without a record", n)
			}
			if a := h.call(r.Round, "one", "k", "x"); a.Status != events.StatusOK || a.Replayed {
				t.Errorf("after recovery: %+v", a)
			}
			h.close()
		})
	}
	t.Run("O-L07 onetimesecret#4333 the end cannot be written: the result is withheld until it is", func(t *testing.T) {
		h := newHouse(t)
		h.start()
		r := h.begin("one")
		h.probe.keep()
		answer := h.send(call(r.Round, "one", "k", "x", h.probe))
		<-h.probe.seen
		h.log.SetDown(true)
		h.probe.letGo()
		for h.engine.Health().OK() {
			yield(t)
		}
		if a := (<-answer).(engine.CallAnswer); a.State != engine.StateRunning || len(a.Result) > 0 || a.Status != "" {
			t.Errorf("answered without a record: %+v", a)
		}
		if a := h.call(r.Round, "one", "k2", "y"); a.Verdict != events.Deny {
			t.Errorf("while degraded: %+v", a)
		}
		outcome := func() engine.CallAnswer {
			return h.ask(func(a engine.Answer) engine.Command {
				return &engine.Outcome{Agent: "alice", Round: r.Round, HandleHash: hashOf("one"), Key: "k", Wait: true, Answer: a}
			}).(engine.CallAnswer)
		}
		if a := outcome(); a.State != engine.StateRunning {
			t.Errorf("a read while degraded: %+v", a)
		}
		h.log.SetDown(false)
		waitHealthy(t, h)
		if a := outcome(); a.Status != events.StatusOK || a.Preview == "" {
			t.Errorf("after recovery: %+v", a)
		}
		if n := h.probe.count("y"); n != 0 {
			t.Errorf("a refused call ran %d times", n)
		}
		h.close()
	})
}

// TestTrashNeedsARecord: nothing is to go for good that is not in the book, whatever
// becomes of the append.
func TestTrashNeedsARecord(t *testing.T) {
	for name, fault := range map[string]eventstest.Fault{
		"refused":              {Outcome: events.None, Err: events.ErrUnavailable},
		"full":                 {Outcome: events.None, Err: events.ErrFull},
		"in doubt, stored":     {Outcome: events.InDoubt, Decisions: eventstest.All, Err: events.ErrUnavailable},
		"in doubt, not stored": {Outcome: events.InDoubt, Err: events.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.start()
			h.begin("one")
			due := trash.Entry{Name: "x", Time: events.InstantOf(h.clock.Wall().Add(-2 * 30 * 24 * time.Hour))}
			var answer atomic.Pointer[<-chan any]
			failed := false
			h.log.Before(func(context.Context, events.Seq, [][]events.Record) *eventstest.Fault {
				if at := answer.Load(); at != nil && len(*at) != 0 {
					t.Error("answered before it was durable")
				}
				if failed {
					return nil
				}
				failed = true
				return &fault
			})
			answered := h.send(func(a engine.Answer) engine.Command {
				return &engine.EmptyTrash{Agent: "alice", Entries: []trash.Entry{due}, Answer: a}
			})
			answer.Store(&answered)
			got, _ := (<-answered).(engine.Condemned)
			var decided []events.EventID
			for _, rec := range h.book() {
				if _, ok := rec.Event.(events.TrashDecided); ok {
					decided = append(decided, rec.ID)
				}
			}
			if !failed || len(got.Entries) != 1 || len(decided) != 1 || decided[0] != got.At {
				t.Errorf("answer %+v, in the book are %v", got, decided)
			}
			h.log.Before(nil)
			h.close()
		})
	}
}

func TestInDoubt(t *testing.T) {
	for _, c := range []struct {
		name   string
		stored int
		status events.Status // of the call's one event chain; empty: no event
	}{
		{"O-E06 nats.node#628 the decision is stored, its answer is lost: the call ends without a run", eventstest.All, events.StatusCancelled},
		{"O-E06 (var.) the decision is not stored: nothing of the call is in the book", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.start()
			r := h.begin("one")
			h.log.Fail(eventstest.Fault{Outcome: events.InDoubt, Decisions: c.stored, Err: events.ErrUnavailable})
			a := h.call(r.Round, "one", "k", "x")
			if a.Verdict != events.Deny || a.Rule != "degraded" {
				t.Errorf("answer %+v", a)
			}
			waitHealthy(t, h)
			v := h.ask(func(answer engine.Answer) engine.Command {
				return &engine.Outcome{Agent: "alice", Round: r.Round, HandleHash: hashOf("one"), Key: "k", Wait: true, Answer: answer}
			})
			got, found := v.(engine.CallAnswer)
			if found != (c.status != "") || got.Status != c.status {
				t.Errorf("outcome %+v", v)
			}
			if n := h.probe.count("x"); n != 0 {
				t.Errorf("ran %d times", n)
			}
			h.close()
		})
	}
	t.Run("the end of a tool is in doubt and stored: answered once, one end", func(t *testing.T) {
		h := newHouse(t)
		h.start()
		r := h.begin("one")
		h.probe.keep()
		answer := h.send(call(r.Round, "one", "k", "x", h.probe))
		<-h.probe.seen
		h.log.Fail(eventstest.Fault{Outcome: events.InDoubt, Decisions: eventstest.All, Err: events.ErrUnavailable})
		h.probe.letGo()
		if a := (<-answer).(engine.CallAnswer); a.Status != events.StatusOK {
			t.Errorf("answer %+v", a)
		}
		h.close()
		if len(answer) != 0 {
			t.Error("answered twice")
		}
	})
	t.Run("a replaced writer ends the loop", func(t *testing.T) {
		h := newHouse(t)
		h.start()
		r := h.begin("one")
		foreign := eventstest.Record(t, 7, "", events.PhaseChanged{Phase: 1})
		state, err := h.log.State(context.Background())
		must(t, err)
		must(t, h.log.Append(context.Background(), state.Last, [][]events.Record{{foreign}}))
		a := h.call(r.Round, "one", "k", "x")
		if a.Verdict != events.Deny {
			t.Errorf("answer %+v", a)
		}
		if err := <-h.ended; !errors.Is(err, events.ErrConflict) {
			t.Errorf("the loop ended with %v", err)
		}
		if err := h.engine.Submit(context.Background(), engine.Note{}); !errors.Is(err, engine.ErrStopped) {
			t.Errorf("submit after the end: %v", err)
		}
		if h.engine.Health().OK() || h.probe.count("x") != 0 {
			t.Error("a replaced writer must not act and must say so")
		}
		h.stop()
		must(t, h.store.Close())
	})
}

func (h *house) end(round events.RoundID, handle string) any {
	return h.ask(func(a engine.Answer) engine.Command {
		return &engine.EndRound{Answer: a, Request: policy.RoundEndRequest{
			Channel: "terminal", Round: round, HandleHash: hashOf(handle), End: events.RoundCompleted,
		}}
	})
}

// O-L14 leviath#96, openworker#443: a crash between effect and record must not
// make the restart run the tool again.
func TestCrash(t *testing.T) {
	h := newHouse(t)
	h.drainTime = 100 * time.Millisecond
	h.start()
	r := h.begin("one")
	h.probe.keep()
	h.send(call(r.Round, "one", "k", "x", h.probe))
	<-h.probe.seen
	h.crash()
	h.start()
	a := h.call(r.Round, "one", "k", "x")
	if a.Status != events.StatusUnknown || !a.Replayed {
		t.Errorf("after the crash: %+v", a)
	}
	if n := h.probe.count("x"); n != 1 {
		t.Errorf("ran %d times", n)
	}
	var order []events.Kind
	for _, e := range h.book() {
		order = append(order, e.Event.Kind())
	}
	starts := 0
	for i, k := range order {
		if k == events.KindEngineStarted {
			starts++
		}
		if k == events.KindCallCompleted && starts < 2 {
			t.Errorf("event %d ends a call of the former writer before engine.started", i+1)
		}
	}
	h.close()
}

// O-L15 openai-agents-python#4615, O-L16: a stop while tools run.
func TestDrain(t *testing.T) {
	h := newHouse(t)
	h.drainTime = 100 * time.Millisecond
	h.start()
	r := h.begin("one")
	h.probe.keep()
	one := h.send(call(r.Round, "one", "a", "x", h.probe))
	two := h.send(call(r.Round, "one", "b", "y", h.probe))
	<-h.probe.seen
	<-h.probe.seen
	h.drain()
	for _, answer := range []<-chan any{one, two} {
		if a := (<-answer).(engine.CallAnswer); a.Status != events.StatusCancelled {
			t.Errorf("a tool that did not finish: %+v", a)
		}
	}
	if err := h.engine.Submit(context.Background(), call(r.Round, "one", "c", "z", h.probe)(nil)); !errors.Is(err, engine.ErrStopped) {
		t.Errorf("an intent after the stop: %v", err)
	}
	h.checkBook()
	must(t, h.store.Close())
}

func TestToolEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		status events.Status
		layer  events.Layer
	}{
		{"an error", errors.New("it broke"), events.StatusError, ""},
		{"a refusal on the handle is denied by the tool", &tools.Refused{Rule: "link", Reason: "a link"}, events.StatusDenied, events.LayerTool},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.probe.err = c.err
			h.start()
			r := h.begin("one")
			a := h.call(r.Round, "one", "k", "x")
			if a.Status != c.status || a.Layer != c.layer || len(a.Result) > 0 {
				t.Errorf("answer %+v", a)
			}
			h.close()
		})
	}
}

// Invariant 6; O-L13 claude-code#82420: refusals leave a trace.
func TestEveryRefusalIsAnEvent(t *testing.T) {
	h := newHouse(t)
	h.start()
	r := h.begin("one")
	before := len(h.book())
	ask := func(change func(*engine.Call)) engine.CallAnswer {
		return h.ask(func(a engine.Answer) engine.Command {
			cmd := call(r.Round, "one", "", "x", h.probe)(a).(*engine.Call)
			change(cmd)
			return cmd
		}).(engine.CallAnswer)
	}
	reasons := map[string]bool{}
	for name, change := range map[string]func(*engine.Call){
		"malformed":    func(k *engine.Call) { k.Request.Malformed = &policy.Malformed{Field: "path", Reason: "bad"} },
		"unredactable": func(k *engine.Call) { k.Request.Unredactable = true },
		"handle":       func(k *engine.Call) { k.Request.HandleHash = hashOf("other") },
		"unknown tool": func(k *engine.Call) { k.Known = false; k.Request.Tool.Name = "nope" },
		"agent":        func(k *engine.Call) { k.Request.Agent = "bob" },
	} {
		a := ask(change)
		if a.Status == events.StatusOK || a.Call == "" || a.Seq == 0 || a.Reason == "" || a.Layer == "" {
			t.Errorf("%s: %+v", name, a)
		}
		reasons[string(a.Layer)+a.Rule+a.Reason] = true
	}
	if len(reasons) < 4 { // a wrong handle and another agent get the same answer
		t.Errorf("reasons %v", reasons)
	}
	if got := len(h.book()) - before; got != 5 {
		t.Errorf("%d events for 5 refusals", got)
	}
	if h.probe.count("x") != 0 {
		t.Error("a refused call ran")
	}
	h.close()
}

func waitHealthy(t *testing.T, h *house) {
	t.Helper()
	for range 2000 {
		if h.engine.Health().OK() {
			return
		}
		yield(t)
	}
	t.Fatalf("still degraded: %s", strings.Join(h.engine.Health().Why(), "; "))
}

// yield waits a moment for another goroutine.
func yield(t *testing.T) {
	t.Helper()
	timer := time.NewTimer(5 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}

func TestToolTime(t *testing.T) {
	for _, c := range []struct {
		name   string
		deaf   bool
		status events.Status
	}{
		{"a tool that stops with its context", false, events.StatusError},
		{"a tool that does not: what it did is unknown", true, events.StatusUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			limited := h.catalog.Catalog()
			limited.Limits.ToolTime = events.MicrosOf(20 * time.Millisecond)
			var err error
			h.catalog, err = policy.Compile(limited, "probe")
			must(t, err)
			h.probe.deaf = c.deaf
			h.start()
			r := h.begin("one")
			h.probe.keep()
			if a := h.call(r.Round, "one", "k", "x"); a.Status != c.status || len(a.Result) > 0 {
				t.Errorf("answer %+v", a)
			}
			h.close()
		})
	}
}

// O-L11 automagik-dev/omni#1166: whatever the size of a result, the call has its
// end, the book keeps a preview and a digest, and pieces give the rest.
func TestLargeResults(t *testing.T) {
	for name, c := range map[string]struct {
		size  int
		of    string
		whole bool
	}{
		"200 bytes":           {200, "ab cd ", true},
		"64 KiB":              {64 << 10, "ab cd ", true},
		"900 KiB":             {900 << 10, "ab cd ", false},
		"1 MiB":               {1 << 20, "ab cd ", false},
		"5 MiB":               {5 << 20, "ab cd ", false},
		"600 KiB that double": {600 << 10, `"`, false},
		"900 KiB of runes":    {900 << 10, "né", false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.probe.gives = strings.Repeat(c.of, c.size/len(c.of))
			h.start()
			r := h.begin("one")
			a := h.call(r.Round, "one", "k", "x")
			if a.Status != events.StatusOK || (len(a.Result) > 0) != c.whole || a.Truncated == c.whole || a.Size == 0 || a.Digest == "" {
				t.Fatalf("answer %+v", a)
			}
			if !c.whole && h.pieces(r.Round, "one", a) != int(a.Size) {
				t.Errorf("the pieces do not add up to %d bytes", a.Size)
			}
			if !c.whole && c.of == "né" {
				h.wrongCursor(r.Round, "one", a)
			}
			h.close()
		})
	}
}

// pieces joins the recorded result and gives its length.
func (h *house) pieces(round events.RoundID, handle string, a engine.CallAnswer) int {
	all := a.Preview
	for a.Cursor != 0 {
		v := h.ask(func(answer engine.Answer) engine.Command {
			return &engine.Outcome{Agent: "alice", Round: round, HandleHash: hashOf(handle), Call: a.Call, Cursor: a.Cursor, Answer: answer}
		})
		var ok bool
		if a, ok = v.(engine.CallAnswer); !ok {
			h.tb.Fatalf("outcome: %+v", v)
		}
		all += a.Preview
	}
	return len(all)
}

// An agent has no more tools running than the catalog says; the others begin as
// places get free, and none is lost at a stop.
func TestRunningTools(t *testing.T) {
	h := newHouse(t)
	limited := h.catalog.Catalog()
	limited.Limits.RunningTools = 2
	var err error
	h.catalog, err = policy.Compile(limited, "probe")
	must(t, err)
	h.drainTime = 100 * time.Millisecond
	h.start()
	r := h.begin("one")
	h.probe.keep()
	var answers []<-chan any
	for _, text := range []string{"a", "b", "c", "d"} {
		answers = append(answers, h.send(call(r.Round, "one", text, text, h.probe)))
	}
	<-h.probe.seen
	<-h.probe.seen
	if a := h.call(r.Round, "one", "a", "other"); a.Rule != "key" { // decided after the four
		t.Errorf("%+v", a)
	}
	if n := len(h.probe.seen); n != 0 {
		t.Errorf("%d tools above the limit run", n)
	}
	h.probe.next()
	<-h.probe.seen
	<-h.probe.seen
	h.send(call(r.Round, "one", "e", "e", h.probe))
	h.drain()
	for i, answer := range answers {
		want := events.StatusOK
		if i > 1 {
			want = events.StatusCancelled
		}
		if a := (<-answer).(engine.CallAnswer); a.Status != want {
			t.Errorf("call %d: %+v", i, a)
		}
	}
	h.checkBook()
	must(t, h.store.Close())
}

// wrongCursor asks from the middle of a rune: that has an answer too. Runs of two
// neighbouring bytes hold one such place.
func (h *house) wrongCursor(round events.RoundID, handle string, a engine.CallAnswer) {
	no := 0
	for at := range int64(3) {
		v := h.ask(func(answer engine.Answer) engine.Command {
			return &engine.Outcome{Agent: "alice", Round: round, HandleHash: hashOf(handle), Call: a.Call, Cursor: a.Cursor + at, Answer: answer}
		})
		if r, refused := v.(engine.Refused); refused && r.Error.Code == "invalid" {
			no++
		}
	}
	if no != 1 {
		h.tb.Errorf("%d of three neighbouring cursors were refused, want 1", no)
	}
}
