package main

import (
	"fmt"
	"slices"
	"time"
)

// median is the middle value, the lower one of two; 0 of none.
func median(values []int64) int64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return s[(len(s)-1)/2]
}

func percentile(p int) string { return fmt.Sprintf("p%d_us", p) }

func micros(d time.Duration) int64 { return d.Microseconds() }

// ratios divides run by run: each pair was measured right after one another.
// The result is in hundredths.
func ratios(of, by []int64) []int64 {
	var r []int64
	for i := range min(len(of), len(by)) {
		if by[i] > 0 {
			r = append(r, (100*of[i]+by[i]/2)/by[i])
		}
	}
	return r
}

// perSecond is how many there are in a second.
func perSecond(n int64, in time.Duration) int64 {
	if in <= 0 {
		return 0
	}
	return int64(float64(n) / in.Seconds())
}
