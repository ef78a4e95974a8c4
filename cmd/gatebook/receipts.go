package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/people"
)

func (a *App) receiptsCommand() *cobra.Command {
	var agent, round string
	var before events.Seq
	var sums sumFlags
	limit := 20
	cmd := &cobra.Command{
		Use:   "receipts",
		Short: "Read the account of each round: who was talking, what was done, how it ended",
		Long: `Print the receipts of the rounds of the agents that you may observe, newest first.
With --round the one receipt has the steps in their order, and the files that they
touched.

With --by the receipts are added up: what the models used and what that cost, as
agents and channels have reported it. A number of which a part is not known is
written with >=, and one of which nothing is known as "?". Days are those of your
zone, the last seven where --since and --until do not say others.

  gatebook receipts --agent alice --limit 5
  gatebook receipts --by agent,day --since 2026-01-01`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := noneEmpty(cmd); err != nil {
				return usageError{err}
			}
			if sums != (sumFlags{}) {
				return a.receiptSums(cmd, sums, agent)
			}
			q, err := receiptsRequest(agent, round, limit)
			if err != nil {
				return usageError{err}
			}
			q.Before = before
			c, err := a.reader("view")
			if err != nil {
				return err
			}
			defer c.close()
			return a.receipts(cmd.Context(), c, q, limit)
		},
	}
	f := cmd.Flags()
	f.StringVar(&agent, "agent", "", "only this agent's")
	f.StringVar(&round, "round", "", "only this round's")
	f.IntVar(&limit, "limit", limit, "how many")
	f.Uint64Var((*uint64)(&before), "before", 0, "older than this event: the next page")
	f.StringVar(&sums.by, "by", "", "add up what models used, by some of "+strings.Join(sumFields, ", "))
	f.StringVar(&sums.since, "since", "", "with --by: reported at this time or later")
	f.StringVar(&sums.until, "until", "", "with --by: reported before this time")
	a.completeFlag(cmd, "agent", agentsOf)
	_ = cmd.RegisterFlagCompletionFunc("by", completeList(sumFields))
	return cmd
}

// receiptSums answers --by; the flags for single receipts do not go with it.
func (a *App) receiptSums(cmd *cobra.Command, f sumFlags, agent string) error {
	for _, other := range []string{"round", "limit", "before"} {
		if cmd.Flags().Changed(other) {
			return usageError{fmt.Errorf("--%s does not go with --by, --since and --until", other)}
		}
	}
	if f.by == "" {
		return usageError{fmt.Errorf("--since and --until go with --by: name some of %s", strings.Join(sumFields, ", "))}
	}
	if agent != "" {
		if _, err := events.ParseAgentID(agent); err != nil {
			return usageError{err}
		}
	}
	q, err := a.usageRequest(f, agent)
	if err != nil {
		return usageError{err}
	}
	c, err := a.reader("view")
	if err != nil {
		return err
	}
	defer c.close()
	return a.sums(cmd.Context(), c, q)
}

func receiptsRequest(agent, round string, limit int) (people.ListRequest, error) {
	q := people.ListRequest{Agent: events.AgentID(agent), Round: events.RoundID(round)}
	var errs []error
	if agent != "" {
		_, err := events.ParseAgentID(agent)
		errs = append(errs, err)
	}
	if round != "" {
		_, err := events.ParseULID[events.RoundID](round)
		errs = append(errs, err)
	}
	if limit < 1 {
		errs = append(errs, fmt.Errorf("--limit %d: want at least 1", limit))
	}
	return q, errors.Join(errs...)
}

func (a *App) receipts(ctx context.Context, c *client, q people.ListRequest, limit int) error {
	all := people.ReceiptsAnswer{Receipts: []people.Receipt{}}
	for {
		var page people.ReceiptsAnswer
		q.Limit = min(limit-len(all.Receipts), maxPage)
		if err := c.ask(ctx, "receipts", q, &page); err != nil {
			return err
		}
		if all.AsOf == 0 {
			all.AsOf = page.AsOf
		}
		for _, r := range page.Receipts {
			if q.Agent == "" || r.Agent == q.Agent {
				all.Receipts = append(all.Receipts, r)
			}
		}
		all.Next, q.Before = page.Next, page.Next
		if page.Next == 0 || len(all.Receipts) >= limit {
			break
		}
	}
	if len(all.Receipts) == 0 {
		a.sayNone(ctx, c, "rounds", q.Agent)
	}
	if a.flags.json {
		return a.printJSON(all)
	}
	for i, r := range all.Receipts {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		if err := a.printReceipt(r); err != nil {
			return err
		}
	}
	if all.Next != 0 {
		a.sayMore(all.Next)
	}
	return nil
}

// printReceipt prints one receipt; each line has a name and what it is.
func (a *App) printReceipt(r people.Receipt) error {
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	line := func(name, what string) { fmt.Fprintf(w, "%s\t%s\n", name, events.Escape(what)) }
	line("round", string(r.Round))
	line("agent", string(r.Agent))
	line("talking", fmt.Sprintf("%s (%s)", r.Principal, r.Kind))
	line("task", orDash(r.Task))
	line("time", a.receiptTimes(r))
	line("steps", stepCounts(r))
	if r.Calls == nil {
		for _, t := range r.ByTool {
			line("  "+events.Escape(t.Tool), fmt.Sprintf("%d, %s", t.Calls, took(t.Duration)))
		}
	}
	for _, s := range r.Calls {
		line(fmt.Sprintf("  %d", s.Step), stepText(s))
	}
	if r.MoreCalls > 0 {
		line("  ...", fmt.Sprintf("%d more: gatebook audit --round %s", r.MoreCalls, r.Round))
	}
	line("in tools", took(r.Duration))
	for _, u := range r.Usage {
		line("model", usageText(u))
	}
	for _, f := range r.Files {
		name := "read"
		if f.Changed {
			name = "changed"
		}
		line(name, fmt.Sprintf("%s (%s)", f.Path, strings.Join(f.Tools, ", ")))
	}
	return w.Flush()
}

func (a *App) receiptTimes(r people.Receipt) string {
	times := "begun " + a.when(r.Begun)
	if r.Ended == 0 {
		return times + ", open"
	}
	return times + ", " + cmp.Or(string(r.End), "ended") + " " + a.when(r.Ended) + ", after " + took(events.MicrosOf(r.Ended.Sub(r.Begun)))
}

// stepCounts are the steps by how they ended, and those that have not.
func stepCounts(r people.Receipt) string {
	var counts []string
	running := r.Steps - r.Waiting
	for _, c := range r.ByStatus {
		counts = append(counts, fmt.Sprintf("%d %s", c.Calls, c.Status))
		running -= c.Calls
	}
	if running > 0 {
		counts = append(counts, fmt.Sprintf("%d running", running))
	}
	if r.Waiting > 0 {
		counts = append(counts, fmt.Sprintf("%d waiting", r.Waiting))
	}
	if len(counts) == 0 {
		return fmt.Sprint(r.Steps)
	}
	return fmt.Sprintf("%d (%s)", r.Steps, strings.Join(counts, ", "))
}

// stepText is one call: what was asked, how it ended, and who refused and why.
func stepText(s people.Step) string {
	text := strings.Join(append([]string{s.Tool}, s.Paths...), " ") + ": "
	switch {
	case s.Waits:
		return text + "waits for a person"
	case s.Status == "":
		return text + "running"
	}
	text += string(s.Status)
	if s.Duration > 0 {
		text += ", " + took(s.Duration)
	}
	if s.Layer != "" {
		text += ", by " + string(s.Layer)
		if s.Rule != "" {
			text += ":" + s.Rule
		}
	}
	if why := cmp.Or(s.Reason, s.Error); why != "" {
		text += ": " + why
	}
	return text
}

func usageText(u people.Usage) string {
	return fmt.Sprintf("%s: messages %d, in %s, cached %s, cache write %s, out %s, cost %s", orDash(u.Model), u.Messages,
		amount(u.Input, u.AtLeast.Input), amount(u.CachedInput, u.AtLeast.CachedInput),
		amount(u.CacheWrite, u.AtLeast.CacheWrite), amount(u.Output, u.AtLeast.Output), cost(u))
}
