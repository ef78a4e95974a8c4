package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
	"gatebook/infra/config"
	"gatebook/policy"
)

func (a *App) agentReleaseCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "release ID",
		Short: "Let an agent go for good: its key, its rounds, its id",
		Long: `Release an agent at once: its connections are cut, its running calls and open
rounds end, and its id is never given again. Its entry is taken out of
gatebook.yaml; its files and its history stay.

  gatebook agent release alice --reason "project is over"`,
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: a.complete(agentsOf),
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := events.ParseAgentID(given[0])
			if err != nil {
				return usageError{err}
			}
			return a.agentRelease(cmd.Context(), id, reason)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the book")
	return cmd
}

func (a *App) agentRelease(ctx context.Context, id events.AgentID, reason string) error {
	p, err := a.acting()
	if err != nil {
		return err
	}
	defer p.close()
	row, _, err := p.findAgent(ctx, id)
	if err != nil {
		return err
	}
	done := engine.Done{Seq: row.Seq}
	if !row.Released { // a second run takes out what a first one left in the file
		if done, err = p.act(ctx, "agent.release", false, people.ActRequest{Agent: id, Reason: reason}); err != nil {
			return err
		}
	}
	_ = os.Remove(roundPath(p.dir, id)) // its round has ended with it
	out, err := p.change(ctx, "agents."+string(id), func(data []byte) ([]byte, error) {
		next, err := config.RemoveAgent(data, id, toolNames(a.Extra)...)
		if errors.Is(err, fs.ErrNotExist) {
			return data, nil
		}
		return next, err
	})
	switch {
	case errors.Is(err, policy.ErrCatalog), errors.Is(err, config.ErrByHand), errors.Is(err, config.ErrLink):
		// It is released all the same; the entry that is left gives nothing.
		fmt.Fprintf(a.Err, "gatebook: take its entry out of %s by hand: %v\n", out.File, err)
	case err != nil:
		return fmt.Errorf("agent %s is released, but its entry in the catalog file is not gone: %w", id, err)
	case !out.InForce:
		fmt.Fprintf(a.Err, "gatebook: its entry is out of %s; that waits for %s (%s)\n", out.File, out.Next, out.Waits)
	}
	return a.sayDone(done, fmt.Sprintf("agent %s is released, and its id is never given again", id))
}

// sayDone prints that an act is in the book.
func (a *App) sayDone(done engine.Done, what string) error {
	if a.flags.json {
		return a.printJSON(done)
	}
	if !done.Changed {
		fmt.Fprintln(a.Out, what+" already; nothing changed")
		return nil
	}
	fmt.Fprintf(a.Out, "%s (event %d)\n", what, done.Seq)
	return nil
}
