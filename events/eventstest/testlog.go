package eventstest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"gatebook/events"
)

// Store makes an empty store for one test and gives a function that opens logs
// over it. Every call of that function gives a Log of its own, for one writer;
// it is called from many goroutines. The test's cleanup takes it all away.
type Store func(t *testing.T) (open func() events.Log)

// TestLog tests the laws of events.Log.
func TestLog(t *testing.T, store Store) {
	for _, law := range []struct {
		name string
		test func(*testing.T, func() events.Log)
	}{
		{"an empty log is empty", empty},
		{"what was appended is read, in order, byte for byte", roundTrip},
		{"a stale or early writer is fenced off", fenced},
		{"O-E07 nats-server#4320 of 100 writers that expect the same end one succeeds", oneOfHundred},
		{"decisions stand or fall together", together},
		{"what does not fit is refused and nothing stored", tooLarge},
		{"what just fits is stored", justFits},
		{"an append of nothing stores nothing", nothing},
		{"reading starts and stops anywhere", middle},
		{"more than one batch in one append", manyBatches},
		{"a cancelled append stores nothing", cancelled},
		{"what was told ahead binds no append", toldAhead},
		{"a reader beside a writer sees whole decisions without gaps", beside},
	} {
		t.Run(law.name, func(t *testing.T) { law.test(t, store(t)) })
	}
}

func empty(t *testing.T, open func() events.Log) {
	log := open()
	st := state(t, log)
	if _, err := events.ParseULID[events.Incarnation](string(st.Incarnation)); err != nil {
		t.Errorf("incarnation: %v", err)
	}
	st.Incarnation, st.Bytes = "", 0
	if st != (events.LogState{}) {
		t.Errorf("state of an empty log: %+v", st)
	}
	if got := readAll(t, log, 0); len(got) != 0 {
		t.Errorf("an empty log reads as %d records", len(got))
	}
}

func roundTrip(t *testing.T, open func() events.Log) {
	log := open()
	var want []events.Record
	for i, sizes := range [][]int{{1}, {1, 1, 1}, {2}, {1, 3, 1}, {1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {12}} {
		decisions := Decisions(t, 100*i, sizes...)
		mustAppend(t, log, seqOf(want), decisions)
		want = append(want, slices.Concat(decisions...)...)
		checkLog(t, log, want)
	}
	checkLog(t, open(), want)
}

func fenced(t *testing.T, open func() events.Log) {
	log, other := open(), open()
	first := Decisions(t, 0, 1, 1)
	mustAppend(t, log, 0, first)
	for _, after := range []events.Seq{0, 1, 3, 1 << 40} {
		for _, sizes := range [][]int{{1}, {1, 1}, {3}, {2, 2}} {
			wantFailure(t, other.Append(t.Context(), after, Decisions(t, 50, sizes...)), events.ErrConflict)
		}
	}
	checkLog(t, other, slices.Concat(first...))
	mustAppend(t, other, 2, Decisions(t, 60, 1))
	wantFailure(t, log.Append(t.Context(), 2, Decisions(t, 70, 1, 1, 1)), events.ErrConflict)
}

func oneOfHundred(t *testing.T, open func() events.Log) {
	mustAppend(t, open(), 0, Decisions(t, 0, 1))
	const writers = 100
	logs := make([]events.Log, writers)
	for i := range logs {
		logs[i] = open()
	}
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		decisions := Decisions(t, 1000*(i+1), [][]int{{1}, {1, 1}, {2}, {12}}[i%4]...)
		wg.Go(func() { errs[i] = logs[i].Append(t.Context(), 1, decisions) })
	}
	wg.Wait()
	winners := 0
	for _, err := range errs {
		if err == nil {
			winners++
			continue
		}
		wantFailure(t, err, events.ErrConflict)
	}
	if winners != 1 {
		t.Errorf("%d of %d writers succeeded, want 1", winners, writers)
	}
	if st := state(t, logs[0]); st.Messages != uint64(st.Last) || st.Last < 2 || st.Last > 13 {
		t.Errorf("after one winner: %+v", st)
	}
}

// toldAhead appends what was told, more, less, and something else.
func toldAhead(t *testing.T, open func() events.Log) {
	log, other := open(), open()
	var want []events.Record
	for i, told := range [][]int{{1, 1, 1}, {12}, {2, 3}, {10, 1, 1}} {
		for j, sizes := range [][]int{told, append(slices.Clone(told), 2, 4), told[:1], {1}, {11, 5}} {
			decisions := Decisions(t, 1000*i+100*j, sizes...)
			for n := range sizes {
				log.Ahead(seqOf(want), decisions[:n+1])
			}
			switch j {
			case 2: // more was told than is appended
				log.Ahead(seqOf(want), append(slices.Clone(decisions), Decisions(t, 1000*i+100*j+50, 9)...))
			case 3, 4: // something else was, at another end too
				log.Ahead(seqOf(want)+1, Decisions(t, 1000*i+100*j+50, 7))
				log.Ahead(seqOf(want), Decisions(t, 1000*i+100*j+60, 3, 9))
			}
			mustAppend(t, log, seqOf(want), decisions)
			want = append(want, slices.Concat(decisions...)...)
		}
		log.Ahead(seqOf(want), Decisions(t, 1000*i+900, 12))
		last := Decisions(t, 1000*i+950, 2)
		mustAppend(t, other, seqOf(want), last)
		wantFailure(t, log.Append(t.Context(), seqOf(want), Decisions(t, 1000*i+900, 12, 1)), events.ErrConflict)
		want = append(want, last[0]...)
	}
	checkLog(t, other, want)
}

func together(t *testing.T, open func() events.Log) {
	log := open()
	first := Decisions(t, 0, 3)
	mustAppend(t, log, 0, first)
	wantFailure(t, log.Append(t.Context(), 1, Decisions(t, 10, 2, 1, 4)), events.ErrConflict)
	checkLog(t, log, slices.Concat(first...))
}

func tooLarge(t *testing.T, open func() events.Log) {
	log := open()
	huge := Record(t, 1, "alice", events.ProfileSet{})
	huge.Body = bytes.Repeat([]byte("x"), events.MaxEvent+1)
	ok := Decisions(t, 10, 1)[0]
	big := make([]events.Record, events.MaxBatchBytes/events.MaxEvent+1)
	for i := range big {
		big[i] = Sized(t, i, events.MaxEvent)
	}
	for _, row := range []struct {
		name      string
		decisions [][]events.Record
	}{
		{"one record", [][]events.Record{{huge}}},
		{"the last of several singles", [][]events.Record{ok, ok, {huge}}},
		{"one of a decision", [][]events.Record{ok, {ok[0], huge, ok[0]}}},
		{"a decision of too many records", append(Decisions(t, 0, events.MaxBatchEvents+1), ok)},
		{"a decision of too many bytes", [][]events.Record{ok, big}},
	} {
		t.Run(row.name, func(t *testing.T) {
			wantFailure(t, log.Append(t.Context(), 0, row.decisions), events.ErrTooLarge)
			checkLog(t, log, nil)
		})
	}
}

func justFits(t *testing.T, open func() events.Log) {
	log := open()
	full := make([]events.Record, events.MaxBatchBytes/events.MaxEvent)
	for i := range full {
		full[i] = Sized(t, i, events.MaxEvent)
	}
	want := full[:1]
	mustAppend(t, log, 0, [][]events.Record{want})
	mustAppend(t, log, 1, [][]events.Record{full, full[:1]})
	want = slices.Concat(want, full, full[:1])
	thousand := Decisions(t, 0, events.MaxBatchEvents)
	mustAppend(t, log, seqOf(want), thousand)
	checkLog(t, log, append(want, thousand[0]...))
}

func nothing(t *testing.T, open func() events.Log) {
	log := open()
	for _, decisions := range [][][]events.Record{nil, {}, {{}}, {nil, {}}} {
		mustAppend(t, log, 0, decisions)
	}
	one := Decisions(t, 0, 1)
	mustAppend(t, log, 0, [][]events.Record{nil, one[0], {}})
	checkLog(t, log, one[0])
}

func middle(t *testing.T, open func() events.Log) {
	log := open()
	decisions := Decisions(t, 0, 5, 1, 7, 1, 1)
	mustAppend(t, log, 0, decisions)
	want := slices.Concat(decisions...)
	for from := range events.Seq(18) {
		got := readAll(t, log, from)
		if rest := want[min(int(max(from, 1))-1, len(want)):]; !same(got, rest, max(from, 1)) {
			t.Errorf("read from %d gives %d records, want the %d from there on", from, len(got), len(rest))
		}
	}
	n := 0
	for _, err := range log.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 4 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range log.Read(ctx, 1) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled read yields %v", err)
		}
	}
}

func manyBatches(t *testing.T, open func() events.Log) {
	log := open()
	sizes := []int{1}
	for range 360 {
		sizes = append(sizes, 7)
	}
	decisions := Decisions(t, 0, append(sizes, 1)...)
	mustAppend(t, log, 0, decisions)
	checkLog(t, log, slices.Concat(decisions...))
}

func cancelled(t *testing.T, open func() events.Log) {
	log := open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, sizes := range [][]int{{1}, {1, 1}, {3}} {
		wantFailure(t, log.Append(ctx, 0, Decisions(t, 0, sizes...)), context.Canceled)
	}
	checkLog(t, log, nil)
}

func beside(t *testing.T, open func() events.Log) {
	writer, reader := open(), open()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for i := range 20 {
			if err := writer.Append(t.Context(), events.Seq(10*i), Decisions(t, 10*i, 10)); err != nil {
				t.Errorf("append beside a reader: %v", err)
				return
			}
		}
	})
	for n := 0; n < 200 && !t.Failed(); {
		n = 0
		for r, err := range reader.Read(t.Context(), 1) {
			if n++; err != nil || r.Seq != events.Seq(n) {
				t.Fatalf("record %d has sequence %d, error %v", n, r.Seq, err)
			}
		}
		if n%10 != 0 {
			t.Fatalf("a reader saw %d records: a decision of 10 was split", n)
		}
	}
}
