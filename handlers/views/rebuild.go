package views

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/integrity"
	"gatebook/projections"
	"gatebook/projections/rebuild"
)

const (
	// fewEvents is how many the loop may be ahead when it pauses for the exchange.
	// While it writes faster than they are folded, more are taken, up to manyEvents,
	// about a second's pause, after maxRounds tries.
	fewEvents  = 2000
	manyEvents = 50_000
	maxRounds  = 12
	// pauseMost bounds the pause, where the book does not answer.
	pauseMost = 10 * time.Second
	// readersMost is how long readers of the old views have once the engine stops.
	readersMost = 5 * time.Second
	// lookEvery is how many rows are compared before a look whether to go on.
	lookEvery = 4096
)

// rebuild is one rebuild from its start to the end of the old views.
func (b *Builder) rebuild(ctx context.Context) (r Rebuilt, err error) {
	views, err := b.cfg.Build()
	if err != nil {
		return r, err
	}
	adopted := false
	defer func() {
		if !adopted {
			err = errors.Join(err, views.Drop())
		}
	}()
	head := b.cfg.Head()
	begun := b.cfg.Now()
	if _, err := b.follow(ctx, views.Store); err != nil {
		return r, err
	}
	took := events.MicrosOf(b.cfg.Now().Sub(begun))
	folded, err := checkpoint(views.Store)
	if err != nil {
		return r, err
	}
	if r, err = b.compare(ctx, views.Store, head); err != nil {
		return r, err
	}
	r.Duration, r.PerSecond, r.Views = took, int64(folded)*1_000_000/max(1, int64(took)), views.Name
	behind, err := b.follow(ctx, views.Store)
	if err != nil {
		return r, err
	}
	if behind > manyEvents {
		return r, fmt.Errorf("the book grows faster than it is folded: %d events are missing; ask again when there is less load", behind)
	}
	old, former, err := b.exchange(ctx, views, &r)
	if err != nil {
		return r, err
	}
	adopted = true
	if err := b.retire(ctx, views, old, former, &r); err != nil {
		r.Trouble = err.Error()
	}
	return r, nil
}

// follow folds until the views are few events behind those in use, and gives how
// many. They are never ahead of those in use.
func (b *Builder) follow(ctx context.Context, store projections.Store) (behind events.Seq, err error) {
	for range maxRounds {
		target, err := checkpoint(b.cfg.Live)
		if err != nil {
			return 0, err
		}
		if err := b.fold(ctx, store, target); err != nil {
			return 0, err
		}
		now, err := checkpoint(b.cfg.Live)
		if err != nil {
			return 0, err
		}
		if behind = now - target; behind <= fewEvents {
			break
		}
	}
	return behind, nil
}

func checkpoint(store projections.Store) (events.Seq, error) {
	snap := store.Snapshot()
	state, err := projections.LoadState(snap)
	return state.Seq, errors.Join(err, snap.Close())
}

// fold folds up to an event that is durable. A volume without room ends it.
func (b *Builder) fold(ctx context.Context, store projections.Store, last events.Seq) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := rebuild.Fold(ctx, rebuild.UpTo(b.cfg.Book, last), events.Codec{}, store, rebuild.Options{
		Progress: func(at events.Seq) {
			b.at(Folding, at, last)
			if err := b.cfg.Room(); err != nil {
				stop(err)
			}
		},
	})
	var bad *projections.EventError
	switch {
	case errors.As(err, &bad):
		return &integrity.Damage{Seq: bad.Seq, Reason: bad.Error()}
	case errors.Is(err, events.ErrGap), errors.Is(err, projections.ErrOrder):
		return &integrity.Damage{Reason: err.Error()}
	case errors.Is(err, context.Canceled), err == nil && ctx.Err() != nil: // behind its last event, too
		return context.Cause(ctx)
	}
	return err
}

// compare compares the new views with those in use, both at the event that those in
// use are at now, and with the head.
func (b *Builder) compare(ctx context.Context, store projections.Store, head integrity.Head) (r Rebuilt, err error) {
	old := b.cfg.Live.Snapshot()
	defer old.Close()
	state, err := projections.LoadState(old)
	if err != nil {
		return r, err
	}
	if err := b.fold(ctx, store, state.Seq); err != nil {
		return r, err
	}
	b.at(Checking, 0, state.Seq)
	snap := store.Snapshot()
	defer snap.Close()
	known, err := projections.LoadState(snap)
	if err != nil {
		return r, err
	}
	if known.Seq != state.Seq {
		return r, &integrity.Damage{Seq: known.Seq + 1, Reason: fmt.Sprintf("the book ends at %d, the views have seen %d", known.Seq, state.Seq)}
	}
	if err := integrity.CheckRoot(snap, head); err != nil {
		return r, err
	}
	root, err := projections.TreeRoot(snap, known.Seq)
	if err != nil {
		return r, err
	}
	r.Events, r.Root = known.Seq, root.String()
	if r.Fingerprint, r.Rows, err = rebuild.Fingerprint(interruptible{snap, ctx}); err != nil {
		return r, err
	}
	b.at(Checking, state.Seq/2, state.Seq) // one of two passes is done
	sum, rows, err := rebuild.Fingerprint(interruptible{old, ctx})
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	r.Compared, r.Equal = true, err == nil && sum == r.Fingerprint
	switch {
	case err != nil:
		r.Why = err.Error()
	case !r.Equal:
		r.Why = fmt.Sprintf("%d rows, fingerprint %s, want %d rows, fingerprint %s", rows, sum, r.Rows, r.Fingerprint)
	}
	return r, nil
}

// exchange puts the new views in use, in a pause of the loop.
func (b *Builder) exchange(ctx context.Context, views Building, r *Rebuilt) (old *rebuild.Retired, former string, err error) {
	done := make(chan error, 1)
	// What Switch writes is the loop's until done.
	err = b.cfg.Loop.Submit(ctx, &engine.Exchange{
		Switch: func(last events.Seq) error {
			ctx, stop := context.WithTimeout(ctx, pauseMost)
			defer stop()
			if err := b.catchUp(ctx, views.Store, last, r); err != nil {
				return err
			}
			was, err := views.Adopt(r.Equal)
			if err != nil {
				return err
			}
			old, former = b.cfg.Live.Use(views.Store), was
			return nil
		},
		Done: func(err error) { done <- err },
	})
	if err == nil {
		err = <-done // the loop answers also when it stops
	}
	if err != nil {
		return nil, "", err
	}
	return old, former, nil
}

// catchUp folds the rest while nothing is decided. The tree, which every event is
// in, must still be the same.
func (b *Builder) catchUp(ctx context.Context, store projections.Store, last events.Seq, r *Rebuilt) error {
	if err := b.fold(ctx, store, last); err != nil {
		return err
	}
	is, err := integrity.Tip(store)
	if err != nil {
		return err
	}
	if is.Size != last {
		return fmt.Errorf("the new views end at %d and the book at %d", is.Size, last)
	}
	if was, err := integrity.Tip(b.cfg.Live); (err != nil || was != is) && r.Equal {
		r.Equal, r.Why = false, errors.Join(fmt.Errorf("at event %d their tree was another one", last), err).Error()
	}
	return nil
}

// retire closes the old views once nobody reads from them, and removes those that
// were equal.
func (b *Builder) retire(ctx context.Context, views Building, old *rebuild.Retired, former string, r *Rebuilt) error {
	err := old.Close(ctx)
	if ctx.Err() != nil {
		late, stop := context.WithTimeout(context.WithoutCancel(ctx), readersMost)
		defer stop()
		err = old.Close(late)
	}
	if !r.Equal {
		r.Kept = former
		return err
	}
	if err != nil {
		return err // what is left of them the next start removes
	}
	return views.Forget(former)
}
