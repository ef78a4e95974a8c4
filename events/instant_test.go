package events_test

import (
	"errors"
	"testing"
	"time"

	"gatebook/events"
)

func TestInstant(t *testing.T) {
	zone := time.FixedZone("x", 2*3600)
	at := events.InstantOf(time.Date(2026, 1, 2, 3, 4, 5, 678_901_999, zone))
	if got := at.String(); got != "2026-01-02T01:04:05.678901Z" {
		t.Errorf("%s", got)
	}
	if d := at.Add(90*time.Second + 999*time.Nanosecond).Sub(at); d != 90*time.Second {
		t.Errorf("moved by %s", d)
	}
	if before := events.InstantOf(time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC)); before != -1 {
		t.Errorf("one microsecond before 1970 is %d", before)
	}
	if m := events.MicrosOf(1500 * time.Nanosecond); m != 1 || m.Duration() != time.Microsecond {
		t.Errorf("1.5 µs are %d µs", m)
	}
	for _, far := range []events.Instant{1 << 60, -1 << 60} {
		if text, err := far.MarshalText(); !errors.Is(err, events.ErrInstant) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestInstantForm(t *testing.T) {
	var i events.Instant
	for _, text := range []string{
		"", "now", "2026-01-02", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678901234Z",
		"2026-01-02T03:04:05.678901", "2026-01-02T03:04:05.678901+00:00", "2026-01-02T03:04:05.678901z", "2026-01-02t03:04:05.678901Z",
		"2026-01-02 03:04:05.678901Z", "2026-01-02T03:04:05,678901Z", "2026-02-30T03:04:05.678901Z", "2026-01-02T24:00:00.000000Z",
		"2026-01-02T03:04:60.000000Z", "12026-01-02T03:04:05.678901Z", "-026-01-02T03:04:05.678901Z", " 2026-01-02T03:04:05.678901Z",
	} {
		if err := i.UnmarshalText([]byte(text)); !errors.Is(err, events.ErrInstant) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if i != 0 {
		t.Errorf("a refused time left %s", i)
	}
}

// Whatever text is read as an instant is written as the same text, and every
// instant that can be written is read as itself.
func FuzzInstant(f *testing.F) {
	f.Add("2026-01-02T03:04:05.678901Z", int64(0))
	f.Add("0000-01-01T00:00:00.000000Z", int64(-1))
	f.Add("9999-12-31T23:59:59.999999Z", int64(1)<<53)
	f.Add("2026-01-02T03:04:05,678901Z", int64(1)<<62)
	f.Fuzz(func(t *testing.T, text string, micros int64) {
		var i events.Instant
		if err := i.UnmarshalText([]byte(text)); err == nil {
			if again, err := i.MarshalText(); err != nil || string(again) != text {
				t.Errorf("%q is written as %q, %v", text, again, err)
			}
		}
		written, err := events.Instant(micros).MarshalText()
		if err != nil {
			return
		}
		if err := i.UnmarshalText(written); err != nil || i != events.Instant(micros) {
			t.Errorf("%d is written as %q and read as %d, %v", micros, written, i, err)
		}
	})
}
