package main

import (
	"context"
	"time"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/infra/blobs"
	"gatebook/projections"
)

// orphanAge is how old a blob that no event names must be before it goes. The
// blob of a refused call goes at once (blobs.Store.Hold); here goes what a crash
// left, or what could not be removed then.
const orphanAge = 24 * time.Hour

// cleanUp removes orphan blobs, hourly. While the clock is held nothing is
// cleaned up: how old a blob is, is not known then.
func (n *node) cleanUp(ctx context.Context, kept *blobs.Store) {
	select {
	case <-n.who.told: // the loop has begun, and recorded whether the clock jumped
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		began := n.cfg.clock.Elapsed()
		removed, err := n.removeOrphans(kept)
		if removed > 0 || err != nil {
			fact := events.JobRan{Job: "orphan_blobs", Duration: events.MicrosOf(n.cfg.clock.Elapsed() - began)}
			if err != nil {
				fact.Error = err.Error()
			}
			_ = n.engine.Submit(ctx, engine.Note{Fact: fact})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (n *node) removeOrphans(kept *blobs.Store) (removed int, err error) {
	snap := n.stores.views.Snapshot()
	defer snap.Close()
	state, err := projections.LoadState(snap)
	if err != nil || state.ClockHeld {
		return 0, err
	}
	before := events.InstantOf(n.cfg.clock.Wall()).Add(-orphanAge)
	orphans, err := kept.Orphans(before, func(d events.Digest) bool {
		named, err := projections.BlobNamed(snap, d)
		return named || err != nil
	})
	if err != nil {
		return 0, err
	}
	for _, d := range orphans {
		gone, err := kept.RemoveOrphan(d, before)
		if err != nil {
			return removed, err
		}
		if gone {
			removed++
		}
	}
	return removed, nil
}
