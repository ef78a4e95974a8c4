package jetlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gatebook/events"

	"github.com/nats-io/nats.go"
)

// Append is events.Log's. Decisions of one record each, at most
// events.MaxSingles of them, go as pipelined singles, everything else as atomic
// batches of whole decisions, one after the other.
//
// An append is in doubt after Config.Timeout without all answers.
func (l *Log) Append(ctx context.Context, after events.Seq, decisions [][]events.Record) error {
	groups, err := plan(decisions, l.nc.MaxPayload())
	if err != nil {
		return &events.AppendError{Outcome: events.None, Err: err}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout, events.ErrUnavailable)
	defer cancel()
	stored := 0
	for _, g := range groups {
		r := l.send(ctx, after+events.Seq(stored), g)
		stored += r.stored
		switch {
		case r.inDoubt:
			return &events.AppendError{Outcome: events.InDoubt, Err: r.err}
		case r.err != nil && stored > 0:
			return &events.AppendError{Outcome: events.Prefix, Stored: stored, Err: r.err}
		case r.err != nil:
			return &events.AppendError{Outcome: events.None, Err: r.err}
		}
	}
	return nil
}

// result is what became of a group. Where it is in doubt, stored says nothing.
type result struct {
	stored  int
	inDoubt bool
	err     error
}

func doubt(err error) result { return result{inDoubt: true, err: err} }

func (l *Log) send(ctx context.Context, after events.Seq, g group) result {
	if ctx.Err() != nil {
		return result{err: fmt.Errorf("nothing sent: %w", context.Cause(ctx))}
	}
	if !l.nc.IsConnected() {
		return result{err: fmt.Errorf("%w: the connection is %s", events.ErrUnavailable, l.nc.Status())}
	}
	first := l.token + 1
	if r := l.publish(after, &g); r.err != nil {
		return r
	}
	answers := l.await(ctx, first, g.answers())
	if g.atomic {
		return judgeBatch(context.Cause(ctx), answers, after, len(g.records))
	}
	return judgeSingles(context.Cause(ctx), answers, after)
}

// publish sends the messages of g but those that were sent ahead. Its result says
// nothing where all left.
func (l *Log) publish(after events.Seq, g *group) result {
	l.ahead.mu.Lock()
	defer l.ahead.mu.Unlock()
	var id string
	if id, g.sent = l.take(after, *g); id == "" {
		id = l.id(strconv.FormatUint(l.token+1, 36))
	}
	for i, m := range g.messages(id, after, l.reply) {
		if err := l.nc.PublishMsg(m); err != nil {
			err = fmt.Errorf("%w: %w", events.ErrUnavailable, err)
			if i == 0 && unsent(err) {
				return result{err: err}
			}
			return doubt(err)
		}
	}
	return result{}
}

// unsent tells whether a message that failed with err cannot have left.
func unsent(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrConnectionDraining) ||
		errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject)
}

func (l *Log) reply() string {
	l.token++
	return l.inbox + "." + strconv.FormatUint(l.token, 36)
}

// id names a group by what no other of this Log is named. The inbox is unique, so
// the id is.
func (l *Log) id(name string) string {
	return l.inbox[strings.LastIndexByte(l.inbox, '.')+1:] + "-" + name
}

// await collects n answers, by the order of their messages, until ctx ends. Those
// that did not come have no answer. Late ones of former appends are dropped.
func (l *Log) await(ctx context.Context, first uint64, n int) []answer {
	answers := make([]answer, n)
	for missing := n; missing > 0; {
		select {
		case <-ctx.Done():
			return answers
		case msg := <-l.answers:
			token, err := strconv.ParseUint(msg.Subject[len(l.inbox)+1:], 36, 64)
			// A former append's token is smaller, and the difference wraps round.
			if at := token - first; err == nil && at < uint64(n) && !answers[at].came {
				answers[at] = l.readAnswer(msg)
				missing--
			}
		}
	}
	return answers
}
