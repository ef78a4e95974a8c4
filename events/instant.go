package events

import (
	"errors"
	"fmt"
	"time"
)

// ErrInstant marks a time that is not in the one form the book uses.
var ErrInstant = errors.New("malformed time")

// instantForm is RFC 3339 in UTC with exactly six digits of a second, so that
// equal instants have equal bytes.
const instantForm = "2006-01-02T15:04:05.000000Z"

// Instant is a time in microseconds since 1970-01-01 UTC. The zero value means
// "none". It is an integer, not a time.Time, so that facts compare with == and
// hold no pointer.
type Instant int64

// InstantOf cuts t to microseconds.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMicro()) }

// Time is i as a time.Time in UTC.
func (i Instant) Time() time.Time { return time.UnixMicro(int64(i)).UTC() }

// Add returns i moved by d, cut to microseconds.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Microseconds()) }

// Sub is the time from other to i.
func (i Instant) Sub(other Instant) time.Duration { return time.Duration(i-other) * time.Microsecond }

func (i Instant) String() string { return i.Time().Format(instantForm) }

// MarshalText writes i as RFC 3339 with six digits of a second.
func (i Instant) MarshalText() ([]byte, error) {
	if y := i.Time().Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("%w: year %d", ErrInstant, y)
	}
	return []byte(i.String()), nil
}

// UnmarshalText takes only the form that MarshalText writes.
func (i *Instant) UnmarshalText(text []byte) error {
	t, err := time.Parse(instantForm, string(text))
	if err != nil || t.Format(instantForm) != string(text) {
		return fmt.Errorf("%w: %s: want the form %s", ErrInstant, Quote(string(text)), instantForm)
	}
	*i = InstantOf(t)
	return nil
}

// Micros is a duration in microseconds.
type Micros int64

// MicrosOf cuts d to microseconds.
func MicrosOf(d time.Duration) Micros { return Micros(d.Microseconds()) }

// Duration is m as a time.Duration.
func (m Micros) Duration() time.Duration { return time.Duration(m) * time.Microsecond }
