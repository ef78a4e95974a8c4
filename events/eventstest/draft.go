package eventstest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"gatebook/events"

	"github.com/oklog/ulid/v2"
)

// epoch is the time of number 0.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

// Time is number n's time: n milliseconds after a fixed one.
func Time(n int) events.Instant {
	return events.InstantOf(epoch.Add(time.Duration(n) * time.Millisecond))
}

// ID is number n's ULID. It sorts as n does. The same number gives the same
// ULID for every type of id.
func ID[T events.ULIDForm](n int) T {
	var u ulid.ULID
	_ = u.SetTime(uint64(Time(n).Time().UnixMilli())) // fails only after the year 10889
	binary.BigEndian.PutUint64(u[8:], uint64(n))
	return T(u.String())
}

// Digest is number n's digest.
func Digest(n int) events.Digest {
	return events.DigestOf(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// Draft stamps e as number n: id, time, the engine as actor, writer number 0,
// nothing else. The agent is empty for facts about none.
func Draft(n int, agent events.AgentID, e events.Event) events.Draft {
	return events.Draft{
		Meta: events.Meta{
			ID: ID[events.EventID](n), Time: Time(n), Actor: events.Engine(),
			Writer: ID[events.WriterID](0), Agent: agent,
		},
		Event: e,
	}
}

// Record is [Draft], encoded. It has no sequence yet.
func Record(tb testing.TB, n int, agent events.AgentID, e events.Event) events.Record {
	tb.Helper()
	return Encode(tb, Draft(n, agent, e))
}

// Encode encodes d or fails the test.
func Encode(tb testing.TB, d events.Draft) events.Record {
	tb.Helper()
	rec, err := events.Encode(d)
	if err != nil {
		tb.Fatalf("encode %s: %v", d.Event.Kind(), err)
	}
	return rec
}

// Decisions makes one decision per size, of that many small valid records,
// numbered from first on.
func Decisions(tb testing.TB, first int, sizes ...int) [][]events.Record {
	tb.Helper()
	record := numbered(tb, events.ProfileSet{Profile: "p"})
	var decisions [][]events.Record
	for _, size := range sizes {
		decision := make([]events.Record, 0, size)
		for range size {
			decision = append(decision, record(first))
			first++
		}
		decisions = append(decisions, decision)
	}
	return decisions
}

// Sized is a valid record whose body has exactly size bytes. It fails the test
// where size is below that of the smallest such event or above events.MaxEvent.
func Sized(tb testing.TB, n, size int) events.Record {
	tb.Helper()
	r := numbered(tb, events.AgentReleased{Reason: "x"})(n)
	pad := size - len(r.Body) + 1
	if pad < 1 || size > events.MaxEvent {
		tb.Fatalf("a record cannot have %d bytes", size)
	}
	r.Body = bytes.Replace(r.Body, []byte(`"reason":"x"`), slices.Concat([]byte(`"reason":"`), bytes.Repeat([]byte("x"), pad), []byte(`"`)), 1)
	return r
}

// numbered encodes e once and gives a function that puts another number into the
// bytes: many records cost as much as one.
func numbered(tb testing.TB, e events.Event) func(n int) events.Record {
	tb.Helper()
	first := Record(tb, 1, "alice", e)
	return func(n int) events.Record {
		r := first
		r.ID = ID[events.EventID](n)
		r.Body = bytes.Replace(r.Body, []byte(first.ID), []byte(r.ID), 1)
		r.Body = bytes.Replace(r.Body, []byte(Time(1).String()), []byte(Time(n).String()), 1)
		return r
	}
}
