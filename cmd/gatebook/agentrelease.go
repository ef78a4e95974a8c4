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
rounds end, and its id is never given again. Its entry and its id in the lists of
channels are taken out of gatebook.yaml; its files and its history stay.

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
	out, left := p.removeAgent(ctx, id)
	if err := a.sayDone(done, fmt.Sprintf("agent %s is released, and its id is never given again", id)); err != nil {
		return err
	}
	switch {
	case errors.Is(left, policy.ErrCatalog), errors.Is(left, config.ErrLink): // it is released all the same
		fmt.Fprintf(a.Err, "gatebook: its entry is still in %s, and gives nothing: %v\nwhen that is mended, take it out with: %s\n", out.File, left, a.command("agent release "+string(id)))
	case errors.Is(left, config.ErrByHand):
		fmt.Fprintf(a.Err, "gatebook: its entry is still in %s, and gives nothing: %v\nthen put that in force with: %s\n", out.File, left, a.command("catalog approve"))
	case left != nil:
		return fmt.Errorf("the entry of agent %s is still in the catalog, and gives nothing: %w", id, left)
	case !out.InForce:
		fmt.Fprintf(a.Err, "gatebook: its entry is out of %s; that waits for %s (%s)\n", out.File, out.Next, out.Waits)
	}
	return nil
}

// removeAgent takes a released agent out of the catalog, also where channels name
// it; where the file has no such entry there is nothing to do.
func (p *acting) removeAgent(ctx context.Context, id events.AgentID) (catalogChange, error) {
	var also []string
	for channel := range p.file.Channels {
		also = append(also, fmt.Sprintf("channels.%s.agents loses %s", channel, id))
	}
	return p.change(ctx, "agents."+string(id), func(data []byte) ([]byte, error) {
		next, err := config.RemoveAgent(data, id, toolNames(p.app.Extra)...)
		if errors.Is(err, fs.ErrNotExist) {
			return data, nil
		}
		return next, err
	}, also...)
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
