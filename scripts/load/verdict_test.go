package main

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// at sets one measure of a sample.
var at = map[string]func(*sample, int64){
	"resident memory": func(s *sample, v int64) { s.Memory = v },
	"heap in use":     func(s *sample, v int64) { s.Heap = v },
	"goroutines":      func(s *sample, v int64) { s.Goroutines = v },
	"descriptors":     func(s *sample, v int64) { s.Descriptors = v },
}

// drawn is an hour of n samples in which each measure is what of says.
func drawn(n int, of func(m measure, x float64) int64) []sample {
	samples := make([]sample, n)
	for i := range samples {
		x := float64(i) / float64(n-1)
		samples[i].AtMS = int64(x * float64(time.Hour.Milliseconds()))
		for _, m := range measures {
			at[m.name](&samples[i], of(m, x))
		}
	}
	return samples
}

func level(m measure) int64 {
	if m.bytes {
		return 200 << 20
	}
	return 120
}

// Noise of a quarter of what is allowed cannot tilt a fitted line by as much as is
// allowed, however it falls.
func TestFlatNoiseHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2*fewest+1, 300).Draw(t, "samples")
		samples := drawn(n, func(m measure, _ float64) int64 {
			return level(m) + rapid.Int64Range(-m.slack/4, m.slack/4).Draw(t, m.name)
		})
		if found := judge(samples); len(found) > 0 {
			t.Fatalf("nothing grew, and yet: %q", found)
		}
	})
}

func TestLeakIsFoundAndNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2*fewest+20, 300).Draw(t, "samples")
		leaks := rapid.SampledFrom(measures).Draw(t, "leaks").name
		samples := drawn(n, func(m measure, x float64) int64 {
			v := level(m) + rapid.Int64Range(-m.slack/4, m.slack/4).Draw(t, m.name)
			if m.name == leaks { // over the hour; a half of it shows in the second half
				v += int64(x * 4 * float64(max(m.slack, 2*level(m)*m.percent/100)))
			}
			return v
		})
		found := judge(samples)
		if len(found) != 1 || !strings.HasPrefix(found[0], leaks+" grew by ") {
			t.Fatalf("%s leaks, found: %q", leaks, found)
		}
	})
}

func TestJudge(t *testing.T) {
	for _, row := range []struct {
		name string
		n    int
		of   func(m measure, x float64) int64
		want string // in the one finding; "" for none
	}{
		{"it gets warm in the first half", 200, func(m measure, x float64) int64 {
			return level(m) + int64(min(x, 0.5)*20*float64(m.slack))
		}, ""},
		{"a collector lets memory rise and fall", 400, func(m measure, x float64) int64 {
			saw := x * 40
			return level(m) + int64((saw-float64(int(saw)))*3*float64(m.slack))
		}, ""},
		{"it only falls", 200, func(m measure, x float64) int64 { return level(m) - int64(x*3*float64(m.slack)) }, ""},
		{"wild figures with a slope by chance", 40, func(m measure, x float64) int64 {
			wild := 20 * m.slack
			if int(x*39+0.5)%2 == 0 {
				wild = -wild
			}
			if m.percent == 0 {
				wild += int64(x * 4 * float64(m.slack))
			}
			return 50*m.slack + wild
		}, ""},
		{"one goroutine a minute", 401, func(m measure, x float64) int64 {
			if m.name == "goroutines" {
				return level(m) + int64(60*x)
			}
			return level(m)
		}, "goroutines grew by 30 in the last 30m0s, from 150 to 180"},
		{"too few", 2*fewest - 4, func(m measure, _ float64) int64 { return level(m) }, "too few to judge"},
		{"none", 1, func(m measure, _ float64) int64 { return level(m) }, "too few to judge"},
	} {
		t.Run(row.name, func(t *testing.T) {
			found := judge(drawn(row.n, row.of))
			if row.want == "" && len(found) > 0 || row.want != "" && (len(found) != 1 || !strings.Contains(found[0], row.want)) {
				t.Errorf("found %q, want %q", found, row.want)
			}
		})
	}
}
