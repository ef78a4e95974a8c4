package projectionstest

import (
	"fmt"

	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/events/eventstest"
)

// Histories generates valid books of up to most events with every kind in them.
func Histories(most int) *rapid.Generator[[]events.Draft] {
	return rapid.Custom(func(t *rapid.T) []events.Draft {
		n := rapid.IntRange(1, most).Draw(t, "events")
		h := newHistory(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
		for len(h.drafts) < n {
			h.step()
		}
		return h.drafts
	})
}

// history writes a book and knows just enough of it to go on validly.
type history struct {
	choose func(n int) int // 0 to n-1
	drafts []events.Draft
	ids    int
	agents []*agent
	assets []*asset
}

type asset struct {
	id      events.AssetID
	name    string
	version events.Digest
	state   events.AssetState
}

type agent struct {
	id            events.AgentID
	parent        *agent
	gone          bool
	conversations []*conversation
}

type conversation struct {
	id     events.ConversationID
	closed bool
	rounds []*round
}

type round struct {
	id    events.RoundID
	open  bool
	steps int64
	calls []*call
}

type call struct {
	id                     events.CallID
	review                 events.ReviewID
	open, staged, released bool
}

func newHistory(choose func(int) int) *history {
	h := &history{choose: choose}
	h.write("", events.EngineStarted{Incarnation: eventstest.ID[events.Incarnation](0), Version: "test"})
	return h
}

func (h *history) write(a events.AgentID, e events.Event) {
	d := eventstest.Draft(len(h.drafts)+1, a, e)
	d.Time += events.Instant(h.choose(100)) * 1_000_000 * events.Instant(len(h.drafts)) // order is by sequence, not by time
	d.Catalog = eventstest.Digest(1)
	h.drafts = append(h.drafts, d)
}

func newID[T events.ULIDForm](h *history) T {
	h.ids++
	return eventstest.ID[T](h.ids)
}

// pick is one of the items that fit, or nil.
func pick[T any](h *history, items []*T, fits func(*T) bool) *T {
	var some []*T
	for _, it := range items {
		if fits(it) {
			some = append(some, it)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[h.choose(len(some))]
}

func (h *history) step() {
	if h.choose(8) == 0 {
		h.engineStep()
		return
	}
	a := pick(h, h.agents, func(*agent) bool { return true })
	switch {
	case a == nil || len(h.agents) < 4 && h.choose(10) == 0:
		a = &agent{id: events.AgentID(fmt.Sprintf("agent%d", len(h.agents)))}
		if h.choose(3) == 0 {
			a.parent = pick(h, h.agents, func(up *agent) bool { return !up.gone })
		}
		h.agents = append(h.agents, a)
		h.enrol(a, "worker")
		if a.parent != nil {
			h.write(a.id, events.ChildDeclared{Parent: a.parent.id, Call: newID[events.CallID](h), Allow: "reading"})
		}
	case h.choose(5) == 0:
		h.agentStep(a)
	default:
		h.conversationStep(a)
	}
}

func (h *history) enrol(a *agent, role string) {
	e := events.AgentEnrolled{Role: role, Key: events.PublicKey("U" + string(a.id))}
	if a.parent != nil {
		e.Parent = a.parent.id
	}
	h.write(a.id, e)
}

// assetStep is something that happens to an asset, or a new one.
func (h *history) assetStep() {
	a := pick(h, h.assets, func(*asset) bool { return true })
	if a == nil || h.choose(3) == 0 {
		h.register()
		return
	}
	switch n := h.choose(5); {
	case n == 0 && a.state == events.AssetStateProvisional:
		a.state = events.AssetStateBlocked
		h.write("", events.AssetExpired{Asset: a.id})
	case n == 1 && a.state != events.AssetStateRefused:
		a.state = events.AssetStateRefused
		h.write("", events.AssetRefused{Asset: a.id, Reason: "no"})
	case n == 2:
		a.state = events.AssetStateBlocked
		h.write("", events.AssetRetiered{Asset: a.id, Tier: events.Privileged, State: a.state})
	case a.state != events.AssetStateApproved:
		yes := events.AssetApproved{Asset: a.id, Version: a.version, Shown: eventstest.Digest(2)}
		if old := pick(h, h.assets, func(o *asset) bool { return o.name == a.name && o.state == events.AssetStateApproved }); old != nil {
			yes.Replaces, old.state = old.id, events.AssetStateReplaced
		}
		a.state = events.AssetStateApproved
		h.write("", yes)
	}
}

func (h *history) register() {
	a := &asset{id: newID[events.AssetID](h), name: fmt.Sprintf("tool%d", h.choose(3)), state: events.AssetStateBlocked}
	a.version = eventstest.Digest(h.ids)
	e := events.AssetRegistered{Asset: a.id, Type: events.AssetTool, Owner: "mailer", Name: a.name, Version: a.version, Tier: events.Privileged, State: a.state}
	if pick(h, h.assets, func(o *asset) bool { return o.name == a.name }) == nil && h.choose(2) == 0 {
		a.state = events.AssetStateProvisional
		e.Tier, e.State, e.Expires = events.Reversible, a.state, eventstest.Time(1<<40)
	}
	h.assets = append(h.assets, a)
	h.write("", e)
}

func (h *history) engineStep() {
	if h.choose(3) == 0 {
		h.assetStep()
		return
	}
	engine := []events.Event{
		events.EngineStarted{Incarnation: eventstest.ID[events.Incarnation](0), Version: "test", After: events.Seq(len(h.drafts))},
		events.CatalogLoaded{Digest: eventstest.Digest(h.choose(3)), ApprovedBy: "ada", Widens: true},
		events.PhaseChanged{Phase: h.choose(3)},
		events.ClockJumped{From: eventstest.Time(1), Wall: eventstest.Time(2), Accepted: h.choose(2) == 0},
		events.AlertRaised{Alert: "blocked", Reason: "r"},
		events.AlertDelivered{Alert: eventstest.ID[events.EventID](1), To: "desk"},
		events.JobRan{Job: "nightly"},
		events.JobMissed{Job: "nightly", Due: eventstest.Time(1)},
		events.IntakeRefused{Reason: "busy", Count: 2, Second: eventstest.Time(1)},
		events.AccessRefused{Account: "AGENTS", Client: "c", Action: "publish", Subject: "s", Count: 1},
		events.SubjectErased{KeyID: "k"},
	}
	h.write("", engine[h.choose(len(engine))])
}

func (h *history) agentStep(a *agent) {
	if a.gone {
		h.refused(a)
		return
	}
	switch h.choose(7) {
	case 0:
		a.gone = h.choose(4) == 0
		switch {
		case a.gone && a.parent != nil:
			h.write(a.id, events.ChildRevoked{Parent: a.parent.id, Call: newID[events.CallID](h), Reason: "done"})
		case a.gone:
			h.write(a.id, events.AgentReleased{Reason: "done"})
		default:
			h.enrol(a, "reviewer")
		}
	case 1, 2:
		h.write(a.id, events.ProfileSet{Profile: []string{"", "owner"}[h.choose(2)]})
	case 3:
		h.write(a.id, events.ProfileDefaulted{Round: newID[events.RoundID](h), Asked: "admin", Reason: "not declared"})
	case 4:
		h.write(a.id, events.TrashDecided{Entries: 2, Bytes: 9, ByAge: 2, First: newID[events.CallID](h), Last: newID[events.CallID](h), Age: 1, Size: 1})
		h.write(a.id, events.TrashEmptied{Entries: 2, Bytes: 9, Duration: 1})
	default:
		h.refused(a)
	}
}

// refused is a call outside every round of its agent: it only claims one.
func (h *history) refused(a *agent) {
	h.write(a.id, events.CallDecided{
		Call: newID[events.CallID](h), Round: eventstest.ID[events.RoundID](h.choose(h.ids + 1)), Key: "k1",
		Tool: h.tool(), Verdict: events.Deny, Layer: events.LayerRound, Rule: "handle", Reason: "no such round",
	})
}

func (h *history) conversationStep(a *agent) {
	c := pick(h, a.conversations, func(*conversation) bool { return true })
	if !a.gone && (c == nil || h.choose(12) == 0) {
		c = &conversation{id: newID[events.ConversationID](h)}
		a.conversations = append(a.conversations, c)
		h.write(a.id, events.ConversationOpened{Conversation: c.id, Channel: "chat", Fresh: h.choose(2) == 0})
		return
	}
	if c == nil {
		return
	}
	open := pick(h, c.rounds, func(r *round) bool { return r.open })
	switch {
	case !c.closed && h.choose(20) == 0:
		c.closed = true
		h.write(a.id, events.ConversationClosed{Conversation: c.id})
	case open == nil && !c.closed && !a.gone && (len(c.rounds) == 0 || h.choose(3) == 0):
		h.begin(a, c)
	default:
		if r := pick(h, c.rounds, func(*round) bool { return true }); r != nil {
			h.roundStep(a, c, r)
		}
	}
}

func (h *history) begin(a *agent, c *conversation) {
	r := &round{id: newID[events.RoundID](h), open: true}
	c.rounds = append(c.rounds, r)
	begun := events.RoundBegun{
		Round: r.id, Conversation: c.id, Channel: []events.ChannelID{"chat", "mail"}[h.choose(2)], HandleHash: eventstest.Digest(h.ids),
		Principal: events.Principal{ID: "bob", Kind: events.PrincipalUser}, Requested: "owner", Effective: "guest",
		Task: events.Plain("tidy up"), Model: h.model(),
		Timeout: events.Micros(h.choose(3)) * 60_000_000,
	}
	if cause := h.cause(a); cause != nil {
		begun.CausedBy = cause.id
	} else if h.choose(5) == 0 {
		begun.Job = "nightly"
	}
	h.write(a.id, begun)
}

func (h *history) model() events.Model {
	if h.choose(4) == 0 {
		return events.Model{}
	}
	return events.Model{Name: "m" + string(rune('0'+h.choose(3))), Known: "claimed"}
}

// cause is a round of the agent's parent; nil for none.
func (h *history) cause(a *agent) *round {
	if a.parent == nil || h.choose(2) == 0 {
		return nil
	}
	if c := pick(h, a.parent.conversations, func(c *conversation) bool { return len(c.rounds) > 0 }); c != nil {
		return pick(h, c.rounds, func(*round) bool { return true })
	}
	return nil
}

func (h *history) roundStep(a *agent, c *conversation, r *round) {
	open := pick(h, r.calls, func(c *call) bool { return c.open })
	switch n := h.choose(10); {
	case n == 0 && r.open:
		r.open = false
		ends := []events.RoundEnd{events.RoundCompleted, events.RoundFailed, events.RoundCancelled, events.RoundTimedOut}
		h.write(a.id, events.RoundEnded{Round: r.id, End: ends[h.choose(len(ends))], Reason: "r"})
	case n == 1:
		h.write(a.id, events.RoundTainted{Round: r.id, Call: eventstest.ID[events.CallID](1)})
	case n == 2:
		h.use(a, r)
	case n < 6 && open != nil:
		h.callStep(a, r, open)
	default:
		h.decide(a, c, r)
	}
}

// use reports a message, a new one or one of the round's again.
func (h *history) use(a *agent, r *round) {
	amount := func() events.Amount {
		if h.choose(5) == 0 {
			return events.Amount{}
		}
		return events.AmountOf(int64(h.choose(1000)))
	}
	h.write(a.id, events.UsageRecorded{
		Round: r.id, Message: fmt.Sprintf("%s-%d", r.id, h.choose(3)), Model: fmt.Sprintf("m%d", h.choose(30)),
		Tokens: events.Tokens{Input: amount(), CachedInput: amount(), CacheWrite: amount(), Output: amount()},
		Cost:   amount(), Currency: []string{"", "EUR", "USD"}[h.choose(3)], Source: events.ActorAgent, Known: "claimed",
	})
}

func (h *history) callStep(a *agent, r *round, c *call) {
	if c.staged && !c.released {
		if h.choose(5) == 0 { // one of two has approved
			h.write(a.id, events.ReviewApproved{Review: c.review, Call: c.id, MAC: events.MAC(c.id), Shown: eventstest.Digest(2), More: 1})
			return
		}
		if h.reviewStep(a, c); c.released {
			h.write(a.id, events.CallReleased{Call: c.id, Round: r.id})
			return
		}
	}
	c.open = false
	statuses := []events.Status{
		events.StatusOK, events.StatusError, events.StatusDenied, events.StatusCancelled, events.StatusExpired, events.StatusUnknown,
	}
	h.write(a.id, events.CallCompleted{
		Call: c.id, Round: r.id, Status: statuses[h.choose(len(statuses))], Duration: events.Micros(h.choose(1000)),
		Result: events.Result{Size: 2, Preview: events.Plain("{}")}, Executor: events.ByEngine,
	})
}

// reviewStep decides the review of a staged call.
func (h *history) reviewStep(a *agent, c *call) {
	switch h.choose(5) {
	case 0, 1:
		c.released = true
		h.write(a.id, events.ReviewApproved{Review: c.review, Call: c.id, MAC: events.MAC(c.id), Shown: eventstest.Digest(1)})
	case 2:
		h.write(a.id, events.ReviewRefused{Review: c.review, Call: c.id, MAC: events.MAC(c.id), Reason: "no"})
	case 3:
		h.write(a.id, events.ReviewExpired{Review: c.review, Call: c.id})
	default:
		h.write(a.id, events.ReviewCancelled{Review: c.review, Call: c.id, Reason: "gone"})
	}
}

func (h *history) decide(a *agent, conv *conversation, r *round) {
	verdicts := []events.Verdict{events.Allow, events.Allow, events.Stage, events.Deny, events.Reject, events.NotFound}
	v := verdicts[h.choose(len(verdicts))]
	if !r.open || a.gone {
		v = events.Deny
	}
	tool, definition, layer, rule := h.tool(), eventstest.Digest(7), events.Layer(""), ""
	switch v {
	case events.NotFound:
		layer, rule, definition = events.LayerTool, "unknown", ""
	case events.Reject:
		layer, rule = events.LayerDecode, []string{"path", "made up"}[h.choose(2)]
		definition = []events.Digest{definition, ""}[h.choose(2)]
	case events.Deny:
		layer, rule = []events.Layer{events.LayerRole, events.LayerRound}[h.choose(2)], "grant"
	}
	if definition == "" {
		tool.Name = []string{"made/up", "up", "other", "file.read"}[h.choose(4)]
	}
	var ran events.AssetID
	if a := pick(h, h.assets, func(a *asset) bool { return a.state == events.AssetStateApproved }); a != nil && v == events.Allow && h.choose(2) == 0 {
		tool, ran = events.ToolKey{Owner: "mailer", Name: a.name}, a.id
	}
	r.steps++
	c := &call{id: newID[events.CallID](h), open: v == events.Allow || v == events.Stage, staged: v == events.Stage}
	r.calls = append(r.calls, c)
	h.write(a.id, events.CallDecided{
		Call: c.id, Round: r.id, Conversation: conv.id, Step: r.steps, Key: []string{"", "k1", "k2", "k3"}[h.choose(4)],
		Tool: tool, Definition: definition, Layer: layer, Rule: rule, Profile: []string{"guest", "owner"}[h.choose(2)],
		Principal: events.Principal{ID: []string{"bob", "eve"}[h.choose(2)], Kind: events.PrincipalUser}, Arguments: events.Arguments{Text: events.Plain(`{"path":"a"}`), Size: 12, MAC: events.MAC(c.id)},
		Verdict: v, Tier: events.ReadOnly, Asset: string(ran), Facts: events.CallFacts{Phase: 1, Role: "worker"},
	})
	if c.staged {
		c.review = newID[events.ReviewID](h)
		h.write(a.id, events.ReviewRequested{
			Review: c.review, Call: c.id, Round: r.id, MAC: events.MAC(c.id), Expires: eventstest.Time(len(h.drafts)) + events.Instant(h.choose(1000))*1_000_000,
		})
	}
}

func (h *history) tool() events.ToolKey {
	return events.ToolKey{Owner: "builtin", Name: []string{"file.list", "file.read", "file.write"}[h.choose(3)]}
}
