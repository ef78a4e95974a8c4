// Package views builds the views of a running engine anew from the book.
//
// Start with [New] and run [Builder.Run] beside the engine; [Builder.Start] asks for
// one rebuild, [Builder.Status] says how far it is.
//
// What the package promises: the loop goes on deciding while views are built beside
// those in use and compared with them, row by row, at the same event; it pauses only
// while the last few events are folded and the new views take the place of the old
// ones. Whatever ends the work before that, the old views stay in use and the new
// ones are removed. Old views that were not equal are kept. A book that turns out to be
// damaged is told to the engine, not to the asker alone.
//
// Concurrency: Run is one goroutine that owns the store being built, except for the
// moment of the exchange, when the engine's loop has it. Start and Status are safe
// for concurrent use.
package views

import (
	"context"
	"errors"
	"sync"
	"time"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/integrity"
	"gatebook/projections"
	"gatebook/projections/rebuild"
)

// Config is what a builder needs; every field is required.
type Config struct {
	Book rebuild.Source
	Live *rebuild.Live
	// Head is what the book must extend.
	Head func() integrity.Head
	// Build makes new, empty views beside those in use.
	Build func() (Building, error)
	Loop  interface {
		Submit(context.Context, engine.Command) error
	}
	// Damaged is told of evidence of damage: whoever asked for the rebuild may not be
	// looking any more, and on a damaged book nothing is decided.
	Damaged func(error)
	// Room says what is missing where the volume is too full to go on.
	Room func() error
	Now  func() time.Time
}

// Building is views that are not in use yet.
type Building struct {
	Store projections.Store
	Name  string
	// Adopt makes them those that a start opens, and gives where the former ones
	// are; with forget those are not to be kept. It MUST make durable what they hold.
	Adopt func(forget bool) (former string, err error)
	// Drop closes and removes them; they were not adopted.
	Drop func() error
	// Forget removes former views, which nobody has open.
	Forget func(former string) error
}

// Rebuilt is the answer of a rebuild. The duration is of the fold alone, up to the event
// that the book held when it began; PerSecond is how fast that was.
type Rebuilt struct {
	Events      events.Seq    `json:"events"`
	Duration    events.Micros `json:"duration_us"`
	PerSecond   int64         `json:"events_per_second"`
	Rows        int64         `json:"rows"`
	Fingerprint events.Digest `json:"fingerprint"`
	Root        string        `json:"root"`
	Views       string        `json:"views"` // the folder now in use
	// Equal says that the old views were the same, byte for byte. Where they were
	// not, or could not be compared, Kept is their folder and Why says what it was.
	Equal    bool   `json:"equal"`
	Compared bool   `json:"compared"`
	Kept     string `json:"kept,omitzero"`
	Why      string `json:"why,omitzero"`
	// Trouble is what went wrong with the old views once the new ones were in use: they
	// may still be there.
	Trouble string `json:"trouble,omitzero"`
}

// What a builder is at.
const (
	Idle     = "idle" // none was asked for yet
	Folding  = "fold"
	Checking = "compare"
	Done     = "done"
	Failed   = "failed"
)

// Status is how far a rebuild is, or how the last one ended.
type Status struct {
	State string     `json:"state"`
	At    events.Seq `json:"at,omitzero"` // while it works
	Of    events.Seq `json:"of,omitzero"`
	// Result is there once it is done, Failure where it failed. Damage says that it
	// failed for evidence of damage, InDoubt at which event that begins.
	Result  *Rebuilt   `json:"result,omitzero"`
	Failure string     `json:"failure,omitzero"`
	Damage  bool       `json:"damage,omitzero"`
	InDoubt events.Seq `json:"in_doubt,omitzero"`
}

// Working says that a rebuild is under way.
func (s Status) Working() bool { return s.State == Folding || s.State == Checking }

// ErrBusy says that a rebuild is under way.
var ErrBusy = errors.New("the views are being rebuilt already; wait for that to end")

// Builder builds views. Its zero value is of no use.
type Builder struct {
	cfg  Config
	want chan struct{} // one rebuild is asked for

	mu     sync.Mutex
	status Status
}

// New prepares a builder.
func New(cfg Config) *Builder {
	return &Builder{cfg: cfg, want: make(chan struct{}, 1), status: Status{State: Idle}}
}

// Start asks for a rebuild and does not wait for it. One at a time: the error is
// [ErrBusy].
func (b *Builder) Start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status.Working() {
		return ErrBusy
	}
	b.status = Status{State: Folding}
	b.want <- struct{}{} // nobody else is working, so there is room
	return nil
}

// Status is how far it is.
func (b *Builder) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

func (b *Builder) at(state string, at, of events.Seq) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status = Status{State: state, At: at, Of: of}
}

// Run rebuilds whenever it is asked to, until ctx ends.
func (b *Builder) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.want:
		}
		r, err := b.rebuild(ctx)
		if r.Compared && !r.Equal {
			why := "they were not what the book says: " + r.Why
			if err != nil {
				why = "they are not what the book says, and are still in use: " + r.Why
			}
			// Nobody may be looking any more.
			_ = b.cfg.Loop.Submit(ctx, engine.Note{Fact: events.AlertRaised{Alert: "views_rebuilt", Reason: why}})
		}
		var damage *integrity.Damage
		if errors.As(err, &damage) {
			b.cfg.Damaged(err)
		}
		b.end(r, err, damage)
	}
}

func (b *Builder) end(r Rebuilt, err error, damage *integrity.Damage) {
	s := Status{State: Done, Result: &r}
	switch {
	case damage != nil:
		s = Status{State: Failed, Failure: damage.Reason, Damage: true, InDoubt: damage.Seq}
	case err != nil:
		s = Status{State: Failed, Failure: err.Error()}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status = s
}
