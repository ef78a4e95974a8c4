package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gatebook/events"
	"gatebook/handlers/alerts"
	"gatebook/handlers/engine"
	"gatebook/handlers/health"
	"gatebook/projections"
)

// How often Watch looks, and when it reminds.
const (
	lookEvery   = time.Second
	remindEvery = time.Minute
	remindAhead = 24 * time.Hour
	digestEvery = 24 * time.Hour
)

// errNotNow says that nothing can be recorded now.
var errNotNow = errors.New("the book takes nothing now")

// Watch looks until ctx ends: whether the engine decides, what expires soon, and whether
// a day is over. It reads views only, so that a busy book costs it nothing more.
func (o *Outbox) Watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var seen watched
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		o.look(ctx, &seen)
	}
}

// watched is what Watch saw last.
type watched struct {
	trouble  string
	newest   events.Seq
	reminded time.Time
}

func (o *Outbox) look(ctx context.Context, seen *watched) {
	if now := troubles(o.cfg.Loop.Health()); now != seen.trouble {
		o.noteTrouble(seen.trouble, now)
		seen.trouble = now
	}
	snap := o.cfg.Store.Snapshot()
	defer snap.Close()
	if state, err := projections.LoadState(snap); err == nil && state.Seq != seen.newest {
		seen.newest = state.Seq
		o.cfg.Wake()
	}
	if now := o.cfg.Now(); now.Sub(seen.reminded) >= remindEvery && o.cfg.Loop.Health().OK() {
		seen.reminded = now
		o.remind(ctx, snap)
	}
}

// troubles are those that people must hear of: not that an engine stops as it was told.
func troubles(s *health.State) string {
	why := slices.DeleteFunc(s.Why(), func(text string) bool { return strings.HasPrefix(text, string(health.Drain)+":") })
	return strings.Join(why, "\n")
}

// noteTrouble makes an alert of a change of the engine's health.
func (o *Outbox) noteTrouble(was, is string) {
	kind, text := kindDegraded, "The engine does not decide; every call is refused: "+is
	switch {
	case is == "":
		kind, text = kindOver, "The engine decides again. It did not because of: "+was
	case o.cfg.Loop.Health().Damaged():
		kind, text = kindDamage, "Damage was found, and nothing is decided any more: "+is+"\ngatebook doctor"
	}
	text, _ = o.cfg.Redact.Text(text)
	now := o.now()
	o.mu.Lock()
	if !o.saidOf(kind, now) && len(o.own) < maxOwn {
		o.own = append(o.own, alerts.Alert{
			ID: events.EventID(o.cfg.Writer), Part: len(o.own), Kind: kind, Of: "engine", Text: text, Count: 1, First: now, Last: now,
		})
	}
	o.mu.Unlock()
	o.cfg.Wake()
}

// saidOf says that there was such an alert a short while ago: health that comes and goes
// is told once. The mutex is the caller's.
func (o *Outbox) saidOf(kind string, now events.Instant) bool {
	return slices.ContainsFunc(o.own, func(a alerts.Alert) bool {
		return a.Kind == kind && now < a.First+events.Instant(projections.AlertWindow)
	})
}

// remind raises what is due: that a grace ends within a day, once for each asset, and what
// a day was like.
func (o *Outbox) remind(ctx context.Context, r projections.Reader) {
	now := o.now()
	for before := events.Seq(0); ; {
		page, err := projections.Assets(r, projections.AssetFilter{State: events.AssetStateProvisional, Before: before, Limit: projections.MaxPage})
		if err != nil {
			return // the store's trouble is told as such
		}
		for _, a := range page.Rows {
			if a.Expires.Sub(now) > remindAhead {
				continue
			}
			if _, told, err := projections.AlertLast(r, kindExpires, string(a.Asset)); err == nil && !told {
				o.raise(ctx, kindExpires, string(a.Asset), fmt.Sprintf("%s runs until %s without a decision, and is blocked then. gatebook asset show %s",
					events.ToolKey{Owner: a.Owner, Name: a.Name}, a.Expires, a.Asset))
			}
		}
		if before = page.Next; before == 0 {
			break
		}
	}
	last, found, err := projections.AlertLast(r, kindDigest, "")
	from := o.cfg.Born
	if found {
		from = last.First
	}
	if err == nil && now.Sub(from) >= digestEvery {
		if text, err := o.digest(r, now); err == nil {
			o.raise(ctx, kindDigest, "", text)
		}
	}
}

func (o *Outbox) raise(ctx context.Context, kind, of, reason string) {
	reason, _ = o.cfg.Redact.Text(reason)
	_ = o.cfg.Loop.Submit(ctx, engine.Note{Fact: events.AlertRaised{Alert: kind, Of: of, Reason: reason}})
}

// digest is the last day in a few lines.
func (o *Outbox) digest(r projections.Reader, now events.Instant) (string, error) {
	totals, err := projections.Totals(r, projections.TotalsFilter{CallFilter: projections.CallFilter{Since: now.Add(-digestEvery), Until: now}, By: []projections.Field{"verdict"}})
	if err != nil {
		return "", err
	}
	var parts []string
	for _, row := range totals.Rows {
		parts = append(parts, fmt.Sprintf("%d %s", row.Calls, strings.Join(row.Group, " ")))
	}
	lines := []string{fmt.Sprintf("The last day: %d calls (%s).", totals.All.Calls, cmp.Or(strings.Join(parts, ", "), "none"))}
	if n := o.cfg.Loop.Waiting(); n > 0 {
		lines = append(lines, fmt.Sprintf("%d calls wait for a person: gatebook pending", n))
	}
	blocked, err := projections.Assets(r, projections.AssetFilter{State: events.AssetStateBlocked, Limit: projections.MaxPage})
	if n := len(blocked.Rows); n > 0 {
		more := ""
		if blocked.Next != 0 {
			more = " or more"
		}
		lines = append(lines, fmt.Sprintf("%d%s assets are blocked and wait for a decision: gatebook assets --state blocked", n, more))
	}
	return strings.Join(lines, "\n"), err
}
