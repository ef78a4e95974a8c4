package engine

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/projections"
)

// toolEnd is how a call ended; it is recorded before anybody hears of it.
type toolEnd struct {
	agent   events.AgentID
	cause   events.EventID
	done    events.CallCompleted
	verdict events.Verdict // of the call; known once this is decided
	result  jsontext.Value // unredacted, in memory only
	bare    bool           // its texts were taken away
}

// strip gives the end without what a tool wrote: what became of the call is then
// not known to anybody.
func (t *toolEnd) strip() *toolEnd {
	d := t.done
	return &toolEnd{agent: t.agent, cause: t.cause, bare: true, done: events.CallCompleted{
		Call: d.Call, Round: d.Round, Status: events.StatusUnknown, Executor: d.Executor, Duration: d.Duration,
		Reason: "the end of the call could not be recorded as it was",
	}}
}

// fail sets the status: which end an error is says its type or the reason why
// the tool's context ended.
func (t *toolEnd) fail(ctx context.Context, err error, mask func(string) (string, bool)) {
	text := func(s string) string {
		masked, _ := mask(s)
		return events.Cut(masked, maxText)
	}
	var no *tools.Refused
	why := context.Cause(ctx)
	switch d := &t.done; {
	case err == nil:
		d.Status = events.StatusOK
	case errors.As(err, &no):
		d.Status, d.Layer, d.Rule, d.Reason = events.StatusDenied, events.LayerTool, events.Cut(no.Rule, events.MaxName), text(no.Reason)
	case errors.Is(err, errStuck):
		d.Status, d.Reason = events.StatusUnknown, errStuck.Error()
	case errors.Is(why, errToolTime):
		d.Status, d.Error = events.StatusError, errToolTime.Error()
	case why != nil:
		d.Status, d.Reason = events.StatusCancelled, why.Error()
	default:
		d.Status, d.Error = events.StatusError, text(err.Error())
	}
}

func (*toolEnd) intent() bool { return false }

func (*toolEnd) refuse(string, string) {}

func (t *toolEnd) decide(e *Engine, c *cycle) (plan, error) {
	row, found, err := projections.CallByID(c.tx, t.done.Call)
	if err != nil {
		return plan{}, err
	}
	if !found || row.Status != "" { // it has its one end already
		return plan{release: func(events.Record) { e.stopped(t.done.Call) }}, nil
	}
	t.verdict = row.Verdict
	return plan{
		agent: t.agent, actor: events.Engine(), cause: t.cause, facts: []events.Event{t.done},
		release: func(at events.Record) { e.releaseEnd(t, at.Seq) },
	}, nil
}

// releaseEnd gives the result to whoever waits for it.
func (e *Engine) releaseEnd(t *toolEnd, seq events.Seq) {
	d := t.done
	e.stopped(d.Call)
	e.announce(t.agent, string(d.Status), Notice{Call: d.Call, Seq: seq})
	answer := CallAnswer{
		Call: d.Call, Seq: seq, State: StateFinal, Verdict: t.verdict, Status: d.Status,
		Layer: d.Layer, Rule: d.Rule, Reason: d.Reason, Error: d.Error,
		Size: d.Result.Size, Digest: d.Result.MAC,
	}
	if len(t.result) <= MaxAnswer-answerHead {
		answer.Result = t.result
	} else {
		answer.Preview, answer.Truncated = d.Result.Preview.Text, true
		answer.Cursor = nextPiece(d.Result)
	}
	waiters := e.waiters[d.Call]
	delete(e.waiters, d.Call)
	for _, w := range waiters {
		w.send(answer)
	}
	if len(waiters) == 0 {
		e.toInbox(t.agent, d.Call, seq)
	}
}

// cancelAgent ends an agent's running tools; their ends still come.
func (e *Engine) cancelAgent(agent events.AgentID, why error) {
	for _, r := range e.running {
		if r.agent == agent {
			r.cancel(why)
		}
	}
	e.endHeld(agent, why)
}

// cancelTools ends all running tools.
func (e *Engine) cancelTools() {
	for _, r := range e.running {
		r.cancel(errStopping)
	}
	for agent := range e.held {
		e.endHeld(agent, errStopping)
	}
}
