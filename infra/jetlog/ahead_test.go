package jetlog

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/events/eventstest"

	"github.com/nats-io/nats.go/jetstream"
)

// batchOf gives the batch that stored the record at seq.
func batchOf(t *testing.T, s *leaky, seq events.Seq) string {
	t.Helper()
	js, err := jetstream.New(connect(t, s.Server))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "BOOK_main")
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetMsg(t.Context(), uint64(seq))
	if err != nil {
		t.Fatal(err)
	}
	return m.Header.Get(headerBatch)
}

// What is sent ahead is no part of the book until an append that begins with it; one
// that does not goes its own way, and the batch that was begun never comes.
func TestSentAhead(t *testing.T) {
	for _, row := range []struct {
		name   string
		staged [][]int // one after the other, each with the records of the former
		append []int
		goesOn bool
	}{
		{"all of it", [][]int{{12}}, []int{12}, true},
		{"and more", [][]int{{12}}, []int{12, 1, 3}, true},
		{"in steps", [][]int{{12}, {12, 2}, {12, 2, 1}}, []int{12, 2, 1, 1}, true},
		{"less", [][]int{{12, 2}}, []int{12}, false},
		{"nothing of it", [][]int{{12}}, []int{}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := &leaky{Server: startServer(t, nil)}
			l := openLog(t, connect(t, s.Server), making())
			for _, sizes := range row.staged {
				l.sendFirst(0, slices.Concat(eventstest.Decisions(t, 0, sizes...)...))
			}
			if st, err := l.State(t.Context()); err != nil || st.Messages != 0 {
				t.Fatalf("only sent ahead: %+v, %v", st, err)
			}
			decisions := eventstest.Decisions(t, 0, row.append...)
			if len(decisions) == 0 {
				decisions = eventstest.Decisions(t, 500, 3, 9)
			}
			mustAppend(t, l, 0, decisions)
			wantLog(t, l, slices.Concat(decisions...)...)
			if ahead := strings.HasSuffix(batchOf(t, s, 1), "-a1"); ahead != row.goesOn {
				t.Errorf("stored by the batch that was begun ahead: %t, want %t", ahead, row.goesOn)
			}
			// The server has forgotten what was given up: many more can be begun.
			for i := range 60 {
				l.sendFirst(99, slices.Concat(eventstest.Decisions(t, 1000+20*i, 12)...))
			}
			last := eventstest.Decisions(t, 5000, 2, 2)
			mustAppend(t, l, events.Seq(len(slices.Concat(decisions...))), last)
		})
	}
}

// A batch that the server forgot is refused as a whole, and the next is a new one.
func TestSentAheadTooLongAgo(t *testing.T) {
	l := openLog(t, connect(t, startServer(t, nil)), making())
	decisions := eventstest.Decisions(t, 0, 12, 2)
	l.sendFirst(0, slices.Concat(decisions...))
	l.ahead.mu.Lock()
	id, records := l.ahead.id, l.ahead.records
	l.forget()
	l.ahead.id, l.ahead.records = id, records // as if it had run out there, unknown here
	l.ahead.mu.Unlock()
	outcome(t, l.Append(t.Context(), 0, decisions), events.None, 0, events.ErrFull)
	wantLog(t, l)
	mustAppend(t, l, 0, decisions)
	wantLog(t, l, slices.Concat(decisions...)...)
}

// The commit of a batch that was begun ahead can be in doubt like any other.
func TestSentAheadInDoubt(t *testing.T) {
	s := &leaky{Server: startServer(t, nil)}
	direct := openLog(t, connect(t, s.Server), making())
	lossy := openLog(t, connect(t, s), Config{Timeout: 100 * time.Millisecond})
	decisions := eventstest.Decisions(t, 0, 12, 2)
	lossy.sendFirst(0, slices.Concat(decisions...))
	s.lost.Store(true)
	outcome(t, lossy.Append(t.Context(), 0, decisions), events.InDoubt, 0, events.ErrUnavailable)
	wantLog(t, direct, slices.Concat(decisions...)...)
}
