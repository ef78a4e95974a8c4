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
	"github.com/spf13/pflag"

	"gatebook/events"
	"gatebook/handlers/people"
	"gatebook/policy"
	"gatebook/projections"
)

// auditFlags are the filters as they were typed.
type auditFlags struct {
	agent, tool, status, round, since, until              string
	principal, channel, verdict, layer, profile, role, by string
	limit                                                 int
	before, after                                         events.Seq
	follow, wide, count                                   bool
}

func (a *App) auditCommand() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List calls, or count them: what was asked, what the gate said, how it ended",
		Long: `List the calls of the agents that you may observe, newest first. The filters are
joined by and. Times are RFC 3339, a date, or a while ago: 30m, "2h ago", 3d.

On a terminal that is too narrow the least needed columns are left out; --wide
shows all.

With --follow the newest calls come first in their order, then every new one. A
call that was printed while it ran gets a second line when it ends.

With --count the calls are counted, with --by for each value of some fields: how
many there are, and how long those that have ended took. Tools that are not known
count together as "other", whatever the agent called them.

  gatebook audit --agent alice --status denied --since "2h ago"
  gatebook audit --status waiting
  gatebook audit --follow
  gatebook audit --count --since 24h
  gatebook audit --by tool,status --since 2026-01-31 --agent alice
  gatebook audit --by day,agent --json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, by, err := a.auditRequest(f, noneEmpty(cmd))
			if err != nil {
				return usageError{err}
			}
			c, err := a.reader("view")
			if err != nil {
				return err
			}
			defer c.close()
			switch {
			case f.follow:
				return a.follow(cmd.Context(), c, q, f)
			case f.count || by != nil:
				return a.totals(cmd.Context(), c, people.TotalsRequest{CallFilter: q.CallFilter, By: by, Limit: f.limit})
			}
			return a.audit(cmd.Context(), c, q, f)
		},
	}
	a.auditFlags(cmd, &f)
	return cmd
}

func (a *App) auditFlags(cmd *cobra.Command, f *auditFlags) {
	g := cmd.Flags()
	g.StringVar(&f.agent, "agent", "", "only this agent's")
	g.StringVar(&f.tool, "tool", "", "only of this tool: a name, or owner/name")
	g.StringVar(&f.status, "status", "", "only those that ended so, or have not: "+strings.Join(statuses(), ", "))
	g.StringVar(&f.verdict, "verdict", "", "only those of which the gate said so: "+strings.Join(verdicts(), ", "))
	g.StringVar(&f.layer, "layer", "", "only those that this layer refused")
	g.StringVar(&f.principal, "principal", "", "only those of rounds in which this principal talks")
	g.StringVar(&f.channel, "channel", "", "only those of rounds of this channel")
	g.StringVar(&f.profile, "profile", "", "only those that this profile was in effect for")
	g.StringVar(&f.role, "role", "", "only those of agents that had this role then")
	g.StringVar(&f.round, "round", "", "only of this round")
	g.StringVar(&f.since, "since", "", "decided at this time or later")
	g.StringVar(&f.until, "until", "", "decided before this time")
	g.BoolVar(&f.count, "count", false, "how many there are, and no list")
	g.StringVar(&f.by, "by", "", "how many there are for each value of these fields: "+projections.FieldList())
	g.IntVar(&f.limit, "limit", 50, "how many calls, or groups")
	g.Uint64Var((*uint64)(&f.before), "before", 0, "older than this event: the next page")
	g.Uint64Var((*uint64)(&f.after), "after", 0, "newer than this event; with --follow, go on from there")
	g.BoolVar(&f.follow, "follow", false, "go on with new calls as they come")
	g.BoolVar(&f.wide, "wide", false, "more columns, and nothing cut")
	a.completeFlag(cmd, "agent", agentsOf)
	a.completeFlag(cmd, "tool", a.toolsOf)
	a.completeFlag(cmd, "status", these(statuses))
	a.completeFlag(cmd, "verdict", these(verdicts))
	a.completeFlag(cmd, "layer", these(layers))
	a.completeFlag(cmd, "principal", principalsOf)
	a.completeFlag(cmd, "channel", channelsOf)
	a.completeFlag(cmd, "profile", profilesOf)
	a.completeFlag(cmd, "role", rolesOf)
	_ = cmd.RegisterFlagCompletionFunc("by", completeList(projections.Fields()))
}

// noneEmpty is about filters that were given and say nothing: a variable of a script
// that is not set must not ask for everything.
func noneEmpty(cmd *cobra.Command) error {
	var errs []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" && cmd.InheritedFlags().Lookup(f.Name) == nil {
			errs = append(errs, fmt.Errorf("--%s is empty", f.Name))
		}
	})
	return errors.Join(errs...)
}

func statuses() []string {
	var all []string
	for _, s := range []events.Status{
		events.StatusOK, events.StatusError, events.StatusDenied, events.StatusRejected,
		events.StatusNotFound, events.StatusCancelled, events.StatusExpired, events.StatusUnknown,
		projections.Running, projections.Waiting,
	} {
		all = append(all, string(s))
	}
	return all
}

func verdicts() []string {
	return []string{string(events.Allow), string(events.Deny), string(events.Stage), string(events.Reject), string(events.NotFound)}
}

// layers are those that may refuse a call, at the gate or after it.
func layers() []string {
	all := []string{string(events.LayerReview)}
	for _, l := range policy.Layers() {
		all = append(all, string(l))
	}
	slices.Sort(all)
	return all
}

// auditRequest reads the filters; its errors are of usage.
func (a *App) auditRequest(f auditFlags, errs ...error) (people.AuditRequest, []projections.Field, error) {
	q := people.AuditRequest{Round: events.RoundID(f.round), Before: f.before, After: f.after, CallFilter: people.CallFilter{
		Agent: events.AgentID(f.agent), Tool: f.tool, Status: events.Status(f.status), Verdict: events.Verdict(f.verdict),
		Layer: events.Layer(f.layer), Principal: f.principal, Channel: events.ChannelID(f.channel), Profile: f.profile, Role: f.role,
	}}
	if f.agent != "" {
		_, err := events.ParseAgentID(f.agent)
		errs = append(errs, err)
	}
	if f.round != "" {
		_, err := events.ParseULID[events.RoundID](f.round)
		errs = append(errs, err)
	}
	errs = append(errs, oneOf("status", f.status, statuses()), oneOf("verdict", f.verdict, verdicts()), oneOf("layer", f.layer, layers()))
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
	if f.before != 0 && f.after >= f.before {
		errs = append(errs, errors.New("--after is not below --before: nothing can lie between"))
	}
	by, fieldErr := fieldsOf(f.by)
	if (f.count || f.by != "") && (f.follow || f.before != 0 || f.after != 0 || f.round != "" || f.wide) {
		errs = append(errs, errors.New("--follow, --before, --after, --round and --wide do not go with --count and --by; gatebook receipts counts a round"))
	}
	return q, by, errors.Join(append(errs, err, fieldErr)...)
}

func oneOf(flag, given string, want []string) error {
	if given == "" || slices.Contains(want, given) {
		return nil
	}
	return fmt.Errorf("--%s %s: want one of %s", flag, events.Quote(given), strings.Join(want, ", "))
}

// fieldsOf reads what to count by.
func fieldsOf(list string) (by []projections.Field, err error) {
	if list == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		by = append(by, projections.Field(strings.TrimSpace(name)))
	}
	if err := projections.CheckFields(by); err != nil {
		return nil, fmt.Errorf("--by %s: %w", events.Quote(list), err)
	}
	return by, nil
}

// totals counts calls.
func (a *App) totals(ctx context.Context, c *client, q people.TotalsRequest) error {
	var all people.TotalsAnswer
	if err := c.ask(ctx, "totals", q, &all); err != nil {
		return err
	}
	if all.Calls == 0 {
		a.sayNone(ctx, c, "calls", q.Agent)
		if q.Tool != "" && q.Tool != projections.Other {
			fmt.Fprintf(a.Err, "gatebook: calls of a tool that is not known are counted as --tool %s, whatever it was called\n", projections.Other)
		}
	}
	if a.flags.json {
		return a.printJSON(all)
	}
	var head []string
	for _, f := range q.By {
		head = append(head, strings.ToUpper(string(f)))
	}
	groups := all.Groups
	if len(q.By) == 0 {
		groups = []people.GroupTotal{{Sum: all.Sum}}
	}
	var rows [][]string
	for _, g := range groups {
		var cells []string
		for _, f := range q.By {
			cells = append(cells, orDash(*g.Field(f)))
		}
		rows = append(rows, append(cells, fmt.Sprint(g.Calls), took(g.Duration)))
	}
	if err := a.table(append(head, "CALLS", "TOOK"), rows); err != nil {
		return err
	}
	if all.Left > 0 {
		fmt.Fprintf(a.Err, "gatebook: %d groups with %d calls more: a larger --limit (at most %d) or fewer fields show more\n", all.Left, all.Rest.Calls, maxPage)
	}
	if len(q.By) > 0 {
		fmt.Fprintf(a.Err, "gatebook: %d calls, %s, as of event %d\n", all.Calls, took(all.Duration), all.AsOf)
	} else {
		fmt.Fprintf(a.Err, "gatebook: as of event %d\n", all.AsOf)
	}
	return nil
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
		string(e.Verdict) + "/" + string(stateOf(e)), short(orDash(layer), 32), spent, string(e.Call),
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
		return bound(t), nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, a.zone()); err == nil {
		return bound(t), nil
	}
	if t, ok := a.printed(s); ok {
		return bound(t), nil
	}
	if d, ok := ago(s); ok {
		return bound(a.Now().Add(-d)), nil
	}
	return 0, fmt.Errorf(`--%s %s: want a time such as 2026-01-31T08:00:00Z, a date, or a while ago such as 30m, "2h ago", 3d`, flag, events.Quote(s))
}

// bound is a time as a bound of what is in the book: before the first and behind the last
// one that an event may have, all are the same. None is 0, which is no bound.
func bound(t time.Time) events.Instant {
	const first, last = events.Instant(1), events.Instant(253_370_764_800_000_000) // the year 9999
	return min(max(events.InstantOf(t), first), last)
}

// printed reads a time as lists print it, with or without its zone, which is the person's
// or UTC.
func (a *App) printed(s string) (time.Time, bool) {
	const layout = "2006-01-02 15:04:05"
	zone := a.zone()
	text, utc := strings.CutSuffix(s, " UTC")
	if utc {
		zone = time.UTC
	}
	if t, err := time.ParseInLocation(layout, text, zone); err == nil {
		return t, true
	}
	t, err := time.ParseInLocation(layout+" MST", s, zone)
	return t, err == nil && t.Format("MST") == t.In(zone).Format("MST") && t.Location() == zone
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

// stateOf is how a call ended, or what it does.
func stateOf(e people.Entry) events.Status {
	switch {
	case e.Status != "":
		return e.Status
	case e.Verdict == events.Stage && e.Released == 0:
		return projections.Waiting
	}
	return projections.Running
}
