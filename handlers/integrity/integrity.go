// Package integrity compares what the stores say of one another: the log, the
// views with their Merkle tree, and the head, a small file that both must extend.
//
// Start with [Check] before anything is folded, [CheckRoot] after, and [Scrub]
// in the background; [Keep] writes the head.
//
// What the package promises: it changes nothing but the head, and a doubt is a
// [*Damage] that names the first sequence in doubt, never a repair.
package integrity

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"gatebook/events"
	"gatebook/projections"
)

// ErrDamage is what every [*Damage] wraps.
var ErrDamage = errors.New("the stores disagree")

// Damage is evidence that acknowledged events are missing or were changed.
type Damage struct {
	// Seq is the first sequence in doubt; 0 where the whole store is.
	Seq    events.Seq
	Reason string
}

func (d *Damage) Error() string {
	if d.Seq == 0 {
		return d.Reason
	}
	return fmt.Sprintf("%s (first sequence in doubt: %d)", d.Reason, d.Seq)
}

// Unwrap makes errors.Is(err, ErrDamage) true.
func (d *Damage) Unwrap() error { return ErrDamage }

// Head is size and root of the tree as they were last written beside the stores.
// The zero value is the head of a folder that never had one.
type Head struct {
	Incarnation events.Incarnation
	Size        events.Seq
	Root        tlog.Hash
}

// Newest is how many of the newest leaves every start compares.
const Newest = 1000

// Check compares the log, the views as they are, and the head, before anything
// is folded. All makes it compare every leaf, not the newest ones. Progress,
// where not nil, hears how far it is.
func Check(ctx context.Context, log events.Log, views projections.Reader, head Head, all bool, progress func(done, of events.Seq)) error {
	state, err := log.State(ctx)
	if errors.Is(err, events.ErrGap) {
		return &Damage{Seq: firstGap(ctx, log), Reason: err.Error()}
	}
	if err != nil {
		return err
	}
	known, err := projections.LoadState(views)
	if err != nil {
		return err
	}
	if err := checkShape(state, known, head); err != nil {
		return err
	}
	from := events.Seq(1)
	if !all && known.Seq > Newest {
		from = known.Seq - Newest + 1
	}
	return compare(ctx, log, views, known, from, progress)
}

// checkShape looks at counts and names only.
func checkShape(log events.LogState, known projections.State, head Head) error {
	switch {
	case known.Incarnation != "" && known.Incarnation != log.Incarnation:
		return &Damage{Reason: fmt.Sprintf("the book is another one: its incarnation is %s, the views know %s",
			events.Quote(string(log.Incarnation)), known.Incarnation)}
	case head.Incarnation != "" && head.Incarnation != log.Incarnation:
		return &Damage{Reason: fmt.Sprintf("the book is another one: its incarnation is %s, the head knows %s",
			events.Quote(string(log.Incarnation)), head.Incarnation)}
	case log.Last < known.Seq:
		return &Damage{Seq: log.Last + 1, Reason: fmt.Sprintf("the book ends at %d, the views have seen %d: sequences %d to %d are missing",
			log.Last, known.Seq, log.Last+1, known.Seq)}
	case log.Last < head.Size:
		return &Damage{Seq: log.Last + 1, Reason: fmt.Sprintf("the book ends at %d, the head knows %d: sequences %d to %d are missing",
			log.Last, head.Size, log.Last+1, head.Size)}
	case log.Last > 0 && log.First != 1:
		return &Damage{Seq: 1, Reason: fmt.Sprintf("the book begins at %d", log.First)}
	case log.Messages != uint64(log.Last):
		return &Damage{Seq: 1, Reason: fmt.Sprintf("the book holds %d events for %d sequences", log.Messages, log.Last)}
	}
	return nil
}

// firstGap reads until it finds what is missing.
func firstGap(ctx context.Context, log events.Log) events.Seq {
	next := events.Seq(1)
	for r, err := range log.Read(ctx, 1) {
		if err != nil || r.Seq != next {
			break
		}
		next++
	}
	return next
}

// compare hashes the records again and compares them with the tree's leaves.
func compare(ctx context.Context, log events.Log, views projections.Reader, known projections.State, from events.Seq, progress func(done, of events.Seq)) error {
	next := from
	for r, err := range log.Read(ctx, from) {
		if next > known.Seq {
			return nil
		}
		if err != nil {
			return unreadable(err, next)
		}
		stored, err := projections.LeafHash(views, r.Seq)
		if err != nil {
			return err
		}
		if tlog.RecordHash(events.Leaf(known.Incarnation, r)) != stored {
			return &Damage{Seq: r.Seq, Reason: "an event is not the one that was recorded"}
		}
		if progress != nil && r.Seq%Newest == 0 {
			progress(r.Seq, known.Seq)
		}
		next++
	}
	if next <= known.Seq {
		return &Damage{Seq: next, Reason: "the book ends too early"}
	}
	return nil
}

// unreadable tells damage from a log that does not answer.
func unreadable(err error, at events.Seq) error {
	if errors.Is(err, events.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &Damage{Seq: at, Reason: "an event cannot be read: " + err.Error()}
}

// CheckRoot compares the tree of the views, once they have caught up, with the
// head: the book must extend it.
func CheckRoot(views projections.Reader, head Head) error {
	if head.Size == 0 {
		return nil
	}
	root, err := projections.TreeRoot(views, head.Size)
	if err != nil {
		return err
	}
	if root != head.Root {
		return &Damage{Seq: 1, Reason: fmt.Sprintf("the tree of %d events has root %s, the head knows %s", head.Size, root, head.Root)}
	}
	return nil
}

// Position is how far a scrub has come.
type Position struct {
	Done, Of events.Seq
	Damage   string
}

// Scrub compares the book with the tree from after a position on, in slices, so
// that its snapshots are short. Pause is called between slices and ends the scrub
// by an error. Report hears of every slice. The error is a *Damage, that of
// pause, or that of a log or store that did not answer: then whoever called goes
// on later from the last position.
func Scrub(ctx context.Context, log events.Log, store projections.Store, from events.Seq, pause func(context.Context) error, report func(Position)) error {
	for done := from; ; {
		upTo, of, err := scrubSlice(ctx, log, store, done)
		var damage *Damage
		if errors.As(err, &damage) {
			report(Position{Done: done, Of: of, Damage: err.Error()})
		}
		if err != nil {
			return err
		}
		done = upTo
		report(Position{Done: done, Of: of})
		if done >= of {
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func scrubSlice(ctx context.Context, log events.Log, store projections.Store, done events.Seq) (upTo, of events.Seq, err error) {
	snap := store.Snapshot()
	defer snap.Close()
	known, err := projections.LoadState(snap)
	if err != nil || done >= known.Seq {
		return done, known.Seq, err
	}
	slice := known
	slice.Seq = min(done+Newest, known.Seq)
	return slice.Seq, known.Seq, compare(ctx, log, snap, slice, done+1, nil)
}

// Tip is the head that the views stand for now.
func Tip(store projections.Store) (Head, error) {
	snap := store.Snapshot()
	defer snap.Close()
	state, err := projections.LoadState(snap)
	if err != nil || state.Seq == 0 {
		return Head{}, err
	}
	root, err := projections.TreeRoot(snap, state.Seq)
	if err != nil {
		return Head{}, err
	}
	return Head{Incarnation: state.Incarnation, Size: state.Seq, Root: root}, nil
}

// Keep makes the views durable and writes the head. Last is the size that was
// written before; nothing happens where nothing is new. It returns the size now
// written.
func Keep(store projections.Store, last events.Seq, write func(Head) error) (events.Seq, error) {
	head, err := Tip(store)
	if err != nil || head.Size == last {
		return last, err
	}
	if err := store.Sync(); err != nil {
		return last, err
	}
	return head.Size, write(head)
}
