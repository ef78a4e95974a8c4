// Package outbox is what people are to be told, from the book: which alerts wait for which
// destination, what they say, and what nobody would notice without looking.
//
// Start with [New], hand it to an [alerts.Courier], and run [Outbox.Watch] beside the
// engine.
//
// What the package promises:
//
//   - An alert is an event of the book, or repeats of one within ten minutes, counted
//     (package projections). The first is told at once; where there were more, a second
//     message with their count follows when the ten minutes are over.
//   - Who has been told what is in the book too (alert.delivered), so that a restart tells
//     nothing twice that was recorded, and forgets nothing that was not. What is older than
//     seven days is not told any more.
//   - That the engine does not decide, or has found damage, cannot be in the book of that
//     moment: such alerts are made here, and are told once for each trouble of a run.
//   - Nothing here waits for a destination, and no call waits for this package.
//
// Concurrency: Waiting and Told are safe for concurrent use beside Watch, which is one
// goroutine and is run once.
package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gatebook/events"
	"gatebook/handlers/alerts"
	"gatebook/handlers/engine"
	"gatebook/handlers/health"
	"gatebook/projections"
)

// Bounds.
const (
	// tellFor is how long an alert that nobody got is worth telling.
	tellFor = 7 * 24 * time.Hour
	// maxOwn is how many alerts about the engine itself are kept of one run.
	maxOwn = 100
)

// Loop is what the outbox needs of the engine.
type Loop interface {
	Submit(context.Context, engine.Command) error
	Health() *health.State
	Waiting() int
}

// Config is what an outbox needs; every field is required.
type Config struct {
	Loop  Loop
	Store projections.Store
	Now   func() time.Time
	// Writer names this run in the ids of alerts that no event is behind.
	Writer events.WriterID
	// Born is when the book began.
	Born events.Instant
	// Redact masks the secrets in texts of agents.
	Redact interface{ Text(string) (string, bool) }
	// Wake hears that there may be something to tell; it must not wait.
	Wake func()
}

// Outbox is an [alerts.Outbox] over the book.
type Outbox struct {
	cfg Config

	mu sync.Mutex
	// done is the sequence up to which a destination has been told all.
	done map[string]events.Seq
	own  []alerts.Alert
	told map[string]bool // of own, by destination and key
}

// New makes an outbox.
func New(cfg Config) *Outbox {
	return &Outbox{cfg: cfg, done: map[string]events.Seq{}, told: map[string]bool{}}
}

func (o *Outbox) now() events.Instant { return events.InstantOf(o.cfg.Now()) }

// Waiting gives what a destination has not got yet, oldest first, and before that what is
// about the engine itself.
func (o *Outbox) Waiting(ctx context.Context, to string, limit int) ([]alerts.Alert, error) {
	out := o.ownFor(to)
	snap := o.cfg.Store.Snapshot()
	defer snap.Close()
	at, err := o.start(snap, to)
	if err != nil {
		return nil, err
	}
	now, whole := o.now(), true
	for len(out) < limit && ctx.Err() == nil {
		rows, err := projections.Alerts(snap, at, 0)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			waits, over, err := o.parts(snap, to, row, now)
			if err != nil {
				return nil, err
			}
			out = append(out, waits...)
			if whole = whole && over; whole {
				o.passed(to, row.Seq)
			}
			at = row.Seq
		}
		if len(rows) == 0 {
			break
		}
	}
	return out[:min(len(out), limit)], ctx.Err()
}

// start is where to look from.
func (o *Outbox) start(r projections.Reader, to string) (events.Seq, error) {
	o.mu.Lock()
	at, known := o.done[to]
	o.mu.Unlock()
	if known {
		return at, nil
	}
	at, err := projections.AlertsSince(r, o.now().Add(-tellFor))
	if err == nil {
		o.passed(to, at)
	}
	return at, err
}

func (o *Outbox) passed(to string, seq events.Seq) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done[to] = max(o.done[to], seq)
}

// parts are the messages of one alert that a destination has not got; over says that there
// will be no more of them.
func (o *Outbox) parts(r projections.Reader, to string, row projections.AlertRow, now events.Instant) (waits []alerts.Alert, over bool, err error) {
	complete := row.Over(now)
	over = complete
	for part := range 2 {
		if part == 1 && (row.Count == 1 || !complete) {
			break
		}
		told, err := projections.AlertTold(r, to, row.Seq, part)
		if err != nil {
			return nil, false, err
		}
		if !told {
			waits, over = append(waits, o.alert(row, part)), false
		}
	}
	return waits, over, nil
}

// alert is one message of an alert. The first is about the first event alone, so that it
// reads the same whenever it is told.
func (o *Outbox) alert(row projections.AlertRow, part int) alerts.Alert {
	a := alerts.Alert{
		ID: row.ID, Part: part, Kind: row.Kind, Of: row.Of, Agent: row.Agent, Count: 1, First: row.First, Last: row.First, Seq: row.Seq,
	}
	text := TextOf(row)
	if part > 0 {
		a.Count, a.Last = row.Count, row.Last
		text = fmt.Sprintf("%d times in %s: %s", row.Count, row.Last.Sub(row.First).Round(time.Second), text)
	}
	a.Text, _ = o.cfg.Redact.Text(text)
	return a
}

// Told records that a destination has got a message, or that it was given up.
func (o *Outbox) Told(ctx context.Context, to string, a alerts.Alert, failed string) error {
	if a.Seq == 0 {
		o.mu.Lock()
		o.told[to+" "+a.Key()] = true
		o.mu.Unlock()
		return nil
	}
	if !o.cfg.Loop.Health().OK() {
		return errNotNow
	}
	return o.cfg.Loop.Submit(ctx, engine.Note{
		Cause: a.ID, Fact: events.AlertDelivered{Alert: a.ID, To: to, Part: a.Part, Failed: events.Cut(failed, events.MaxName)},
	})
}

// ownFor are the alerts about the engine itself that a destination has not got.
func (o *Outbox) ownFor(to string) (out []alerts.Alert) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.own {
		if !o.told[to+" "+a.Key()] {
			out = append(out, a)
		}
	}
	return out
}
