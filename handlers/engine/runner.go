package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/projections"
)

var (
	errToolTime = errors.New("the tool's time limit was reached")
	errStopping = errors.New("the engine stopped")
	errGone     = errors.New("the agent was released")
	// errStuck: the tool did not end with its context; what it did is unknown.
	errStuck = errors.New("the tool did not stop in time")
)

// run is one running tool.
type run struct {
	agent  events.AgentID
	cancel context.CancelCauseFunc
}

// startTool runs an allowed call outside the loop; its end comes back as a
// command.
func (e *Engine) startTool(k *Call, d events.CallDecided, cause events.EventID) {
	if k.abandoned {
		e.endUnstarted(heldCall{k, d, cause}, "the caller was told that nothing would run while the book did not answer")
		return
	}
	if e.cancelled {
		e.endUnstarted(heldCall{k, d, cause}, errStopping.Error())
		return
	}
	h, agent := heldCall{k, d, cause}, k.Request.Agent
	switch {
	case e.busy[agent] < e.catalog.Limits().RunningTools && len(e.held[agent]) == 0:
		e.runHeld(h)
	case len(e.held[agent]) < maxHeldCalls:
		e.held[agent] = append(e.held[agent], h)
	default:
		e.endUnstarted(h, "too many calls of this agent wait for a place to run; ask again when some have ended")
	}
}

// runHeld runs a call that has a place.
func (e *Engine) runHeld(h heldCall) {
	k, d, cause := h.call, h.decided, h.cause
	limits := e.catalog.Limits()
	ctx, cancel := context.WithCancelCause(context.Background())
	e.running[d.Call] = &run{agent: k.Request.Agent, cancel: cancel}
	e.busy[k.Request.Agent]++
	end := &toolEnd{agent: k.Request.Agent, cause: cause, done: events.CallCompleted{
		Call: d.Call, Round: d.Round, Executor: events.ByEngine,
	}}
	env := tools.Env{Agent: k.Request.Agent, Call: d.Call, Round: d.Round, Cause: cause, Now: e.time.Last(), May: k.may, CreateOnly: d.Facts.CreateOnly, Base: k.base}
	e.runTool(ctx, cancel, limits.ToolTime.Duration(), k, env, end)
}

// runTool runs the tool in a goroutine of its own and hands its end to the loop:
// when it returns, or a little after its context ended.
func (e *Engine) runTool(ctx context.Context, cancel context.CancelCauseFunc, limit time.Duration, k *Call, env tools.Env, end *toolEnd) {
	ctx, stop := context.WithTimeoutCause(ctx, limit, errToolTime)
	began, returned := e.cfg.Clock.Wall(), make(chan struct{})
	var once sync.Once
	finish := func(result jsontext.Value, err error) {
		defer e.tools.Done()
		end.done.Duration = events.MicrosOf(max(0, e.cfg.Clock.Wall().Sub(began)))
		if err == nil {
			err = e.keepResult(end, result)
		}
		end.fail(ctx, err, e.cfg.Redact.Text)
		select {
		case e.ended <- end:
		case <-e.done: // the next start ends the call as unknown
		}
		stop()
		cancel(nil)
	}
	e.tools.Add(1)
	forget := context.AfterFunc(ctx, func() {
		grace := time.NewTimer(toolGrace)
		defer grace.Stop()
		select {
		case <-returned:
		case <-grace.C: // it may return some day, and nobody waits for that
			once.Do(func() { finish(nil, errStuck) })
		}
	})
	go func() {
		result, err := guarded(ctx, k, env)
		forget()
		close(returned)
		once.Do(func() { finish(result, err) })
	}()
}

// guarded makes an error of a tool's panic.
func guarded(ctx context.Context, k *Call, env tools.Env) (result jsontext.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, fmt.Errorf("the tool panicked: %v", p)
		}
	}()
	return k.Tool.Run(ctx, env, k.Args)
}

// heldCall is an allowed call whose agent has as many tools running as it may.
type heldCall struct {
	call    *Call
	decided events.CallDecided
	cause   events.EventID
}

// endUnstarted ends an allowed call that never began.
func (e *Engine) endUnstarted(h heldCall, why string) {
	e.again = append(e.again, &toolEnd{agent: h.call.Request.Agent, cause: h.cause, done: events.CallCompleted{
		Call: h.decided.Call, Round: h.decided.Round, Status: events.StatusCancelled, Executor: events.ByEngine, Reason: why,
	}})
}

// stopped frees the place of a tool that ended, for the next of its agent.
func (e *Engine) stopped(call events.CallID) {
	r, ran := e.running[call]
	if !ran {
		return
	}
	delete(e.running, call)
	if e.busy[r.agent]--; e.busy[r.agent] == 0 {
		delete(e.busy, r.agent)
	}
	for next := e.held[r.agent]; len(next) > 0 && e.busy[r.agent] < e.catalog.Limits().RunningTools; next = e.held[r.agent] {
		if e.held[r.agent] = next[1:]; len(next) == 1 {
			delete(e.held, r.agent)
		}
		e.runHeld(next[0])
	}
}

// endHeld ends the calls of an agent that wait for a place.
func (e *Engine) endHeld(agent events.AgentID, why error) {
	for _, h := range e.held[agent] {
		e.endUnstarted(h, why.Error())
	}
	delete(e.held, agent)
}

// keepResult fills in what the book keeps of a result, before the outcome
// enters the loop.
func (e *Engine) keepResult(end *toolEnd, result jsontext.Value) error {
	kept := result.Clone()
	if err := kept.Canonicalize(); err != nil {
		return errors.New("the tool's result is not JSON")
	}
	redacted, changed, err := e.cfg.Redact.JSON(kept)
	if err != nil {
		return errors.New("the tool's result could not be redacted and is withheld")
	}
	r := &end.done.Result
	r.Size, r.MAC, r.Redacted = int64(len(kept)), e.cfg.MAC(kept), changed
	preview := events.Cut(string(redacted), events.MaxPreview)
	r.Preview = events.Plain(preview)
	if r.Truncated = len(preview) < len(redacted); r.Truncated {
		if r.Blob, err = e.cfg.Blobs.Put(redacted); err != nil {
			r.Blob = "" // the call's end matters more than its text
		}
	}
	end.result = result
	return nil
}

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
	case errors.Is(err, tools.ErrUnknown):
		d.Status, d.Reason = events.StatusUnknown, text(err.Error())
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
