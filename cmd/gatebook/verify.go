package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/health"
	"gatebook/handlers/integrity"
	"gatebook/infra/clock"
)

func (a *App) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Compare the whole book with its tree and its head, with no engine running",
		Long: `Compare every event of the book with its leaf in the tree, and the tree with the
head. Nothing is decided and nothing repaired. The exit code is 4 where there is
evidence of damage, with the first sequence in doubt.

  gatebook verify --json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			begun := time.Now()
			tip, err := a.verify(cmd.Context())
			return a.sayVerified(tip, events.MicrosOf(time.Since(begun)), err)
		},
	}
}

// stopped opens the book of a folder that no engine runs on, for do.
func (a *App) stopped(do func(*node) error) error {
	dir, err := a.folder()
	if err != nil {
		return err
	}
	if err := damagedFolder(dir); !exists(dir.Incarnation()) && err != nil {
		return err
	}
	if !exists(dir.Head()) && !exists(viewsPointer(dir)) {
		return fmt.Errorf("no engine ever ran on %s: there is no book yet", dir.Path())
	}
	n, err := openBook(nodeConfig{dir: dir, clock: clock.System{Now: a.Now}, log: a.logLine, progress: a.progress})
	if err != nil {
		return err
	}
	err = do(n)
	if err == nil {
		err = n.guard.Drop()
	}
	return errors.Join(err, n.close())
}

// verify is a start with serve --verify that ends there; views that had to be
// built anew are not kept.
func (a *App) verify(ctx context.Context) (tip integrity.Head, err error) {
	err = a.stopped(func(n *node) error {
		cfg := n.cfg
		cfg.verify = true
		var err error
		if n.stores, err = openStores(ctx, cfg, n.bus); err != nil {
			return err
		}
		warnings := n.stores.warnings
		if _, err := macKey(n.cfg.dir); err != nil {
			warnings = append(warnings, "no engine can start on this folder: "+err.Error())
		}
		for _, w := range warnings {
			fmt.Fprintln(a.Err, "gatebook: warning: "+w)
		}
		tip, err = integrity.Tip(n.stores.views)
		return err
	})
	return tip, err
}

// verified is the answer of verify.
type verified struct {
	OK       bool          `json:"ok"`
	Events   events.Seq    `json:"events,omitzero"`
	Root     string        `json:"root,omitzero"`
	Duration events.Micros `json:"duration_us"`
	// Damage and InDoubt, the first sequence, are there where OK is not; no
	// sequence where the whole store is in doubt.
	Damage  string     `json:"damage,omitzero"`
	InDoubt events.Seq `json:"in_doubt,omitzero"`
}

func (a *App) sayVerified(tip integrity.Head, d events.Micros, err error) error {
	var damage *integrity.Damage
	if err != nil && !errors.As(err, &damage) {
		return err
	}
	v := verified{OK: err == nil, Events: tip.Size, Duration: d}
	if damage != nil {
		v.Damage, v.InDoubt = damage.Reason, damage.Seq
	} else {
		v.Root = tip.Root.String()
	}
	if a.flags.json {
		return errors.Join(a.printJSON(v), err)
	}
	if err == nil {
		fmt.Fprintf(a.Out, "the book is whole: %d events, root %s, in %s\n", v.Events, v.Root, took(d))
	}
	return err
}

// damaged stops the deciding.
func (n *node) damaged(err error) {
	n.engine.Health().Set(health.Damage, err.Error())
	n.cfg.log("error", "evidence of damage: "+err.Error())
}

// scrubAll compares the whole book with the tree once, slowly; evidence of
// damage stops the deciding. Where the book cannot be read, which a restart of
// the bus does for a while, it goes on from where it was.
func (n *node) scrubAll(ctx context.Context) {
	told := false
	for {
		err := integrity.Scrub(ctx, currentBook{n.stores}, n.stores.live, n.position().Done, scrubPause, n.setPosition)
		switch {
		case err == nil:
			debug.FreeOSMemory() // reading all of it took much, and nobody needs it now
			return
		case ctx.Err() != nil:
			return
		case errors.Is(err, integrity.ErrDamage):
			n.damaged(err)
			return
		case !told:
			told = true
			n.cfg.log("warn", "the check of the book goes on later: "+err.Error())
		}
		if pauseFor(ctx, time.Second) != nil {
			return
		}
	}
}

// scrubPause leaves the disk to others between slices.
func scrubPause(ctx context.Context) error { return pauseFor(ctx, 20*time.Millisecond) }

func (n *node) setPosition(p integrity.Position) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.scrub = p
}

func (n *node) position() integrity.Position {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.scrub
}
