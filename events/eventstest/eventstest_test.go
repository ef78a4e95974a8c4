package eventstest_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"gatebook/events"
	"gatebook/events/eventstest"
)

func TestMemLog(t *testing.T) {
	eventstest.TestLog(t, func(*testing.T) func() events.Log {
		log := eventstest.NewMemLog(eventstest.ID[events.Incarnation](0))
		return func() events.Log { return log }
	})
}

func TestFaults(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault eventstest.Fault
		want  events.AppendError
		last  events.Seq
	}{
		{"none", eventstest.Fault{Err: events.ErrFull}, events.AppendError{Err: events.ErrFull}, 0},
		{"prefix", eventstest.Fault{Outcome: events.Prefix, Decisions: 2, Err: events.ErrFull}, events.AppendError{Outcome: events.Prefix, Stored: 3, Err: events.ErrFull}, 3},
		{
			"in doubt, stored", eventstest.Fault{Outcome: events.InDoubt, Decisions: eventstest.All, Err: events.ErrUnavailable},
			events.AppendError{Outcome: events.InDoubt, Err: events.ErrUnavailable}, 4,
		},
		{"in doubt, not stored", eventstest.Fault{Outcome: events.InDoubt, Err: events.ErrUnavailable}, events.AppendError{Outcome: events.InDoubt, Err: events.ErrUnavailable}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			log := eventstest.NewMemLog(eventstest.ID[events.Incarnation](0))
			log.Fail(row.fault)
			err := log.Append(t.Context(), 0, eventstest.Decisions(t, 0, 1, 2, 1))
			var got *events.AppendError
			if !errors.As(err, &got) || *got != row.want {
				t.Errorf("append: %v, want %v", err, row.want)
			}
			if st, err := log.State(t.Context()); err != nil || st.Last != row.last {
				t.Errorf("state: %+v, %v, want last %d", st, err, row.last)
			}
			if err := log.Append(t.Context(), row.last, eventstest.Decisions(t, 9, 1)); err != nil {
				t.Errorf("the append after the fault: %v", err)
			}
		})
	}
}

func TestMemLogDownAndDamaged(t *testing.T) {
	log := eventstest.NewMemLog(eventstest.ID[events.Incarnation](0))
	if err := log.Append(t.Context(), 0, eventstest.Decisions(t, 0, 3)); err != nil {
		t.Fatal(err)
	}
	log.SetDown(true)
	if err := log.Append(t.Context(), 3, eventstest.Decisions(t, 9, 1)); !errors.Is(err, events.ErrUnavailable) {
		t.Errorf("append while down: %v", err)
	}
	if _, err := log.State(t.Context()); !errors.Is(err, events.ErrUnavailable) {
		t.Errorf("state while down: %v", err)
	}
	log.SetDown(false)
	last, err := log.Last(t.Context(), 2)
	if err != nil || len(last) != 2 || last[0].Seq != 2 {
		t.Errorf("last 2: %v, %v", last, err)
	}
	log.Remove(2)
	if _, err := log.State(t.Context()); !errors.Is(err, events.ErrGap) {
		t.Errorf("state with a gap: %v", err)
	}
	if _, err := log.Last(t.Context(), 9); !errors.Is(err, events.ErrGap) {
		t.Errorf("read with a gap: %v", err)
	}
}

func TestBefore(t *testing.T) {
	log := eventstest.NewMemLog(eventstest.ID[events.Incarnation](0))
	log.Before(func(context.Context, events.Seq, [][]events.Record) *eventstest.Fault {
		// Another writer is quicker.
		log.Before(nil)
		if err := log.Append(t.Context(), 0, eventstest.Decisions(t, 5, 1)); err != nil {
			t.Error(err)
		}
		return nil
	})
	if err := log.Append(t.Context(), 0, eventstest.Decisions(t, 0, 1)); !errors.Is(err, events.ErrConflict) {
		t.Errorf("append behind another writer: %v", err)
	}
}

// The quick ways to make records make the same as the slow one.
func TestFixturesAreValid(t *testing.T) {
	for n, r := range eventstest.Decisions(t, 0, 3)[0] {
		if want := eventstest.Record(t, n, "alice", events.ProfileSet{Profile: "p"}); !reflect.DeepEqual(r, want) {
			t.Errorf("record %d: %s, want %s", n, r.Body, want.Body)
		}
	}
	for _, size := range []int{1000, events.MaxEvent} {
		r := eventstest.Sized(t, 5, size)
		if got, err := events.Decode(r); err != nil || len(r.Body) != size || got.ID != r.ID {
			t.Errorf("a record of %d bytes: %d, %v", size, len(r.Body), err)
		}
	}
}
