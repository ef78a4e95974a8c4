package eventstest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"gatebook/events"
)

// All, as Fault.Decisions, stands for every decision of the append.
const All = -1

// Fault is how the next append of a [MemLog] fails. The usual ones:
//
//	none                    Fault{Outcome: events.None, Err: events.ErrFull}
//	a prefix                Fault{Outcome: events.Prefix, Decisions: 2, Err: events.ErrFull}
//	in doubt, stored        Fault{Outcome: events.InDoubt, Decisions: All, Err: events.ErrUnavailable}
//	in doubt, not stored    Fault{Outcome: events.InDoubt, Err: events.ErrUnavailable}
//	conflict                Fault{Outcome: events.None, Err: events.ErrConflict}
//	no answer from the log  Fault{Outcome: events.None, Err: events.ErrUnavailable}
type Fault struct {
	Outcome events.Outcome
	// Decisions is how many decisions are stored in fact, or All.
	Decisions int
	// Err is what the AppendError wraps.
	Err error
}

// MemLog is an events.Log in memory. All its methods are safe for concurrent use.
// Several writers may share one: the sequence that they expect fences them.
type MemLog struct {
	mu      sync.Mutex
	inc     events.Incarnation
	records []events.Record // a removed one has no body
	bytes   uint64
	missing []events.Seq
	faults  []Fault
	before  func(ctx context.Context, after events.Seq, decisions [][]events.Record) *Fault
	down    bool
	told    toldDecisions
}

type toldDecisions struct {
	after     events.Seq
	decisions [][]events.Record
}

// NewMemLog is an empty log of the given incarnation.
func NewMemLog(inc events.Incarnation) *MemLog { return &MemLog{inc: inc} }

// Fail makes the next appends fail, one fault each, in order.
func (l *MemLog) Fail(faults ...Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, faults...)
}

// Before calls f at the start of every append, without a lock held: it may block,
// look at the log, or return the fault of this append. Nil takes it away.
func (l *MemLog) Before(f func(ctx context.Context, after events.Seq, decisions [][]events.Record) *Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = f
}

// SetDown makes everything fail with events.ErrUnavailable, or work again.
func (l *MemLog) SetDown(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// Remove loses the record at seq, as damage to a disk would.
func (l *MemLog) Remove(seq events.Seq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= uint64(len(l.records[seq-1].Body))
	l.records = slices.Clone(l.records) // a reader may hold the former slice
	l.records[seq-1] = events.Record{}
	l.missing = append(l.missing, seq)
}

// Append is events.Log's.
func (l *MemLog) Append(ctx context.Context, after events.Seq, decisions [][]events.Record) error {
	if err := ctx.Err(); err != nil {
		return &events.AppendError{Outcome: events.None, Err: err}
	}
	if err := checkSizes(decisions); err != nil {
		return &events.AppendError{Outcome: events.None, Err: err}
	}
	fault := l.nextFault(ctx, after, decisions)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.down:
		return &events.AppendError{Outcome: events.None, Err: events.ErrUnavailable}
	case fault != nil:
		return l.appendWith(*fault, after, decisions)
	case count(decisions) == 0:
		return nil
	}
	return l.store(after, decisions)
}

// Ahead is events.Log's. Nothing can be prepared here.
func (l *MemLog) Ahead(after events.Seq, decisions [][]events.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = toldDecisions{after, decisions}
}

// Told gives what [MemLog.Ahead] was told last.
func (l *MemLog) Told() (after events.Seq, decisions [][]events.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told.after, l.told.decisions
}

func (l *MemLog) nextFault(ctx context.Context, after events.Seq, decisions [][]events.Record) *Fault {
	l.mu.Lock()
	before := l.before
	l.mu.Unlock()
	if before != nil {
		if fault := before(ctx, after, decisions); fault != nil {
			return fault
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.faults) == 0 {
		return nil
	}
	fault := l.faults[0]
	l.faults = l.faults[1:]
	return &fault
}

func (l *MemLog) appendWith(f Fault, after events.Seq, decisions [][]events.Record) error {
	if f.Decisions != All {
		decisions = decisions[:min(f.Decisions, len(decisions))]
	}
	if err := l.store(after, decisions); err != nil {
		return err
	}
	out := &events.AppendError{Outcome: f.Outcome, Err: f.Err}
	if f.Outcome == events.Prefix {
		out.Stored = count(decisions)
	}
	return out
}

func (l *MemLog) store(after events.Seq, decisions [][]events.Record) error {
	if last := events.Seq(len(l.records)); after != last && count(decisions) > 0 {
		return &events.AppendError{Outcome: events.None, Err: fmt.Errorf("%w: it ends at %d, expected %d", events.ErrConflict, last, after)}
	}
	for _, decision := range decisions {
		for _, r := range decision {
			l.records = append(l.records, events.Record{
				Seq: events.Seq(len(l.records) + 1), ID: r.ID, Subject: r.Subject, Body: bytes.Clone(r.Body),
			})
			l.bytes += uint64(len(r.Body))
		}
	}
	return nil
}

// Read is events.Log's.
func (l *MemLog) Read(ctx context.Context, from events.Seq) iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		l.mu.Lock()
		records, down := l.records, l.down
		l.mu.Unlock()
		if down {
			yield(events.Record{}, events.ErrUnavailable)
			return
		}
		for seq := max(from, 1); seq <= events.Seq(len(records)); seq++ {
			r, err := at(records, seq)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(events.Record{}, err)
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Last gives the last n records, fewer where the log holds fewer.
func (l *MemLog) Last(ctx context.Context, n int) ([]events.Record, error) {
	l.mu.Lock()
	from := events.Seq(max(len(l.records)-n, 0) + 1)
	l.mu.Unlock()
	var out []events.Record
	for r, err := range l.Read(ctx, from) {
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}

// State is events.Log's. A removed record is reported as events.ErrGap.
func (l *MemLog) State(ctx context.Context) (events.LogState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return events.LogState{}, err
	}
	if l.down {
		return events.LogState{}, events.ErrUnavailable
	}
	st := events.LogState{Incarnation: l.inc, Last: events.Seq(len(l.records)), Bytes: l.bytes}
	if st.Last > 0 {
		st.First = 1
	}
	st.Messages = uint64(len(l.records) - len(l.missing))
	if len(l.missing) > 0 {
		return st, fmt.Errorf("%w: missing: %d", events.ErrGap, l.missing)
	}
	return st, nil
}

func at(records []events.Record, seq events.Seq) (events.Record, error) {
	r := records[seq-1]
	if r.Body == nil {
		return events.Record{}, fmt.Errorf("%w: sequence %d is missing", events.ErrGap, seq)
	}
	r.Body = bytes.Clone(r.Body)
	return r, nil
}

func count(decisions [][]events.Record) int {
	n := 0
	for _, decision := range decisions {
		n += len(decision)
	}
	return n
}

func checkSizes(decisions [][]events.Record) error {
	for i, decision := range decisions {
		total := 0
		for _, r := range decision {
			if len(r.Body) > events.MaxEvent {
				return fmt.Errorf("%w: a record of decision %d has %d bytes", events.ErrTooLarge, i, len(r.Body))
			}
			total += len(r.Body)
		}
		if len(decision) > events.MaxBatchEvents || total > events.MaxBatchBytes {
			return fmt.Errorf("%w: decision %d has %d records of %d bytes", events.ErrTooLarge, i, len(decision), total)
		}
	}
	return nil
}
