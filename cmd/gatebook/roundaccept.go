package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/infra/datadir"
	"gatebook/policy"
)

// roundAccept is the request of intent.<agent>.round.accept.
type roundAccept struct {
	HandleHash events.Digest `json:"handle_hash"`
	Wait       int64         `json:"wait_seconds"`
}

// acceptStep is how long one request waits: less than a client does for its answer.
const acceptStep = 20 * time.Second

func (a *App) roundAcceptCommand() *cobra.Command {
	var agent string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "accept --agent ID",
		Short: "Wait for a round that the engine begins for an agent: a job's, or its parent's",
		Long: `Offer, with the key of the agent, to serve the next round that the engine begins for
it: one of a job of the catalog, or one that its parent causes by child.begin. The
round's secret handle is made here and kept in a file of the data folder, where call
and round end find it.

  gatebook round accept --agent kid --wait 5m`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := agentFlag(agent)
			if err != nil {
				return err
			}
			if wait < time.Second {
				return usageError{fmt.Errorf("--wait %s: want at least 1s", wait)}
			}
			return a.roundAccept(cmd.Context(), id, wait)
		},
	}
	f := cmd.Flags()
	f.StringVar(&agent, "agent", "", "the agent")
	f.DurationVar(&wait, "wait", time.Minute, "for how long")
	a.completeFlag(cmd, "agent", agentsOf)
	return cmd
}

func (a *App) roundAccept(ctx context.Context, agent events.AgentID, wait time.Duration) error {
	dir, err := a.folder()
	if err != nil {
		return err
	}
	c, err := a.agent(agent)
	if err != nil {
		return err
	}
	defer c.close()
	fmt.Fprintf(a.Err, "gatebook: using the key of agent %s\n", agent)
	r, err := readRound(dir, agent)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if r, err = newRound("", a.Random); err == nil {
			err = r.write(dir, agent) // before it is used: after a lost answer the same handle asks again
		}
		if err != nil {
			return err
		}
	case err != nil:
		return err
	case r.Round != "":
		return a.hasOpenRound(agent, r.Round)
	case r.Channel != "":
		return fmt.Errorf("agent %s has a round here whose begin was not answered: %s asks again", agent, a.command("round begin --agent "+string(agent)))
	}
	fmt.Fprintf(a.Err, "gatebook: waiting up to %s for a round that a job or a parent of %s begins\n", wait, agent)
	answer, err := a.acceptWithin(ctx, c, r, wait)
	var no *problem
	if errors.As(err, &no) && (no.Code == "no_round" || no.Code == string(policy.CodeUnknownAgent)) {
		return errors.Join(err, os.Remove(roundPath(dir, agent))) // this handle began nothing
	}
	if err == nil && answer.End != "" {
		err = errors.Join(fmt.Errorf("the round %s that was accepted here before has ended: %s; ask again", answer.Round, answer.End), os.Remove(roundPath(dir, agent)))
	}
	if err != nil {
		return err
	}
	return a.accepted(dir, agent, r, answer)
}

// acceptWithin asks again until a round began or the time is over.
func (a *App) acceptWithin(ctx context.Context, c *client, r roundFile, wait time.Duration) (engine.RoundAnswer, error) {
	for left := wait; ; left -= acceptStep {
		var answer engine.RoundAnswer
		step := int64(min(left, acceptStep) / time.Second)
		err := c.ask(ctx, "round.accept", roundAccept{HandleHash: r.hash(), Wait: max(1, step)}, &answer)
		var no *problem
		if !errors.As(err, &no) || no.Code != "no_round" || left <= acceptStep {
			return answer, err
		}
	}
}

func (a *App) accepted(dir *datadir.Dir, agent events.AgentID, r roundFile, answer engine.RoundAnswer) error {
	r.Round, r.Conversation = answer.Round, answer.Conversation
	if err := r.write(dir, agent); err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(answer)
	}
	fmt.Fprintf(a.Out, "round %s of conversation %s began; %s is talking (%s), profile %s\ntask: %s\n",
		answer.Round, answer.Conversation, answer.Principal, answer.Kind,
		cmp.Or(answer.Profile, "(the agent's longtime one)"), events.Escape(answer.Task))
	return nil
}
