// Package rebuild folds a whole book into a store of views.
//
// Start with [Fold], which a start uses to fold what the views miss, and a rebuild
// to make new ones; [Fingerprint] says whether two stores are equal. What an event
// does to the views is decided by [projections.Apply] alone: this package only
// makes many of them fast.
package rebuild

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"

	"gatebook/events"
	"gatebook/projections"
)

// Source is the part of events.Log that a fold reads.
type Source interface {
	Read(ctx context.Context, from events.Seq) iter.Seq2[events.Record, error]
}

// DefaultBatch is how many events Fold commits at once.
const DefaultBatch = 1000

// Options change how [Fold] works, never what it gives.
type Options struct {
	Batch int // events per transaction; 0: [DefaultBatch]
	// Progress, where not nil, is called after each commit with the checkpoint, by
	// Fold's own goroutine.
	Progress func(events.Seq)
}

// Fold folds what book holds beyond the store's checkpoint, and ends where book
// ends. It owns the store's transactions until it returns; its two goroutines,
// the decoder and a commit, have ended by then.
//
// It stops at the first event that cannot be decoded or folded with an
// [*projections.EventError], at a gap with [events.ErrGap] or [projections.ErrOrder], and when ctx ends.
// The checkpoint is then right before that event, or, where ctx ended, after a
// whole transaction.
func Fold(ctx context.Context, book Source, codec events.Codec, store projections.Store, opt Options) (err error) {
	if opt.Batch <= 0 {
		opt.Batch = DefaultBatch
	}
	checkpoint, err := checkpointOf(store)
	if err != nil {
		return err
	}
	if l, ok := store.(projections.Loader); ok {
		store = l.Load()
		defer func() { err = errors.Join(err, store.Close()) }()
	}
	ctx, stop := context.WithCancel(ctx)
	batches := make(chan batch, 2)
	go func() {
		defer close(batches)
		d := decoder{codec: codec, size: opt.Batch, out: batches}
		d.run(ctx, book.Read(ctx, checkpoint+1))
	}()
	defer func() {
		stop()
		for range batches { // the decoder closes it when it ends
		}
	}()
	c := committer{store: store, memo: projections.NewMemo(), progress: opt.Progress}
	defer func() { err = errors.Join(err, c.wait()) }()
	for b := range batches {
		if err := c.fold(ctx, b.items); err != nil {
			return err
		}
		if b.err != nil {
			return b.err
		}
	}
	return ctx.Err()
}

func checkpointOf(store projections.Store) (events.Seq, error) {
	snapshot := store.Snapshot()
	state, err := projections.LoadState(snapshot)
	return state.Seq, errors.Join(err, snapshot.Close())
}

// committer commits one transaction while the next one is folded.
type committer struct {
	store    projections.Store
	memo     *projections.Memo
	progress func(events.Seq) // nil for nobody
	upTo     events.Seq       // where the commit under way ends
	done     chan error       // of the commit under way; nil where there is none
}

// fold folds items in one transaction and starts its commit. Where one does not
// fit, those before it are folded in a transaction of their own.
func (c *committer) fold(ctx context.Context, items []item) error {
	if len(items) == 0 {
		return nil
	}
	tx := c.memo.Begin(c.store)
	for i, it := range items {
		err := ctx.Err()
		if err == nil {
			err = projections.Apply(tx, it.event, it.record)
		}
		if err == nil {
			continue
		}
		err = errors.Join(c.wait(), err)
		tx.Discard()
		if errors.Is(err, projections.ErrStore) || ctx.Err() != nil {
			return err
		}
		return errors.Join(c.fold(ctx, items[:i]), err)
	}
	if err := c.wait(); err != nil {
		tx.Discard()
		return err
	}
	c.upTo, c.done = items[len(items)-1].event.Seq, make(chan error, 1)
	go func() { c.done <- tx.Commit() }()
	return nil
}

// wait waits for the commit under way.
func (c *committer) wait() error {
	if c.done == nil {
		return nil
	}
	err := <-c.done
	c.done = nil
	if err == nil && c.progress != nil {
		c.progress(c.upTo)
	}
	return err
}

// item is one event and its bytes.
type item struct {
	event  events.Recorded
	record events.Record
}

// batch is a run of decoded events, and why there is no more after them.
type batch struct {
	items []item
	err   error
}

// decoder turns records into batches. It is the other goroutine of a fold.
type decoder struct {
	codec events.Codec
	size  int
	out   chan<- batch
}

func (d decoder) run(ctx context.Context, records iter.Seq2[events.Record, error]) {
	items := make([]item, 0, d.size)
	for record, err := range records {
		var event events.Recorded
		if err == nil {
			event, err = d.decode(record)
		}
		if err != nil {
			d.send(ctx, batch{items: items, err: err})
			return
		}
		if items = append(items, item{event, record}); len(items) == d.size {
			if !d.send(ctx, batch{items: items}) {
				return
			}
			items = make([]item, 0, d.size)
		}
	}
	d.send(ctx, batch{items: items})
}

func (d decoder) decode(record events.Record) (events.Recorded, error) {
	event, err := d.codec.Decode(record)
	if err != nil {
		return event, &projections.EventError{Seq: record.Seq, Err: err}
	}
	return event, nil
}

func (d decoder) send(ctx context.Context, b batch) bool {
	select {
	case d.out <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

// Fingerprint is the SHA-256 over all rows, each with its lengths, and how many
// there are: equal for two stores exactly where they are equal byte for byte.
func Fingerprint(r projections.Reader) (events.Digest, int64, error) {
	sum, rows := sha256.New(), int64(0)
	var lengths [8]byte
	for row, err := range r.Scan([]byte{}, []byte{0xff}) {
		if err != nil {
			return "", 0, fmt.Errorf("fingerprint: %w", err)
		}
		binary.BigEndian.PutUint32(lengths[:4], uint32(len(row.Key)))
		binary.BigEndian.PutUint32(lengths[4:], uint32(len(row.Value)))
		sum.Write(lengths[:])
		sum.Write(row.Key)
		sum.Write(row.Value)
		rows++
	}
	return events.Digest(hex.EncodeToString(sum.Sum(nil))), rows, nil
}
