package policy

import (
	"cmp"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/policy/asset"
	"gatebook/policy/paths"
	"gatebook/policy/when"
)

// The bounds of texts that a decision copies into the book, in bytes. They hold
// wherever such a text comes in.
const (
	MaxSender = 256
	MaxTask   = 8 << 10
	maxReason = 1 << 10
	// maxAncestors holds MaxChildDepth of them with names of every length.
	maxAncestors = 4 << 10
)

// CallRequest is one tool call as the intake made it: decoded once, arguments
// canonical and already redacted in Arguments.
type CallRequest struct {
	Call  events.CallID
	Agent events.AgentID
	Round events.RoundID
	// HandleHash is the digest of the handle that came with the call.
	HandleHash events.Digest
	Key        string
	Tool       events.ToolKey
	Arguments  events.Arguments
	// Args are the arguments as the tool gets them, canonical and not redacted. A
	// decision looks at them and copies nothing of them.
	Args jsontext.Value
	// Paths are the workspace paths among the arguments.
	Paths []paths.Path
	// Malformed, where not nil, makes the verdict reject.
	Malformed *Malformed
	// Unredactable says that the arguments could not be redacted, Unkept that
	// their text could not be kept: either way the record would not be whole, and
	// the verdict is deny.
	Unredactable, Unkept bool
}

// Malformed says which field of a request is wrong and why. It is an error so
// that decoders can return it.
type Malformed struct {
	Field  string
	Reason string
}

func (m *Malformed) Error() string { return m.Field + ": " + m.Reason }

// CallFacts are what the views say at the moment of the decision.
type CallFacts struct {
	Now   events.Instant
	Agent AgentFacts
	Round RoundFacts
	// PhaseSet is the last phase.changed; 0 where there was none.
	PhaseSet int
	Tool     ToolFacts
	// Asset is what is on record of a tool that is not built in, and NewAsset the id of its
	// asset where this call is the first to meet it.
	Asset    asset.Facts
	NewAsset events.AssetID
	Prior    PriorCall
	// SameStaged is the agent's call of this tool with these arguments that waits for a
	// person, and NoRoom says that no more can be kept until one decides. Neither need be
	// known of a tool that [Compiled.MayStage] says no of.
	SameStaged events.CallID
	NoRoom     bool
}

// AgentFacts are what the views say about an agent.
type AgentFacts struct {
	Known    bool // released or not
	Enrolled bool // and not released
	Longtime string
	// Of a child: its role and its parent, what that leaves it, and who is above it,
	// the parent first. Of an agent of the catalog its entry says the role.
	Role                  string
	Parent                events.AgentID
	ChildAllow, ChildDeny string
	Ancestors             []AncestorFacts
}

// RoundFacts are what the views say about the round that a request names.
// The zero value is a round that does not exist.
type RoundFacts struct {
	Round        events.RoundID
	Agent        events.AgentID
	Conversation events.ConversationID
	Channel      events.ChannelID
	HandleHash   events.Digest
	Open         bool
	Ended        events.Instant // 0 while open
	Deadline     events.Instant // when it times out; 0 where it does not
	Session      string         // effective session profile; empty: none, longtime decides
	CausedBy     events.RoundID
	Job          string
	Principal    events.Principal
	Steps        int64 // calls decided so far
	OpenCalls    int64 // allowed or staged, not ended
	Staged       int64 // of them those that wait for a person
	Used         int64 // allowed calls of the tool that is asked for, but for those that it refused
	// Causes are the rounds that led to this one, the nearest first.
	Causes []CauseFacts
}

// ToolFacts are what the tool registry says about the named tool.
type ToolFacts struct {
	Known      bool
	Definition events.Digest
	// Tier is what the wiring says of a tool that is not in the closed list of
	// built-in tools; empty or unknown counts as privileged. The list wins.
	Tier events.Tier
	// Later says of a tool that is not known that its owner is a server of the catalog,
	// which may not run yet.
	Later bool
}

// PriorCall is an earlier call of the same round under the same key.
type PriorCall struct {
	Call events.CallID
	Tool events.ToolKey
	MAC  events.MAC
}

// CallDecision is the gate's answer: either a decision to record, or the
// earlier call whose recorded answer stands.
type CallDecision struct {
	// Before is what is recorded in front of the decision: what it changes of an asset.
	Before  []events.Event
	Decided events.CallDecided
	Replays events.CallID
}

// gateLayers are the layers of the gate with their questions, in their order.
var gateLayers = [...]struct {
	layer     events.Layer
	questions []func(*gate) *refused
}{
	{events.LayerDecode, []func(*gate) *refused{refuseMalformed, refuseUnredactable}},
	{events.LayerEngine, []func(*gate) *refused{refuseUnkept}},
	{events.LayerRound, []func(*gate) *refused{refuseRound, refuseKey, refuseEnded, refuseOpenCalls}},
	{events.LayerTool, []func(*gate) *refused{refuseTool}},
	{events.LayerPhase, []func(*gate) *refused{refusePhase}},
	{events.LayerBaseline, []func(*gate) *refused{refuseBaseline, refuseContent, refusePrivate}},
	{events.LayerRole, []func(*gate) *refused{refuseRole, refusePath, refuseLimits}},
	{events.LayerProfile, []func(*gate) *refused{refuseProfile}},
	{events.LayerPrincipal, []func(*gate) *refused{refusePrincipal}},
	{events.LayerAncestors, []func(*gate) *refused{refuseAncestors, refuseChildPolicy}},
	{events.LayerAsset, []func(*gate) *refused{refuseAsset}},
	{events.LayerStaging, []func(*gate) *refused{refuseStaging}},
}

// Layers are the layers that [DecideCall] asks, in its order: the one that a
// decision names is the last that was asked. The caller owns the slice.
func Layers() []events.Layer {
	out := make([]events.Layer, 0, len(gateLayers))
	for _, l := range gateLayers {
		out = append(out, l.layer)
	}
	return out
}

// DecideCall is the gate: the verdict on one call, as the event to record. The
// layers are asked in the order of [Layers] and the first that refuses is
// reported. It is total: whatever it is given, it answers, and what it does not
// know it denies.
//
// The event names round, step and principal only where the round is the
// agent's own and the handle was right, and takes the idempotency key only where
// the handle was right and the key was free, so that at most one decision of a
// round has a key.
func DecideCall(c *Compiled, req CallRequest, f CallFacts) CallDecision {
	if c == nil {
		c = new(Compiled)
	}
	g := newGate(c, req, f)
	no := g.ask()
	if no != nil && no.replays != "" {
		return CallDecision{Replays: no.replays}
	}
	return CallDecision{Before: g.asset.Events, Decided: g.decided(no)}
}

// gate is one decision in the making.
type gate struct {
	c       *Compiled
	req     CallRequest
	facts   CallFacts // without the round where not matched
	matched bool      // the round is the agent's and its handle is right
	free    bool      // the key was looked up and no call has it
	phase   int
	tool    string // its name, with its owner's where that is not the engine
	tier    events.Tier
	asset   asset.Outcome // once asked; the zero value for a tool that needs none
	deep    bool          // the tool acts on what is below a path, too
	finds   bool          // and asks about one that it finds
	above   bool          // it is an agent above the caller that is asked
	release bool          // a person approved the call, and it is asked about again
	found   *staging      // what in its arguments makes it wait for a person; nil for nothing
	profile string        // in effect
	// createOnly says that a grant that covers the call lets it replace nothing.
	createOnly bool
	agent      Agent
	inCatalog  bool
	seen       *when.Vars // by expressions; nil before one asks
}

// refused says which layer refuses, by which rule, and why.
type refused struct {
	verdict      events.Verdict
	layer        events.Layer
	rule, reason string
	// replays, where set, ends the asking without a refusal: the recorded answer
	// of this call stands.
	replays events.CallID
}

func deny(layer events.Layer, rule, reason string) *refused {
	return &refused{verdict: events.Deny, layer: layer, rule: rule, reason: reason}
}

func reject(layer events.Layer, rule, reason string) *refused {
	return &refused{verdict: events.Reject, layer: layer, rule: rule, reason: reason}
}

func newGate(c *Compiled, req CallRequest, f CallFacts) *gate {
	g := &gate{c: c, req: req, facts: f}
	mine := f.Round.Round != "" && f.Round.Round == req.Round && req.Agent != "" && f.Round.Agent == req.Agent
	g.matched = mine && sameHandle(req.HandleHash, f.Round.HandleHash)
	if !g.matched {
		// Such a call is no step of the round, must not keep it open, and must
		// read the same whether or not there is one.
		g.facts.Round = RoundFacts{}
	}
	g.phase = c.PhaseInForce(f.PhaseSet)
	g.tool = req.Tool.String()
	g.tier, g.deep, g.finds = tierOf(req.Tool, f), true, false
	if req.Tool.Owner == events.OwnerBuiltin {
		g.deep, g.finds = reach(req.Tool.Name)
	}
	g.profile = c.profileInEffect(g.facts.Round.Session, f.Agent.Longtime)
	g.agent, g.inCatalog = c.agent(req.Agent, f.Agent)
	return g
}

// profileInEffect is the session's, else, where the round has none, the agent's
// longtime one, else none. One that is not declared is none: it does not give way
// to the next.
func (c *Compiled) profileInEffect(session, longtime string) string {
	name := session
	if name == "" {
		name = longtime
	}
	if _, ok := c.profiles[name]; !ok {
		return NoProfile
	}
	return name
}

// ask is nil where every layer allows.
func (g *gate) ask() *refused {
	for _, l := range gateLayers {
		for _, question := range l.questions {
			if no := question(g); no != nil {
				return no
			}
		}
	}
	return nil
}

func refuseMalformed(g *gate) *refused {
	if m := g.req.Malformed; m != nil {
		return reject(events.LayerDecode, m.Field, m.Error())
	}
	if n := g.req.Tool.Name; n == "" || len(n) > events.MaxName || !utf8.ValidString(n) {
		return reject(events.LayerDecode, "tool", fmt.Sprintf("tool: want a name of 1 to %d bytes", events.MaxName))
	}
	if k := g.req.Key; len(k) > events.MaxName || !utf8.ValidString(k) {
		return reject(events.LayerDecode, "key", fmt.Sprintf("key: want at most %d bytes", events.MaxName))
	}
	return nil
}

// refuseUnredactable and refuseUnkept: no record, no action.
func refuseUnredactable(g *gate) *refused {
	if g.req.Unredactable {
		return deny(events.LayerDecode, "redaction", "the arguments could not be redacted, so they cannot be recorded and nothing was run")
	}
	return nil
}

func refuseUnkept(g *gate) *refused {
	if g.req.Unkept {
		return deny(events.LayerEngine, "blob", "the arguments could not be kept, so nothing was run; an operator finds the cause with gatebook doctor")
	}
	return nil
}

// refuseRound gives one answer for a round that does not exist, one of another
// agent, and a wrong handle, so that nothing can be learned by trying.
func refuseRound(g *gate) *refused {
	if !g.matched {
		return deny(events.LayerRound, "handle", "you have no round of this id and handle; a call needs the id and the handle of the round it serves, as the channel that began the round passed them on")
	}
	return nil
}

// KeyTime is how long after the end of its round a key is known.
const KeyTime = 24 * time.Hour

// refuseKey comes before the end of the round counts, so that a retry after a
// crash finds its answer.
func refuseKey(g *gate) *refused {
	prior, round := g.facts.Prior, g.facts.Round
	switch {
	case g.release: // its key is its own
		return nil
	case prior.Call == "", !round.Open && g.facts.Now.Sub(round.Ended) > KeyTime:
		g.free = true
		return nil
	case g.req.Key == "":
		return nil
	case prior.Tool == g.req.Tool && prior.MAC == g.req.Arguments.MAC && prior.MAC != "":
		return &refused{replays: prior.Call}
	}
	return reject(events.LayerRound, "key", "the key "+events.Quote(g.req.Key)+" was used in this round for another call; use a new key for a new call")
}

func refuseEnded(g *gate) *refused {
	if !g.facts.Round.Open && !g.release {
		return deny(events.LayerRound, "ended", "round "+string(g.req.Round)+" has ended; a call needs an open round: let the channel begin a new one")
	}
	return nil
}

// MaxOpenCalls is how many calls of a round may be without an end at once.
const MaxOpenCalls = 64

func refuseOpenCalls(g *gate) *refused {
	if g.facts.Round.OpenCalls >= MaxOpenCalls && !g.release {
		return deny(events.LayerRound, "open_calls", fmt.Sprintf("%d calls of this round have not ended; wait for one of them", g.facts.Round.OpenCalls))
	}
	return nil
}

func refuseRole(g *gate) *refused {
	switch {
	case !g.inCatalog:
		return deny(events.LayerRole, "catalog", "the catalog in force has no agent of this id; an approver can add it with gatebook agent add")
	case !g.facts.Agent.Enrolled:
		return deny(events.LayerRole, "enrolled", "this agent is not enrolled, or it was released; a released id is never given again")
	case len(g.c.roles[g.agent.Role][g.tool]) == 0:
		return deny(events.LayerRole, "grant", fmt.Sprintf("the role %s does not grant %s; it grants %s; an approver can add a grant in the catalog",
			g.agent.Role, g.name(), g.c.roles[g.agent.Role]))
	}
	return nil
}

func refusePath(g *gate) *refused {
	for _, p := range g.req.Paths {
		if p.Leaves() {
			return deny(events.LayerRole, "workspace", "the path "+events.Quote(p.Given())+" leaves the workspace; name a path inside it, without .. steps that lead out")
		}
		if p.Reserved() {
			return deny(events.LayerRole, "trash", "the path "+events.Quote(p.Given())+" is in the trash folder; use file.trash to look at it and file.restore to take something out")
		}
	}
	return nil
}

// refuseLimits asks the limits of the role's grants; one grant that covers the
// call is enough.
func refuseLimits(g *gate) *refused {
	granted := g.c.roles[g.agent.Role]
	by, no := granted.grant(g)
	if by != nil {
		g.createOnly = by.CreateOnly
		return nil
	}
	return deny(events.LayerRole, no.limit, fmt.Sprintf("%sthe role %s grants %s only so: %s; this one call was refused, and nothing else changed",
		because(no.why), g.agent.Role, g.name(), granted.forms(g.tool)))
}

func refuseProfile(g *gate) *refused {
	profile := g.c.profile(g.profile)
	allowed := profile.allow
	switch by, no := allowed.grant(g); {
	case by == nil && no.limit == "":
		return deny(events.LayerProfile, "profile", fmt.Sprintf("the profile in effect, %s, does not allow %s; it allows %s; who talks in the round, or the agent's longtime profile, decides which profile that is",
			g.profile, g.name(), allowed))
	case by == nil:
		return deny(events.LayerProfile, no.limit, fmt.Sprintf("%sthe profile in effect, %s, allows %s only so: %s", because(no.why), g.profile, g.name(), allowed.forms(g.tool)))
	}
	if l, why := profile.deny.denial(g); l != nil {
		return deny(events.LayerProfile, "deny", fmt.Sprintf("%sthe profile in effect, %s, denies %s", because(why), g.profile, l))
	}
	return nil
}

// refusePrincipal asks the policies for the kind, the principal and the channel
// of the round; all that there are hold.
func refusePrincipal(g *gate) *refused {
	round := g.facts.Round
	if round.Principal.Kind == events.PrincipalSelf && !g.agent.SelfRounds {
		return deny(events.LayerPrincipal, "self", "the catalog in force does not let this agent begin rounds by itself any more")
	}
	return refuseTalker(g, round.Principal, round.Channel)
}

// refuseTalker asks the policies for one who talks.
func refuseTalker(g *gate, who events.Principal, over events.ChannelID) *refused {
	for _, p := range [...]struct {
		what, who string
		rights
	}{
		{"kind", string(who.Kind), g.c.kinds[who.Kind]},
		{"principal", who.ID, g.c.ids[who.ID]},
		{"channel", string(over), g.c.channels[over]},
	} {
		if l, why := p.deny.denial(g); l != nil {
			return deny(events.LayerPrincipal, "deny", fmt.Sprintf("%sthe policy for the %s %s denies %s", because(why), p.what, events.Escape(p.who), l))
		}
		if p.allow == nil {
			continue
		}
		if by, no := p.allow.grant(g); by == nil {
			return deny(events.LayerPrincipal, cmp.Or(no.limit, "only"), fmt.Sprintf("%sthe policy for the %s %s leaves only %s%s", because(no.why), p.what, events.Escape(p.who), p.allow, p.allow.only(g, no)))
		}
	}
	return nil
}

func (g *gate) name() string { return events.Escape(g.tool) }

// decided is the event; no is nil where every layer allows.
func (g *gate) decided(no *refused) events.CallDecided {
	r := g.facts.Round
	d := events.CallDecided{
		Call: g.req.Call, Round: r.Round, Conversation: r.Conversation, Principal: r.Principal,
		Tool:      events.ToolKey{Owner: events.Cut(g.req.Tool.Owner, events.MaxName), Name: events.Cut(g.req.Tool.Name, events.MaxName)},
		Arguments: g.req.Arguments, Verdict: events.Allow, Tier: g.tier, Profile: g.profile, Asset: string(g.asset.Asset),
		Facts: events.CallFacts{
			Phase: g.phase, Role: g.agent.Role, RoleVersion: g.c.catalog.Roles[g.agent.Role].Version,
			SessionProfile: r.Session, LongtimeProfile: g.facts.Agent.Longtime,
			RoundOpen: r.Open, HandleMatched: g.matched, Used: r.Used,
			Staged: r.Staged, SameStaged: g.facts.SameStaged, NoRoom: g.facts.NoRoom,
			ChildAllow: g.facts.Agent.ChildAllow, ChildDeny: g.facts.Agent.ChildDeny, Ancestors: events.Cut(g.c.ancestorsText(g.facts.Agent.Ancestors), maxAncestors),
		},
	}
	if g.matched {
		d.Step = r.Steps + 1
	}
	if g.free {
		d.Key = g.req.Key
	}
	if len(r.Causes) > 0 {
		d.Facts.CausedBy = r.Causes[0].Round
	}
	if g.facts.Tool.Known {
		d.Definition = g.facts.Tool.Definition
	}
	if no == nil {
		d.Facts.CreateOnly = g.createOnly
		return d
	}
	d.Verdict, d.Layer, d.Rule, d.Reason = no.verdict, no.layer, events.Cut(no.rule, events.MaxName), events.Cut(no.reason, maxReason)
	if no.verdict != events.Stage { // that may still run
		d.Arguments = refusedArguments(d.Arguments)
	}
	return d
}

// refusedArguments keeps digest, size and the first bytes: the blob of a refused
// call is not kept, so it is not named.
func refusedArguments(a events.Arguments) events.Arguments {
	if len(a.Text.Text) > events.MaxPreview {
		a.Text.Text = events.Cut(a.Text.Text, events.MaxPreview)
		a.Truncated = true
	}
	a.Blob = ""
	return a
}
