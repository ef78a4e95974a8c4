package pebblekv

import (
	"bytes"
	"errors"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"gatebook/projections"
)

// reader reads from a database or from a snapshot of it.
type reader struct{ db pebble.Reader }

func (r reader) Get(key []byte) ([]byte, error) {
	value, closer, err := r.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap("get", err)
	}
	own := append(make([]byte, 0, len(value)), value...)
	return own, wrap("get", closer.Close())
}

// Near opens a look at rows that stand near each other; see projections.Near.
func (r reader) Near(lower, upper []byte) (get func(key []byte) ([]byte, error), done func() error) {
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return func([]byte) ([]byte, error) { return nil, wrap("get", err) }, func() error { return nil }
	}
	get = func(key []byte) ([]byte, error) {
		if !it.SeekGE(key) || !bytes.Equal(it.Key(), key) {
			return nil, wrap("get", it.Error())
		}
		value, err := it.ValueAndErr()
		return value, wrap("get", err)
	}
	return get, func() error { return wrap("get", it.Close()) }
}

func (r reader) Scan(lower, upper []byte) iter.Seq2[projections.Row, error] {
	return r.scan(lower, upper, false)
}

func (r reader) ScanBack(lower, upper []byte) iter.Seq2[projections.Row, error] {
	return r.scan(lower, upper, true)
}

func (r reader) scan(lower, upper []byte, back bool) iter.Seq2[projections.Row, error] {
	return func(yield func(projections.Row, error) bool) {
		bounds := &pebble.IterOptions{LowerBound: lower, UpperBound: upper}
		if len(lower) == 0 {
			bounds.LowerBound = nil // Pebble takes no empty key as a bound
		}
		it, err := r.db.NewIter(bounds)
		if err != nil {
			yield(projections.Row{}, wrap("scan", err))
			return
		}
		defer it.Close() // what it would say, Error says below
		start, step := it.First, it.Next
		if back {
			start, step = it.Last, it.Prev
		}
		for ok := start(); ok; ok = step() {
			value, err := it.ValueAndErr()
			if err != nil {
				yield(projections.Row{}, wrap("scan", err))
				return
			}
			if !yield(projections.Row{Key: it.Key(), Value: value}, nil) {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(projections.Row{}, wrap("scan", err))
		}
	}
}

// snapshot is a reader that is closed.
type snapshot struct {
	reader
	db *pebble.Snapshot
}

func (s snapshot) Close() error { return wrap("close a snapshot", s.db.Close()) }
