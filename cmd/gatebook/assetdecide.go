package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/people"
	"gatebook/policy"
)

func (a *App) assetApproveCommand() *cobra.Command {
	var shown string
	cmd := &cobra.Command{
		Use:   "approve ASSET --shown DIGEST",
		Short: "Let one version of a tool run from now on",
		Long: `Approve one version: from now on its calls run, as far as everything else allows them.
It takes an approver's passphrase, and the digest that gatebook asset show gave.
Another version of the same name that was approved does not run any more.

  gatebook asset approve 01JZ0000000000000000000000 --shown 3b1f…`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			show := a.command("asset show " + given[0])
			if shown == "" {
				return usageError{fmt.Errorf("say what you have seen: %s prints the command with its digest", show)}
			}
			digest, err := events.ParseDigest(shown)
			if err != nil {
				return usageError{fmt.Errorf("--shown: %w; copy it from %s", err, show)}
			}
			return a.oneAsset(cmd.Context(), "asset.approve", given[0], people.ActRequest{Shown: digest}, "approved: it may be used from now on")
		},
	}
	cmd.Flags().StringVar(&shown, "shown", "", "the digest of what you have seen, from gatebook asset show")
	return cmd
}

func (a *App) assetRefuseCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "refuse ASSET --reason TEXT",
		Short: "Let one version of a tool run no more",
		Long: `Refuse one version, also one that was approved: from the next decision on its calls are
refused. It takes an approver's passphrase.

  gatebook asset refuse 01JZ0000000000000000000000 --reason 'sends to everybody'`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if strings.Trim(reason, " …") == "" {
				return usageError{fmt.Errorf("say why, it stays on record: %s", a.command(fmt.Sprintf("asset refuse %s --reason 'sends to everybody'", given[0])))}
			}
			return a.oneAsset(cmd.Context(), "asset.refuse", given[0], people.ActRequest{Reason: reason}, "refused: it may not be used from now on")
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}

// asset asks for an asset, and whether the id is one's that the person may see.
func (c *client) asset(ctx context.Context, q people.AssetRequest, d *people.AssetDetail) (is bool, err error) {
	err = c.ask(ctx, "asset", q, d)
	var no *problem
	if errors.As(err, &no) && (no.Code == string(policy.CodeNoAsset) || no.Code == string(policy.CodeNotAllowed)) {
		return false, nil
	}
	return err == nil, err
}

// oneAsset sends one decision about an asset.
func (a *App) oneAsset(ctx context.Context, verb, given string, q people.ActRequest, said string) error {
	var err error
	if q.Asset, err = events.ParseULID[events.AssetID](given); err != nil {
		return usageError{err}
	}
	return a.asActing(func(p *acting) error { return a.decideAsset(ctx, p, verb, q, said) })
}

func (a *App) decideAsset(ctx context.Context, p *acting, verb string, q people.ActRequest, said string) error {
	done, err := p.act(ctx, verb, true, q)
	if err != nil {
		return err
	}
	return a.sayDone(done, said)
}

func (a *App) assetRollbackCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "rollback ASSET [--reason TEXT]",
		Short: "Refuse one version and approve again the one that was approved before it",
		Long: `Go back: the version of the same name that was approved before is approved again, as it
was, and this one is refused. It takes an approver's passphrase. What a tool is comes
from its owner: a version runs only while the owner offers it.

  gatebook asset rollback 01JZ0000000000000000000000`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := events.ParseULID[events.AssetID](given[0])
			if err != nil {
				return usageError{err}
			}
			return a.asActing(func(p *acting) error { return a.rollBack(cmd.Context(), p, id, reason) })
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}

// rollBack approves what was seen and approved once: the person needs not see it again,
// and the digest makes sure that it is the same.
func (a *App) rollBack(ctx context.Context, p *acting, id events.AssetID, reason string) error {
	c, err := p.view(ctx)
	if err != nil {
		return err
	}
	var from, back people.AssetDetail
	if err := c.ask(ctx, "asset", people.AssetRequest{Asset: id}, &from); err != nil {
		return err
	}
	if from.Against != "" {
		if err := c.ask(ctx, "asset", people.AssetRequest{Asset: from.Against, Full: true}, &back); err != nil {
			return err
		}
	}
	done, err := p.act(ctx, "asset.rollback", true, people.ActRequest{Asset: id, Shown: back.Shown, Reason: reason})
	if err != nil {
		return err
	}
	return a.sayDone(done, fmt.Sprintf("asset %s is approved again, version %.12s", from.Against, back.Version))
}

func (a *App) assetRegisterCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "register TOOL",
		Short: "Put a tool on record before an agent calls it, to decide about it",
		Long: `Put the tool, as it is offered now, on record: blocked until somebody approves it. Without
that a tool is put on record by its first call. It takes an approver's passphrase.

  gatebook asset register mailer/send`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.asActing(func(p *acting) error {
				done, err := p.act(cmd.Context(), "asset.register", true, people.ActRequest{Tool: given[0]})
				if err != nil {
					return err
				}
				return a.sayDone(done, "registered, blocked; "+a.command("assets --state blocked")+" has its id")
			})
		},
	}
}

func (a *App) assetRetierCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "retier ASSET read_only|reversible|privileged",
		Short: "Say how much one version of a tool can do",
		Long: `Give one version another tier. Only a person lets a tier fall; it rises by itself where
the tool says so. What was let run for less has to be approved again. It takes an
approver's passphrase.

  gatebook asset retier 01JZ0000000000000000000000 reversible`,
		Args:      args(cobra.ExactArgs(2)),
		ValidArgs: tierNames(),
		RunE: func(cmd *cobra.Command, given []string) error {
			if !slices.Contains(tierNames(), given[1]) {
				return usageError{fmt.Errorf("tier %s: want one of %s", events.Quote(given[1]), strings.Join(tierNames(), ", "))}
			}
			return a.oneAsset(cmd.Context(), "asset.retier", given[0], people.ActRequest{Tier: events.Tier(given[1])}, "the tier is "+given[1])
		},
	}
}
