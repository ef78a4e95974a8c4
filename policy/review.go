package policy

import (
	"cmp"
	"fmt"
	"slices"

	"gatebook/events"
)

// Staging says whether calls of a tool run at once or wait for a person.
type Staging string

// The stagings. Without one a call of a privileged tool waits, and no other does.
const (
	StagingAuto    Staging = "auto"
	StagingApprove Staging = "approve"
)

// waits orders stagings: with a higher one at least as many calls wait.
func (s Staging) waits() int { return slices.Index([]Staging{StagingAuto, "", StagingApprove}, s) }

// shown is the staging of a tool for people.
func (s Staging) shown(tool string) Staging {
	if b, ok := LookupBuiltin(tool); ok && b.Tier != events.Privileged {
		return cmp.Or(s, StagingAuto)
	}
	return cmp.Or(s, "by tier")
}

// MaxStaged is how many calls of a round may wait for a person at once.
const MaxStaged = 20

// staging is why a call waits for a person.
type staging struct{ rule, reason string }

// MayStage says whether a call of the tool can come to wait for a person, so that the
// facts which only that asks for are worth reading. said is the tier that the tool gives
// itself, which may be too low: what is not built in can always come to wait.
func (c *Compiled) MayStage(tool events.ToolKey, said events.Tier) bool {
	if c == nil {
		return false
	}
	name := tool.String()
	switch staging := c.catalog.Tools[name].Staging; {
	case staging == StagingApprove, c.staging[name]:
		return true
	case staging == "" && (tool.Owner != events.OwnerBuiltin || tierOf(tool, CallFacts{Tool: ToolFacts{Tier: said}}) == events.Privileged):
		return true
	}
	for _, r := range c.content {
		if r.stages && (r.tools == nil || r.tools[name]) {
			return true
		}
	}
	return false
}

// staged is why the call waits for a person, or nil. A role passes its wish down to
// the children of its agents: else a child would do at once what the agent above must
// ask for.
func (g *gate) staged() *staging {
	tool := g.tool
	if g.found != nil {
		return g.found
	}
	if g.c.catalog.Tools[tool].Staging == StagingApprove {
		return &staging{"tool", "a person must approve each call of " + g.name()}
	}
	if g.tier == events.Privileged && g.c.catalog.Tools[tool].Staging == "" {
		return &staging{"privileged", "a person must approve each call of " + g.name() + ", which is privileged"}
	}
	if g.c.approves(g.agent.Role, tool) {
		return &staging{"role", fmt.Sprintf("a person must approve each call of %s by an agent of the role %s", g.name(), g.agent.Role)}
	}
	for _, up := range g.facts.Agent.Ancestors {
		if role := g.c.roleOf(up.Agent, up.Parent, up.Role); g.c.approves(role, tool) {
			return &staging{"role", fmt.Sprintf("a person must approve each call of %s by an agent of the role %s, which %s above this one has", g.name(), role, up.Agent)}
		}
	}
	return nil
}

// refuseStaging is the last question: everything else allows the call.
func refuseStaging(g *gate) *refused {
	why := g.staged()
	if why == nil || g.release {
		return nil
	}
	switch {
	case g.facts.SameStaged != "":
		return deny(events.LayerStaging, "same", "same as "+string(g.facts.SameStaged)+": that call, of the same tool with the same arguments, waits for a person already; ask for its outcome")
	case g.facts.Round.Staged >= MaxStaged:
		return deny(events.LayerStaging, "staged_calls", fmt.Sprintf("%d calls of this round wait for a person; wait until some of them are decided", g.facts.Round.Staged))
	case g.facts.NoRoom:
		return deny(events.LayerStaging, "room", "too much waits for people already, so this call cannot be kept until one decides; ask again later")
	}
	return &refused{verdict: events.Stage, layer: events.LayerStaging, rule: why.rule, reason: why.reason}
}

// ReleaseCall asks the gate again about a staged call that a person approved, with the
// facts of now: what the call was given by its round counts as it was then, whether or
// not that has ended, and everything else as it is. The verdict is allow or a refusal.
func ReleaseCall(c *Compiled, req CallRequest, f CallFacts) events.CallDecided {
	if c == nil {
		c = new(Compiled)
	}
	req.HandleHash = f.Round.HandleHash // it was shown when the call was decided
	g := newGate(c, req, f)
	g.release = true
	return g.decided(g.ask())
}

// RequestReview is what stands in the book behind a staged call.
func RequestReview(c *Compiled, id events.ReviewID, d events.CallDecided, now events.Instant) events.ReviewRequested {
	return events.ReviewRequested{
		Review: id, Call: d.Call, Round: d.Round, MAC: d.Arguments.MAC, Expires: now + events.Instant(c.Limits().ReviewTime),
	}
}

// ReviewFacts are what the views say about a review. The zero value is one that does
// not exist.
type ReviewFacts struct {
	Review  events.ReviewID
	Call    events.CallID
	Round   events.RoundID
	MAC     events.MAC
	State   events.ReviewState
	Expires events.Instant
	// First approved it already, having seen FirstShown; Principal is who talks in the
	// call's round.
	First      events.PersonID
	FirstShown events.Digest
	Principal  events.Principal
}

// open says whether the review can be decided at that time, by the engine's clock. One
// whose expiry is out of every range has expired.
func (f ReviewFacts) open(now events.Instant) bool {
	return f.State == events.ReviewStateOpen && now < f.Expires && f.Expires-now <= events.Instant(maxLimitMicros)
}

// ReviewAct is a person's decision on a review.
type ReviewAct struct {
	By       events.Actor
	Approves bool // it came with the approving key
	// Shown is the digest of what the person saw, Now of what they would see now, and
	// Base what of that the call would change.
	Shown, Now, Base events.Digest
	// Masked says that something in it is masked, which the person then must accept.
	Masked, AcceptMasked bool
	Reason               string
	Via                  string // the surface, where it is not the person's own key
}

// ApproveReview answers a person's yes, which is for one call and this once. again is
// what [ReleaseCall] says of the call: where it refuses, the approval is used up and the
// call ends.
func ApproveReview(c *Compiled, act ReviewAct, f ReviewFacts, again events.CallDecided, now events.Instant) ([]events.Event, *Refusal) {
	if no := judgeReview(c, act, f, now); no != nil {
		return nil, no
	}
	switch {
	case act.Shown == "":
		return nil, refuse(CodeInvalid, "say what was seen: gatebook show "+string(f.Review)+" gives its digest, which goes with the approval")
	case act.Shown != act.Now:
		return nil, refuse(CodeConflict, "what was seen is not what there is now, so nothing was approved; look again with gatebook show "+string(f.Review))
	case act.Masked && !act.AcceptMasked:
		return nil, refuse(CodeInvalid, "something in the arguments is masked, and runs all the same: who approves it says so with --masked")
	}
	yes := events.ReviewApproved{Review: f.Review, Call: f.Call, MAC: f.MAC, Definition: again.Definition, Shown: act.Shown, Base: act.Base, Via: act.Via}
	if c.catalog.Tools[again.Tool.String()].Approvers > 1 {
		switch more, no := c.secondApprover(act, f); {
		case no != nil:
			return nil, no
		case more:
			yes.More = 1
			return []events.Event{yes}, nil
		}
	}
	if status, final := again.Verdict.Final(); final {
		return []events.Event{yes, f.end(status, again.Layer, again.Rule, again.Reason)}, nil
	}
	return []events.Event{yes, events.CallReleased{
		Call: f.Call, Round: f.Round, Review: f.Review, Tier: again.Tier, Profile: again.Profile, Facts: again.Facts,
	}}, nil
}

// secondApprover says whether somebody else must approve too, of a call that two people
// must. The first counts while they may approve, and have seen the same.
func (c *Compiled) secondApprover(act ReviewAct, f ReviewFacts) (more bool, no *Refusal) {
	counts := f.First != "" && f.FirstShown == act.Shown && c.person(person(f.First)).Approver
	switch {
	case string(act.By.ID) == f.Principal.ID:
		return false, refuse(CodeNotAllowed, "two people must approve a call of this tool, and who talks in its round is none of them")
	case counts && string(f.First) == act.By.ID:
		return false, refuse(CodeConflict, "you have approved it already; another approver must too")
	}
	return !counts, nil
}

// RefuseReview answers a person's no; with the review the call ends.
func RefuseReview(c *Compiled, act ReviewAct, f ReviewFacts, now events.Instant) ([]events.Event, *Refusal) {
	if no := judgeReview(c, act, f, now); no != nil {
		return nil, no
	}
	reason := events.Cut(act.Reason, maxReason)
	return []events.Event{
		events.ReviewRefused{Review: f.Review, Call: f.Call, MAC: f.MAC, Reason: reason, Via: act.Via},
		f.end(events.StatusDenied, events.LayerReview, "refused", cmp.Or(reason, "a person refused it")),
	}, nil
}

// ExpireReview ends an open review, and its call, whose time is over; else it gives
// nothing.
func ExpireReview(f ReviewFacts, now events.Instant) []events.Event {
	if f.State != events.ReviewStateOpen || f.open(now) {
		return nil
	}
	return []events.Event{
		events.ReviewExpired{Review: f.Review, Call: f.Call},
		f.end(events.StatusExpired, events.LayerReview, "expired", "no person decided in time; a new call asks again"),
	}
}

// Cancel is why a call that waits cannot go on.
type Cancel string

// The reasons.
const (
	CancelReleased   Cancel = "released"
	CancelSecret     Cancel = "secret_not_kept"
	CancelRedefined  Cancel = "redefined"
	CancelUnreadable Cancel = "unreadable"
)

func (c Cancel) String() string {
	switch c {
	case CancelReleased:
		return "the agent was released"
	case CancelSecret:
		return "a secret among its arguments was not kept over a restart of the engine"
	case CancelRedefined:
		return "its tool has another definition than when it was decided"
	case CancelUnreadable:
		return "its arguments are not what was decided about"
	}
	return string(c)
}

// ReadBack says why a call that waited when the engine stopped cannot go on as it was
// read back; empty where it can. released is that its agent was, and intact that the
// arguments have the digest of the decision.
func ReadBack(d events.CallDecided, released bool, tool ToolFacts, intact bool) Cancel {
	switch {
	case released:
		return CancelReleased
	case d.Arguments.Redacted:
		return CancelSecret
	case !tool.Known && !tool.Later, tool.Known && tool.Definition != d.Definition:
		return CancelRedefined
	case !intact:
		return CancelUnreadable
	}
	return ""
}

// CancelReview ends an open review, and its call, which cannot go on; of another it
// gives nothing.
func CancelReview(f ReviewFacts, why Cancel) []events.Event {
	if f.State != events.ReviewStateOpen {
		return nil
	}
	return []events.Event{
		events.ReviewCancelled{Review: f.Review, Call: f.Call, Rule: string(why), Reason: why.String()},
		f.end(events.StatusCancelled, events.LayerReview, string(why), why.String()),
	}
}

// end is the end of the review's call, which did not run.
func (f ReviewFacts) end(status events.Status, layer events.Layer, rule, reason string) events.CallCompleted {
	return events.CallCompleted{
		Call: f.Call, Round: f.Round, Status: status, Layer: layer, Rule: rule, Reason: reason, Executor: events.ByEngine,
	}
}

// judgeReview says why a person's decision does not count, with the true reason.
func judgeReview(c *Compiled, act ReviewAct, f ReviewFacts, now events.Instant) *Refusal {
	switch {
	case !c.mayApprove(act.By, act.Approves):
		return refuse(CodeNotAllowed, "only an approver, with the approving key, decides what waits for a person")
	case f.Review == "":
		return refuse(CodeNoReview, "there is no review of this id; ids are whole and exact, and gatebook pending lists those that wait")
	case f.State == events.ReviewStateExpired, f.State == events.ReviewStateOpen && !f.open(now):
		return refuse(CodeReviewExpired, "the review has expired, so nothing was decided; the agent can ask again with a new call")
	case f.State != events.ReviewStateOpen:
		return refuse(CodeReviewDecided, "the review was "+cmp.Or(string(f.State), "decided")+" already; nothing was changed")
	}
	return nil
}

// SeesReviews says whether the person may see what waits of any agent.
func SeesReviews(c *Compiled, id events.PersonID) bool {
	p := c.person(person(id))
	return p.Approver || p.Supervisor
}

// MaySeeReviews says whether the person may see what waits of the agent: approvers,
// who decide it, and who may observe the agent.
func MaySeeReviews(c *Compiled, id events.PersonID, agent events.AgentID) bool {
	return c.person(person(id)).Approver || MayObserve(c, id, agent)
}
