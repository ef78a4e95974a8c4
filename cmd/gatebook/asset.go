package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/people"
	"gatebook/policy"
)

func assetStates() []string {
	return []string{
		string(events.AssetStateApproved), string(events.AssetStateBlocked), string(events.AssetStateProvisional),
		string(events.AssetStateRefused), string(events.AssetStateReplaced),
	}
}

func tierNames() []string {
	return []string{string(events.ReadOnly), string(events.Reversible), string(events.Privileged)}
}

func (a *App) assetsCommand() *cobra.Command {
	var state, tier, kind string
	var before events.Seq
	limit := 20
	cmd := &cobra.Command{
		Use:   "assets",
		Short: "List the tools that are not built in, and what agents proposed: who may run",
		Long: `List assets, the newest first: every version of every tool that is not built in, and
of what agents proposed. Only an approved one runs, and a provisional one until its
time is over. For approvers, operators and supervisors.

  gatebook assets --state blocked`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case limit < 1:
				return usageError{errors.New("--limit: want a number from 1")}
			case state != "" && !slices.Contains(assetStates(), state):
				return usageError{fmt.Errorf("--state %s: want one of %s", events.Quote(state), strings.Join(assetStates(), ", "))}
			case tier != "" && !slices.Contains(tierNames(), tier):
				return usageError{fmt.Errorf("--tier %s: want one of %s", events.Quote(tier), strings.Join(tierNames(), ", "))}
			}
			c, err := a.reader("view")
			if err != nil {
				return err
			}
			defer c.close()
			return a.listAssets(cmd.Context(), c, people.AssetsRequest{
				State: events.AssetState(state), Tier: events.Tier(tier), Kind: events.AssetType(kind), Before: before, Limit: limit,
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&state, "state", "", "only in this state: "+strings.Join(assetStates(), ", "))
	f.StringVar(&tier, "tier", "", "only of this tier: "+strings.Join(tierNames(), ", "))
	f.StringVar(&kind, "kind", "", "only of this kind: tool, or what an agent proposed")
	f.IntVar(&limit, "limit", limit, "how many")
	f.Uint64Var((*uint64)(&before), "before", 0, "registered before this event: the next page")
	a.completeFlag(cmd, "state", these(assetStates))
	a.completeFlag(cmd, "tier", these(tierNames))
	a.completeFlag(cmd, "kind", func(c policy.Catalog) []string { return append(c.Propose.Names(), string(events.AssetTool)) })
	return cmd
}

func (a *App) listAssets(ctx context.Context, c *client, q people.AssetsRequest) error {
	var page people.AssetsAnswer
	if err := c.ask(ctx, "assets", q, &page); err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(page)
	}
	if len(page.Assets) == 0 {
		fmt.Fprintln(a.Err, "gatebook: no assets match; built-in tools need none, and another tool gets one when it is first called")
		return nil
	}
	var rows [][]string
	for _, one := range page.Assets {
		rows = append(rows, []string{
			string(one.Asset), string(one.Kind), assetName(one), string(one.Tier), string(one.State), a.left(one), fmt.Sprint(one.Executions),
		})
	}
	if err := a.table([]string{"ASSET", "KIND", "NAME", "TIER", "STATE", "LEFT", "RUNS"}, rows); err != nil {
		return err
	}
	if page.Next != 0 {
		fmt.Fprintf(a.Err, "gatebook: more with --before %d\n", page.Next)
	}
	return nil
}

func assetName(one people.Asset) string {
	return events.ToolKey{Owner: one.Owner, Name: one.Name}.String()
}

// left is what remains of the grace of a provisional asset. It is by this machine's
// clock, for people; what counts is the engine's.
func (a *App) left(one people.Asset) string {
	if one.Expires == 0 {
		return "-"
	}
	d := one.Expires.Time().Sub(a.Now()).Round(time.Minute)
	switch {
	case d <= 0:
		return "over"
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd %dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
	return fmt.Sprintf("%dh %dm", d/time.Hour, d%time.Hour/time.Minute)
}

func (a *App) assetCommand() *cobra.Command {
	cmd := group(&cobra.Command{Use: "asset", Short: "Show an asset, and decide whether it may run"})
	cmd.AddCommand(
		a.assetShowCommand(), a.assetApproveCommand(), a.assetRefuseCommand(), a.assetRollbackCommand(),
		a.assetRegisterCommand(), a.assetRetierCommand(), a.assetExportCommand(),
	)
	return cmd
}

func (a *App) assetShowCommand() *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use:   "show ASSET",
		Short: "Show one asset: what defines it, and what is new against the version before",
		Long: `Show everything that a decision is about. The digest at the end stands for all of it:
an approval names it. A large definition is cut unless --full; what is cut cannot be
approved.

  gatebook asset show 01JZ0000000000000000000000`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := events.ParseULID[events.AssetID](given[0])
			if err != nil {
				return usageError{err}
			}
			c, err := a.reader("view")
			if err != nil {
				return err
			}
			defer c.close()
			var d people.AssetDetail
			if err := c.ask(cmd.Context(), "asset", people.AssetRequest{Asset: id, Full: full}, &d); err != nil {
				return err
			}
			return a.showAsset(d)
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "a definition of any size")
	return cmd
}

func (a *App) assetExportCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "export ASSET [--to FILE]",
		Short: "Write what an agent proposed and people approved, byte by byte",
		Long: `Write the content of an asset that an agent proposed and people approved: what is to be
loaded, and nothing else. The bytes are compared with the digest that was approved. An
asset that is not approved is not written.

  gatebook asset export 01JZ0000000000000000000000 --to skill.md`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := events.ParseULID[events.AssetID](given[0])
			if err != nil {
				return usageError{err}
			}
			c, err := a.reader("view")
			if err != nil {
				return err
			}
			defer c.close()
			var got people.AssetContent
			if err := c.ask(cmd.Context(), "asset.content", people.AssetRequest{Asset: id}, &got); err != nil {
				return err
			}
			return a.writeAsset(got, to)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "a new file; without it the content is printed")
	return cmd
}

func (a *App) writeAsset(got people.AssetContent, to string) error {
	switch {
	case events.DigestOf([]byte(got.Content)) != got.Version:
		return fmt.Errorf("what came is not version %s, and was not written", got.Version)
	case a.flags.json:
		return a.printJSON(got)
	case to == "":
		_, err := io.WriteString(a.Out, got.Content)
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write the asset: %w", err)
	}
	_, err = f.WriteString(got.Content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the asset: %w", errors.Join(err, os.Remove(to)))
	}
	fmt.Fprintf(a.Err, "gatebook: version %.12s is in %s\n", got.Version, events.Escape(to))
	return nil
}

func (a *App) showAsset(d people.AssetDetail) error {
	if a.flags.json {
		return a.printJSON(d)
	}
	return a.printAsset(d)
}

func (a *App) printAsset(d people.AssetDetail) error {
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	for _, row := range a.assetRows(d) {
		fmt.Fprintln(w, strings.Join(escaped(row), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if d.Text != "" {
		fmt.Fprintf(a.Out, "\nits document:\n%s\n", escapeLines(strings.TrimSuffix(d.Text, "\n")))
	}
	fmt.Fprintf(a.Out, "\nwhat defines it:\n%s\n", escapeLines(d.Definition))
	if d.Diff != "" {
		fmt.Fprintf(a.Out, "\nwhat is new against %s:\n%s\n", d.Against, escapeLines(strings.TrimSuffix(d.Diff, "\n")))
	}
	if len(d.Hidden) > 0 {
		fmt.Fprintf(a.Out, "\nWARNING: there are characters in it that a screen does not show as they are: %s\n", strings.Join(d.Hidden, " "))
	}
	id := string(d.Asset.Asset)
	switch {
	case d.Elided:
		fmt.Fprintf(a.Out, "\nIt is cut here, so it cannot be approved: see all of it with %s\n", a.command("asset show --full "+id))
	case d.Shown != "":
		fmt.Fprintf(a.Out, "\nfor an approver, to let it run:  %s\n", a.command("asset approve "+id+" --shown "+string(d.Shown)))
	}
	if d.State != events.AssetStateRefused {
		fmt.Fprintf(a.Out, "for an approver, to refuse it:   %s\n", a.command("asset refuse "+id+" --reason …"))
	}
	return nil
}

func (a *App) assetRows(d people.AssetDetail) [][]string {
	rows := [][]string{
		{"asset", string(d.Asset.Asset)}, {"kind", string(d.Kind)}, {"name", assetName(d.Asset)}, {"version", string(d.Version)},
		{"tier", string(d.Tier)}, {"state", string(d.State)}, {"created", a.when(d.Created)}, {"runs", fmt.Sprint(d.Executions)},
	}
	if d.Agent != "" {
		how := "first called by"
		if d.Commit != "" {
			how = "proposed by"
		}
		rows = append(rows, []string{how, string(d.Agent) + ", " + string(d.Call)})
	}
	for _, row := range [][]string{{"commit", d.Commit}, {"document", d.Document}, {"reason", d.Reason}} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}
	if d.Expires != 0 {
		rows = append(rows, []string{"runs until", a.when(d.Expires)})
	}
	if d.Expired != 0 {
		rows = append(rows, []string{"its time was over", a.when(d.Expired)})
	}
	if d.By != "" {
		rows = append(rows, []string{"decided by", string(d.By) + ", " + a.when(d.Decided)})
	}
	return rows
}
