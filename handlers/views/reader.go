package views

import (
	"context"
	"iter"

	"gatebook/projections"
)

// interruptible is a reader whose scans end with ctx.
type interruptible struct {
	projections.Reader
	ctx context.Context
}

func (r interruptible) Scan(lower, upper []byte) iter.Seq2[projections.Row, error] {
	return func(yield func(projections.Row, error) bool) {
		rows := 0
		for row, err := range r.Reader.Scan(lower, upper) {
			if rows++; rows%lookEvery == 0 && r.ctx.Err() != nil {
				yield(projections.Row{}, context.Cause(r.ctx))
				return
			}
			if !yield(row, err) {
				return
			}
		}
	}
}
