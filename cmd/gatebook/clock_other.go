//go:build !linux

package main

import "time"

// systemClock is the machine's.
type systemClock struct{ wall func() time.Time }

// started is where elapsed time begins.
var started = time.Now()

// Wall is the time of day.
func (c systemClock) Wall() time.Time { return c.wall() }

// Elapsed is the time since the program started; whether a suspend counts is the
// system's choice.
func (systemClock) Elapsed() time.Duration { return time.Since(started) }
