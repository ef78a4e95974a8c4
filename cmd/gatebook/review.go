package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
)

func (a *App) pendingCommand() *cobra.Command {
	var agent string
	var all bool
	var after, before events.Seq
	limit := 20
	cmd := &cobra.Command{
		Use:   "pending",
		Short: "List the calls that wait for a person",
		Long: `List the calls that wait until an approver decides, the oldest first. Approvers see
those of all agents, supervisors those of the agents that they may observe. With
--all those that were decided come too, the newest first.

  gatebook pending`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := events.ParseAgentID(agent); agent != "" && err != nil {
				return usageError{err}
			}
			switch {
			case limit < 1:
				return usageError{errors.New("--limit: want a number from 1")}
			case all && after != 0:
				return usageError{errors.New("--after does not go with --all; --before does")}
			case !all && before != 0:
				return usageError{errors.New("--before goes with --all; without it, --after goes on")}
			}
			c, err := a.reader("view")
			if err != nil {
				return err
			}
			defer c.close()
			return a.pending(cmd.Context(), c, people.ReviewsRequest{
				Agent: events.AgentID(agent), All: all, After: after, Before: before, Limit: limit,
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&agent, "agent", "", "only this agent's")
	f.BoolVar(&all, "all", false, "decided ones too, the newest first")
	f.IntVar(&limit, "limit", limit, "how many")
	f.Uint64Var((*uint64)(&after), "after", 0, "newer than this event: the next page of those that wait")
	f.Uint64Var((*uint64)(&before), "before", 0, "older than this event: the next page with --all")
	a.completeFlag(cmd, "agent", agentsOf)
	return cmd
}

func (a *App) pending(ctx context.Context, c *client, q people.ReviewsRequest) error {
	var page people.ReviewsAnswer
	if err := c.ask(ctx, "reviews", q, &page); err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(page)
	}
	defer a.remindOfAssets(ctx, c, q)
	if len(page.Reviews) == 0 {
		what := "nothing waits for a person"
		if q.Agent != "" || q.All || q.After != 0 {
			what = "nothing of what you may see and asked for"
		}
		fmt.Fprintln(a.Err, "gatebook: "+what)
		return nil
	}
	var rows [][]string
	for _, r := range page.Reviews {
		what := clip(r.Args, 40)
		if r.State != events.ReviewStateOpen {
			what = string(r.State) + " by " + orDash(r.By) + ", " + cmp.Or(string(r.Status), "runs")
		}
		rows = append(rows, []string{string(r.Review), string(r.Agent), r.Tool, r.Principal, a.when(r.Expires), what})
	}
	if err := a.table([]string{"REVIEW", "AGENT", "TOOL", "TALKING", "EXPIRES", "WHAT"}, rows); err != nil {
		return err
	}
	if page.Next != 0 {
		flag := "--after"
		if q.All {
			flag = "--all --before"
		}
		fmt.Fprintf(a.Err, "gatebook: more with %s %d\n", flag, page.Next)
	}
	return nil
}

// remindOfAssets says that assets wait for a decision too, where they do and the person
// may see them.
func (a *App) remindOfAssets(ctx context.Context, c *client, q people.ReviewsRequest) {
	var page people.AssetsAnswer
	first := q.Agent == "" && !q.All && q.After == 0
	if !first || c.ask(ctx, "assets", people.AssetsRequest{State: events.AssetStateBlocked, Limit: 1}, &page) != nil || len(page.Assets) == 0 {
		return
	}
	fmt.Fprintln(a.Err, "gatebook: assets are blocked until somebody decides: "+a.command("assets --state blocked"))
}

func (a *App) showCommand() *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a call that waits for a person, or an asset: what it would do, and why it waits",
		Long: `Show everything that a decision is about. ID is a review's or an asset's. The digest at the end stands for all of it:
an approval names it, so that nothing else than what was seen can be approved.
What is large is cut unless --full; what is cut cannot be approved.

  gatebook show 01JZ0000000000000000000000`,
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: a.completeReviews,
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := events.ParseULID[events.ReviewID](given[0])
			if err != nil {
				return usageError{err}
			}
			c, err := a.reader("view")
			if err != nil {
				return err
			}
			defer c.close()
			var of people.AssetDetail
			if is, err := c.asset(cmd.Context(), people.AssetRequest{Asset: events.AssetID(id), Full: full}, &of); err != nil {
				return err
			} else if is {
				return a.showAsset(of)
			}
			var d people.ReviewDetail
			if err := c.ask(cmd.Context(), "review", people.ReviewRequest{Review: id, Full: full}, &d); err != nil {
				return err
			}
			if a.flags.json {
				return a.printJSON(d)
			}
			return a.printReview(d)
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "arguments, or a definition, of any size")
	return cmd
}

func (a *App) printReview(d people.ReviewDetail) error {
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	for _, row := range reviewRows(d, a.when) {
		fmt.Fprintln(w, strings.Join(escaped(row), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if d.State != events.ReviewStateOpen || d.Arguments == "" {
		fmt.Fprintf(a.Out, "\narguments, their beginning: %s\nmore of the call: %s\n", events.Escape(d.Args), a.command("explain "+string(d.Call)))
		return nil
	}
	fmt.Fprintf(a.Out, "\narguments, %d bytes:\n%s\n", d.ArgsSize, escapeLines(d.Arguments))
	if d.Change != "" {
		fmt.Fprintf(a.Out, "\nwhat it is about:\n%s\n", escapeLines(strings.TrimSuffix(d.Change, "\n")))
	}
	a.warnOf(d)
	switch approve := fmt.Sprintf("approve %s --shown %s", d.Review.Review, d.Shown); {
	case d.Elided:
		fmt.Fprintf(a.Out, "\nIt is cut here, so it cannot be approved: see all of it with %s\n", a.command("show --full "+string(d.Review.Review)))
	case d.Shown == "":
		fmt.Fprintln(a.Out, "\nNot all of what it is about could be looked at, so it cannot be approved.")
	case d.Masked:
		fmt.Fprintf(a.Out, "\nfor an approver, to let it run:  %s\n", a.command(approve+" --masked"))
	default:
		fmt.Fprintf(a.Out, "\nfor an approver, to let it run:  %s\n", a.command(approve))
	}
	fmt.Fprintf(a.Out, "for an approver, to refuse it:   %s\n", a.command(fmt.Sprintf("refuse %s --reason …", d.Review.Review)))
	return nil
}

func reviewRows(d people.ReviewDetail, when func(events.Instant) string) [][]string {
	rows := [][]string{
		{"review", string(d.Review.Review) + ", " + string(d.State)},
		{"call", string(d.Call)}, {"agent", string(d.Agent)}, {"role", orDash(d.Role)},
		{"talking", fmt.Sprintf("%s (%s) over %s", orDash(d.Principal), orDash(string(d.Kind)), orDash(string(d.Channel)))},
		{"profile", orDash(d.Profile)},
		{"tool", d.Tool + ", " + string(d.Tier)},
	}
	if d.Description != "" {
		rows = append(rows, []string{"does", d.Description}, []string{"definition", string(d.Definition)})
	}
	rows = append(rows, []string{"waits by", d.Rule}, []string{"because", d.Why}, []string{"asked", when(d.Requested)}, []string{"expires", when(d.Expires)})
	if d.First != "" {
		rows = append(rows, []string{"approved by", string(d.First) + ", and another approver must too"})
	}
	if d.State != events.ReviewStateOpen {
		rows = append(rows, []string{"decided", string(d.State) + " by " + orDash(d.By) + ", " + when(d.Decided)},
			[]string{"reason", orDash(d.Reason)}, []string{"call ended", callEnd(d.Review)})
	}
	return rows
}

// warnOf says what of a call cannot be seen.
func (a *App) warnOf(d people.ReviewDetail) {
	if len(d.Hidden) > 0 {
		fmt.Fprintf(a.Out, "\nWARNING: there are characters in it that a screen does not show as they are: %s\n", strings.Join(d.Hidden, " "))
	}
	if d.Masked {
		fmt.Fprintln(a.Out, "\nWARNING: something in the arguments is masked. Who approves it approves text that they do not see. A restart of the engine cancels this call.")
	}
}

func callEnd(r people.Review) string {
	switch {
	case r.Status == "":
		return "not yet"
	case r.Layer != "":
		return fmt.Sprintf("%s by layer %s: %s", r.Status, r.Layer, r.Ended)
	case r.Ended != "":
		return string(r.Status) + ": " + r.Ended
	}
	return string(r.Status)
}

func (a *App) approveCommand() *cobra.Command {
	var shown string
	var masked bool
	cmd := &cobra.Command{
		Use:   "approve ID --shown DIGEST",
		Short: "Let one call that waits run, once, or let an asset be used",
		Long: `Approve one call that waits: this call, with these arguments, this once; or, by an
asset's id, one version of an asset, as gatebook asset approve does. It takes an
approver's passphrase, and the digest that gatebook show gave: where what there is
to see has changed since, nothing is approved. The gate is asked again, with the
rights of now, before the call runs.

  gatebook approve 01JZ0000000000000000000000 --shown 3b1f…`,
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: a.completeReviews,
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := events.ParseULID[events.ReviewID](given[0])
			if err != nil {
				return usageError{err}
			}
			if shown == "" {
				return usageError{fmt.Errorf("say what you have seen: %s prints the command with its digest", a.command("show "+given[0]))}
			}
			digest, err := events.ParseDigest(shown)
			if err != nil {
				return usageError{fmt.Errorf("--shown: %w; copy it from %s", err, a.command("show "+given[0]))}
			}
			return a.decide(cmd.Context(), "approve", people.ActRequest{Review: id, Shown: digest, Masked: masked}, "approved")
		},
	}
	cmd.Flags().StringVar(&shown, "shown", "", "the digest of what you have seen, from gatebook show")
	cmd.Flags().BoolVar(&masked, "masked", false, "accept what is masked in it")
	return cmd
}

func (a *App) refuseCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "refuse ID --reason TEXT",
		Short: "End one call that waits without running it, or let an asset be used no more",
		Long: `Refuse one call that waits, or, by an asset's id, one version of an asset. It takes an approver's passphrase. The agent hears the
reason.

  gatebook refuse 01JZ0000000000000000000000 --reason 'not this file'`,
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: a.completeReviews,
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := events.ParseULID[events.ReviewID](given[0])
			if err != nil {
				return usageError{err}
			}
			if strings.Trim(reason, " …") == "" {
				return usageError{fmt.Errorf("say why, the agent hears it: %s", a.command(fmt.Sprintf("refuse %s --reason 'not this file'", given[0])))}
			}
			return a.decide(cmd.Context(), "refuse", people.ActRequest{Review: id, Reason: reason}, "refused")
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "what the agent hears")
	return cmd
}

// endWait is how long a decision waits to tell how the call ended.
const endWait = 3 * time.Second

// decidedReview is the answer to a decision, with what became of the call meanwhile.
type decidedReview struct {
	Act    engine.Done   `json:"act"`
	Review people.Review `json:"review"`
}

// decide sends a decision about a call that waits, or about the asset of this id.
func (a *App) decide(ctx context.Context, verb string, q people.ActRequest, said string) error {
	return a.asActing(func(p *acting) error {
		c, err := p.view(ctx)
		if err != nil {
			return err
		}
		switch is, err := c.asset(ctx, people.AssetRequest{Asset: events.AssetID(q.Review)}, new(people.AssetDetail)); {
		case err != nil:
			return err
		case is:
			q.Asset, q.Review = events.AssetID(q.Review), ""
			return a.decideAsset(ctx, p, "asset."+verb, q, said)
		}
		return a.decideReview(ctx, p, verb, q, said)
	})
}

func (a *App) decideReview(ctx context.Context, p *acting, verb string, q people.ActRequest, said string) error {
	done, err := p.act(ctx, verb, true, q)
	if err != nil {
		return err
	}
	r, err := p.afterDecision(ctx, q.Review)
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(decidedReview{done, r})
	}
	if r.State == events.ReviewStateOpen {
		_, err = fmt.Fprintf(a.Out, "%s (event %d); nothing has run: another approver must approve it too\n", said, done.Seq)
		return err
	}
	end := "the call runs; how it ends says " + a.command("show "+string(q.Review))
	if r.Status != "" {
		end = "the call ended: " + callEnd(r)
	}
	_, err = fmt.Fprintf(a.Out, "%s (event %d); %s\n", said, done.Seq, events.Escape(end))
	return err
}

// afterDecision reads a review until its call has ended, for a while.
func (p *acting) afterDecision(ctx context.Context, id events.ReviewID) (people.Review, error) {
	c, err := p.view(ctx)
	if err != nil {
		return people.Review{}, err
	}
	ctx, stop := context.WithTimeout(ctx, endWait)
	defer stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var d people.ReviewDetail
		if err := c.ask(context.WithoutCancel(ctx), "review", people.ReviewRequest{Review: id}, &d); err != nil || d.Status != "" || d.State == events.ReviewStateOpen {
			return d.Review, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return d.Review, nil
		}
	}
}

// completeReviews offers the reviews that wait, and the assets that are blocked.
func (a *App) completeReviews(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := a.reader("view")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.close()
	var page people.ReviewsAnswer
	if c.ask(cmd.Context(), "reviews", people.ReviewsRequest{}, &page) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	for _, r := range page.Reviews {
		words = append(words, string(r.Review)+"\t"+string(r.Agent)+" "+r.Tool)
	}
	var blocked people.AssetsAnswer
	if c.ask(cmd.Context(), "assets", people.AssetsRequest{State: events.AssetStateBlocked}, &blocked) == nil {
		for _, one := range blocked.Assets {
			words = append(words, string(one.Asset)+"\t"+string(one.Kind)+" "+assetName(one))
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
