package projectionstest

import (
	"context"
	"iter"
	"testing"

	"gatebook/events"
	"gatebook/events/eventstest"
)

// Book is a book in memory: a rebuild.Source whose first record has
// sequence 1.
type Book []events.Record

// NewBook encodes drafts one after the other, or fails the test.
func NewBook(tb testing.TB, drafts []events.Draft) Book {
	tb.Helper()
	book := make(Book, len(drafts))
	for i, d := range drafts {
		book[i] = eventstest.Encode(tb, d)
		book[i].Seq = events.Seq(i + 1)
	}
	return book
}

// Read yields the records from a sequence on, or the error of ctx.
func (b Book) Read(ctx context.Context, from events.Seq) iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		for _, r := range b {
			if err := ctx.Err(); err != nil {
				yield(events.Record{}, err)
				return
			}
			if r.Seq >= from && !yield(r, nil) {
				return
			}
		}
	}
}
