package jetlog

import (
	"context"
	"errors"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/events/eventstest"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// stream is the book's stream, seen past the book.
func stream(t *testing.T, nc *nats.Conn) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "BOOK_main")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func consumers(t *testing.T, s jetstream.Stream) (names []string) {
	t.Helper()
	list := s.ConsumerNames(t.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// However a read ends, nothing of it stays in the server.
func TestReadLeavesNothingBehind(t *testing.T) {
	nc := connect(t, startServer(t, nil))
	l := openLog(t, nc, making())
	const records = 2*chunkRecords + 1
	mustAppend(t, l, 0, eventstest.Decisions(t, 0, records/3, records/3, records-2*(records/3)))
	s := stream(t, nc)
	for _, row := range []struct {
		name string
		at   int // the record at which the caller does something
		do   func(cancel func()) (goOn bool)
		want error
	}{
		{"the whole book", records, func(func()) bool { return true }, nil},
		{"the caller stops at the first record", 1, func(func()) bool { return false }, nil},
		{"the caller stops in the middle", chunkRecords + 1, func(func()) bool { return false }, nil},
		{"cancelled in the middle", chunkRecords / 2, func(cancel func()) bool { cancel(); return true }, context.Canceled},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		var err error
		for _, err = range l.Read(ctx, 1) {
			if err != nil {
				break
			}
			if n++; n == 1 && len(consumers(t, s)) != 1 {
				t.Errorf("%s: a read has no consumer, so the test sees nothing", row.name)
			}
			if n == row.at && !row.do(cancel) {
				break
			}
		}
		cancel()
		if n != row.at || !errors.Is(err, row.want) {
			t.Errorf("%s: %d records, %v, want %d, %v", row.name, n, err, row.at, row.want)
		}
		// The server may still be busy with what the read asked for.
		for until := time.Now().Add(20 * time.Second); len(consumers(t, s)) != 0; {
			if time.Now().After(until) {
				t.Fatalf("%s: left in the server: %q", row.name, consumers(t, s))
			}
		}
	}
	openLog(t, nc, Config{}) // the settings are still the book's
}

// A read whose consumer is gone ends with an error, never as if the book did.
func TestReadWithoutItsConsumer(t *testing.T) {
	nc := connect(t, startServer(t, nil))
	l := openLog(t, nc, making())
	mustAppend(t, l, 0, eventstest.Decisions(t, 0, chunkRecords+88))
	s := stream(t, nc)
	n := 0
	var err error
	for _, err = range l.Read(t.Context(), 1) {
		if err != nil {
			break
		}
		if n++; n == 1 {
			for _, name := range consumers(t, s) {
				if err := s.DeleteConsumer(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if !errors.Is(err, events.ErrUnavailable) || n > chunkRecords {
		t.Errorf("%d records, %v", n, err)
	}
}

// The answers get lost in the middle of a read.
func TestReadWithoutAnswers(t *testing.T) {
	s := &leaky{Server: startServer(t, nil)}
	cfg := making()
	cfg.Timeout = 300 * time.Millisecond
	l := openLog(t, connect(t, s), cfg)
	mustAppend(t, l, 0, eventstest.Decisions(t, 0, chunkRecords+1))
	n := 0
	var err error
	for _, err = range l.Read(t.Context(), 1) {
		if err != nil {
			break
		}
		n++
		s.lost.Store(true)
	}
	if !errors.Is(err, events.ErrUnavailable) || n > chunkRecords {
		t.Errorf("%d records, %v", n, err)
	}
}

// A batch that is stored while it is read comes whole, as does one that is larger
// than a request.
func TestReadBesideLargeBatches(t *testing.T) {
	srv := startServer(t, func(o *server.Options) { o.JetStreamMaxStore = 1 << 30 })
	writer, reader := openLog(t, connect(t, srv), making()), openLog(t, connect(t, srv), Config{})
	const batches, size = 12, events.MaxBatchEvents
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range batches {
			if err := writer.Append(t.Context(), events.Seq(size*i), eventstest.Decisions(t, size*i, size)); err != nil {
				t.Errorf("append: %v", err)
				return
			}
		}
	}()
	for n := 0; n < batches*size && !t.Failed(); {
		n = 0
		for r, err := range reader.Read(t.Context(), 1) {
			if n++; err != nil || r.Seq != events.Seq(n) {
				t.Fatalf("record %d has sequence %d, error %v", n, r.Seq, err)
			}
		}
		if n%size != 0 {
			t.Errorf("a read ends after %d records, in the middle of a batch", n)
		}
	}
	<-done
}

// A record that is not the book's stops a read, wherever it is.
func TestReadForeignSubject(t *testing.T) {
	l, _ := unchecked(t, func(*jetstream.StreamConfig) {})
	js, err := jetstream.New(l.nc)
	if err != nil {
		t.Fatal(err)
	}
	good := eventstest.Decisions(t, 0, 1)[0][0]
	for _, subject := range []string{good.Subject, "ev.main.agent.alice.profile_set.more", good.Subject} {
		if _, err := js.Publish(t.Context(), subject, good.Body); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, err = range l.Read(t.Context(), 1) {
		if err == nil {
			n++
		}
	}
	if n != 1 || !errors.Is(err, events.ErrSettings) {
		t.Errorf("%d records, %v", n, err)
	}
}
