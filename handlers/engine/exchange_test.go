package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
	"gatebook/infra/pebblekv"
	"gatebook/projections"
	"gatebook/projections/rebuild"
)

// exchangeFor is the exchange of the house's views for views built from the log,
// which must end where the loop says.
func (h *house) exchangeFor(done chan<- error) *engine.Exchange {
	return &engine.Exchange{
		Switch: func(last events.Seq) error {
			next, err := pebblekv.Open("views", pebblekv.Options{FS: vfs.NewMem()})
			if err != nil {
				return err
			}
			if err := rebuild.Fold(context.Background(), h.log, events.Codec{}, next, rebuild.Options{}); err != nil {
				return err
			}
			snap := next.Snapshot()
			state, err := projections.LoadState(snap)
			if err = errors.Join(err, snap.Close()); err != nil {
				return err
			}
			if state.Seq != last {
				return fmt.Errorf("the log ends at %d, the loop says %d", state.Seq, last)
			}
			old := h.live.Use(next)
			h.store = next
			return old.Close(context.Background())
		},
		Done: func(err error) { done <- err },
	}
}

// The views are exchanged again and again while calls come: each finds nothing open
// and nothing on its way, every call is answered, and the views are those of a
// rebuild.
func TestExchangeUnderLoad(t *testing.T) {
	h := newHouse(t)
	h.start()
	r := h.begin("one")
	const exchanges, calls = 40, 600
	done := make(chan error, exchanges)
	var answers []<-chan any
	answered := func(i int) {
		if got, ok := (<-answers[i]).(engine.CallAnswer); !ok || got.Status != events.StatusOK {
			t.Fatalf("call %d: %+v", i, got)
		}
	}
	const atOnce = 30
	for i := range calls {
		if i >= atOnce {
			answered(i - atOnce)
		}
		if i%(calls/exchanges) == 0 {
			must(t, h.engine.Submit(t.Context(), h.exchangeFor(done)))
		}
		key := fmt.Sprint(i)
		answers = append(answers, h.send(call(r.Round, "one", key, key, h.probe)))
	}
	for i := calls - atOnce; i < calls; i++ {
		answered(i)
	}
	busy := 0
	for range exchanges {
		if err := <-done; err != nil {
			if err.Error() != "the views are exchanged already" {
				t.Error(err)
			}
			busy++
		}
	}
	if busy > exchanges/2 {
		t.Errorf("%d of %d exchanges found another one under way", busy, exchanges)
	}
	h.close()
}

// An exchange that is asked for while an append is on its way waits for it, and for
// what was decided on top of it.
func TestExchangeWaitsForTheAppend(t *testing.T) {
	f := inFlight(t, nil)
	done := make(chan error, 1)
	f.decided(1, func() { must(t, f.engine.Submit(t.Context(), f.exchangeFor(done))) })
	select {
	case err := <-done:
		t.Fatalf("exchanged in flight: %v", err)
	default:
	}
	f.probe.letGo()
	f.land <- nil
	must(t, <-done)
	f.house.close()
}

// Whether it comes to pass or not, who asked for an exchange hears it once.
func TestExchangeIsToldOnceAtTheEnd(t *testing.T) {
	f := inFlight(t, nil)
	done := make(chan error, 2)
	f.decided(1, func() { must(t, f.engine.Submit(t.Context(), f.exchangeFor(done))) })
	f.probe.letGo()
	f.stop()
	f.land <- &eventstest.Fault{Outcome: events.InDoubt, Err: errors.New("no answer")}
	<-f.ended
	if len(done) != 1 {
		t.Errorf("told %d times", len(done))
	}
	must(t, f.store.Close())
}

// A rebuild is begun for an operator, and refused while one is under way.
func TestRebuildViews(t *testing.T) {
	h := newHouse(t)
	h.start()
	begun := 0
	ask := func(by events.Actor, busy error) any {
		return h.ask(func(a engine.Answer) engine.Command {
			return &engine.RebuildViews{Act: engine.Act{By: by, Answer: a}, Start: func() error { begun++; return busy }}
		})
	}
	if got := ask(anna(), nil); got != (engine.Done{Changed: true}) {
		t.Errorf("%+v", got)
	}
	if got, _ := ask(anna(), errors.New("busy")).(engine.Refused); got.Error.Code != "conflict" || got.Error.Reason != "busy" {
		t.Errorf("%+v", got)
	}
	if got, _ := ask(events.Actor{Kind: events.ActorPerson, ID: "nobody"}, nil).(engine.Refused); got.Error.Code != "not_allowed" || begun != 2 {
		t.Errorf("%+v, begun %d times", got, begun)
	}
	h.close()
}
