package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	of    map[events.AgentID]share
}

// share is what of it is one agent's.
type share struct{ calls, bytes int }

func newWaitingCalls() waitingCalls {
	return waitingCalls{calls: map[events.CallID]*Call{}, of: map[events.AgentID]share{}}
}

func (w *waitingCalls) add(k *Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[k.Request.Call] = k
	w.count(k, 1)
}

// count changes the sums by a call; the mutex is the caller's.
func (w *waitingCalls) count(k *Call, n int) {
	w.bytes += n * len(k.Request.Args)
	mine := w.of[k.Request.Agent]
	mine.calls, mine.bytes = mine.calls+n, mine.bytes+n*len(k.Request.Args)
	if w.of[k.Request.Agent] = mine; mine.calls == 0 {
		delete(w.of, k.Request.Agent)
	}
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
		w.count(k, -1)
		delete(w.calls, id)
	}
}

// full says that no more calls of the agent can be kept. Those that are decided and not
// durable yet do not count, so that a cycle may exceed a bound by what it holds.
func (w *waitingCalls) full(agent events.AgentID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := w.of[agent]
	return w.bytes >= maxWaitingBytes || len(w.calls) >= maxWaitingCalls ||
		mine.bytes >= maxWaitingBytesOfAgent || mine.calls >= maxWaitingCallsOfAgent
}

// stage keeps a call that waits for a person from now on, and says so to its caller.
func (e *Engine) stage(k *Call, d events.CallDecided, seq events.Seq) {
	answer := k.Answer
	k.Answer = nil
	e.waiting.add(k)
	answer.send(CallAnswer{
		Call: d.Call, Seq: seq, State: StateStaged, Verdict: d.Verdict, Layer: d.Layer, Rule: d.Rule, Reason: d.Reason,
	})
}

// Waiting is how many calls wait for a person. Safe for concurrent use.
func (e *Engine) Waiting() int {
	e.waiting.mu.Lock()
	defer e.waiting.mu.Unlock()
	return len(e.waiting.calls)
}

// StagedCall is what there is to see of a call that waits for a person.
type StagedCall struct {
	Arguments   jsontext.Value // canonical and whole, redacted
	Masked      bool           // something in them is masked
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
	k, _ = e.asOffered(k)
	redacted, masked, err := e.cfg.Redact.JSON(k.Request.Args)
	if err != nil {
		return StagedCall{}, fmt.Errorf("redact the arguments: %w", err)
	}
	s := StagedCall{Arguments: redacted, Masked: masked, Description: k.Tool.Definition().Description, Definition: k.Tool.Digest}
	ctx, stop := context.WithTimeoutCause(ctx, e.Catalog().Limits().ToolTime.Duration(), errToolTime)
	defer stop()
	if s.Change, err = e.preview(ctx, k); err != nil {
		s.Change = tools.Change{Text: "What it would change cannot be said: " + err.Error(), Unseen: true}
	}
	s.Change.Text, _ = e.cfg.Redact.Text(s.Change.Text)
	return s, nil
}

// preview asks the tool what the call would change; nothing of a tool that cannot say.
func (e *Engine) preview(ctx context.Context, k *Call) (change tools.Change, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the tool panicked: %v", p)
		}
	}()
	p, ok := k.Tool.Tool.(tools.Previewer)
	if !ok {
		return tools.Change{}, nil
	}
	mask := func(text string) string {
		text, _ = e.cfg.Redact.Text(text)
		return text
	}
	return p.Preview(ctx, tools.Env{Agent: k.Request.Agent, Call: k.Request.Call, Round: k.Request.Round, Mask: mask}, k.Args)
}

// DecideReview is a person's decision on a staged call.
type DecideReview struct {
	Act
	Review  events.ReviewID
	Approve bool
	// Shown is what the person says they saw; Now and Base are what there was to see
	// when they said it.
	Shown, Now, Base events.Digest
	// Document is what has the digest Now; Masked is that something in it is, and
	// AcceptMasked that the person approves what they cannot see of it.
	Document             []byte
	Masked, AcceptMasked bool
	Reason               string
	Via                  string // the surface, where it is not the person's own key

	unkept error // why the document could not be kept
}

func (d *DecideReview) decide(e *Engine, c *cycle) (plan, error) {
	row, _, err := projections.ReviewByID(c.tx, d.Review)
	if err != nil {
		return plan{}, err
	}
	act := policy.ReviewAct{By: d.By, Approves: d.Approves, Shown: d.Shown, Now: d.Now, Base: d.Base, Masked: d.Masked, AcceptMasked: d.AcceptMasked, Reason: d.Reason, Via: d.Via}
	if d.Approve {
		return d.approve(e, c, row, act)
	}
	ends, no := policy.RefuseReview(c.catalog, act, reviewFacts(row), c.now)
	if no != nil {
		return d.no("review.refuse", string(d.Review), *no), nil
	}
	return e.reviewEnd(row, d.By, d.done, ends), nil
}

// prepare keeps the document that the person saw, whose digest the approval names.
func (d *DecideReview) prepare(e *Engine) {
	if d.Approve && len(d.Document) > 0 {
		_, d.unkept = e.cfg.Blobs.Put(d.Document)
	}
}

// approve lets the call go on where the gate, asked again, allows it. The approval is
// used up either way.
func (d *DecideReview) approve(e *Engine, c *cycle, row projections.ReviewRow, act policy.ReviewAct) (plan, error) {
	k, kept := e.waiting.get(row.Call)
	var again events.CallDecided
	var facts policy.CallFacts
	redefined := false
	if kept { // else the review is not open, or was not when the loop last acted
		var err error
		k, redefined = e.asOffered(k)
		if facts, err = e.callFacts(c, k); err != nil {
			return plan{}, err
		}
		again = policy.ReleaseCall(c.catalog, k.Request, facts)
		again.Reason, _ = e.cfg.Redact.Text(again.Reason)
	}
	f := reviewFacts(row)
	f.Principal = facts.Round.Principal
	decided, no := policy.ApproveReview(c.catalog, act, f, again, c.now)
	switch {
	case no != nil:
		return d.no("review.approve", string(d.Review), *no), nil
	case d.unkept != nil:
		return plan{release: func(events.Record) { d.refuse("degraded", "what was shown cannot be kept: "+d.unkept.Error()) }}, nil
	}
	if redefined { // nobody has seen what would run
		return e.reviewEnd(row, events.Engine(), func(events.Record) {
			d.refuse(string(policy.CodeConflict), "the tool is not defined as it was when the call came; the call is cancelled")
		}, policy.CancelReview(f, policy.CancelRedefined)), nil
	}
	if kept && k.Tool.Tool == (absent{}) {
		return plan{release: func(events.Record) {
			d.refuse(string(policy.CodeConflict), "the server of the tool does not run now, so nothing was decided; gatebook doctor says how it stands with it")
		}}, nil
	}
	if len(decided) == 1 { // it takes another person
		return plan{agent: row.Agent, actor: d.By, facts: decided, release: d.done}, nil
	}
	if again.Verdict != events.Allow {
		return e.reviewEnd(row, d.By, d.done, decided), nil
	}
	return plan{
		agent: row.Agent, actor: d.By, facts: decided,
		release: func(at events.Record) {
			e.waiting.drop(row.Call)
			k.base = d.Base
			if policy.FindsPaths(k.Request.Tool) {
				k.may = alsoMay(k.Request, func(req policy.CallRequest) events.CallDecided { return policy.ReleaseCall(c.catalog, req, facts) })
			}
			e.announce(row.Agent, "released", Notice{Call: row.Call, Seq: at.Seq, Tool: row.ToolKey().String()})
			e.startTool(k, again, at.ID)
			d.done(at)
		},
	}, nil
}

// absent stands for the tool of a server that does not run yet.
type absent struct{}

func (absent) Definition() tools.Definition {
	return tools.Definition{Description: "(its server does not run now)"}
}

func (absent) Decode(jsontext.Value) (tools.Decoded, error) { return tools.Decoded{}, tools.ErrUnknown }

func (absent) Run(context.Context, tools.Env, tools.Args) (jsontext.Value, error) {
	return nil, tools.ErrUnknown
}

// asOffered is a call that waits with its tool as it is offered now, and says whether that
// is defined otherwise than when the call came.
func (e *Engine) asOffered(k *Call) (_ *Call, redefined bool) {
	now, known := e.cfg.Tools(k.Request.Tool.String())
	switch {
	case !known:
		return k, false
	case now.Digest != k.Tool.Digest:
		return k, true
	}
	c := *k // others may be looking at it
	if c.Tool.Tool == (absent{}) {
		decoded, err := now.Decode(c.Request.Args)
		if err != nil { // the same definition took them before
			return k, true
		}
		c.Args, c.Request.Paths = decoded.Args, decoded.Paths
	}
	c.Tool = now
	return &c, false
}

// reviewEnd is the plan that ends a review and with it its call, which did not run.
func (e *Engine) reviewEnd(row projections.ReviewRow, by events.Actor, then func(events.Record), ends []events.Event) plan {
	return plan{
		agent: row.Agent, actor: by, facts: ends,
		release: func(at events.Record) {
			e.waiting.drop(row.Call)
			if last, ok := ends[len(ends)-1].(events.CallCompleted); ok {
				e.announce(row.Agent, string(last.Status), Notice{Call: row.Call, Seq: at.Seq, Tool: row.ToolKey().String()})
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
	why    policy.Cancel
}

func (*endReview) intent() bool { return false }

func (*endReview) refuse(string, string) {}

func (r *endReview) decide(e *Engine, c *cycle) (plan, error) {
	row, _, err := projections.ReviewByID(c.tx, r.review)
	if err != nil {
		return plan{}, err
	}
	ends := policy.ExpireReview(reviewFacts(row), c.now)
	if r.why != "" {
		ends = policy.CancelReview(reviewFacts(row), r.why)
	}
	if len(ends) == 0 {
		return plan{}, nil
	}
	return e.reviewEnd(row, events.Engine(), nil, ends), nil
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
			e.again = append(e.again, &endReview{review: row.Review, why: policy.CancelReleased})
		}
		e.again = append(e.again, next)
	}}, nil
}

// loadWaiting reads back the calls that waited for a person when the former writer
// stopped. Those that cannot go on end; where that is not known, the start fails.
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
			if err := e.readWaiting(ctx, snap, row); err != nil {
				return fmt.Errorf("read back the call %s, which waits for a person: %w", row.Call, err)
			}
		}
		if page.Next == 0 {
			return nil
		}
	}
}

// readWaiting makes a call from the event that decided it.
func (e *Engine) readWaiting(ctx context.Context, r projections.Reader, row projections.ReviewRow) error {
	d, err := e.decidedAt(ctx, row.CallSeq)
	if err != nil {
		return err
	}
	agent, err := agentFacts(r, row.Agent)
	if err != nil {
		return err
	}
	args := jsontext.Value(d.Arguments.Text.Text)
	if d.Arguments.Truncated && !d.Arguments.Redacted {
		if args, err = e.cfg.Blobs.Get(d.Arguments.Blob); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	entry, known := e.cfg.Tools(d.Tool.String())
	_, served := e.catalog.Servers()[d.Tool.Owner]
	tool := policy.ToolFacts{Known: known, Definition: entry.Digest, Later: !known && served}
	if why := policy.ReadBack(d, !agent.Enrolled, tool, e.cfg.MAC(args) == d.Arguments.MAC); why != "" {
		e.again = append(e.again, &endReview{review: row.Review, why: why})
		return nil
	}
	var decoded tools.Decoded
	if tool.Later {
		entry = tools.Entry{Tool: absent{}, Key: d.Tool, Digest: d.Definition}
	} else if decoded, err = entry.Decode(args); err != nil { // the same definition took them before
		return err
	}
	e.waiting.add(&Call{
		Request: policy.CallRequest{
			Call: d.Call, Agent: row.Agent, Round: d.Round, Key: d.Key, Tool: d.Tool, Arguments: d.Arguments, Args: args, Paths: decoded.Paths,
		},
		Tool: entry, Known: true, Args: decoded.Args,
	})
	return nil
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
	return events.CallDecided{}, fmt.Errorf("%w: event %d decides no call", events.ErrGap, seq)
}
