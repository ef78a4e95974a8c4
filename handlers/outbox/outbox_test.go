package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/alerts"
	"gatebook/handlers/engine"
	"gatebook/handlers/health"
	"gatebook/handlers/outbox"
	"gatebook/handlers/redact"
	"gatebook/infra/pebblekv"
	"gatebook/projections"
)

// desk is the loop as far as the outbox sees it: it folds the notes that it gets.
type desk struct {
	t      *testing.T
	store  *pebblekv.Store
	health health.State

	mu   sync.Mutex
	seq  events.Seq
	time events.Instant
}

func (d *desk) Health() *health.State { return &d.health }

func (d *desk) Waiting() int { return 3 }

func (d *desk) Submit(_ context.Context, c engine.Command) error {
	n, ok := c.(engine.Note)
	if !ok {
		return errors.New("no note")
	}
	d.write("", n.Fact)
	return nil
}

func (d *desk) write(agent events.AgentID, e events.Event) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seq++
	draft := eventstest.Draft(int(d.seq), agent, e)
	draft.Time = d.time
	rec, err := events.Encode(draft)
	if err == nil {
		rec.Seq = d.seq
		tx := d.store.Begin()
		if err = projections.Apply(tx, events.Recorded{Draft: draft, Seq: d.seq}, rec); err == nil {
			err = tx.Commit()
		}
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.time.Time()
}

func (d *desk) pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.time = d.time.Add(by)
}

func newDesk(t *testing.T) (*desk, *outbox.Outbox) {
	t.Helper()
	store, err := pebblekv.Open("views", pebblekv.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	d := &desk{t: t, store: store, time: events.InstantOf(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))}
	d.write("", events.EngineStarted{Incarnation: eventstest.ID[events.Incarnation](0), Version: "test"})
	return d, d.outbox()
}

func (d *desk) outbox() *outbox.Outbox {
	return outbox.New(outbox.Config{
		Loop: d, Store: d.store, Now: d.now, Writer: eventstest.ID[events.WriterID](9), Born: events.InstantOf(d.now()), Redact: redact.New(), Wake: func() {},
	})
}

func waiting(t *testing.T, o *outbox.Outbox, to string) (out []alerts.Alert) {
	t.Helper()
	out, err := o.Waiting(context.Background(), to, 100)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func told(t *testing.T, o *outbox.Outbox, to string, all []alerts.Alert) {
	t.Helper()
	for _, a := range all {
		if err := o.Told(context.Background(), to, a, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// Ten thousand repeats are two messages to each destination, and each is told once, over
// restarts too.
func TestRepeatsAreAHandful(t *testing.T) {
	d, o := newDesk(t)
	for range 10_000 {
		d.write("", events.AlertRaised{Alert: "asset_blocked", Of: "A1", Reason: "no"})
	}
	first := waiting(t, o, "ops")
	if len(first) != 1 || first[0].Count != 1 || first[0].Part != 0 {
		t.Fatalf("%+v", first)
	}
	told(t, o, "ops", first)
	if left := waiting(t, o, "ops"); len(left) != 0 {
		t.Errorf("told again: %+v", left)
	}
	d.pass(11 * time.Minute)
	again := d.outbox() // a restart
	second := waiting(t, again, "ops")
	if len(second) != 1 || second[0].Part != 1 || second[0].Count != 10_000 || second[0].ID != first[0].ID || !strings.HasPrefix(second[0].Text, "10000 times") {
		t.Fatalf("%+v", second)
	}
	told(t, again, "ops", second)
	if left := waiting(t, d.outbox(), "ops"); len(left) != 0 {
		t.Errorf("told again: %+v", left)
	}
	if other := waiting(t, again, "team"); len(other) != 2 {
		t.Errorf("the other destination has %+v", other)
	}
}

// What was not recorded as told waits on, in order, however far another is.
func TestNothingIsForgotten(t *testing.T) {
	d, o := newDesk(t)
	for i := range 5 {
		d.write("", events.AlertRaised{Alert: "disk", Of: fmt.Sprint(i), Reason: "full"})
	}
	all := waiting(t, o, "ops")
	told(t, o, "ops", all[1:3])
	d.pass(time.Hour)
	var got []string
	for _, a := range waiting(t, o, "ops") {
		got = append(got, a.Of)
	}
	if strings.Join(got, "") != "034" {
		t.Errorf("what waits is about %q", got)
	}
	d.health.Set(health.Book, "no disk")
	if err := o.Told(context.Background(), "ops", all[0], ""); err == nil {
		t.Error("what cannot be recorded counts as recorded")
	}
	d.pass(8 * 24 * time.Hour)
	if old := waiting(t, d.outbox(), "ops"); len(old) != 0 {
		t.Errorf("a week later it is told: %+v", old)
	}
}

// An engine that does not decide is told of though nothing can be recorded, once, and that
// it decides again.
func TestHealthIsTold(t *testing.T) {
	d, o := newDesk(t)
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { o.Watch(ctx) })
	defer done.Wait()
	defer stop()
	until := func(what, kind string) alerts.Alert {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
			for _, a := range waiting(t, o, "ops") {
				if a.Kind == kind {
					return a
				}
			}
		}
		t.Fatal(what)
		return alerts.Alert{}
	}
	d.health.Set(health.Book, "password=hunter2hunter2 is full")
	a := until("a broken engine is not told of", "degraded")
	if strings.Contains(a.Text, "hunter2") || a.Of != "engine" {
		t.Errorf("%+v", a)
	}
	told(t, o, "ops", []alerts.Alert{a})
	d.health.Set(health.Damage, "event 3")
	told(t, o, "ops", []alerts.Alert{until("damage is not told of", "damage")})
	d.health.Clear(health.Book)
	d.health.Clear(health.Damage)
	told(t, o, "ops", []alerts.Alert{until("that it is over is not told", "recovered")})
	if left := waiting(t, o, "ops"); len(left) != 0 {
		t.Errorf("told again: %+v", left)
	}
}
