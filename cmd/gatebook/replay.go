package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/integrity"
	"gatebook/handlers/people"
	"gatebook/handlers/replay"
)

// replayFlags are the flags of replay as given.
type replayFlags struct {
	agent, round, since, until string
	from, to                   events.Seq
	speed                      float64
	stopped                    bool
}

func (a *App) replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Tell what happened, event by event, from the book itself",
		Long: `Read the book itself, not the views, and tell it as a story: who was talking, what
was asked, what the gate said and why, what ran and how it ended. Of a running
engine you see the agents that you may observe; with --stopped, on a folder that no
engine runs on, everything. --speed paces it as it was, 1 as fast as it happened, 60
a minute in a second. With --json each line is an event as it is stored.

  gatebook replay --agent alice --since "2h ago"`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := a.replayFilter(f)
			if err != nil {
				return usageError{err}
			}
			if f.stopped {
				return a.replayStopped(cmd.Context(), filter, a.teller(cmd.Context(), replay.NewSelector(filter).Wants, f.speed))
			}
			all := func(events.Recorded) bool { return true } // that the engine sends
			return a.replayRunning(cmd.Context(), filter, a.teller(cmd.Context(), all, f.speed))
		},
	}
	g := cmd.Flags()
	g.StringVar(&f.agent, "agent", "", "only this agent's")
	g.StringVar(&f.round, "round", "", "only this round's")
	g.StringVar(&f.since, "since", "", "of this time or later")
	g.StringVar(&f.until, "until", "", "before this time")
	g.Uint64Var((*uint64)(&f.from), "from-seq", 0, "from this event on")
	g.Uint64Var((*uint64)(&f.to), "to-seq", 0, "up to this event")
	g.Float64Var(&f.speed, "speed", 0, "how much faster than it happened; 0 as fast as it can be read")
	g.BoolVar(&f.stopped, "stopped", false, "read the folder of an engine that does not run")
	a.completeFlag(cmd, "agent", agentsOf)
	return cmd
}

func (a *App) replayFilter(f replayFlags) (replay.Filter, error) {
	filter := replay.Filter{Agent: events.AgentID(f.agent), Round: events.RoundID(f.round), From: f.from, To: f.to}
	var errs []error
	var err error
	if f.agent != "" {
		_, err = events.ParseAgentID(f.agent)
		errs = append(errs, err)
	}
	if f.round != "" {
		_, err = events.ParseULID[events.RoundID](f.round)
		errs = append(errs, err)
	}
	filter.Since, err = a.moment("since", f.since)
	errs = append(errs, err)
	filter.Until, err = a.moment("until", f.until)
	errs = append(errs, err)
	switch {
	case filter.Since != 0 && filter.Until != 0 && filter.Since >= filter.Until:
		errs = append(errs, errors.New("--since is not before --until: nothing can lie between"))
	case f.to != 0 && f.from > f.to:
		errs = append(errs, errors.New("--from-seq is behind --to-seq: nothing can lie between"))
	case f.speed < 0:
		errs = append(errs, errors.New("--speed: want 0 or more"))
	}
	return filter, errors.Join(errs...)
}

// maxPause is the longest wait between two lines, whatever the speed.
const maxPause = 5 * time.Second

// teller prints the events that are wanted, paced.
func (a *App) teller(ctx context.Context, wants func(events.Recorded) bool, speed float64) func(events.Record) error {
	teller := replay.NewTeller()
	var last events.Instant
	return func(record events.Record) error {
		rec, err := events.Decode(record)
		if err != nil {
			return &integrity.Damage{Seq: record.Seq, Reason: err.Error()}
		}
		line := teller.Tell(rec)
		if !wants(rec) {
			return nil
		}
		if err := pace(ctx, rec.Time.Sub(last), speed, last != 0); err != nil {
			return err
		}
		last = rec.Time
		if a.flags.json {
			raw, err := json.Marshal(people.EventDetail{Seq: record.Seq, Subject: record.Subject, Event: record.Body})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Out, "%s\n", raw)
			return err
		}
		_, err = fmt.Fprintf(a.Out, "%6d  %s  %-10s  %s\n", line.Seq, a.when(line.Time), orDash(string(line.Agent)), events.Escape(line.Text))
		return err
	}
}

// pace waits as long as it took, at that speed.
func pace(ctx context.Context, passed time.Duration, speed float64, wanted bool) error {
	if !wanted || speed == 0 || passed <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(min(time.Duration(float64(passed)/speed), maxPause))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// replayRunning asks the engine for one piece of the book after the other, as it is
// when the last one comes.
func (a *App) replayRunning(ctx context.Context, f replay.Filter, tell func(events.Record) error) error {
	c, err := a.reader("view")
	if err != nil {
		return err
	}
	defer c.close()
	q := people.BookRequest{From: f.From, To: f.To, Agent: f.Agent, Round: f.Round, Since: f.Since, Until: f.Until}
	told := 0
	for {
		var piece people.BookAnswer
		if err := c.ask(ctx, "book", q, &piece); err != nil {
			return err
		}
		for _, e := range piece.Events {
			told++
			if err := tell(events.Record{Seq: e.Seq, Subject: e.Subject, Body: e.Event}); err != nil {
				return err
			}
		}
		if piece.Next == 0 {
			break
		}
		q.From = piece.Next
	}
	if told == 0 && !a.flags.json {
		a.sayNone(ctx, c, "events", f.Agent)
	}
	return nil
}

// replayStopped reads the book of a folder that no engine runs on, and no view: what can
// be read of a damaged one is told first. The calls before the first event that is wanted
// are read too: their ends may be wanted.
func (a *App) replayStopped(ctx context.Context, f replay.Filter, tell func(events.Record) error) error {
	return a.stopped(func(n *node) error {
		var err error
		n.stores = &stores{dir: n.cfg.dir}
		s := n.stores
		if s.incarnation, err = s.dir.ReadIncarnation(); err != nil {
			return err
		}
		if s.head, err = headOf(s.dir); err != nil {
			return err
		}
		if err := s.openLog(ctx, n.bus, false); err != nil {
			return err
		}
		last := events.Seq(0)
		for record, err := range s.book().Read(ctx, 1) {
			if err != nil {
				return fmt.Errorf("the book cannot be read behind event %d: %w", last, err)
			}
			if f.To != 0 && record.Seq > f.To {
				return nil
			}
			if err := tell(record); err != nil {
				return err
			}
			last = record.Seq
		}
		if last < s.head.Size {
			return &integrity.Damage{Seq: last + 1, Reason: fmt.Sprintf("the book ends at event %d; the engine has seen %d", last, s.head.Size)}
		}
		return nil
	})
}
