package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Elapsed is the time since the machine started, suspend included.
func (System) Elapsed() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // the clock exists on every Linux that Go runs on
	}
	return time.Duration(ts.Nano())
}
