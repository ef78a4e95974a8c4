package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"gatebook/events"
	"gatebook/handlers/people"
)

// follower prints calls as they come. The feed only says that there is something
// to ask for; what is printed comes from the views, from the last sequence seen
// on, so that a lost notice loses nothing.
type follower struct {
	app *App
	ask func(people.AuditRequest) (people.AuditAnswer, error)
	// q has no status and no layer: a call that still runs is wanted once it ends
	// with the right ones.
	q      people.AuditRequest
	status events.Status
	layer  events.Layer
	wide   bool

	last events.Seq            // everything decided up to here was seen
	open map[events.Seq]string // what was seen running, by its call
}

// followPages bounds how far back the first page looks for calls with a status.
const followPages = 20

func (a *App) follow(ctx context.Context, c *client, q people.AuditRequest, opt auditFlags) error {
	f := &follower{app: a, q: q, status: q.Status, layer: q.Layer, wide: opt.wide, open: map[events.Seq]string{}}
	f.q.Status, f.q.Layer = "", ""
	f.ask = func(q people.AuditRequest) (people.AuditAnswer, error) {
		var page people.AuditAnswer
		err := c.ask(ctx, "audit", q, &page)
		return page, err
	}
	if q.Agent != "" {
		if _, found, err := findAgent(ctx, c, q.Agent); err == nil && !found {
			fmt.Fprintf(a.Err, "gatebook: there is no agent %s that you may see; this waits for one\n", q.Agent)
		}
	}
	news, err := subscribe(ctx, c, q.Agent)
	if err == nil {
		err = f.first(opt.limit)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for err == nil {
		select {
		case <-ctx.Done():
		case <-news:
		case <-tick.C:
		}
		if ctx.Err() != nil {
			return nil
		}
		if err = f.ended(); err == nil {
			err = f.newer()
		}
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // Ctrl-C in the middle of a question
	}
	if errors.Is(err, errUnreachable) && f.last > 0 {
		return fmt.Errorf("the engine stopped, or answers no more; calls up to event %d were looked at. Once it runs again (%s), the same command with --after %d goes on right behind what it has shown: %w",
			f.last, a.command("serve"), f.resume(), err)
	}
	return err
}

// subscribe hears of the feed of the agents that the person may observe now; one
// that is added later is found by the clock.
func subscribe(ctx context.Context, c *client, only events.AgentID) (<-chan struct{}, error) {
	var agents []events.AgentID
	for after := events.AgentID(""); ; {
		var page people.AgentsAnswer
		if err := c.ask(ctx, "agents", people.ListRequest{After: after}, &page); err != nil {
			return nil, err
		}
		for _, row := range page.Agents {
			if only == "" || only == row.Agent {
				agents = append(agents, row.Agent)
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	news := make(chan struct{}, 1)
	for _, id := range agents {
		_, err := c.conn.Subscribe("audit."+string(id)+".>", func(*nats.Msg) {
			select {
			case news <- struct{}{}:
			default: // a question is due already
			}
		})
		if err != nil {
			return nil, fmt.Errorf("subscribe the feed: %w", err)
		}
	}
	return news, c.conn.Flush()
}

// resume is the event to go on after. Where calls still ran it is before the first of
// them, so that their ends are not lost; what came behind is then shown again.
func (f *follower) resume() events.Seq {
	after := f.last
	for seq := range f.open {
		after = min(after, seq-1)
	}
	return after
}

// first prints the newest calls, oldest of them first, or leaves it to newer to go on
// from where an earlier command ended.
func (f *follower) first(limit int) error {
	if f.last = f.q.After; f.last != 0 {
		if f.app.flags.json {
			return f.newer()
		}
		return errors.Join(f.print(auditHead(f.wide)), f.newer())
	}
	var found []people.Entry // newest first
	q := f.q
	q.Limit = maxPage
	if f.status == "" && f.layer == "" {
		q.Limit = min(limit, maxPage)
	}
	for pages := 0; len(found) < limit && pages < followPages; pages++ {
		page, err := f.ask(q)
		if err != nil {
			return err
		}
		if pages == 0 {
			f.last = page.AsOf
		}
		for _, e := range page.Calls {
			if f.see(e) && len(found) < limit {
				found = append(found, e)
			}
		}
		if q.Before = page.Next; page.Next == 0 {
			break
		}
	}
	if !f.app.flags.json {
		if err := f.print(auditHead(f.wide)); err != nil {
			return err
		}
	}
	for _, e := range slices.Backward(found) {
		if err := f.show(e); err != nil {
			return err
		}
	}
	return nil
}

// newer prints what was decided after the last sequence seen.
func (f *follower) newer() error {
	q := f.q
	q.Ascending, q.Limit = true, maxPage
	for {
		q.After = max(q.After, f.last)
		page, err := f.ask(q)
		if err != nil {
			return err
		}
		for _, e := range page.Calls {
			if !f.see(e) {
				continue
			}
			if err := f.show(e); err != nil {
				return err
			}
		}
		if page.Next == 0 { // the list was at its end, at AsOf
			f.last = max(f.last, page.AsOf)
			return nil
		}
		f.last = page.Next
	}
}

// ended prints the ends of calls that were seen running.
func (f *follower) ended() error {
	running := slices.Sorted(maps.Keys(f.open))
	for after := events.Seq(0); ; {
		i, _ := slices.BinarySearch(running, after+1)
		if i == len(running) {
			return nil
		}
		q := f.q
		q.Ascending, q.Limit, q.After, q.Before = true, maxPage, running[i]-1, running[len(running)-1]+1
		page, err := f.ask(q)
		if err != nil {
			return err
		}
		for _, e := range page.Calls {
			if f.open[e.Seq] != string(e.Call) || e.Status == "" {
				continue
			}
			delete(f.open, e.Seq)
			if !f.wants(e) {
				continue
			}
			if err := f.show(e); err != nil {
				return err
			}
		}
		if after = page.Next; after == 0 {
			return nil
		}
	}
}

// see remembers a call that runs, and says whether to print it now.
func (f *follower) see(e people.Entry) bool {
	if e.Status == "" {
		f.open[e.Seq] = string(e.Call)
	}
	return f.wants(e)
}

func (f *follower) wants(e people.Entry) bool {
	return (f.status == "" || stateOf(e) == f.status) && (f.layer == "" || e.Layer == f.layer)
}

func (f *follower) show(e people.Entry) error {
	if !f.app.flags.json {
		return f.print(f.app.auditCells(e, f.wide))
	}
	return f.app.printJSONLine(e)
}

// followWidths pad the columns of lines that are printed one by one.
var followWidths = [...]int{23, 10, 10, 14, 30, 14, 14, 8, 26}

func (f *follower) print(cells []string) error {
	for i, c := range cells {
		cells[i] = events.Escape(c)
		if i < len(followWidths) {
			cells[i] = fmt.Sprintf("%-*s", followWidths[i], cells[i])
		}
	}
	_, err := fmt.Fprintln(f.app.Out, strings.TrimRight(strings.Join(cells, "  "), " "))
	return err
}
