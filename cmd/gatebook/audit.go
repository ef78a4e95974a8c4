package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/people"
)

// auditFlags are the filters as they were typed.
type auditFlags struct {
	agent, tool, status, round, since, until string
	limit                                    int
	before                                   events.Seq
	follow, wide                             bool
}

func (a *App) auditCommand() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List calls: what was asked, what the gate said, how it ended",
		Long: `List the calls of the agents that you may observe, newest first. The filters are
joined by and. Times are RFC 3339, a date, or a while ago: 30m, "2h ago", 3d.

On a terminal that is too narrow the least needed columns are left out; --wide
shows all.

With --follow the newest calls come first in their order, then every new one. A
call that was printed while it ran gets a second line when it ends.

  gatebook audit --agent alice --status denied --since "2h ago"
  gatebook audit --follow`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := a.auditRequest(f)
			if err != nil {
				return usageError{err}
			}
			c, err := a.reader("view")
			if err != nil {
				return err
			}
			defer c.close()
			if f.follow {
				return a.follow(cmd.Context(), c, q, f)
			}
			return a.audit(cmd.Context(), c, q, f)
		},
	}
	g := cmd.Flags()
	g.StringVar(&f.agent, "agent", "", "only this agent's")
	g.StringVar(&f.tool, "tool", "", "only of this tool: a name, or owner/name")
	g.StringVar(&f.status, "status", "", "only those that ended so: "+strings.Join(statuses(), ", "))
	g.StringVar(&f.round, "round", "", "only of this round")
	g.StringVar(&f.since, "since", "", "decided at this time or later")
	g.StringVar(&f.until, "until", "", "decided before this time")
	g.IntVar(&f.limit, "limit", 50, "how many")
	g.Uint64Var((*uint64)(&f.before), "before", 0, "older than this event: the next page")
	g.BoolVar(&f.follow, "follow", false, "go on with new calls as they come")
	g.BoolVar(&f.wide, "wide", false, "more columns, and nothing cut")
	a.completeFlag(cmd, "agent", agentsOf)
	a.completeFlag(cmd, "tool", a.toolsOf)
	return cmd
}

func statuses() []string {
	var all []string
	for _, s := range []events.Status{
		events.StatusOK, events.StatusError, events.StatusDenied, events.StatusRejected,
		events.StatusNotFound, events.StatusCancelled, events.StatusExpired, events.StatusUnknown,
	} {
		all = append(all, string(s))
	}
	return all
}

// auditRequest reads the filters; its errors are of usage.
func (a *App) auditRequest(f auditFlags) (people.AuditRequest, error) {
	q := people.AuditRequest{Tool: f.tool, Status: events.Status(f.status), Agent: events.AgentID(f.agent), Round: events.RoundID(f.round), Before: f.before}
	var errs []error
	if f.agent != "" {
		_, err := events.ParseAgentID(f.agent)
		errs = append(errs, err)
	}
	if f.round != "" {
		_, err := events.ParseULID[events.RoundID](f.round)
		errs = append(errs, err)
	}
	if f.status != "" && !slices.Contains(statuses(), f.status) {
		errs = append(errs, fmt.Errorf("--status %s: want one of %s", events.Quote(f.status), strings.Join(statuses(), ", ")))
	}
	if f.limit < 1 {
		errs = append(errs, fmt.Errorf("--limit %d: want at least 1", f.limit))
	}
	var err error
	q.Since, err = a.moment("since", f.since)
	errs = append(errs, err)
	q.Until, err = a.moment("until", f.until)
	if q.Until != 0 && q.Since >= q.Until {
		errs = append(errs, errors.New("--since is not before --until: nothing can lie between"))
	}
	if f.follow && (f.until != "" || f.before != 0) {
		errs = append(errs, errors.New("--until and --before do not go with --follow"))
	}
	return q, errors.Join(append(errs, err)...)
}

func (a *App) audit(ctx context.Context, c *client, q people.AuditRequest, f auditFlags) error {
	all, err := newest(ctx, c, q, f.limit)
	if err != nil {
		return err
	}
	if len(all.Calls) == 0 {
		a.sayNone(ctx, c, "calls", q.Agent)
	}
	if a.flags.json {
		return a.printJSON(all)
	}
	var rows [][]string
	for _, e := range all.Calls {
		rows = append(rows, escaped(a.auditCells(e, f.wide)))
	}
	if err := a.printAudit(rows, f.wide); err != nil || all.Next == 0 {
		return err
	}
	a.sayMore(all.Next)
	return nil
}

// printAudit prints what fits in the terminal, or everything where there is none.
func (a *App) printAudit(rows [][]string, wide bool) error {
	if wide || a.Columns == nil {
		return a.plainTable(auditHead(wide), rows)
	}
	head, rows, left := fit(auditHead(false), rows, auditSpare, a.Columns())
	if err := a.plainTable(head, rows); err != nil || !left {
		return err
	}
	fmt.Fprintln(a.Err, "gatebook: more than the terminal is wide: --wide shows all")
	return nil
}

// sayMore says beside a page how to go on from it.
func (a *App) sayMore(next events.Seq) {
	fmt.Fprintf(a.Err, "gatebook: there are more: --before %d goes on, a larger --limit shows more at once\n", next)
}

// newest pages until there are limit calls or no more. AsOf is of the first page;
// Next is not 0 where older ones are left.
func newest(ctx context.Context, c *client, q people.AuditRequest, limit int) (people.AuditAnswer, error) {
	all := people.AuditAnswer{Calls: []people.Entry{}}
	for {
		var page people.AuditAnswer
		q.Limit = min(limit-len(all.Calls), maxPage)
		if err := c.ask(ctx, "audit", q, &page); err != nil {
			return all, err
		}
		if all.AsOf == 0 {
			all.AsOf = page.AsOf
		}
		all.Calls = append(all.Calls, page.Calls...)
		all.Next = page.Next
		if page.Next == 0 || len(all.Calls) >= limit {
			return all, nil
		}
		q.Before = page.Next
	}
}

// maxPage is the most rows that the engine gives at once.
const maxPage = 200

func auditHead(wide bool) []string {
	head := []string{"TIME", "AGENT", "PRINCIPAL", "TOOL", "ARGS", "VERDICT/STATUS", "LAYER:RULE", "TOOK", "CALL", "REASON"}
	if wide {
		head = append(head, "ROUND", "STEP", "KEY", "PROFILE", "SEQ", "ENDED")
	}
	return head
}

// auditCells is one call for people. Whatever an agent wrote is cut here and
// escaped where it is printed.
func (a *App) auditCells(e people.Entry, wide bool) []string {
	short := clip
	if wide {
		short = func(s string, _ int) string { return s }
	}
	layer := string(e.Layer)
	if e.Rule != "" {
		layer += ":" + e.Rule
	}
	spent := "-"
	if e.Completed != 0 {
		spent = took(e.Duration)
	}
	cells := []string{
		a.when(e.Decided), string(e.Agent), short(orDash(e.Principal), 24), short(e.Tool, 32), short(e.Args, 48),
		string(e.Verdict) + "/" + cmp.Or(string(e.Status), openState(e)), short(orDash(layer), 32), spent, string(e.Call),
		short(cmp.Or(e.Reason, e.Error), 60),
	}
	if wide {
		cells = append(cells, orDash(string(e.Round)), fmt.Sprint(e.Step), orDash(e.Key), orDash(e.Profile),
			fmt.Sprint(e.Seq), a.when(e.Completed))
	}
	return cells
}

func orDash(s string) string { return cmp.Or(s, "-") }

// moment reads a time of a flag: RFC 3339, a date (its midnight in the person's
// zone, or UTC), or a while ago; empty is 0.
func (a *App) moment(flag, s string) (events.Instant, error) {
	if s == "" {
		return 0, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return events.InstantOf(t), nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, a.zone()); err == nil {
		return events.InstantOf(t), nil
	}
	if d, ok := ago(s); ok {
		return events.InstantOf(a.Now().Add(-d)), nil
	}
	return 0, fmt.Errorf(`--%s %s: want a time such as 2026-01-31T08:00:00Z, a date, or a while ago such as 30m, "2h ago", 3d`, flag, events.Quote(s))
}

// ago reads a duration that is not negative; "3d" is 72 hours.
func ago(s string) (time.Duration, bool) {
	s = strings.TrimSpace(strings.TrimSuffix(s, "ago"))
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err == nil
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}

// openState says what a call without an end does.
func openState(e people.Entry) string {
	if e.Verdict == events.Stage && e.Released == 0 {
		return "waits"
	}
	return "running"
}
