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
	limit := 20
	cmd := &cobra.Command{
		Use:   "receipts",
		Short: "Read the account of each round: who was talking, what was done, how it ended",
		Long: `Print the receipts of the rounds of the agents that you may observe, newest first.

  gatebook receipts --agent alice --limit 5`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
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
	a.completeFlag(cmd, "agent", agentsOf)
	return cmd
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
	var counts []string
	for _, c := range r.ByStatus {
		counts = append(counts, fmt.Sprintf("%d %s", c.Calls, c.Status))
	}
	steps := fmt.Sprint(r.Steps)
	if len(counts) > 0 {
		steps += " (" + strings.Join(counts, ", ") + ")"
	}
	times := "begun " + a.when(r.Begun)
	if r.Ended != 0 {
		times += ", " + cmp.Or(string(r.End), "ended") + " " + a.when(r.Ended) + ", after " + took(events.MicrosOf(r.Ended.Sub(r.Begun)))
	} else {
		times += ", open"
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	line := func(name, what string) { fmt.Fprintf(w, "%s\t%s\n", name, events.Escape(what)) }
	line("round", string(r.Round))
	line("agent", string(r.Agent))
	line("talking", fmt.Sprintf("%s (%s)", r.Principal, r.Kind))
	line("task", orDash(r.Task))
	line("time", times)
	line("steps", steps)
	for _, t := range r.ByTool {
		line("  "+events.Escape(t.Tool), fmt.Sprintf("%d, %s", t.Calls, took(t.Duration)))
	}
	line("in tools", took(r.Duration))
	return w.Flush()
}
