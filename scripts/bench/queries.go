package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gatebook/events"
	"gatebook/infra/datadir"
	"gatebook/infra/pebblekv"
	"gatebook/projections"
	"gatebook/projections/rebuild"
	"gatebook/scripts/harness"
)

const (
	pageRows = 200
	// queryTimes is how often a query is asked in a run.
	queryTimes = 50
)

// query is one question, in the words of the flags that ask it.
type query struct {
	name string
	ask  func(projections.Reader) error
}

// queries measures pages and totals over the views of the big book, as an engine asks
// them. A row has the slowest of its queries.
func (b *bench) queries(folder string, until time.Time) (err error) {
	dir, err := datadir.Open(folder, false)
	if err != nil {
		return err
	}
	current, err := os.ReadFile(filepath.Join(dir.Views(), "CURRENT"))
	if err != nil {
		return err
	}
	views, err := pebblekv.Open(filepath.Join(dir.Views(), strings.TrimSpace(string(current))), pebblekv.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, views.Close()) }()
	snapshot := rebuild.NewLive(views).Snapshot() // as an engine reads
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	pages := row{Name: "page-1m", Unit: "us", Better: lower, Details: map[string]int64{}}
	totals := row{Name: "totals-1m", Unit: "us", Better: lower, Details: map[string]int64{}}
	plain := query{"all", pageOf(projections.CallFilter{})}
	var alone []int64
	for range min(b.opt.runs, bigRuns) {
		one, err := plain.median(snapshot)
		if err != nil {
			return err
		}
		alone = append(alone, one)
		if err := pages.slowest(snapshot, pageQueries()); err != nil {
			return err
		}
		if err := totals.slowest(snapshot, totalQueries(until)); err != nil {
			return err
		}
		b.note("a page of %d rows: %d us at most, of all calls %d us; totals of a day: %d us at most", pageRows, pages.last(), one, totals.last())
	}
	pages.target("a page of 200 by agent and one other filter under 5 ms", median(pages.Runs) < 5000)
	totals.target("totals over 24 hours under 50 ms", median(totals.Runs) < 50_000)
	for _, r := range []row{pages, totals} {
		r.beside("page-of-all", "us", alone)
		if b.opt.wants(r.Name) {
			b.report.add(r)
		}
	}
	return nil
}

// slowest adds a run: the median of the slowest query. The details are of the last run.
func (r *row) slowest(from projections.Reader, queries []query) error {
	most := int64(0)
	for _, q := range queries {
		took, err := q.median(from)
		if err != nil {
			return err
		}
		r.Details[q.name], most = took, max(most, took)
	}
	r.Runs = append(r.Runs, most)
	return nil
}

func (r *row) last() int64 { return r.Runs[len(r.Runs)-1] }

// median is how long the query takes, in microseconds.
func (q query) median(from projections.Reader) (int64, error) {
	var took []int64
	for range queryTimes {
		began := time.Now()
		if err := q.ask(from); err != nil {
			return 0, fmt.Errorf("ask %s: %w", q.name, err)
		}
		took = append(took, time.Since(began).Microseconds())
	}
	return median(took), nil
}

func pageOf(f projections.CallFilter) func(projections.Reader) error {
	return func(r projections.Reader) error {
		_, err := projections.Audit(r, projections.AuditFilter{CallFilter: f, Limit: pageRows})
		return err
	}
}

// pageQueries are an agent and one other filter each.
func pageQueries() (all []query) {
	const tool = "demo.tool3"
	for name, f := range map[string]projections.CallFilter{
		"agent":     {},
		"tool":      {Tool: tool},
		"full_tool": {Tool: "builtin/" + tool},
		"ok":        {Status: events.StatusOK},
		"error":     {Status: events.StatusError},
		"running":   {Status: projections.Running},
		"deny":      {Verdict: events.Deny},
		"layer":     {Layer: events.LayerRole},
		"often":     {Principal: usualPrincipal},
		"principal": {Principal: rareName},
		"channel":   {Channel: harness.ChannelID},
		"profile":   {Profile: rareName},
		"role":      {Role: "bench"},
		"nobody's":  {Principal: "nobody"},
	} {
		f.Agent = harness.AgentID(3)
		all = append(all, query{name, pageOf(f)})
	}
	slices.SortFunc(all, func(a, b query) int { return strings.Compare(a.name, b.name) })
	return all
}

// totalQueries count the calls of a day that begins and ends within an hour, by each
// field and by several.
func totalQueries(until time.Time) (all []query) {
	day := projections.CallFilter{Since: events.InstantOf(until.Add(-bigDay + 29*time.Minute)), Until: events.InstantOf(until.Add(-31 * time.Minute))}
	ask := func(name string, f projections.CallFilter, by ...projections.Field) {
		all = append(all, query{name, func(r projections.Reader) error {
			page, err := projections.Totals(r, projections.TotalsFilter{CallFilter: f, By: by})
			if err == nil && page.All.Calls == 0 {
				err = errors.New("it counts nothing")
			}
			return err
		}})
	}
	ask("all", day)
	for _, field := range projections.Fields() {
		ask(string(field), day, field)
	}
	ask("tool,status", day, projections.ByTool, projections.ByStatus)
	ask("agent,principal,hour", day, projections.ByAgent, projections.ByPrincipal, projections.ByHour)
	mine := day
	mine.Agent = harness.AgentID(3)
	ask("tool_of_an_agent", mine, projections.ByTool)
	return all
}
