package pebblekv

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"gatebook/projections"
)

// Fatal is what this package panics with where the database cannot go on: the
// process is to end, and the next one folds again what is missing. It is an
// error so that whoever prints it last prints it well.
type Fatal struct {
	Reason string
	Err    error // among the causes, or nil
}

func (f *Fatal) Error() string { return "the view store cannot go on: " + f.Reason }

func (f *Fatal) Unwrap() error { return f.Err }

// maxFailures is how many flushes and compactions may fail in a row.
const maxFailures = 16

var errEnded = errors.New("the transaction has ended")

// troubles is Pebble's logger and the memory of what went wrong.
type troubles struct {
	log      func(string)
	first    atomic.Pointer[error] // the trouble that stopped writing
	failures atomic.Int64          // of flushes and compactions, in a row
	failed   chan struct{}         // closed with first
}

var _ pebble.Logger = (*troubles)(nil)

func newTroubles(log func(string)) *troubles {
	if log == nil {
		log = func(string) {}
	}
	return &troubles{log: log, failed: make(chan struct{})}
}

// Infof drops what Pebble tells about its daily work.
func (t *troubles) Infof(string, ...any) {}

// Errorf passes a line on.
func (t *troubles) Errorf(format string, args ...any) { t.log(fmt.Sprintf(format, args...)) }

// Fatalf panics with a *[Fatal]: Pebble expects that it does not return.
func (t *troubles) Fatalf(format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	t.log(reason)
	fatal := &Fatal{Reason: reason}
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			fatal.Err = err
		}
	}
	panic(fatal)
}

// failure is why nothing may be written any more, or nil.
func (t *troubles) failure() error {
	if err := t.first.Load(); err != nil {
		return fmt.Errorf("%w: earlier: %w", projections.ErrStore, *err)
	}
	return nil
}

func (t *troubles) stop(err error) {
	if t.first.CompareAndSwap(nil, &err) {
		close(t.failed)
	}
	t.log(err.Error())
}

func (t *troubles) listener() *pebble.EventListener {
	worked := func(err error) {
		if err == nil {
			t.failures.Store(0)
		}
	}
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			t.stop(fmt.Errorf("background work: %w", err))
			if n := t.failures.Add(1); n >= maxFailures {
				t.Fatalf("%d failures in a row, the last: %v", n, err)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) { t.stop(errors.New(info.String())) },
		FlushEnd:       func(info pebble.FlushInfo) { worked(info.Err) },
		CompactionEnd:  func(info pebble.CompactionInfo) { worked(info.Err) },
		DiskSlow:       func(info pebble.DiskSlowInfo) { t.log(info.String()) },
		LowDiskSpace:   func(info pebble.LowDiskSpaceInfo) { t.log(info.String()) },
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			t.log(info.String())
		},
		WriteStallEnd:     func() { t.log("write stall ends") },
		PossibleAPIMisuse: func(info pebble.PossibleAPIMisuseInfo) { t.log(info.String()) },
	}
}
