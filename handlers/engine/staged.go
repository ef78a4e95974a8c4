package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/policy"
	"gatebook/projections"
)

// waitingCalls are the calls that wait for a person, as they were decided: with
// arguments that are not redacted, which are nowhere else. Safe for concurrent use; the
// loop alone changes it.
type waitingCalls struct {
	mu    sync.Mutex
	calls map[events.CallID]*Call
	bytes int
}

func (w *waitingCalls) add(k *Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[k.Request.Call] = k
	w.bytes += len(k.Request.Args)
}

func (w *waitingCalls) get(id events.CallID) (*Call, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, ok := w.calls[id]
	return k, ok
}

func (w *waitingCalls) drop(id events.CallID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k, ok := w.calls[id]; ok {
		w.bytes -= len(k.Request.Args)
		delete(w.calls, id)
	}
}

func (w *waitingCalls) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes >= maxWaitingBytes || len(w.calls) >= maxWaitingCalls
}

// stage keeps a call that waits for a person from now on, and says so to its caller.
func (e *Engine) stage(k *Call, d events.CallDecided, review events.ReviewID, seq events.Seq) {
	if k.abandoned { // its caller was told that nothing would run
		e.again = append(e.again, &endReview{review: review, why: errors.New("the caller was told that nothing would run while the book did not answer")})
		return
	}
	answer := k.Answer
	k.Answer = nil
	e.waiting.add(k)
	answer.send(CallAnswer{
		Call: d.Call, Seq: seq, State: StateStaged, Verdict: d.Verdict, Layer: d.Layer, Rule: d.Rule, Reason: d.Reason,
	})
}

// StagedCall is what there is to see of a call that waits for a person.
type StagedCall struct {
	Arguments   jsontext.Value // canonical and whole, redacted
	Description string         // of the tool
	Definition  events.Digest  // of the tool
	Change      tools.Change   // its text redacted
}

// ErrNotWaiting says that no such call waits for a person.
var ErrNotWaiting = errors.New("no such call waits for a person")

// Staged shows a call that waits, and what it would change now. Safe for concurrent use.
func (e *Engine) Staged(ctx context.Context, id events.CallID) (StagedCall, error) {
	k, ok := e.waiting.get(id)
	if !ok {
		return StagedCall{}, ErrNotWaiting
	}
	redacted, _, err := e.cfg.Redact.JSON(k.Request.Args)
	if err != nil {
		return StagedCall{}, fmt.Errorf("redact the arguments: %w", err)
	}
	s := StagedCall{Arguments: redacted, Description: k.Tool.Definition().Description, Definition: k.Tool.Digest}
	if p, ok := k.Tool.Tool.(tools.Previewer); ok {
		if s.Change, err = p.Preview(ctx, tools.Env{Agent: k.Request.Agent, Call: id, Round: k.Request.Round}, k.Args); err != nil {
			s.Change = tools.Change{Text: "What it would change cannot be said: " + err.Error()}
		}
		s.Change.Text, _ = e.cfg.Redact.Text(s.Change.Text)
	}
	return s, nil
}

// DecideReview is a person's decision on a staged call.
type DecideReview struct {
	Act
	Review  events.ReviewID
	Approve bool
	// Shown is what the person says they saw; Now and Base are what there was to see
	// when they said it.
	Shown, Now, Base events.Digest
	Reason           string
}

func (d *DecideReview) decide(e *Engine, c *cycle) (plan, error) {
	row, _, err := projections.ReviewByID(c.tx, d.Review)
	if err != nil {
		return plan{}, err
	}
	act := policy.ReviewAct{By: d.By, Approves: d.Approves, Shown: d.Shown, Now: d.Now, Base: d.Base, Reason: d.Reason}
	if d.Approve {
		return d.approve(e, c, row, act)
	}
	ends, no := policy.RefuseReview(c.catalog, act, reviewFacts(row), c.now)
	if no != nil {
		return d.no("review.refuse", string(d.Review), *no), nil
	}
	return e.reviewEnd(row, d.By, d.done, ends), nil
}

// approve lets the call go on where the gate, asked again, allows it. The approval is
// used up either way.
func (d *DecideReview) approve(e *Engine, c *cycle, row projections.ReviewRow, act policy.ReviewAct) (plan, error) {
	approval, no := policy.ApproveReview(c.catalog, act, reviewFacts(row), c.now)
	if no != nil {
		return d.no("review.approve", string(d.Review), *no), nil
	}
	k, kept := e.waiting.get(row.Call)
	if !kept {
		return (&endReview{review: row.Review, why: errNotKept, then: d.Answer}).decide(e, c)
	}
	facts, err := e.callFacts(c, k)
	if err != nil {
		return plan{}, err
	}
	gate := policy.ReleaseCall(c.catalog, k.Request, facts)
	if status, final := gate.Verdict.Final(); final {
		reason, _ := e.cfg.Redact.Text(gate.Reason)
		return e.reviewEnd(row, d.By, d.done, []events.Event{approval, events.CallCompleted{
			Call: row.Call, Round: row.Round, Status: status, Layer: gate.Layer, Rule: gate.Rule, Reason: reason, Executor: events.ByEngine,
		}}), nil
	}
	return plan{
		agent: row.Agent, actor: d.By, facts: []events.Event{approval, events.CallReleased{Call: row.Call, Round: row.Round}},
		release: func(at events.Record) {
			e.waiting.drop(row.Call)
			k.base = d.Base
			if policy.FindsPaths(k.Request.Tool) {
				k.may = releasedMay(c.catalog, k.Request, facts)
			}
			e.announce(row.Agent, "released", Notice{Call: row.Call, Seq: at.Seq, Tool: row.Tool})
			e.startTool(k, gate, at.ID)
			d.done(at)
		},
	}, nil
}

// reviewEnd is the plan that ends a review and with it its call, which did not run.
func (e *Engine) reviewEnd(row projections.ReviewRow, by events.Actor, then func(events.Record), ends []events.Event) plan {
	return plan{
		agent: row.Agent, actor: by, facts: ends,
		release: func(at events.Record) {
			e.waiting.drop(row.Call)
			if last, ok := ends[len(ends)-1].(events.CallCompleted); ok {
				e.announce(row.Agent, string(last.Status), Notice{Call: row.Call, Seq: at.Seq, Tool: row.Tool})
			}
			waited := len(e.waiters[row.Call]) > 0
			e.answerEnded(row.Call)
			if !waited {
				e.toInbox(row.Agent, row.Call, at.Seq)
			}
			if then != nil {
				then(at)
			}
		},
	}
}

// endReview ends a review that nobody can decide any more: its time is over, or, with
// why, its call cannot go on.
type endReview struct {
	review events.ReviewID
	why    error
	then   Answer // who wanted to approve it
}

var (
	errNotKept   = errors.New("a secret among its arguments was not kept over a restart of the engine")
	errNoReading = errors.New("it could not be read back after a restart of the engine")
	errRedefined = errors.New("its tool has another definition than when it was decided")
)

func (*endReview) intent() bool { return false }

func (r *endReview) refuse(code, reason string) { r.then.send(refused(code, reason)) }

func (r *endReview) decide(e *Engine, c *cycle) (plan, error) {
	row, _, err := projections.ReviewByID(c.tx, r.review)
	if err != nil {
		return plan{}, err
	}
	var then func(events.Record)
	ends := policy.ExpireReview(reviewFacts(row), c.now)
	if r.why != nil {
		ends = policy.CancelReview(reviewFacts(row), r.why.Error())
		then = func(events.Record) {
			r.refuse(string(policy.CodeReviewDecided), "the call cannot go on: "+r.why.Error())
		}
	}
	if len(ends) == 0 {
		return plan{}, nil
	}
	return e.reviewEnd(row, events.Engine(), then, ends), nil
}

// endReviews ends what waits of a released agent, each by its own events of a later
// cycle.
type endReviews struct {
	agent events.AgentID
	after events.Seq
}

func (endReviews) intent() bool { return false }

func (endReviews) refuse(string, string) {}

func (r endReviews) decide(e *Engine, c *cycle) (plan, error) {
	page, err := projections.Reviews(c.tx, projections.ReviewFilter{Agent: r.agent, OpenOnly: true, Ascending: true, After: r.after, Limit: 1})
	if err != nil || len(page.Rows) == 0 && page.Next == 0 {
		return plan{}, err
	}
	next := endReviews{r.agent, page.Next}
	return plan{release: func(events.Record) {
		for _, row := range page.Rows {
			next.after = row.Seq
			e.again = append(e.again, &endReview{review: row.Review, why: errGone})
		}
		e.again = append(e.again, next)
	}}, nil
}

// loadWaiting reads back the calls that waited for a person when the former writer
// stopped. Those that cannot go on end.
func (e *Engine) loadWaiting(ctx context.Context) error {
	snap := e.cfg.Store.Snapshot()
	defer snap.Close()
	for after := events.Seq(0); ; {
		page, err := projections.Reviews(snap, projections.ReviewFilter{OpenOnly: true, Ascending: true, After: after})
		if err != nil {
			return err
		}
		for _, row := range page.Rows {
			after = row.Seq
			agent, _, err := projections.AgentByID(snap, row.Agent)
			if err != nil {
				return err
			}
			k, err := e.readWaiting(ctx, row)
			if err == nil && agent.Released {
				err = errGone
			}
			if err != nil {
				e.again = append(e.again, &endReview{review: row.Review, why: err})
				continue
			}
			e.waiting.add(k)
		}
		if page.Next == 0 {
			return nil
		}
	}
}

// readWaiting makes a call from the event that decided it.
func (e *Engine) readWaiting(ctx context.Context, row projections.ReviewRow) (*Call, error) {
	d, err := e.decidedAt(ctx, row.CallSeq)
	if err != nil {
		return nil, errNoReading
	}
	if d.Arguments.Redacted {
		return nil, errNotKept
	}
	args := jsontext.Value(d.Arguments.Text.Text)
	if d.Arguments.Truncated {
		if args, err = e.cfg.Blobs.Get(d.Arguments.Blob); err != nil {
			return nil, errNoReading
		}
	}
	if e.cfg.MAC(args) != d.Arguments.MAC {
		return nil, errNoReading
	}
	entry, known := e.cfg.Tools(d.Tool.Name)
	if !known || entry.Digest != d.Definition {
		return nil, errRedefined
	}
	decoded, err := entry.Decode(args)
	if err != nil {
		return nil, errRedefined
	}
	return &Call{
		Request: policy.CallRequest{
			Call: d.Call, Agent: row.Agent, Round: d.Round, Key: d.Key, Tool: d.Tool, Arguments: d.Arguments, Args: args, Paths: decoded.Paths,
		},
		Tool: entry, Known: true, Args: decoded.Args,
	}, nil
}

func (e *Engine) decidedAt(ctx context.Context, seq events.Seq) (events.CallDecided, error) {
	for r, err := range e.log.Read(ctx, seq) {
		if err != nil {
			return events.CallDecided{}, err
		}
		rec, err := events.Decode(r)
		if err != nil {
			return events.CallDecided{}, err
		}
		if d, ok := rec.Event.(events.CallDecided); ok && r.Seq == seq {
			return d, nil
		}
		break
	}
	return events.CallDecided{}, events.ErrGap
}
