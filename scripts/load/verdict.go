package main

import (
	"fmt"
	"math"
	"time"
)

// fewest is how many samples a judgement needs.
const fewest = 8

// shortestJudged is how long a run lasts at least whose growth is judged: before its
// middle an engine must have got warm, which takes about a minute.
const shortestJudged = 4 * time.Minute

// sureness is how many standard errors a growth must be away from none: figures
// that jump about have a slope too.
const sureness = 4

// measure is something that must not grow while the engine runs on.
type measure struct {
	name string
	of   func(sample) int64
	// It may grow by slack, or by percent of what it is at first, whichever is more.
	slack   int64
	percent int64
	bytes   bool
}

// measures are judged over the second half of a run. What is on the disk is not
// among them: the book only ever grows. Resident memory has the wide bound, because it
// follows how busy the machine lets the engine be; the heap in use shows less of that.
var measures = []measure{
	{"resident memory", func(s sample) int64 { return s.Memory }, 64 << 20, 20, true},
	{"heap in use", func(s sample) int64 { return s.Heap }, 16 << 20, 25, true},
	{"goroutines", func(s sample) int64 { return s.Goroutines }, 10, 0, false},
	{"descriptors", func(s sample) int64 { return s.Descriptors }, 15, 0, false},
}

// judge says what grew in the second half of the samples that should have stayed:
// the growth of a straight line that is fitted to them.
func judge(samples []sample) []string {
	half := secondHalf(samples)
	if len(half) < fewest {
		return []string{fmt.Sprintf("%d samples after the first half are too few to judge, %d are needed", len(half), fewest)}
	}
	var found []string
	for _, m := range measures {
		l, allowed := fit(half, m.of), m.allowed(samples)
		if l.growth > float64(allowed) && l.growth > sureness*l.doubt {
			span := time.Duration(half[len(half)-1].AtMS-half[0].AtMS) * time.Millisecond
			found = append(found, fmt.Sprintf("%s grew by %s in the last %s, from %s to %s (a line fitted to %d samples); %s are allowed",
				m.name, m.text(whole(l.growth)), span.Round(time.Second), m.text(whole(l.first)), m.text(whole(l.first+l.growth)), len(half), m.text(allowed)))
		}
	}
	return found
}

// secondHalf are the samples of the later half of the time.
func secondHalf(samples []sample) []sample {
	if len(samples) == 0 {
		return nil
	}
	middle := samples[len(samples)-1].AtMS / 2
	for i, s := range samples {
		if s.AtMS >= middle {
			return samples[i:]
		}
	}
	return nil
}

// ends are the ends of the fitted line.
func (m measure) ends(samples []sample) (first, last int64, ok bool) {
	half := secondHalf(samples)
	if len(half) < fewest {
		return 0, 0, false
	}
	l := fit(half, m.of)
	return whole(l.first), whole(l.first + l.growth), true
}

func whole(f float64) int64 { return int64(math.Round(f)) }

// allowed is by how much m may grow.
func (m measure) allowed(samples []sample) int64 {
	first, _, _ := m.ends(samples)
	return max(m.slack, first*m.percent/100)
}

func (m measure) text(n int64) string {
	if m.bytes {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprint(n)
}

// line is fitted to samples: where it begins, by how much it rises to the last, and
// the standard error of that.
type line struct{ first, growth, doubt float64 }

// fit finds the line of least squares.
func fit(samples []sample, of func(sample) int64) line {
	n := float64(len(samples))
	var meanX, meanY float64
	for _, s := range samples {
		meanX += float64(s.AtMS) / n
		meanY += float64(of(s)) / n
	}
	var xx, xy float64
	for _, s := range samples {
		x := float64(s.AtMS) - meanX
		xx += x * x
		xy += x * (float64(of(s)) - meanY)
	}
	if xx == 0 || n < 3 {
		return line{first: meanY}
	}
	slope := xy / xx
	var rest float64
	for _, s := range samples {
		d := float64(of(s)) - meanY - slope*(float64(s.AtMS)-meanX)
		rest += d * d
	}
	begin, end := float64(samples[0].AtMS), float64(samples[len(samples)-1].AtMS)
	return line{
		first:  meanY + slope*(begin-meanX),
		growth: slope * (end - begin),
		doubt:  math.Sqrt(rest/(n-2)/xx) * (end - begin),
	}
}
