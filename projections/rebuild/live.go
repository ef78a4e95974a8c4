package rebuild

import (
	"context"
	"iter"
	"sync"

	"gatebook/events"
	"gatebook/projections"
)

// Live is the store of views in use. Another store can take its place while
// readers hold snapshots of the one before ([Live.Use]).
//
// Begin and Use belong to the one writer; everything else is safe for concurrent
// use.
type Live struct {
	mu  sync.Mutex
	now *inUse
}

var _ projections.Store = (*Live)(nil)

// inUse is a store and how many read from it.
type inUse struct {
	store   projections.Store
	readers int
	retired chan struct{} // closed once it is replaced and nobody reads; nil before
}

// NewLive puts a store in use.
func NewLive(store projections.Store) *Live { return &Live{now: &inUse{store: store}} }

// Use puts next in the place of the store in use, which it gives. No transaction
// may be open, and next MUST hold the views of at least as many events.
func (l *Live) Use(next projections.Store) *Retired {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.now
	l.now = &inUse{store: next}
	old.retired = make(chan struct{})
	if old.readers == 0 {
		close(old.retired)
	}
	return &Retired{old}
}

// Retired is a store that is not in use any more.
type Retired struct{ was *inUse }

// Close closes the store once nobody reads from it. Where ctx ends before, the
// store is left open and the error says why.
func (r *Retired) Close(ctx context.Context) error {
	select {
	case <-r.was.retired:
		return r.was.store.Close()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Live) enter() *inUse {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.readers++
	return l.now
}

func (l *Live) leave(u *inUse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u.readers--
	if u.readers == 0 && u.retired != nil {
		close(u.retired)
	}
}

// Begin opens a transaction of the store in use.
func (l *Live) Begin() projections.Tx {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now.store.Begin()
}

// Snapshot opens the state of the last commit; its store is not closed before it
// is.
func (l *Live) Snapshot() projections.Snapshot {
	u := l.enter()
	return &liveSnapshot{Snapshot: u.store.Snapshot(), live: l, of: u}
}

type liveSnapshot struct {
	projections.Snapshot
	live *Live
	of   *inUse
	once sync.Once
}

// Near is that of the snapshot below; a plain get where it has none.
func (s *liveSnapshot) Near(lower, upper []byte) (get func(key []byte) ([]byte, error), done func() error) {
	if near, ok := s.Snapshot.(projections.Near); ok {
		return near.Near(lower, upper)
	}
	return s.Get, func() error { return nil }
}

func (s *liveSnapshot) Close() error {
	err := s.Snapshot.Close()
	s.once.Do(func() { s.live.leave(s.of) })
	return err
}

// Sync makes every commit so far durable.
func (l *Live) Sync() error {
	u := l.enter()
	defer l.leave(u)
	return u.store.Sync()
}

// Close closes the store in use.
func (l *Live) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now.store.Close()
}

// UpTo is a source that ends with an event, though the book goes on.
func UpTo(book Source, last events.Seq) Source { return upTo{book, last} }

type upTo struct {
	book Source
	last events.Seq
}

func (u upTo) Read(ctx context.Context, from events.Seq) iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		if from > u.last {
			return
		}
		for r, err := range u.book.Read(ctx, from) {
			if !yield(r, err) || err != nil || r.Seq >= u.last {
				return
			}
		}
	}
}
