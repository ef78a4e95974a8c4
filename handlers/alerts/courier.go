package alerts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gatebook/events"
)

// Line is a destination by its name in the outbox.
type Line struct {
	Name   string
	Sender Sender
}

// Config is what a courier needs; every field is required, and there may be no lines.
type Config struct {
	Outbox Outbox
	Lines  []Line
	// Now is the time of waits, with a monotonic reading where there is one.
	Now func() time.Time
	// Random gives a number of [0, n), for n above 0. It MUST be safe for concurrent use.
	Random func(n int64) int64
}

func (c Config) validate() error {
	if c.Outbox == nil || c.Now == nil || c.Random == nil {
		return errors.New("a courier needs an outbox, a clock and randomness")
	}
	names := map[string]bool{}
	for _, l := range c.Lines {
		if l.Name == "" || l.Sender == nil || names[l.Name] {
			return fmt.Errorf("destination %s for alerts: every one needs a name of its own and a sender", events.Quote(l.Name))
		}
		names[l.Name] = true
	}
	return nil
}

// Courier takes alerts to their destinations.
type Courier struct {
	lines []*line
}

// New makes a courier that is idle until [Courier.Run].
func New(cfg Config) (*Courier, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Courier{}
	for _, l := range cfg.Lines {
		c.lines = append(c.lines, newLine(l, cfg))
	}
	return c, nil
}

// Run delivers until ctx ends, and returns when all it started has ended. It is called
// once.
func (c *Courier) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, l := range c.lines {
		all.Go(func() { l.run(ctx) })
	}
	all.Wait()
}

// Wake says that there may be something to tell. It never waits, and is never needed:
// what is missed is found within half a minute.
func (c *Courier) Wake() {
	for _, l := range c.lines {
		select {
		case l.wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// Status is how it stands with one destination. Counts are since the start.
type Status struct {
	Name        string
	LastSuccess events.Instant // 0: none yet
	LastFailure string         // the last one, also where it is over; "" for none
	FailedAt    events.Instant
	Waiting     int   // as last seen; of a long queue only the beginning is seen
	Delivered   int64 // told to the destination
	GivenUp     int64 // dead letters
}

// Status is how it stands with each destination, in the order of the configuration.
func (c *Courier) Status() []Status {
	all := make([]Status, 0, len(c.lines))
	for _, l := range c.lines {
		all = append(all, l.report())
	}
	return all
}
