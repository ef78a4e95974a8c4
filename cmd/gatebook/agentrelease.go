package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
	"gatebook/infra/config"
	"gatebook/infra/identity"
	"gatebook/policy"
)

func (a *App) agentReleaseCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "release ID",
		Short: "Let an agent go for good: its key, its rounds, its id",
		Long: `Release an agent at once: its connections are cut, its running calls and open
rounds end, and its id is never given again. Its entry and its id in the lists of
channels are taken out of gatebook.yaml; its files and its history stay. An entry
that only waits for an approver is taken out again, and its id stays free.

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
			return p.unlessWaiting(ctx, id, err)
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

// unlessWaiting follows a refused release. Where the engine knows no such agent
// and the file has its entry, that only waits, and goes out of the file.
func (p *acting) unlessWaiting(ctx context.Context, id events.AgentID, refused error) error {
	var no *problem
	entry, inFile := p.file.Agents[id]
	if !inFile || !errors.As(refused, &no) || no.Code != string(policy.CodeUnknownAgent) {
		return refused
	}
	out, err := p.removeAgent(ctx, id)
	if !out.Changed {
		return fmt.Errorf("agent %s is not enrolled, and its entry is still in %s: %w", id, out.File, err)
	}
	path, err := p.removeUnusedKey(id, entry.Key)
	if err != nil {
		return err
	}
	if p.app.flags.json {
		return p.app.printJSON(out)
	}
	fmt.Fprintf(p.app.Out, "agent %s is not enrolled; its entry is out of %s\n", id, out.File)
	if path != "" {
		fmt.Fprintf(p.app.Out, "its key, which was never used, is removed: %s\n", path)
	}
	return nil
}

// removeUnusedKey removes the key file of an agent that was never enrolled, where
// it holds the key of the entry. Who may not see every agent does not know whether
// this one was released, and its key stays.
func (p *acting) removeUnusedKey(id events.AgentID, of events.PublicKey) (path string, err error) {
	if !p.entry.Supervisor || !slices.Contains(p.entry.ObservableAgents, "*") {
		return "", nil
	}
	path = identity.AgentKey(p.dir.Keys(), id)
	key, err := identity.LoadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer key.Wipe()
	if key.Public() != of {
		return "", nil
	}
	return path, os.Remove(path)
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
		fmt.Fprintln(a.Out, "nothing changed: "+what)
		return nil
	}
	fmt.Fprintf(a.Out, "%s (event %d)\n", what, done.Seq)
	return nil
}
