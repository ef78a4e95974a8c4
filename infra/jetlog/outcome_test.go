package jetlog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/events/eventstest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestRefusedInTheMiddleOfSingles(t *testing.T) {
	nc := connect(t, startServer(t, nil))
	l := openLog(t, nc, making())
	change(t, nc, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 2000 })
	small := eventstest.Decisions(t, 0, 1, 1, 1, 1)
	large := []events.Record{eventstest.Sized(t, 9, 4000)}
	decisions := [][]events.Record{small[0], small[1], large, small[2], small[3]}
	outcome(t, l.Append(t.Context(), 0, decisions), events.Prefix, 2, events.ErrTooLarge)
	wantLog(t, l, small[0][0], small[1][0])
	outcome(t, l.Append(t.Context(), 2, [][]events.Record{large, small[2]}), events.None, 0, events.ErrTooLarge)
	mustAppend(t, l, 2, small[2:])
}

func TestRejectedBatch(t *testing.T) {
	nc := connect(t, startServer(t, nil))
	l := openLog(t, nc, making())
	change(t, nc, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 2000 })
	ok := eventstest.Decisions(t, 0, 3)
	bad := []events.Record{ok[0][0], eventstest.Sized(t, 9, 4000), ok[0][1]}
	// Which member was refused only the answer to the first says; nothing is stored.
	first := []events.Record{bad[1], ok[0][0], ok[0][1]}
	outcome(t, l.Append(t.Context(), 0, [][]events.Record{first, ok[0]}), events.None, 0, events.ErrTooLarge)
	outcome(t, l.Append(t.Context(), 0, [][]events.Record{ok[0], bad}), events.None, 0, events.ErrFull)
	wantLog(t, l)

	// Of two batches the second is rejected: the first stays, whole.
	thousand := eventstest.Decisions(t, 100, events.MaxBatchEvents)
	outcome(t, l.Append(t.Context(), 0, [][]events.Record{thousand[0], bad}), events.Prefix, events.MaxBatchEvents, events.ErrFull)
	wantLog(t, l, thousand[0]...)
	mustAppend(t, l, events.MaxBatchEvents, ok)
}

func TestOversizedForTheServer(t *testing.T) {
	s := startServer(t, nil)
	l := openLog(t, connect(t, s), making())
	_, err := plan([][]events.Record{{eventstest.Sized(t, 1, 4000)}}, 4000)
	if !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("a body of the size of the server's payload, without room for headers: %v", err)
	}
	for _, subject := range []string{"ev.main.>", "ev.main.agent.*.x", "ev.main.agent.a", "ev.main.agent.a.b.c", "ev.main.agent..x", "ev.main.agent.a b.x", "ev.main.agent.a.x\r\nPUB y 1", "x"} {
		r := eventstest.Decisions(t, 0, 1)
		r[0][0].Subject = subject
		outcome(t, l.Append(t.Context(), 0, r), events.None, 0, events.ErrID)
	}
}

func TestSwallowedAcknowledgement(t *testing.T) {
	for _, row := range []struct {
		name  string
		sizes []int
	}{
		{"O-E06 nats.node#628 the acknowledgement of one event is lost", []int{1}},
		{"O-E06 the acknowledgements of singles are lost", []int{1, 1, 1}},
		{"O-E06 the acknowledgement of a batch is lost", []int{2, 3}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := &leaky{Server: startServer(t, nil)}
			direct := openLog(t, connect(t, s.Server), making())
			lossy := openLog(t, connect(t, s), Config{Timeout: 100 * time.Millisecond})
			s.lost.Store(true)
			decisions := eventstest.Decisions(t, 0, row.sizes...)
			all := slices.Concat(decisions...)
			outcome(t, lossy.Append(t.Context(), 0, decisions), events.InDoubt, 0, events.ErrUnavailable)

			last, err := direct.Last(t.Context(), len(all))
			if err != nil || len(last) != len(all) {
				t.Fatalf("last: %d records, %v", len(last), err)
			}
			for i, r := range last {
				if got, err := events.Decode(r); err != nil || got.ID != all[i].ID || got.Seq != events.Seq(i+1) {
					t.Errorf("record %d: %v, %v", i, got.ID, err)
				}
			}
			// Sent again, nothing is stored twice.
			outcome(t, direct.Append(t.Context(), 0, decisions), events.None, 0, events.ErrConflict)
			wantLog(t, direct, all...)
		})
	}
}

func TestCancelledWhileWaiting(t *testing.T) {
	s := &leaky{Server: startServer(t, nil)}
	l := openLog(t, connect(t, s), making())
	s.lost.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	outcome(t, l.Append(ctx, 0, eventstest.Decisions(t, 0, 1)), events.InDoubt, 0, context.DeadlineExceeded)
}

// Answers that come after their append was given up belong to nobody.
func TestLateAnswers(t *testing.T) {
	l := openLog(t, connect(t, startServer(t, nil)), making())
	decisions := eventstest.Decisions(t, 0, 1, 1, 1)
	// An append that was given up: its answers are never waited for.
	for _, m := range (group{records: slices.Concat(decisions...)}).messages(l.id("1"), 0, l.reply) {
		if err := l.nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	more := eventstest.Decisions(t, 10, 1, 1, 1)
	mustAppend(t, l, 3, more)
	wantLog(t, l, slices.Concat(append(decisions, more...)...)...)
}

func TestClosedConnection(t *testing.T) {
	nc := connect(t, startServer(t, nil))
	l := openLog(t, nc, making())
	nc.Close()
	outcome(t, l.Append(t.Context(), 0, eventstest.Decisions(t, 0, 1)), events.None, 0, events.ErrUnavailable)
	if _, err := l.State(t.Context()); !errors.Is(err, events.ErrUnavailable) {
		t.Errorf("state: %v", err)
	}
	for _, err := range l.Read(t.Context(), 1) {
		if !errors.Is(err, events.ErrUnavailable) {
			t.Errorf("read: %v", err)
		}
	}
}

// A client that buffers for a reconnect would send the append at some later time.
func TestLostConnection(t *testing.T) {
	s := startServer(t, nil)
	gone := make(chan struct{})
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.DisconnectErrHandler(func(*nats.Conn, error) { close(gone) }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	l := openLog(t, nc, making())
	s.Shutdown()
	<-gone
	l.timeout = 50 * time.Millisecond
	outcome(t, l.Append(t.Context(), 0, eventstest.Decisions(t, 0, 1)), events.None, 0, events.ErrUnavailable)
}

func TestAnotherStreamAnswers(t *testing.T) {
	nc := connect(t, startServer(t, nil))
	l := openLog(t, nc, making())
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "BOOK_main"); err != nil {
		t.Fatal(err)
	}
	other := book()
	other.Name = "OTHER"
	if _, err := js.CreateStream(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	outcome(t, l.Append(t.Context(), 0, eventstest.Decisions(t, 0, 1)), events.InDoubt, 0, events.ErrSettings)
	outcome(t, l.Append(t.Context(), 1, eventstest.Decisions(t, 1, 2)), events.InDoubt, 0, events.ErrSettings)
}

func TestMissingStream(t *testing.T) {
	nc := connect(t, startServer(t, nil))
	l := openLog(t, nc, making())
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "BOOK_main"); err != nil {
		t.Fatal(err)
	}
	for _, sizes := range [][]int{{1}, {1, 1, 1}, {2}, {events.MaxBatchEvents, 2}} {
		err := l.Append(t.Context(), 0, eventstest.Decisions(t, 0, sizes...))
		outcome(t, err, events.None, 0, events.ErrUnavailable) // O-E17 (var.): a publish without a stream is an error
		if !errors.Is(err, ErrNoStream) {
			t.Errorf("append: %v", err)
		}
	}
	if _, err := l.State(t.Context()); !errors.Is(err, ErrNoStream) {
		t.Errorf("state: %v", err)
	}
	if _, err := l.Last(t.Context(), 1); !errors.Is(err, ErrNoStream) {
		t.Errorf("last: %v", err)
	}
}

// Another writer gets between two pipelined singles. Sequences alone would let the
// third one in: the other writer's record is in the place of the second.
func TestFencedInTheMiddleOfSingles(t *testing.T) {
	s := startServer(t, nil)
	replaced, other := openLog(t, connect(t, s), making()), openLog(t, connect(t, s), Config{})
	decisions := eventstest.Decisions(t, 0, 1, 1, 1, 1)
	g := group{records: slices.Concat(decisions...)}
	messages := g.messages(replaced.id("1"), 0, replaced.reply)
	publish := func(messages ...*nats.Msg) {
		t.Helper()
		for _, m := range messages {
			if err := replaced.nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(messages[0])
	if a := replaced.await(t.Context(), 1, 1); a[0].refused != nil || a[0].seq != 1 {
		t.Fatalf("the first single: %+v", a)
	}
	foreign := eventstest.Decisions(t, 50, 1)
	mustAppend(t, other, 1, foreign)
	publish(messages[1:]...)
	answers := replaced.await(t.Context(), 2, 3)
	for i, a := range answers {
		if !errors.Is(a.refused, events.ErrConflict) {
			t.Errorf("single %d behind another writer's record: %+v", i+1, a)
		}
	}
	wantLog(t, other, decisions[0][0], foreign[0][0])
}

func TestHeaderLikeText(t *testing.T) {
	nc := connect(t, startServer(t, nil))
	l := openLog(t, nc, making())
	// O-E14 nats-server#2585
	text := "Nats-Rollup: all\r\nNats-Msg-Id: x\r\nNats-Expected-Last-Sequence: 0\r\n\r\nNATS/1.0\r\nNats-Rollup: all"
	var want []events.Record
	for i := range 3 {
		d := eventstest.Draft(i, "alice", events.ConversationClosed{Conversation: eventstest.ID[events.ConversationID](1), Reason: text})
		d.Actor = events.Actor{Kind: events.ActorChannel, ID: "a\r\nNats-Rollup: all"}
		d.Trace = text
		want = append(want, eventstest.Encode(t, d))
	}
	mustAppend(t, l, 0, [][]events.Record{{want[0]}})
	mustAppend(t, l, 1, [][]events.Record{{want[1], want[2]}})
	wantLog(t, l, want...)
	own := []string{headerExpected, headerID, headerPrevious, headerBatch, headerMember, headerCommit}
	for seq := range events.Seq(3) {
		_, header, err := l.get(t.Context(), seq+1)
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range header {
			if !slices.Contains(own, name) || strings.ContainsAny(values[0], "\r\n: ") {
				t.Errorf("sequence %d has the header %s: %q", seq+1, name, values)
			}
		}
	}
}

// O-E05 nats-server#2921, #5142: an id that is used again must not make an event
// vanish. Nothing is deduplicated here; the views take a second copy for damage.
func TestIdsDoNotDeduplicate(t *testing.T) {
	l := openLog(t, connect(t, startServer(t, nil)), making())
	again := eventstest.Decisions(t, 0, 1)
	other := eventstest.Draft(0, "", events.PhaseChanged{Phase: 1})
	for after, decisions := range [][][]events.Record{again, again, {{eventstest.Encode(t, other)}}, eventstest.Decisions(t, 0, 2)} {
		if err := l.Append(t.Context(), events.Seq(after), decisions); err != nil {
			t.Fatalf("append after %d: %v", after, err)
		}
	}
	if s, err := l.State(t.Context()); err != nil || s.Last != 5 || s.Messages != 5 {
		t.Errorf("%+v, %v", s, err)
	}
}
