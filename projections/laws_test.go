package projections_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/projections"
	"gatebook/projections/projectionstest"
	"gatebook/projections/rebuild"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// live folds drafts as an engine does: each in its own transaction, from the
// struct and not from the bytes.
func live(tb rapid.TB, s projections.Store, drafts []events.Draft, book projectionstest.Book) {
	tb.Helper()
	for i, d := range drafts {
		if err := applyOne(s, d, book[i]); err != nil {
			tb.Fatalf("event %d (%s): %v", i+1, d.Event.Kind(), err)
		}
	}
}

func applyOne(s projections.Store, d events.Draft, r events.Record) error {
	tx := s.Begin()
	defer tx.Discard()
	if err := projections.Apply(tx, events.Recorded{Draft: d, Seq: r.Seq}, r); err != nil {
		return err
	}
	return tx.Commit()
}

func fold(tb rapid.TB, s projections.Store, book rebuild.Source, batch int) {
	tb.Helper()
	if err := rebuild.Fold(context.Background(), book, events.Codec{}, s, rebuild.Options{Batch: batch}); err != nil {
		tb.Fatal(err)
	}
}

func fingerprint(tb rapid.TB, s projections.Store) events.Digest {
	tb.Helper()
	snap := s.Snapshot()
	defer snap.Close()
	print, _, err := rebuild.Fingerprint(snap)
	if err != nil {
		tb.Fatal(err)
	}
	return print
}

func state(tb rapid.TB, s projections.Store) projections.State {
	tb.Helper()
	snap := s.Snapshot()
	defer snap.Close()
	st, err := projections.LoadState(snap)
	if err != nil {
		tb.Fatal(err)
	}
	return st
}

func same(tb rapid.TB, what string, got, want any) {
	tb.Helper()
	if !reflect.DeepEqual(got, want) {
		tb.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// histories runs law over generated books. Their records have made-up bodies, as
// encoding costs more than all the rest; laws that decode encode.
func histories(t *testing.T, law func(*rapid.T, []events.Draft, projectionstest.Book)) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		drafts := projectionstest.Histories(60).Draw(rt, "history")
		book := make(projectionstest.Book, len(drafts))
		for i, d := range drafts {
			book[i] = events.Record{Seq: events.Seq(i + 1), ID: d.ID, Subject: "s", Body: fmt.Append(nil, i)}
		}
		law(rt, drafts, book)
	})
}

func TestRebuildEqualsLive(t *testing.T) {
	histories(t, func(rt *rapid.T, drafts []events.Draft, _ projectionstest.Book) {
		book := projectionstest.NewBook(t, drafts)
		once := newMapStore()
		live(rt, once, drafts, book)
		again := newMapStore()
		fold(rt, again, book, rapid.SampledFrom([]int{0, 1, 2, 7, 50}).Draw(rt, "batch"))
		same(rt, "fingerprint", fingerprint(rt, again), fingerprint(rt, once))
	})
}

// A memory changes no answer, however little it keeps: not what a transaction reads
// while the one before it is open, nor what is left after one that was discarded.
func TestMemo(t *testing.T) {
	histories(t, func(rt *rapid.T, drafts []events.Draft, book projectionstest.Book) {
		plain, store := newMapStore(), newMapStore()
		memo := projections.SmallMemo(rapid.IntRange(1, 9).Draw(rt, "size"))
		var before projections.Tx // not committed yet
		for done := 0; done < len(drafts); {
			next := min(len(drafts), done+rapid.IntRange(1, 6).Draw(rt, "events"))
			tx := memo.Begin(store)
			for i := done; i < next; i++ {
				if err := projections.Apply(tx, events.Recorded{Draft: drafts[i], Seq: book[i].Seq}, book[i]); err != nil {
					rt.Fatal(err)
				}
			}
			if rapid.IntRange(0, 4).Draw(rt, "discard") == 0 {
				tx.Discard()
				continue
			}
			live(rt, plain, drafts[done:next], book[done:next])
			if rapid.Bool().Draw(rt, "look") {
				same(rt, "rows of a transaction", contents(rt, tx), contents(rt, plain.Snapshot()))
			}
			if before != nil {
				if err := before.Commit(); err != nil {
					rt.Fatal(err)
				}
			}
			before, done = tx, next
		}
		if err := before.Commit(); err != nil {
			rt.Fatal(err)
		}
		before.Discard() // as whoever defers it does
		tx := memo.Begin(store)
		same(rt, "rows after the last", contents(rt, tx), contents(rt, plain.Snapshot()))
		tx.Discard()
		same(rt, "fingerprint", fingerprint(rt, store), fingerprint(rt, plain))
	})
}

// contents are all rows, by a scan, each as a get gives it too.
func contents(tb rapid.TB, r projections.Reader) map[string]string {
	tb.Helper()
	all := map[string]string{}
	for row, err := range r.Scan([]byte{}, []byte{0xff}) {
		if err != nil {
			tb.Fatal(err)
		}
		all[string(row.Key)] = string(row.Value)
	}
	for key, value := range all {
		if got, err := r.Get([]byte(key)); err != nil || string(got) != value {
			tb.Fatalf("a get of %q gives %q (%v), a scan %q", key, got, err, value)
		}
	}
	return all
}

// fold(a then b) = fold(b) from fold(a)'s checkpoint.
func TestFoldGoesOn(t *testing.T) {
	histories(t, func(rt *rapid.T, drafts []events.Draft, _ projectionstest.Book) {
		book := projectionstest.NewBook(t, drafts)
		cut := rapid.IntRange(0, len(book)).Draw(rt, "cut")
		parts, whole := newMapStore(), newMapStore()
		fold(rt, parts, book[:cut], 7)
		same(rt, "checkpoint", state(rt, parts).Seq, events.Seq(cut))
		fold(rt, parts, book, 7)
		fold(rt, whole, book, 0)
		same(rt, "fingerprint", fingerprint(rt, parts), fingerprint(rt, whole))
	})
}

// O-B05 proteanhq/protean#1042 every event twice, and the last 50 again.
func TestDeliveredTwice(t *testing.T) {
	histories(t, func(rt *rapid.T, drafts []events.Draft, book projectionstest.Book) {
		once, twice := newMapStore(), newMapStore()
		live(rt, once, drafts, book)
		deliver := func(i int) {
			if err := applyOne(twice, drafts[i], book[i]); err != nil {
				rt.Fatal(err)
			}
		}
		for i := range drafts {
			deliver(i)
			deliver(i)
		}
		for i := max(0, len(drafts)-50); i < len(drafts); i++ {
			deliver(i)
		}
		same(rt, "fingerprint", fingerprint(rt, twice), fingerprint(rt, once))
	})
}

// O-E09 nats-io/nats-server#7549 an event is missing in the middle.
func TestGapRefused(t *testing.T) {
	drafts := projectionstest.Busy(1)
	book := projectionstest.NewBook(t, drafts)
	s := newMapStore()
	torn := append(append(projectionstest.Book{}, book[:10]...), book[11:]...)
	err := rebuild.Fold(t.Context(), torn, events.Codec{}, s, rebuild.Options{Batch: 4})
	if !errors.Is(err, projections.ErrOrder) {
		t.Fatalf("a gap gives %v", err)
	}
	same(t, "checkpoint", state(t, s).Seq, events.Seq(10))
	if err := applyOne(s, drafts[10], events.Record{Seq: 0, ID: drafts[10].ID}); !errors.Is(err, projections.ErrOrder) {
		t.Fatalf("an event without a sequence gives %v", err)
	}
}

// O-E10 nats-io/nats-server#7817, #5564 an event that cannot be decoded, or not
// be folded, stops the fold with its sequence; what is before it is folded.
func TestBadEventStops(t *testing.T) {
	book := projectionstest.NewBook(t, projectionstest.Busy(1))
	unfoldable := eventstest.Record(t, 21, "agent-00", events.RoundEnded{Round: eventstest.ID[events.RoundID](9999), End: events.RoundFailed})
	for name, bad := range map[string]struct {
		record events.Record
		want   error
	}{
		"undecodable":  {events.Record{ID: book[20].ID, Subject: book[20].Subject, Body: []byte(`{"specversion":"1.0"}`)}, events.ErrMalformed},
		"unknown kind": {events.Record{ID: book[20].ID, Subject: book[20].Subject, Body: replace(book[20].Body, ".v1", ".v9")}, events.ErrUnknownKind},
		"unfoldable":   {unfoldable, projections.ErrFold},
	} {
		for _, batch := range []int{1, 7, 20, 1000} {
			t.Run(fmt.Sprint(name, " in batches of ", batch), func(t *testing.T) {
				damaged := append(projectionstest.Book{}, book...)
				damaged[20] = bad.record
				damaged[20].Seq = 21
				s := newMapStore()
				err := rebuild.Fold(t.Context(), damaged, events.Codec{}, s, rebuild.Options{Batch: batch})
				var at *projections.EventError
				if !errors.Is(err, bad.want) || !errors.As(err, &at) || at.Seq != 21 {
					t.Fatalf("got %v", err)
				}
				prefix := newMapStore()
				fold(t, prefix, book[:20], 0)
				same(t, "fingerprint", fingerprint(t, s), fingerprint(t, prefix))
			})
		}
	}
}

func replace(body []byte, old, new string) []byte {
	for i := range len(body) - len(old) {
		if string(body[i:i+len(old)]) == old {
			return append(append(append([]byte{}, body[:i]...), new...), body[i+len(old):]...)
		}
	}
	return body
}

// An event that does not fit changes nothing, so that a decision can be dropped
// and the transaction goes on.
func TestApplyIsAllOrNothing(t *testing.T) {
	histories(t, func(rt *rapid.T, drafts []events.Draft, book projectionstest.Book) {
		s := newMapStore()
		live(rt, s, drafts, book)
		before := fingerprint(rt, s)
		bad := drafts[rapid.IntRange(0, len(drafts)-1).Draw(rt, "again")]
		r := events.Record{Seq: events.Seq(len(drafts) + 1), ID: bad.ID, Subject: "s"}
		tx := s.Begin()
		err := projections.Apply(tx, events.Recorded{Draft: bad, Seq: r.Seq}, r)
		if err == nil {
			tx.Discard()
			return // some facts may be true twice
		}
		if !errors.Is(err, projections.ErrFold) {
			rt.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			rt.Fatal(err)
		}
		same(rt, "fingerprint", fingerprint(rt, s), before)
	})
}

func TestFoldEndsWithContext(t *testing.T) {
	book := projectionstest.NewBook(t, projectionstest.Busy(20))
	ctx, cancel := context.WithCancel(t.Context())
	s := newMapStore()
	var last events.Seq
	err := rebuild.Fold(ctx, book, events.Codec{}, s, rebuild.Options{Batch: 100, Progress: func(seq events.Seq) {
		last = seq
		if seq == 300 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	// The transaction that was folded beside that commit may still be committed.
	if last != 300 && last != 400 {
		t.Fatalf("ended after %d", last)
	}
	same(t, "checkpoint", state(t, s).Seq, last)
	fold(t, s, book, 0)
	same(t, "checkpoint", state(t, s).Seq, events.Seq(len(book)))
}

// brokenBook fails after some records, as a log that does not answer.
type brokenBook struct{ projectionstest.Book }

func (b brokenBook) Read(ctx context.Context, from events.Seq) iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		for r, err := range b.Book.Read(ctx, from) {
			if !yield(r, err) {
				return
			}
		}
		yield(events.Record{}, events.ErrGap)
	}
}

func TestFoldPassesOnReadErrors(t *testing.T) {
	book := projectionstest.NewBook(t, projectionstest.Busy(1))
	s := newMapStore()
	err := rebuild.Fold(t.Context(), brokenBook{book}, events.Codec{}, s, rebuild.Options{})
	if !errors.Is(err, events.ErrGap) {
		t.Fatalf("got %v", err)
	}
	same(t, "checkpoint", state(t, s).Seq, events.Seq(len(book)))
}
