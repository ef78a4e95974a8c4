package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/integrity"
	"gatebook/handlers/people"
	"gatebook/handlers/replay"
	"gatebook/infra/datadir"
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
			if err = errors.Join(noneEmpty(cmd), err); err != nil {
				return usageError{err}
			}
			ctx := cmd.Context()
			if f.stopped {
				err = a.replayStopped(ctx, filter, f.speed)
			} else {
				err = a.replayRunning(ctx, filter, f.speed)
			}
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return nil // Ctrl-C
			}
			return err
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
	case f.speed < 0 || math.IsNaN(f.speed) || math.IsInf(f.speed, 0):
		errs = append(errs, errors.New("--speed: want 0 or more"))
	}
	return filter, errors.Join(errs...)
}

// maxPause is the longest wait between two lines, whatever the speed.
const maxPause = 5 * time.Second

// story prints events of which it is asked to tell, paced.
type story struct {
	app    *App
	teller *replay.Teller
	wants  func(events.Recorded) bool
	// call, where not nil, says what a call was whose decision was not told.
	call  func(context.Context, events.CallID) (step int64, tool string, found bool)
	speed float64
	last  events.Instant
	lines int
}

func (a *App) story(wants func(events.Recorded) bool, speed float64) *story {
	return &story{app: a, teller: replay.NewTeller(), wants: wants, speed: speed}
}

func (s *story) tell(ctx context.Context, record events.Record) error {
	rec, err := events.Decode(record)
	if err != nil {
		return &integrity.Damage{Seq: record.Seq, Reason: err.Error()}
	}
	wanted := s.wants(rec)
	if lacks := s.teller.Lacks(rec.Event); wanted && lacks != "" && s.call != nil && !s.app.flags.json {
		if step, tool, found := s.call(ctx, lacks); found {
			s.teller.Learn(lacks, step, tool)
		}
	}
	line := s.teller.Tell(rec)
	if !wanted {
		return nil
	}
	if err := pace(ctx, rec.Time.Sub(s.last), s.speed, s.last != 0); err != nil {
		return err
	}
	s.last = rec.Time
	s.lines++
	return s.app.tell(record, line)
}

func (a *App) tell(record events.Record, line replay.Line) error {
	if a.flags.json {
		return a.printJSONLine(people.EventDetail{Seq: record.Seq, Subject: record.Subject, Event: record.Body})
	}
	_, err := fmt.Fprintf(a.Out, "%6d  %s  %-10s  %s\n", line.Seq, a.when(line.Time), orDash(string(line.Agent)), events.Escape(line.Text))
	return err
}

// pace waits as long as it took, at that speed.
func pace(ctx context.Context, passed time.Duration, speed float64, wanted bool) error {
	if !wanted || speed == 0 || passed <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Duration(min(float64(passed)/speed, float64(maxPause))))
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
func (a *App) replayRunning(ctx context.Context, f replay.Filter, speed float64) error {
	c, err := a.reader("view")
	if errors.Is(err, errUnreachable) {
		return fmt.Errorf("%w; replay --stopped reads the folder without an engine", err)
	}
	if err != nil {
		return err
	}
	defer c.close()
	story := a.story(func(events.Recorded) bool { return true }, speed) // that the engine sends
	story.call = func(ctx context.Context, id events.CallID) (int64, string, bool) {
		var row people.CallDetail
		err := c.ask(ctx, "call", people.CallRequest{Call: id}, &row)
		return row.Step, row.Tool, err == nil
	}
	q := people.BookRequest{From: f.From, To: f.To, Agent: f.Agent, Round: f.Round, Since: f.Since, Until: f.Until}
	for {
		var piece people.BookAnswer
		if err := c.ask(ctx, "book", q, &piece); err != nil {
			return err
		}
		for _, e := range piece.Events {
			if err := story.tell(ctx, events.Record{Seq: e.Seq, Subject: e.Subject, Body: e.Event}); err != nil {
				return err
			}
		}
		if piece.Next == 0 {
			break
		}
		q.From = piece.Next
	}
	if story.lines == 0 {
		a.sayNone(ctx, c, "events", f.Agent)
	}
	return nil
}

// replayStopped reads the book of a folder that no engine runs on, and no view: what can
// be read of a damaged one is told first. The calls before the first event that is wanted
// are read too: their ends may be wanted.
func (a *App) replayStopped(ctx context.Context, f replay.Filter, speed float64) error {
	err := a.stopped(func(n *node) error {
		head, err := n.openBookAlone(ctx)
		if err != nil {
			return err
		}
		story, last := a.story(replay.NewSelector(f).Wants, speed), events.Seq(0)
		for record, err := range n.stores.book().Read(ctx, 1) {
			if err != nil {
				return fmt.Errorf("the book cannot be read behind event %d: %w", last, err)
			}
			if f.To != 0 && record.Seq > f.To {
				break
			}
			if err := story.tell(ctx, record); err != nil {
				return err
			}
			last = record.Seq
		}
		if last < head.Size && (f.To == 0 || last < f.To) {
			return &integrity.Damage{Seq: last + 1, Reason: fmt.Sprintf("the book ends at event %d; the engine has seen %d", last, head.Size)}
		}
		if story.lines == 0 {
			fmt.Fprintln(a.Err, "gatebook: no events match")
		}
		return nil
	})
	if errors.Is(err, datadir.ErrLocked) {
		return fmt.Errorf("%w; replay without --stopped asks the engine", err)
	}
	return err
}

// openBookAlone opens the book without views, and gives what it must extend.
func (n *node) openBookAlone(ctx context.Context) (head integrity.Head, err error) {
	s := &stores{dir: n.cfg.dir}
	n.stores = s
	if s.incarnation, err = s.dir.ReadIncarnation(); err != nil {
		return head, err
	}
	if s.head, err = headOf(s.dir); err != nil {
		return head, err
	}
	return s.head, s.openLog(ctx, n.bus, false)
}
