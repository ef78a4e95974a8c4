package engine

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/policy"
	"gatebook/policy/paths"
	"gatebook/projections"
)

// Call is one tool call as the intake prepared it.
type Call struct {
	Request policy.CallRequest // Call is given by the loop
	Tool    tools.Entry        // zero where the tool is not known
	Known   bool
	Args    tools.Args
	Trace   string
	Answer  Answer // nil where the caller gave no reply subject
	// Settled, where not nil, hears once whether the call's arguments are named by
	// an allowed call of the book.
	Settled func(kept bool)

	// may is tools.Env's, of the decision as it was.
	may func(paths.Path) error

	// base is what a person who approved the call saw that it would change.
	base events.Digest

	unkept error // why the definition of its tool could not be kept

	abandoned bool // answered "degraded" while its append was in doubt
}

func (*Call) intent() bool { return true }

// prepare keeps the definition of a tool that is not built in and not on record, so that
// the asset which the call may put on record can be shown.
func (k *Call) prepare(e *Engine) {
	if !k.Known || k.Tool.Key.Owner == events.OwnerBuiltin {
		return
	}
	snap := e.cfg.Store.Snapshot()
	defer snap.Close()
	if f, err := assetFacts(snap, events.AssetTool, k.Tool.Key, k.Tool.Digest); err != nil || f.Asset == "" {
		_, k.unkept = e.cfg.Blobs.Put(k.Tool.Document)
	}
}

func (k *Call) about() events.AgentID { return k.Request.Agent }

func (k *Call) refuse(code, reason string) {
	k.settle(false)
	k.deny(code, reason)
}

func (k *Call) settle(kept bool) {
	if k.Settled != nil {
		k.Settled(kept)
		k.Settled = nil
	}
}

// deny answers that nothing ran.
func (k *Call) deny(code, reason string) {
	k.Answer.send(CallAnswer{
		State: StateFinal, Verdict: events.Deny, Status: events.StatusDenied,
		Layer: events.LayerEngine, Rule: code, Reason: reason,
	})
}

func (k *Call) decide(e *Engine, c *cycle) (plan, error) {
	id, err := newID[events.CallID](e.ids, c.now)
	if err != nil {
		return plan{}, err
	}
	k.Request.Call = id
	secret, err := holdsHandle(c.tx, k.Request.Key)
	if err != nil {
		return plan{}, err
	}
	if secret { // nothing of it goes into the book
		k.Request.Key, k.Request.Malformed = "", &policy.Malformed{Field: "key", Reason: "holds the handle of a round"}
	}
	facts, err := e.callFacts(c, k)
	if err != nil {
		return plan{}, err
	}
	if facts.Asset.Asset == "" && k.Request.Tool.Owner != events.OwnerBuiltin {
		if facts.NewAsset, err = newID[events.AssetID](e.ids, c.now); err != nil {
			return plan{}, err
		}
	}
	d := policy.DecideCall(c.catalog, k.Request, facts)
	p := plan{agent: k.Request.Agent, actor: agentActor(k.Request.Agent), trace: k.Trace}
	if d.Replays != "" {
		p.release = func(events.Record) {
			k.settle(false)
			e.answerRecorded(d.Replays, k.Answer)
		}
		return p, nil
	}
	if policy.FindsPaths(k.Request.Tool) {
		k.may = alsoMay(k.Request, func(req policy.CallRequest) events.CallDecided {
			return policy.DecideCall(c.catalog, req, facts).Decided
		})
	}
	d.Decided.Reason, _ = e.cfg.Redact.Text(d.Decided.Reason)
	if len(d.Before) > 0 && k.unkept != nil {
		return plan{release: func(events.Record) { k.refuse("degraded", "the tool's definition cannot be kept: "+k.unkept.Error()) }}, nil
	}
	p.facts = append(d.Before, d.Decided)
	p.release = func(r events.Record) { e.releaseCall(k, d.Decided, r) }
	if d.Decided.Verdict != events.Stage {
		return p, nil
	}
	review, err := newID[events.ReviewID](e.ids, c.now)
	if err != nil {
		return plan{}, err
	}
	p.facts = append(p.facts, policy.RequestReview(c.catalog, review, d.Decided, c.now))
	p.release = func(r events.Record) { // of the request, which stands behind the decision
		e.announce(k.Request.Agent, string(events.Stage), Notice{Call: d.Decided.Call, Seq: r.Seq - 1, Tool: d.Decided.Tool.String()})
		k.settle(true)
		e.stage(k, d.Decided, r.Seq-1)
	}
	return p, nil
}

// alsoMay asks the gate about a call once more, with a path that its tool found.
func alsoMay(req policy.CallRequest, ask func(policy.CallRequest) events.CallDecided) func(paths.Path) error {
	return func(p paths.Path) error {
		req := req
		req.Paths = append(slices.Clone(req.Paths), p)
		if d := ask(req); d.Verdict != events.Allow {
			return &tools.Refused{Rule: d.Rule, Reason: d.Reason}
		}
		return nil
	}
}

// callFacts reads what the decision may see.
func (e *Engine) callFacts(c *cycle, k *Call) (policy.CallFacts, error) {
	f := policy.CallFacts{Now: c.now, Tool: policy.ToolFacts{Known: k.Known, Definition: k.Tool.Digest}}
	if k.Known {
		f.Tool.Tier = k.Tool.Tier()
	}
	agent, err := agentFacts(c.tx, k.Request.Agent)
	if err != nil {
		return f, err
	}
	f.Agent = agent
	state, err := projections.LoadState(c.tx)
	if err != nil {
		return f, err
	}
	f.PhaseSet = state.Phase
	if k.Request.Tool.Owner != events.OwnerBuiltin {
		if f.Asset, err = assetFacts(c.tx, events.AssetTool, k.Request.Tool, k.Tool.Digest); err != nil {
			return f, err
		}
	}
	round, found, err := projections.RoundByID(c.tx, k.Request.Round)
	if err != nil || !found {
		return f, err
	}
	f.Round = roundFacts(round)
	f.Round.Used = round.UsedOf(k.Request.Tool)
	if f.Round.Causes, err = causes(c.tx, round); err != nil {
		return f, err
	}
	if c.catalog.MayStage(k.Request.Tool, f.Tool.Tier) {
		f.NoRoom = e.waiting.full(k.Request.Agent)
		if f.SameStaged, err = projections.SameStaged(c.tx, k.Request.Agent, k.Request.Tool, k.Request.Arguments.MAC); err != nil {
			return f, err
		}
	}
	if k.Request.Key == "" {
		return f, nil
	}
	prior, found, err := projections.CallByKey(c.tx, k.Request.Round, k.Request.Key)
	if err != nil || !found {
		return f, err
	}
	f.Prior = policy.PriorCall{Call: prior.Call, Tool: prior.Tool, MAC: prior.MAC}
	return f, nil
}

// releaseCall starts what was allowed and answers the rest.
func (e *Engine) releaseCall(k *Call, d events.CallDecided, at events.Record) {
	seq := at.Seq
	e.announce(k.Request.Agent, string(d.Verdict), Notice{Call: d.Call, Seq: seq, Tool: d.Tool.String()})
	status, final := d.Verdict.Final()
	k.settle(!final)
	if final {
		k.Answer.send(CallAnswer{
			Call: d.Call, Seq: seq, State: StateFinal, Verdict: d.Verdict, Status: status,
			Layer: d.Layer, Rule: d.Rule, Reason: d.Reason,
		})
		if k.Answer == nil {
			e.toInbox(k.Request.Agent, d.Call, seq)
		}
		return
	}
	e.wait(d.Call, k.Answer)
	e.startTool(k, d, at.ID)
}

// Outcome asks for a call that its agent did not wait for, by id or by key.
type Outcome struct {
	Agent      events.AgentID
	Round      events.RoundID // whose handle this is
	HandleHash events.Digest
	Call       events.CallID
	Key        string // where Call is empty: the key in Round
	Wait       bool   // answer only when the call has ended
	Cursor     int64  // where the next piece of the recorded result begins
	Answer     Answer
}

// An outcome is a read: it is answered whatever the engine's health.
func (*Outcome) intent() bool { return false }

func (o *Outcome) refuse(code, reason string) { o.Answer.send(refused(code, reason)) }

func (o *Outcome) decide(e *Engine, c *cycle) (plan, error) {
	row, may, err := o.find(c.tx)
	if err != nil {
		return plan{}, err
	}
	if !may {
		return plan{
			agent: o.Agent, actor: agentActor(o.Agent),
			facts: []events.Event{events.AccessRefused{
				Account: string(policy.AccountAgents), Client: string(o.Agent), Action: "outcome",
				Subject: events.Cut(string(o.Call)+o.Key, events.MaxName), Count: 1,
			}},
			release: func(events.Record) { o.refuse("not_found", noSuchCall) },
		}, nil
	}
	return plan{release: func(events.Record) { o.release(e, row) }}, nil
}

const noSuchCall = "no such call in a conversation of this handle"

// find reads the call, and says whether there is one that the asker may hear of.
func (o *Outcome) find(r projections.Reader) (row projections.AuditRow, may bool, err error) {
	var found bool
	if o.Call == "" {
		row, found, err = projections.CallByKey(r, o.Round, o.Key)
	} else {
		row, found, err = projections.CallByID(r, o.Call)
	}
	if err != nil || !found {
		return row, false, err
	}
	asked, _, err := projections.RoundByID(r, o.Round)
	if err != nil {
		return row, false, err
	}
	of, _, err := projections.RoundByID(r, row.Round)
	return row, policy.MayAskOutcome(o.Agent, o.HandleHash, roundFacts(asked), roundFacts(of)), err
}

// readOutcome answers from the views while nothing can be recorded, a refusal
// neither. It does not wait for an end that cannot be recorded.
func (e *Engine) readOutcome(o *Outcome) {
	snap := e.cfg.Store.Snapshot()
	defer snap.Close()
	row, may, err := o.find(snap)
	switch {
	case err != nil:
		o.refuse("unreadable", "the views cannot be read; gatebook doctor says more")
	case !may:
		o.refuse("not_found", noSuchCall)
	default:
		o.Wait = false
		o.release(e, row)
	}
}

func (o *Outcome) release(e *Engine, row projections.AuditRow) {
	switch {
	case row.Status == "" && o.Wait && e.wait(row.Call, o.Answer):
	case o.Cursor > 0:
		// A blob may be large: reading it must not hold up the loop.
		e.tools.Go(func() { o.Answer.send(e.resultPage(row, o.Cursor)) })
	default:
		o.Answer.send(recorded(row))
	}
}

// resultPage is the recorded result from a byte on. Pieces are cut at byte
// positions of the redacted JSON text and joined by the caller.
func (e *Engine) resultPage(row projections.AuditRow, from int64) any {
	if row.Result.Blob == "" {
		return refused("no_more", "no more of the result was recorded than its preview")
	}
	data, err := e.cfg.Blobs.Get(row.Result.Blob)
	if err != nil {
		return refused("unreadable", "the recorded result cannot be read; gatebook doctor says more")
	}
	if from < 0 || from > int64(len(data)) {
		return refused("invalid", fmt.Sprintf("cursor: the recorded result has %d bytes", len(data)))
	}
	if from < int64(len(data)) && !utf8.RuneStart(data[from]) {
		return refused("invalid", "cursor: not where a piece of the recorded result begins")
	}
	text, next := cutRunes(data, from, ResultPage)
	a := recorded(row)
	a.Preview, a.Cursor = text, next
	a.Truncated = next != 0
	return a
}

// answerRecorded gives the recorded answer of a call, or waits for it where the
// call is still running.
func (e *Engine) answerRecorded(id events.CallID, answer Answer) {
	snap := e.cfg.Store.Snapshot()
	defer snap.Close()
	row, found, err := projections.CallByID(snap, id)
	switch {
	case err != nil || !found:
		answer.send(refused("unreadable", "the recorded call cannot be read; gatebook doctor says more"))
	case row.Status == "" && !waits(row) && answer != nil && e.wait(id, answer.replayed): // a bound method is never nil
	default:
		answer.send(recorded(row))
	}
}

// answerEnded gives those who wait for a call of a former writer what the book
// says of it.
func (e *Engine) answerEnded(id events.CallID) {
	waiters := e.waiters[id]
	delete(e.waiters, id)
	for _, w := range waiters {
		e.answerRecorded(id, w)
	}
}

// wait lets answer wait for the end of a running call. It says no where too many
// do, and where nobody would hear it.
func (e *Engine) wait(id events.CallID, answer Answer) bool {
	if answer == nil || len(e.waiters[id]) >= MaxWaiters {
		return false
	}
	e.waiters[id] = append(e.waiters[id], answer)
	return true
}

func agentActor(id events.AgentID) events.Actor {
	return events.Actor{Kind: events.ActorAgent, ID: string(id)}
}
