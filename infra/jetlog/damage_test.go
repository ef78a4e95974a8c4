package jetlog

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/events/eventstest"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

func TestFull(t *testing.T) {
	nc := connect(t, startServer(t, func(o *server.Options) { o.JetStreamMaxStore = 1 << 20 }))
	l := openLog(t, nc, making())
	// O-E03 nats-server#4771, #4775
	stored := events.Seq(0)
	var err error
	for err == nil && stored < 1000 {
		err = l.Append(t.Context(), stored, [][]events.Record{{eventstest.Sized(t, int(stored), 32<<10)}})
		if err == nil {
			stored++
		}
	}
	outcome(t, err, events.None, 0, events.ErrFull)
	for _, sizes := range [][]int{{1}, {1, 1}, {3, 2}} {
		outcome(t, l.Append(t.Context(), stored, eventstest.Decisions(t, 5000, sizes...)), events.None, 0, events.ErrFull)
	}
	st, err := l.State(t.Context())
	if err != nil || st.First != 1 || st.Last != stored || st.Messages != uint64(stored) {
		t.Errorf("a full book after %d events: %+v, %v", stored, st, err)
	}
}

// The server checks its limit again for every member while it commits a batch, and
// may stop in the middle without a word. A part of a batch is not a decision: the
// readers stop at it. With room again, a restart of the server stores the rest.
func TestTornBatch(t *testing.T) {
	dir := t.TempDir()
	start := func(room int64) *server.Server {
		return startServer(t, func(o *server.Options) { o.StoreDir, o.JetStreamMaxStore = dir, room })
	}
	s := start(1 << 20)
	cfg := making()
	cfg.Timeout = 2 * time.Second
	l := openLog(t, connect(t, s), cfg)
	whole := eventstest.Decisions(t, 0, 2)
	mustAppend(t, l, 0, whole)
	decision := make([]events.Record, 40)
	for i := range decision {
		decision[i] = eventstest.Sized(t, 100+i, 60<<10)
	}
	outcome(t, l.Append(t.Context(), 2, [][]events.Record{decision}), events.InDoubt, 0, events.ErrUnavailable)
	last, err := l.Last(t.Context(), 100)
	if !errors.Is(err, events.ErrGap) || len(last) < 3 || len(last) >= 42 {
		t.Errorf("last after a torn batch: %d records, %v", len(last), err)
	}
	n := 0
	err = nil
	for _, err = range l.Read(t.Context(), 1) {
		n++
	}
	if !errors.Is(err, events.ErrGap) || !strings.Contains(err.Error(), "not whole") {
		t.Errorf("read of a torn batch: %d records, %v", n, err)
	}

	s.Shutdown()
	s.WaitForShutdown()
	l = openLog(t, connect(t, start(1<<30)), Config{})
	wantLog(t, l, slices.Concat(whole[0], decision)...)
	mustAppend(t, l, 42, eventstest.Decisions(t, 900, 1))
}

// unchecked is a Log for reading over a stream that Open would refuse.
func unchecked(t *testing.T, change func(*jetstream.StreamConfig)) (*Log, jetstream.Stream) {
	t.Helper()
	nc := connect(t, startServer(t, nil))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	cfg := book()
	change(&cfg)
	stream, err := js.CreateStream(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &Log{nc: nc, stream: cfg.Name, timeout: 30 * time.Second}, stream
}

func store(t *testing.T, l *Log, n int) {
	t.Helper()
	js, err := jetstream.New(l.nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range eventstest.Decisions(t, 0, n) {
		for _, r := range d {
			if _, err := js.Publish(t.Context(), r.Subject, r.Body); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestGap(t *testing.T) {
	l, stream := unchecked(t, func(c *jetstream.StreamConfig) { c.DenyDelete = false })
	store(t, l, 6)
	if err := stream.DeleteMsg(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	wantGap := func(what string, records int, err error, wantRecords int, names string) {
		t.Helper()
		if !errors.Is(err, events.ErrGap) || !strings.Contains(err.Error(), names) || records != wantRecords {
			t.Errorf("%s: %d records, %v, want %d and a gap that names %s", what, records, err, wantRecords, names)
		}
	}
	read := func(from events.Seq) (n int, err error) {
		for _, err = range l.Read(t.Context(), from) {
			if err == nil {
				n++
			}
		}
		return n, err
	}
	n, err := read(1)
	wantGap("read", n, err, 3, "sequence 4")
	last, err := l.Last(t.Context(), 6)
	wantGap("last", len(last), err, 3, "sequence 4")
	st, err := l.State(t.Context())
	wantGap("state", int(st.Messages), err, 5, "deleted: 1")
	if n, err := read(5); n != 2 || err != nil {
		t.Errorf("read behind the gap: %d, %v", n, err)
	}
	if err := stream.DeleteMsg(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	n, err = read(5)
	wantGap("read up to a missing end", n, err, 1, "sequence 6")
	if err := stream.DeleteMsg(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	n, err = read(1)
	wantGap("read from a missing start", n, err, 0, "sequence 1")
	_, err = l.State(t.Context())
	wantGap("state without a start", 0, err, 0, "up to sequence 6")
}

func TestForeignSubject(t *testing.T) {
	l, stream := unchecked(t, func(c *jetstream.StreamConfig) { c.Subjects = []string{">"}; c.NoAck = true })
	for _, subject := range []string{"ev.main.agent.a.>", "other"} {
		if err := l.nc.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond) // what needs no acknowledgement is stored some time
	defer tick.Stop()
	for stored := uint64(0); stored < 2; <-tick.C {
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stored = info.State.Msgs
	}
	for _, err := range l.Read(t.Context(), 1) {
		if !errors.Is(err, events.ErrSettings) {
			t.Errorf("read: %v", err)
		}
	}
	if _, err := l.Last(t.Context(), 1); !errors.Is(err, events.ErrSettings) {
		t.Errorf("last: %v", err)
	}
}
