// Package replay tells what the book holds as a story that a person can follow.
//
// Start with [Filter], which says of what the story is, [Selector], which finds the events
// of it, and [Teller], which makes one line of each. It reads the events themselves and no
// view, so that what it tells does not depend on how a view was folded.
//
// What the package promises: every event that the filter wants gives one line, in the
// order of the book; a line says nothing that is not in an event. Texts of agents and
// people come as they are: whoever prints them escapes them.
//
// Concurrency: a Teller belongs to one goroutine. The package does no IO.
package replay

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"gatebook/events"
	"gatebook/policy/price"
)

// Filter says of which events a story is; the fields are joined by and. The zero value
// wants all.
type Filter struct {
	Agent        events.AgentID
	Round        events.RoundID
	Since, Until events.Instant // until is not in it
	From, To     events.Seq     // both are in it; 0: no bound
}

// Selector applies a filter to events in the order of the book.
type Selector struct {
	Filter
	// RoundOfCall, where not nil, gives the round of a call that the selector has not
	// seen to be decided; empty where there is none.
	RoundOfCall func(events.CallID) events.RoundID
	// waits are calls that a person is to decide about: the decision names no round.
	waits map[events.CallID]events.RoundID
}

// NewSelector is a selector that has seen nothing.
func NewSelector(f Filter) *Selector {
	return &Selector{Filter: f, waits: map[events.CallID]events.RoundID{}}
}

// Wants says whether the story has a line for the event. Since time is never used for
// order, an event of a wanted time may follow one of another.
func (s *Selector) Wants(r events.Recorded) bool {
	return (s.Round == "" || s.roundOf(r.Event) == s.Round) && (s.Agent == "" || r.Agent == s.Agent) &&
		(s.Since == 0 || r.Time >= s.Since) && (s.Until == 0 || r.Time < s.Until) &&
		r.Seq >= s.From && (s.To == 0 || r.Seq <= s.To)
}

func (s *Selector) roundOf(e events.Event) events.RoundID {
	if r, requested := e.(events.ReviewRequested); requested && len(s.waits) < maxCalls {
		s.waits[r.Call] = r.Round
	}
	call := decidedBy(e)
	if call == "" {
		return roundOf(e)
	}
	round := s.waits[call]
	delete(s.waits, call)
	if round == "" && s.RoundOfCall != nil {
		round = s.RoundOfCall(call)
	}
	return round
}

// decidedBy is the call whose review the event ends; empty where it ends none.
func decidedBy(e events.Event) events.CallID {
	switch e := e.(type) {
	case events.ReviewApproved:
		return e.Call
	case events.ReviewRefused:
		return e.Call
	case events.ReviewExpired:
		return e.Call
	case events.ReviewCancelled:
		return e.Call
	}
	return ""
}

// roundOf is the round that an event names; empty where it names none.
func roundOf(e events.Event) events.RoundID {
	switch e := e.(type) {
	case events.RoundBegun:
		return e.Round
	case events.RoundTainted:
		return e.Round
	case events.RoundEnded:
		return e.Round
	case events.ProfileDefaulted:
		return e.Round
	case events.CallDecided:
		return e.Round
	case events.CallReleased:
		return e.Round
	case events.CallCompleted:
		return e.Round
	case events.ReviewRequested:
		return e.Round
	case events.UsageRecorded:
		return e.Round
	}
	return ""
}

// Line is one event for people.
type Line struct {
	Seq   events.Seq
	Time  events.Instant
	Agent events.AgentID // empty for the engine and people
	Text  string
}

// maxCalls bounds the calls without an end that a Teller remembers; of more it tells
// the end without the tool's name.
const maxCalls = 100_000

// Teller makes lines. It remembers of each call what its end does not say.
type Teller struct {
	calls map[events.CallID]told
}

type told struct {
	step int64
	tool string
}

// Lacks is the call that the line of the event is about, where the teller has not told its
// decision; empty where there is none, or it has.
func (t *Teller) Lacks(e events.Event) events.CallID {
	call := decidedBy(e)
	switch e := e.(type) {
	case events.CallReleased:
		call = e.Call
	case events.CallCompleted:
		call = e.Call
	case events.ReviewRequested:
		call = e.Call
	}
	if _, told := t.calls[call]; told {
		return ""
	}
	return call
}

// Learn says what a call that [Teller.Lacks] named was: its place in its round, and the
// name of its tool.
func (t *Teller) Learn(call events.CallID, step int64, tool string) {
	if len(t.calls) < maxCalls {
		t.calls[call] = told{step, tool}
	}
}

// NewTeller begins a story.
func NewTeller() *Teller { return &Teller{calls: map[events.CallID]told{}} }

// Tell is the line of one event.
func (t *Teller) Tell(r events.Recorded) Line {
	return Line{Seq: r.Seq, Time: r.Time, Agent: r.Agent, Text: t.text(r)}
}

func (t *Teller) text(r events.Recorded) string {
	switch e := r.Event.(type) {
	case events.CallDecided:
		return t.decided(e)
	case events.CallReleased:
		return t.name(e.Call) + " goes on, as " + by(r) + " has approved"
	case events.CallCompleted:
		return t.completed(e)
	case events.ReviewRequested:
		return fmt.Sprintf("%s waits for a person, until %s (review %s)", t.name(e.Call), e.Expires, e.Review)
	case events.ReviewApproved:
		text := fmt.Sprintf("%s approved %s", by(r), strings.TrimSuffix(t.name(e.Call), ","))
		if e.More > 0 {
			text += ", and somebody else must too"
		}
		return text
	case events.ReviewRefused:
		return fmt.Sprintf("%s refused %s: %s", by(r), strings.TrimSuffix(t.name(e.Call), ","), cmp.Or(e.Reason, "no reason given"))
	case events.ReviewExpired:
		return "nobody decided in time about " + strings.TrimSuffix(t.name(e.Call), ",")
	case events.ReviewCancelled:
		return fmt.Sprintf("the wait of %s ended: %s", t.name(e.Call), e.Reason)
	}
	if text := ofRounds(r); text != "" {
		return text
	}
	if text := ofAgents(r); text != "" {
		return text
	}
	if text := ofAssets(r); text != "" {
		return text
	}
	return ofEngine(r)
}

func (t *Teller) decided(e events.CallDecided) string {
	text := fmt.Sprintf("step %d: %s %s", e.Step, e.Tool.String(), shown(e.Arguments.Text, e.Arguments.Truncated))
	if e.Step == 0 {
		text = fmt.Sprintf("outside of a round: %s %s", e.Tool.String(), shown(e.Arguments.Text, e.Arguments.Truncated))
	}
	if _, final := e.Verdict.Final(); final {
		return fmt.Sprintf("%s -> %s by layer %s, rule %s: %s", text, e.Verdict, e.Layer, cmp.Or(e.Rule, "-"), e.Reason)
	}
	if len(t.calls) < maxCalls {
		t.calls[e.Call] = told{e.Step, e.Tool.String()}
	}
	if e.Verdict == events.Stage {
		return fmt.Sprintf("%s -> stage: %s", text, e.Reason)
	}
	return fmt.Sprintf("%s -> allow (profile %s)", text, cmp.Or(e.Profile, "none"))
}

func (t *Teller) completed(e events.CallCompleted) string {
	text := fmt.Sprintf("%s ended: %s, after %s", t.name(e.Call), e.Status, e.Duration.Duration())
	delete(t.calls, e.Call)
	why := cmp.Or(e.Reason, e.Error)
	switch {
	case e.Layer != "":
		return fmt.Sprintf("%s, by layer %s, rule %s: %s", text, e.Layer, cmp.Or(e.Rule, "-"), why)
	case why != "":
		return text + ": " + why
	case e.Result.Size > 0:
		return text + " " + shown(e.Result.Preview, e.Result.Truncated)
	}
	return text
}

// name is a call as the story has named it.
func (t *Teller) name(call events.CallID) string {
	if c, ok := t.calls[call]; ok {
		return fmt.Sprintf("step %d, %s,", c.step, c.tool)
	}
	return "call " + string(call)
}

// maxShown is how much of a text one line has, in bytes.
const maxShown = 200

func shown(p events.Personal, cut bool) string {
	switch text := events.Cut(p.Text, maxShown); {
	case p.Text == "" && p.Enc != (events.Sealed{}):
		return "(sealed)"
	case cut || len(text) < len(p.Text):
		return text + "…"
	default:
		return text
	}
}

func by(r events.Recorded) string {
	if r.Actor.ID != "" {
		return r.Actor.ID
	}
	return "the engine"
}

func ofRounds(r events.Recorded) string {
	switch e := r.Event.(type) {
	case events.ConversationOpened:
		return "a conversation begins" + over(e.Channel)
	case events.ConversationClosed:
		return "the conversation ends"
	case events.RoundBegun:
		return begun(e)
	case events.RoundTainted:
		return "outside content reached the conversation"
	case events.RoundEnded:
		return fmt.Sprintf("the round ends: %s%s", e.End, because(e.Reason))
	case events.ProfileDefaulted:
		return fmt.Sprintf("the profile %s was asked for, none is given: %s", e.Asked, e.Reason)
	case events.UsageRecorded:
		return used(e)
	}
	return ""
}

func used(e events.UsageRecorded) string {
	t, cost := e.Tokens, "of unknown cost"
	if e.Cost.Known {
		cost = price.Decimal(e.Cost.N) + " " + e.Currency
	}
	return fmt.Sprintf("%s used tokens for message %s: %s in, %s cached, %s to the cache, %s out, %s (%s by the %s)",
		cmp.Or(e.Model, "a model"), e.Message, number(t.Input), number(t.CachedInput), number(t.CacheWrite), number(t.Output), cost, e.Known, e.Source)
}

func number(a events.Amount) string {
	if !a.Known {
		return "?"
	}
	return strconv.FormatInt(a.N, 10)
}

func begun(e events.RoundBegun) string {
	text := fmt.Sprintf("%s (%s) is talking%s", e.Principal.ID, e.Principal.Kind, over(e.Channel))
	switch {
	case e.Job != "":
		text = "the job " + e.Job + " begins a round"
	case e.CausedBy != "":
		text += ", caused by round " + string(e.CausedBy)
	}
	text += ", profile " + cmp.Or(e.Effective, "by longtime")
	if e.Task != (events.Personal{}) {
		text += ": " + shown(e.Task, false)
	}
	return text + " (round " + string(e.Round) + ")"
}

func over(channel events.ChannelID) string {
	if channel == "" {
		return ""
	}
	return " over " + string(channel)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ", " + reason
}

func ofAgents(r events.Recorded) string {
	switch e := r.Event.(type) {
	case events.AgentEnrolled:
		if e.Parent != "" {
			return fmt.Sprintf("is a child of %s from now on, role %s", e.Parent, e.Role)
		}
		return "is enrolled, role " + e.Role
	case events.AgentReleased:
		return "is released for good" + because(e.Reason)
	case events.ProfileSet:
		return fmt.Sprintf("%s sets the longtime profile %s", by(r), cmp.Or(e.Profile, "none"))
	case events.ChildDeclared:
		return fmt.Sprintf("%s leaves it the profile %s and denies the scope %s", e.Parent, cmp.Or(e.Allow, "-"), cmp.Or(e.Deny, "-"))
	case events.ChildRevoked:
		return fmt.Sprintf("%s has revoked it%s", e.Parent, because(e.Reason))
	case events.TrashDecided:
		return condemned(e)
	case events.TrashEmptied:
		return fmt.Sprintf("%s for good, %d bytes%s", entries(e.Entries, "is gone", "are gone"), e.Bytes, because(e.Error))
	}
	return ""
}

// entries says what becomes of n entries of a trash.
func entries(n int64, one, more string) string {
	if n == 1 {
		return "1 entry of its trash " + one
	}
	return fmt.Sprintf("%d entries of its trash %s", n, more)
}

func condemned(e events.TrashDecided) string {
	text := fmt.Sprintf("%s for good, %d bytes", entries(e.Entries, "goes", "go"), e.Bytes)
	switch {
	case e.First != "" && e.First == e.Last:
		text += fmt.Sprintf(", of the call %s", e.First)
	case e.First != "":
		text += fmt.Sprintf(", of the calls from %s to %s", e.First, e.Last)
	}
	for _, why := range []struct {
		n    int64
		text string
	}{
		{e.ByAge, "for an age over " + e.Age.Duration().String()}, {e.BySize, fmt.Sprintf("because the trash held more than %d bytes", e.Size)},
		{e.Again, "that were decided before"}, {e.Others, "of them put there by no call"},
	} {
		if why.n > 0 {
			text += fmt.Sprintf("; %d %s", why.n, why.text)
		}
	}
	return text
}

func ofAssets(r events.Recorded) string {
	switch e := r.Event.(type) {
	case events.AssetRegistered:
		text := fmt.Sprintf("%s %s is on record as asset %s, %s and %s, version %.12s", e.Type, events.ToolKey{Owner: e.Owner, Name: e.Name}, e.Asset, e.Tier, e.State, e.Version)
		if e.Expires != 0 {
			text += fmt.Sprintf(", until %s", e.Expires)
		}
		return text
	case events.AssetApproved:
		text := fmt.Sprintf("%s approved asset %s", by(r), e.Asset)
		if e.Replaces != "" {
			text += ", in the place of " + string(e.Replaces)
		}
		return text
	case events.AssetRefused:
		return fmt.Sprintf("%s refused asset %s: %s", by(r), e.Asset, cmp.Or(e.Reason, "no reason given"))
	case events.AssetExpired:
		return fmt.Sprintf("the time of asset %s is over: it is blocked", e.Asset)
	case events.AssetRetiered:
		return fmt.Sprintf("%s gave asset %s the tier %s: it is %s", by(r), e.Asset, e.Tier, e.State)
	}
	return ""
}

func ofEngine(r events.Recorded) string {
	switch e := r.Event.(type) {
	case events.EngineStarted:
		return fmt.Sprintf("an engine begins (version %s), behind event %d", e.Version, e.After)
	case events.CatalogLoaded:
		return fmt.Sprintf("a catalog is in force, put there by %s (%s)", by(r), e.Digest)
	case events.PhaseChanged:
		return fmt.Sprintf("%s sets the phase %d", by(r), e.Phase)
	case events.ClockJumped:
		if e.Accepted {
			return by(r) + " accepts the clock"
		}
		return fmt.Sprintf("the clock jumped from %s to %s", e.From, e.Wall)
	case events.AlertRaised:
		return fmt.Sprintf("alert %s: %s", e.Alert, e.Reason)
	case events.AlertDelivered:
		return "an alert reached " + e.To
	case events.JobRan:
		return "the job " + e.Job + " ran" + because(e.Error)
	case events.JobMissed:
		return fmt.Sprintf("the job %s was due at %s and did not run", e.Job, e.Due)
	case events.IntakeRefused:
		return fmt.Sprintf("%d requests were turned away: %s", e.Count, e.Reason)
	case events.AccessRefused:
		return fmt.Sprintf("%s of %s reached for what is not theirs, %d times: %s %s", cmp.Or(e.Client, "somebody"), e.Account, e.Count, e.Action, e.Subject)
	case events.SubjectErased:
		return "a key of personal fields was destroyed: " + e.KeyID
	}
	return string(r.Event.Kind())
}
