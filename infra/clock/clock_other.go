//go:build !linux

package clock

import "time"

// started is where elapsed time begins.
var started = time.Now()

// Elapsed is the time since the program started; whether a suspend counts is the
// system's choice.
func (System) Elapsed() time.Duration { return time.Since(started) }
