package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/tools"
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
		e.again = append(e.again, &toolEnd{agent: k.Request.Agent, cause: cause, done: events.CallCompleted{
			Call: d.Call, Round: d.Round, Status: events.StatusCancelled, Executor: events.ByEngine,
			Reason: "the caller was told that nothing would run while the book did not answer",
		}})
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	e.running[d.Call] = &run{agent: k.Request.Agent, cancel: cancel}
	env := tools.Env{Agent: k.Request.Agent, Call: d.Call, Round: d.Round, Now: e.time.base}
	limit := e.catalog.Limits().ToolTime.Duration()
	go func() {
		defer cancel(nil)
		ctx, stop := context.WithTimeoutCause(ctx, limit, errToolTime)
		defer stop()
		began := e.cfg.Clock.Elapsed()
		result, err := await(ctx, k, env)
		end := &toolEnd{agent: env.Agent, cause: cause, done: events.CallCompleted{
			Call: d.Call, Round: d.Round, Executor: events.ByEngine,
			Duration: events.MicrosOf(e.cfg.Clock.Elapsed() - began),
		}}
		if err == nil {
			err = e.keepResult(end, result)
		}
		end.fail(ctx, err)
		e.ended <- end
	}()
}

// await runs the tool and gives it a little time after its context ended.
func await(ctx context.Context, k *Call, env tools.Env) (jsontext.Value, error) {
	type returned struct {
		value jsontext.Value
		err   error
	}
	back := make(chan returned, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				back <- returned{err: fmt.Errorf("the tool panicked: %v", p)}
			}
		}()
		v, err := k.Tool.Run(ctx, env, k.Args)
		back <- returned{v, err}
	}()
	select {
	case r := <-back:
		return r.value, r.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(toolGrace)
	defer grace.Stop()
	select {
	case r := <-back:
		return r.value, r.err
	case <-grace.C:
		return nil, errStuck
	}
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
	preview := cut(string(redacted), events.MaxPreview)
	r.Preview = events.Plain(preview)
	if r.Truncated = len(preview) < len(redacted); r.Truncated {
		if r.Blob, err = e.cfg.Blobs.Put(redacted); err != nil {
			r.Blob = "" // the call's end matters more than its text
		}
	}
	end.result = result
	return nil
}
