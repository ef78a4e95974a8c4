package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/integrity"
	"gatebook/handlers/people"
	"gatebook/handlers/views"
	"gatebook/infra/datadir"
)

// builder builds the views of a running engine anew.
func (n *node) builder() *views.Builder {
	return views.New(views.Config{
		Book: currentBook{n.stores}, Live: n.stores.live, Head: n.stores.headNow, Build: n.build,
		Loop: n.engine, Damaged: n.damaged, Room: func() error { return room(n.cfg.dir) }, Now: time.Now,
	})
}

// build makes new views beside those in use.
func (n *node) build() (views.Building, error) {
	s := n.stores
	store, folder, err := newViews(s.dir, viewsOptions(n.cfg))
	if err != nil {
		return views.Building{}, err
	}
	return views.Building{
		Store: store, Name: filepath.Base(folder),
		Drop: func() error { return errors.Join(store.Close(), removeViews(folder)) },
		// Of the loop, like everything that looks at s.views while an engine runs.
		Adopt: func(forget bool) (string, error) {
			former := s.folder
			if err := store.Sync(); err != nil {
				return "", err
			}
			if err := exchangePointer(s.dir, former, folder, forget); err != nil {
				return "", err
			}
			s.views, s.folder = store, folder
			return former, nil
		},
		Forget: removeViews,
	}, nil
}

// exchangePointer puts next in use in the place of former. With forget a process that
// is killed leaves former marked, so that the next start removes it.
func exchangePointer(dir *datadir.Dir, former, next string, forget bool) error {
	if forget {
		if err := datadir.WriteFile(unfinished(former), nil); err != nil {
			return err
		}
	}
	if err := useViews(dir, next); err != nil {
		// It may have been written all the same.
		return errors.Join(err, useViews(dir, former), os.RemoveAll(unfinished(former)))
	}
	_ = os.Remove(unfinished(next)) // next is in use; what is left of this the next start removes
	return nil
}

// lookAgain is how often a command looks how far a rebuild is.
const lookAgain = 200 * time.Millisecond

// errEnded says that the engine was there when it was asked for a rebuild, and is not now.
var errEnded = fmt.Errorf("%w: it ended while it rebuilt the views, and those that it had before are in use "+
	"unless it had exchanged them; start it with gatebook serve and ask again", errUnreachable)

// rebuildRunning has the engine that runs rebuild, and waits for the end.
func (a *App) rebuildRunning(ctx context.Context) (r rebuilt, err error) {
	err = a.asActing(func(p *acting) error {
		c, err := p.actor(ctx, false)
		if err != nil {
			return err
		}
		var done engine.Done
		if err := c.ask(ctx, "rebuild", people.ActRequest{}, &done); err != nil {
			return err
		}
		r, err = a.watchRebuild(ctx, p.as(c, "view"))
		return err
	})
	return r, err
}

func (a *App) watchRebuild(ctx context.Context, c *client) (rebuilt, error) {
	for {
		var s views.Status
		if err := c.ask(ctx, "rebuild", struct{}{}, &s); errors.Is(err, errUnreachable) {
			return rebuilt{}, fmt.Errorf("%w (%w)", errEnded, err)
		} else if err != nil {
			return rebuilt{}, err
		}
		switch {
		case s.Working():
			a.progress(s.State, min(s.At, max(s.Of, 1)-1), s.Of) // the end comes once
		case s.Damage:
			return rebuilt{}, &integrity.Damage{Seq: s.InDoubt, Reason: s.Failure}
		case s.Result == nil:
			return rebuilt{}, errors.New("the old views stay in use: " + events.Escape(s.Failure))
		default:
			a.progress("fold", s.Result.Events, s.Result.Events)
			return *s.Result, nil
		}
		if err := pauseFor(ctx, lookAgain); err != nil {
			return rebuilt{}, err
		}
	}
}
