// Package clock is the machine's clock: [System] is the bookclock.Clock of a real
// engine.
//
// Dependency: golang.org/x/sys, for elapsed time with suspend in it.
package clock

import "time"

// System is the machine's. Safe for concurrent use where Now is.
type System struct {
	// Now gives the time of day; required.
	Now func() time.Time
}

// Wall is the time of day.
func (s System) Wall() time.Time { return s.Now() }
