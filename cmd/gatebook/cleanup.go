package main

import (
	"context"
	"errors"
	"time"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/redact"
	"gatebook/handlers/tools/workspace"
	"gatebook/infra/blobs"
	"gatebook/policy/trash"
	"gatebook/projections"
)

// orphanAge is how old a blob that no event names must be before it goes. The
// blob of a refused call goes at once (blobs.Store.Hold); here goes what a crash
// left, or what could not be removed then.
const orphanAge = 24 * time.Hour

// cleanUp removes orphan blobs and empties the agents' trash, at the start and hourly.
// While the clock is held nothing is cleaned up: how old a thing is, is not known then.
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
		n.emptyTrash(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (n *node) removeOrphans(kept *blobs.Store) (removed int, err error) {
	snap := n.stores.live.Snapshot()
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

// eachAgent does something for every agent of the book, until ctx ends.
func (n *node) eachAgent(ctx context.Context, do func(projections.AgentRow)) error {
	for after := events.AgentID(""); ; {
		snap := n.stores.live.Snapshot()
		rows, err := projections.Agents(snap, after, 0)
		err = errors.Join(err, snap.Close())
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			do(row)
		}
		after = rows[len(rows)-1].Agent
	}
}

// emptyTrash removes for good what is due of the trash of every agent, released ones
// too. What is wrong with the folder of one does not keep it from the others.
func (n *node) emptyTrash(ctx context.Context) {
	if held, err := n.clockHeld(); err != nil || held || !n.engine.Health().OK() {
		return
	}
	err := n.eachAgent(ctx, func(row projections.AgentRow) {
		for n.emptyTrashOf(ctx, row.Agent) {
		}
	})
	if err != nil && ctx.Err() == nil {
		n.cfg.log("warn", "the trash of the agents is not emptied: "+err.Error())
	}
}

func (n *node) clockHeld() (bool, error) {
	snap := n.stores.live.Snapshot()
	defer snap.Close()
	state, err := projections.LoadState(snap)
	return state.ClockHeld, err
}

// emptyTrashOf is one decision and what follows of it; more says that the next one is
// due. The loop decides, by the facts that it is given here, and nothing is removed
// before the decision is durable. A kill behind it leaves a decision without its end;
// the next run then decides about what is still there.
func (n *node) emptyTrashOf(ctx context.Context, agent events.AgentID) (more bool) {
	began := n.cfg.clock.Elapsed()
	entries, err := n.folders.Weigh(ctx, agent)
	var decided engine.Condemned
	if err == nil {
		if decided, err = n.decideTrash(ctx, agent, entries); errors.Is(err, errNotDecided) {
			return false
		}
	}
	if err == nil && len(decided.Entries) == 0 || ctx.Err() != nil {
		return false
	}
	var p workspace.Purged
	if err == nil {
		p, err = n.folders.Purge(ctx, agent, decided.Entries)
	}
	end := emptied(p, err, n.masks)
	end.Duration = events.MicrosOf(n.cfg.clock.Elapsed() - began)
	_ = n.engine.Submit(ctx, engine.Note{Agent: agent, Cause: decided.At, Fact: end})
	return err == nil && len(decided.Entries) == trash.MaxChosen
}

// emptied is what is recorded of a run. Its error names what no call named, so it may
// be called like a secret.
func emptied(p workspace.Purged, err error, masks *redact.Redactor) events.TrashEmptied {
	end := events.TrashEmptied{Entries: p.Entries, Bytes: p.Bytes}
	if err != nil {
		end.Error, _ = masks.Text(err.Error())
	}
	return end
}

// errNotDecided says that the engine does not decide now; it records that itself.
var errNotDecided = errors.New("not decided")

// decideTrash waits until the loop has decided and that is durable.
func (n *node) decideTrash(ctx context.Context, agent events.AgentID, entries []trash.Entry) (engine.Condemned, error) {
	if len(entries) == 0 {
		return engine.Condemned{}, nil
	}
	answered := make(chan any, 1)
	ask := &engine.EmptyTrash{Agent: agent, Entries: entries, Answer: func(v any) { answered <- v }}
	if err := n.engine.Submit(ctx, ask); err != nil {
		return engine.Condemned{}, errNotDecided
	}
	select {
	case v := <-answered:
		if decided, ok := v.(engine.Condemned); ok {
			return decided, nil
		}
	case <-n.engine.Done():
	case <-ctx.Done():
	}
	return engine.Condemned{}, errNotDecided
}

// furnish makes what is missing of the folders of the agents, at the start and when
// there are new ones.
func (n *node) furnish(ctx context.Context) {
	done := map[events.AgentID]bool{}
	for {
		select {
		case <-n.who.changed:
		case <-ctx.Done():
			return
		}
		err := n.eachAgent(ctx, func(row projections.AgentRow) {
			if row.Released || done[row.Agent] {
				return
			}
			if err := n.folders.Furnish(ctx, row.Agent, row.Role, "engine"); err == nil {
				done[row.Agent] = true
			} else if ctx.Err() == nil {
				n.cfg.log("warn", "the folder of agent "+string(row.Agent)+" is not complete: "+err.Error())
			}
		})
		if err != nil && ctx.Err() == nil {
			n.cfg.log("warn", "the folders of the agents: "+err.Error())
		}
	}
}
