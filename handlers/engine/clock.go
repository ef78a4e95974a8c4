package engine

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

// engineTime is time that never goes back. While the wall clock and elapsed
// time disagree it goes on from the last known time by elapsed time (held),
// until a person accepts the wall clock. Owned by the loop.
type engineTime struct {
	clock Clock
	base  events.Instant // engine time at the last reading
	at    time.Duration  // elapsed time at the last reading
	held  bool
	// ahead is the wall clock less elapsed time, when the wall clock was last
	// believed: small steps forward add up against it.
	ahead events.Instant
}

// startTime begins after the last event. It is held from the start where the
// book is old, the wall clock is behind it, or a jump was never accepted.
func startTime(clock Clock, last events.Instant, held bool) (*engineTime, *events.ClockJumped) {
	wall := events.InstantOf(clock.Wall())
	t := &engineTime{clock: clock, base: last, at: clock.Elapsed(), held: held}
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

// now reads the time, and says so when the wall clock has jumped.
func (t *engineTime) now() (events.Instant, *events.ClockJumped) {
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

func (t *engineTime) jump(from, wall events.Instant) *events.ClockJumped {
	t.held = true
	return &events.ClockJumped{From: from, Wall: wall}
}

// accept takes the wall clock again, where that does not go back.
func (t *engineTime) accept() {
	wall := events.InstantOf(t.clock.Wall())
	t.held = false
	t.base, t.at = max(t.base, wall), t.clock.Elapsed()
	t.ahead = wall.Add(-t.at)
}
