package eventstest

import (
	"bytes"
	"errors"
	"testing"

	"gatebook/events"
)

func seqOf(records []events.Record) events.Seq { return events.Seq(len(records)) }

func mustAppend(t *testing.T, log events.Log, after events.Seq, decisions [][]events.Record) {
	t.Helper()
	if err := log.Append(t.Context(), after, decisions); err != nil {
		t.Fatalf("append after %d: %v", after, err)
	}
}

// wantFailure wants an append that stored nothing because of want.
func wantFailure(t *testing.T, err, want error) {
	t.Helper()
	var failed *events.AppendError
	if !errors.As(err, &failed) || failed.Outcome != events.None || failed.Stored != 0 || !errors.Is(err, want) {
		t.Errorf("append: %v, want none stored because of: %v", err, want)
	}
}

func state(t *testing.T, log events.Log) events.LogState {
	t.Helper()
	st, err := log.State(t.Context())
	if err != nil {
		t.Fatalf("state: %v", err)
	}
	return st
}

func readAll(t *testing.T, log events.Log, from events.Seq) []events.Record {
	t.Helper()
	var out []events.Record
	for r, err := range log.Read(t.Context(), from) {
		if err != nil {
			t.Fatalf("read from %d: after %d records: %v", from, len(out), err)
		}
		out = append(out, r)
	}
	return out
}

func same(got, want []events.Record, first events.Seq) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if got[i].Seq != first+events.Seq(i) || got[i].Subject != want[i].Subject || !bytes.Equal(got[i].Body, want[i].Body) {
			return false
		}
	}
	return true
}

// checkLog wants the log to hold exactly the records of want, from sequence 1 on.
func checkLog(t *testing.T, log events.Log, want []events.Record) {
	t.Helper()
	if got := readAll(t, log, 1); !same(got, want, 1) {
		t.Errorf("the log holds %d records that are not the %d appended", len(got), len(want))
	}
	st := state(t, log)
	first := min(seqOf(want), 1)
	if st.First != first || st.Last != seqOf(want) || st.Messages != uint64(len(want)) {
		t.Errorf("state: %+v, want %d records from %d on", st, len(want), first)
	}
}
