// Package bookclock is engine time: the time that stands in the book, which never goes
// back.
//
// Start with [Start]. While the wall clock and elapsed time disagree, as after a
// suspend or a hand on the clock, engine time goes on by elapsed time (held), until a
// person accepts the wall clock.
package bookclock

import (
	"time"

	"gatebook/events"
)

// Clock is where engine time comes from.
type Clock interface {
	// Wall is the time of day, with a monotonic reading where there is one.
	Wall() time.Time
	// Elapsed grows evenly, suspend included, from any origin.
	Elapsed() time.Duration
}

// Bounds of what is believed.
const (
	// jumpForward is how far the wall clock may run ahead of elapsed time.
	jumpForward = time.Hour
	// jumpBack is how far it may fall behind.
	jumpBack = time.Minute
	// oldBook is how old the last event may be at a start.
	oldBook = 7 * 24 * time.Hour
)

// Time is engine time. Not safe for concurrent use.
type Time struct {
	clock Clock
	base  events.Instant // engine time at the last reading
	at    time.Duration  // elapsed time at the last reading
	held  bool
	// ahead is the wall clock less elapsed time, when the wall clock was last
	// believed: small steps forward add up against it.
	ahead events.Instant
}

// Start begins after the last event. It is held from the start where the
// book is old, the wall clock is behind it, or a jump was never accepted.
func Start(clock Clock, last events.Instant, held bool) (*Time, *events.ClockJumped) {
	wall := events.InstantOf(clock.Wall())
	t := &Time{clock: clock, base: last, at: clock.Elapsed(), held: held}
	t.ahead = wall.Add(-t.at)
	if last == 0 {
		t.base = wall
		return t, nil
	}
	if held {
		return t, nil
	}
	if wall.Sub(last) > oldBook || last.Sub(wall) > jumpBack {
		return t, t.jump(last, wall)
	}
	t.base = max(last, wall)
	return t, nil
}

// Now reads the time, and says so when the wall clock has jumped.
func (t *Time) Now() (events.Instant, *events.ClockJumped) {
	elapsed := t.clock.Elapsed()
	expected := t.base.Add(elapsed - t.at)
	if !t.held {
		wall := events.InstantOf(t.clock.Wall())
		if wall.Sub(t.ahead.Add(elapsed)) > jumpForward || expected.Sub(wall) > jumpBack {
			t.base, t.at = expected, elapsed
			return expected, t.jump(expected, wall)
		}
		expected = max(t.base, wall)
	}
	t.base, t.at = expected, elapsed
	return expected, nil
}

func (t *Time) jump(from, wall events.Instant) *events.ClockJumped {
	t.held = true
	return &events.ClockJumped{From: from, Wall: wall}
}

// Accept takes the wall clock again, where that does not go back.
func (t *Time) Accept() {
	wall := events.InstantOf(t.clock.Wall())
	t.held = false
	t.base, t.at = max(t.base, wall), t.clock.Elapsed()
	t.ahead = wall.Add(-t.at)
}

// Last is the time as it was last read.
func (t *Time) Last() events.Instant { return t.base }

// Held says that the wall clock is not believed.
func (t *Time) Held() bool { return t.held }
