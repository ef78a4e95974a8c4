package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
	"gatebook/infra/datadir"
	"gatebook/policy"
)

func (a *App) roundCommand() *cobra.Command {
	cmd := group(&cobra.Command{Use: "round", Short: "Begin, accept, end and list rounds, and report what their models used"})
	cmd.AddCommand(a.roundBeginCommand(), a.roundAcceptCommand(), a.roundUsageCommand(), a.roundEndCommand(), a.roundListCommand())
	return cmd
}

// roundBegin is the request of channel.<id>.round.begin.
type roundBegin struct {
	Agent        events.AgentID `json:"agent"`
	Conversation string         `json:"conversation,omitzero"`
	Fresh        bool           `json:"fresh,omitzero"`
	Sender       string         `json:"sender"`
	Profile      string         `json:"profile,omitzero"`
	HandleHash   events.Digest  `json:"handle_hash"`
	Task         string         `json:"task,omitzero"`
	Model        string         `json:"model,omitzero"`
}

func (a *App) roundBeginCommand() *cobra.Command {
	var q roundBegin
	var agent, channel string
	cmd := &cobra.Command{
		Use:   "begin --agent ID",
		Short: "Begin a round of an agent, in a new conversation unless told",
		Long: `Begin a round with the key of a channel of the data folder. The round's secret
handle is kept in a file of the data folder, where call and round end find it.

  gatebook round begin --agent alice --task "say hello"`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if q.Agent, err = agentFlag(agent); err != nil {
				return err
			}
			id, err := events.ParseChannelID(channel)
			if err != nil {
				return usageError{err}
			}
			if _, err := events.ParseULID[events.ConversationID](q.Conversation); err != nil && q.Conversation != "" {
				return usageError{fmt.Errorf("--conversation: %w", err)}
			}
			if q.Sender == "" {
				who, err := a.talker()
				if err != nil {
					return err
				}
				q.Sender = string(who)
			}
			return a.roundBegin(cmd.Context(), id, q)
		},
	}
	f := cmd.Flags()
	f.StringVar(&agent, "agent", "", "the agent")
	f.StringVar(&channel, "channel", string(terminalChannel), "the channel that brings the input")
	f.StringVar(&q.Conversation, "conversation", "", "go on with this conversation instead of opening a new one")
	f.StringVar(&q.Sender, "sender", "", "who is talking, as the channel names them (default: you)")
	f.StringVar(&q.Profile, "profile", "", "a session profile within what the sender may have")
	f.StringVar(&q.Task, "task", "", "what the round is for")
	f.StringVar(&q.Model, "model", "", "the model, as claimed")
	f.BoolVar(&q.Fresh, "fresh", false, "declare the new conversation free of what came before")
	a.completeFlag(cmd, "agent", agentsOf)
	a.completeFlag(cmd, "channel", channelsOf)
	a.completeFlag(cmd, "profile", profilesOf)
	return cmd
}

// talker is the acting person, who needs no key to talk where --as names them.
func (a *App) talker() (events.PersonID, error) {
	if a.flags.as != "" {
		who, err := events.ParsePersonID(a.flags.as)
		if err != nil {
			return "", usageError{err}
		}
		return who, nil
	}
	if _, err := a.folder(); err != nil {
		return "", err // where there is no data folder nobody has keys yet
	}
	who, _, err := a.person()
	if err != nil {
		return "", fmt.Errorf("who is talking? %w; or say it with --sender", err)
	}
	return who, nil
}

func agentFlag(s string) (events.AgentID, error) {
	if s == "" {
		return "", usageError{errors.New("--agent is missing")}
	}
	id, err := events.ParseAgentID(s)
	if err != nil {
		return "", usageError{err}
	}
	return id, nil
}

// roundBegin asks with the handle of an agent's file, or with a new one that is in
// the file before it is used: after a lost answer the next begin finds it.
func (a *App) roundBegin(ctx context.Context, channel events.ChannelID, q roundBegin) error {
	dir, err := a.folder()
	if err != nil {
		return err
	}
	c, err := a.channel(channel)
	if err != nil {
		return err
	}
	defer c.close()
	fmt.Fprintf(a.Err, "gatebook: using the key of channel %s\n", channel)
	was, err := readRound(dir, q.Agent)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case was.Channel == "" && was.Round == "":
		return fmt.Errorf("agent %s waits here for a round that the engine begins, or such a wait was broken off: %s goes on with it; to give it up delete %s",
			q.Agent, a.command("round accept --agent "+string(q.Agent)), roundPath(dir, q.Agent))
	case was.Channel == "":
		return fmt.Errorf("agent %s has a round here that the engine began: %s", q.Agent, a.endHint(q.Agent))
	case was.Channel != channel:
		return fmt.Errorf("agent %s has a round here that channel %s began: %s", q.Agent, was.Channel, a.endHint(q.Agent))
	default:
		answer, err := askBegin(ctx, c, was, q)
		var no *problem
		switch {
		case err == nil && answer.End == "":
			return a.goOn(dir, q, was, answer)
		case errors.As(err, &no) && no.Code == string(policy.CodeConflict):
			if no.Round != "" {
				return a.begunOtherwise(dir, q.Agent, was, no.Round)
			} // else its round has ended, so it is in nobody's way
		case err != nil:
			return a.beginProblem(q.Agent, err)
		}
	}
	now, err := newRound(channel, a.Random)
	if err == nil {
		err = now.write(dir, q.Agent)
	}
	if err != nil {
		return err
	}
	answer, err := askBegin(ctx, c, now, q)
	var no *problem
	if errors.As(err, &no) { // this handle began nothing
		err = errors.Join(a.beginProblem(q.Agent, err), os.Remove(roundPath(dir, q.Agent)))
	}
	if err != nil {
		return err
	}
	return a.begun(dir, q, now, answer)
}

func askBegin(ctx context.Context, c *client, r roundFile, q roundBegin) (engine.RoundAnswer, error) {
	q.HandleHash = r.hash()
	var answer engine.RoundAnswer
	err := c.ask(ctx, "round.begin", q, &answer)
	return answer, err
}

// goOn follows an answer to the handle of a file: its round is open. Where the
// file knew that, nothing was begun.
func (a *App) goOn(dir *datadir.Dir, q roundBegin, was roundFile, answer engine.RoundAnswer) error {
	if answer.Repeated && was.Round != "" {
		return a.hasOpenRound(q.Agent, answer.Round)
	}
	return a.begun(dir, q, was, answer)
}

// begunOtherwise keeps the round that the handle of a file began with other
// options: the file may not know it yet.
func (a *App) begunOtherwise(dir *datadir.Dir, agent events.AgentID, was roundFile, round events.RoundID) error {
	was.Round = round
	if err := was.write(dir, agent); err != nil {
		return err
	}
	return a.hasOpenRound(agent, round)
}

func (a *App) hasOpenRound(agent events.AgentID, round events.RoundID) error {
	return &problem{engine.Problem{
		Code: string(policy.CodeRoundOpen), Round: round,
		Reason: fmt.Sprintf("agent %s has the open round %s here; end it first: %s", agent, round, a.endHint(agent)),
	}}
}

func (a *App) endHint(agent events.AgentID) string {
	return a.command("round end --agent " + string(agent))
}

// beginProblem says how to go on where the conversation has an open round. It is
// not the one of the agent's file, or the engine would have known the handle.
func (a *App) beginProblem(agent events.AgentID, err error) error {
	var no *problem
	if errors.As(err, &no) && no.Round != "" {
		return fmt.Errorf("%w\nits handle is not here, so it cannot be ended from here: %s", err, a.withoutHandle(agent))
	}
	return err
}

// withoutHandle says what happens to a round whose handle nobody here has.
func (a *App) withoutHandle(agent events.AgentID) string {
	return "a round whose handle is lost ends by itself after limits.round_timeout without a call, or when an operator releases the agent for good\n" +
		"a new conversation can begin now, without --conversation: " + a.command("round begin --agent "+string(agent))
}

func (a *App) begun(dir *datadir.Dir, q roundBegin, r roundFile, answer engine.RoundAnswer) error {
	r.Round, r.Conversation = answer.Round, answer.Conversation
	if err := r.write(dir, q.Agent); err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(answer)
	}
	fmt.Fprintf(a.Out, "round %s of conversation %s began; %s is talking (%s), profile %s\n",
		answer.Round, answer.Conversation, answer.Principal, answer.Kind, cmp.Or(answer.Profile, "(the agent's longtime one)"))
	switch {
	case q.Profile != "" && q.Profile != answer.Profile:
		fmt.Fprintf(a.Err, "gatebook: the profile %s is not given to %s here\n", events.Quote(q.Profile), events.Quote(q.Sender))
	case q.Profile == "" && answer.Profile == policy.NoProfile:
		fmt.Fprintf(a.Err, "gatebook: every call will be refused: channel %s gives no profile to %s\n", r.Channel, events.Quote(q.Sender))
	}
	return nil
}

// roundEnd is the request of channel.<id>.round.end.
type roundEnd struct {
	Round      events.RoundID  `json:"round"`
	HandleHash events.Digest   `json:"handle_hash"`
	End        events.RoundEnd `json:"end"`
	Reason     string          `json:"reason,omitzero"`
}

func (a *App) roundEndCommand() *cobra.Command {
	var agent, end, reason string
	cmd := &cobra.Command{
		Use:   "end --agent ID",
		Short: "End the round that was begun here",
		Long: `End the round of an agent that round begin began, with the key of its channel,
or that round accept got, with the key of the agent.

  gatebook round end --agent alice --end failed --reason "gave up"`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := agentFlag(agent)
			if err != nil {
				return err
			}
			switch events.RoundEnd(end) {
			case events.RoundCompleted, events.RoundFailed, events.RoundCancelled:
			default:
				return usageError{fmt.Errorf("--end %s: want completed, failed or cancelled", events.Quote(end))}
			}
			return a.roundEnd(cmd.Context(), id, roundEnd{End: events.RoundEnd(end), Reason: reason})
		},
	}
	f := cmd.Flags()
	f.StringVar(&agent, "agent", "", "the agent")
	f.StringVar(&end, "end", string(events.RoundCompleted), "how it ended: completed, failed or cancelled")
	f.StringVar(&reason, "reason", "", "why, for the book")
	a.completeFlag(cmd, "agent", agentsOf)
	return cmd
}

func (a *App) roundEnd(ctx context.Context, agent events.AgentID, q roundEnd) error {
	dir, err := a.folder()
	if err != nil {
		return err
	}
	if path := roundPath(dir, agent); !exists(path) {
		return fmt.Errorf("agent %s has no round here: there is no file %s, which would hold its handle\n%s", agent, path, a.withoutHandle(agent))
	}
	r, err := a.openRound(dir, agent)
	if err != nil {
		return err
	}
	c, err := a.beganBy(agent, r)
	if err != nil {
		return err
	}
	defer c.close()
	q.Round, q.HandleHash = r.Round, r.hash()
	var answer engine.RoundAnswer
	err = c.ask(ctx, "round.end", q, &answer)
	var no *problem
	if errors.As(err, &no) && (no.Code == "round_ended" || no.Code == "no_round") {
		return errors.Join(err, os.Remove(roundPath(dir, agent))) // the handle is of no more use
	}
	if err == nil {
		err = os.Remove(roundPath(dir, agent))
	}
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(answer)
	}
	if r.Channel == "" { // only the engine goes on with such a conversation
		fmt.Fprintf(a.Out, "round %s ended: %s\n", answer.Round, answer.End)
		return nil
	}
	fmt.Fprintf(a.Out, "round %s ended: %s; go on with --conversation %s\n", answer.Round, answer.End, answer.Conversation)
	return nil
}

// beganBy connects as who may end a round: its channel, or the agent where the engine
// began it.
func (a *App) beganBy(agent events.AgentID, r roundFile) (*client, error) {
	if r.Channel == "" {
		fmt.Fprintf(a.Err, "gatebook: using the key of agent %s\n", agent)
		return a.agent(agent)
	}
	fmt.Fprintf(a.Err, "gatebook: using the key of channel %s\n", r.Channel)
	return a.channel(r.Channel)
}

func (a *App) roundListCommand() *cobra.Command {
	var q people.ListRequest
	var agent string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List rounds, newest first",
		Long: `List the rounds of the agents that you may observe, newest first.

  gatebook round list --agent alice --open`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := noneEmpty(cmd); err != nil {
				return usageError{err}
			}
			if agent != "" {
				var err error
				if q.Agent, err = agentFlag(agent); err != nil {
					return err
				}
			}
			if q.Limit < 1 {
				return usageError{fmt.Errorf("--limit %d: want at least 1", q.Limit)}
			}
			c, err := a.reader("view")
			if err != nil {
				return err
			}
			defer c.close()
			var page people.RoundsAnswer
			if err := c.ask(cmd.Context(), "rounds", q, &page); err != nil {
				return err
			}
			if len(page.Rounds) == 0 {
				a.sayNone(cmd.Context(), c, "rounds", q.Agent)
			}
			return a.printRounds(page)
		},
	}
	f := cmd.Flags()
	f.StringVar(&agent, "agent", "", "only this agent's")
	f.BoolVar(&q.Open, "open", false, "only open ones")
	f.IntVar(&q.Limit, "limit", 50, "how many, at most 200")
	f.Uint64Var((*uint64)(&q.Before), "before", 0, "older than this event: the next page")
	a.completeFlag(cmd, "agent", agentsOf)
	return cmd
}

func (a *App) printRounds(page people.RoundsAnswer) error {
	if a.flags.json {
		return a.printJSON(page)
	}
	var rows [][]string
	for _, r := range page.Rounds {
		end := string(r.End)
		if end == "" {
			end = "open"
		}
		rows = append(rows, []string{
			string(r.Round), string(r.Agent), string(r.Conversation), r.Principal, orDash(r.Profile),
			a.when(r.Begun), fmt.Sprint(r.Steps), end, clip(r.Task, 40),
		})
	}
	err := a.table([]string{"ROUND", "AGENT", "CONVERSATION", "PRINCIPAL", "PROFILE", "BEGUN", "STEPS", "END", "TASK"}, rows)
	if err == nil && page.Next != 0 {
		fmt.Fprintf(a.Out, "more: --before %d\n", page.Next)
	}
	return err
}
