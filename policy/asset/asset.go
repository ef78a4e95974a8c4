// Package asset is the life of an asset: whether a tool that is not built in runs, and
// what a person's decision changes.
//
// Start with [OnCall], which the gate asks about every call of such a tool, and [Next],
// which is the whole table of transitions. Every function is pure.
//
// An asset is one version of one name of one owner; the version is the digest of what
// defines it, so that any change of a definition is another asset.
//
//	from \ what      first call          grace ends  a person   a person  another version
//	                                                 approves   refuses   is approved
//	(none)           provisional¹,
//	                 blocked             –           –²         –²        –
//	provisional      runs                blocked     approved   refused   –
//	blocked          refused             –           approved   refused   –
//	approved         runs                –           –          refused   replaced
//	refused          refused             –           approved   –         –
//	replaced         refused             –           approved   refused   –
//
//	¹ a reversible tool, once for each owner and name: [Grace]. Every later version, and
//	  every privileged tool, starts blocked.
//	² after it was registered, which a person can do before any call.
//
// What the package promises:
//
//   - A tool that only reads runs without an asset, unless a version of it was ever met
//     with a higher tier: no tool lowers its own.
//   - The grace ends at its time by the engine's clock, whether or not anything has
//     noticed: [OnCall] looks at the time and not only at the state.
//   - A tier rises by itself, and then what was let run for less is blocked; it falls only
//     by a person, whose word about a version stands whatever the tool says of itself.
package asset

import (
	"cmp"
	"fmt"
	"slices"

	"gatebook/events"
)

// Grace is how long a reversible tool that nobody has decided about runs: 7 days.
const Grace events.Micros = 7 * 24 * 3_600_000_000

// Act is what changes the state of an asset.
type Act string

// The acts.
const (
	Expire  Act = "expire"
	Approve Act = "approve"
	Refuse  Act = "refuse"
	Replace Act = "replace" // another version is approved
)

var transitions = map[events.AssetState]map[Act]events.AssetState{
	events.AssetStateProvisional: {Expire: events.AssetStateBlocked, Approve: events.AssetStateApproved, Refuse: events.AssetStateRefused},
	events.AssetStateBlocked:     {Approve: events.AssetStateApproved, Refuse: events.AssetStateRefused},
	events.AssetStateApproved:    {Refuse: events.AssetStateRefused, Replace: events.AssetStateReplaced},
	events.AssetStateRefused:     {Approve: events.AssetStateApproved},
	events.AssetStateReplaced:    {Approve: events.AssetStateApproved, Refuse: events.AssetStateRefused},
}

// Next is the state after an act, and whether there is one.
func Next(from events.AssetState, act Act) (to events.AssetState, ok bool) {
	to, ok = transitions[from][act]
	return to, ok
}

// Facts are what the views say about an asset and its name. The zero value is a name that
// was never met.
type Facts struct {
	// Asset is the version that is asked about; empty where it was never met.
	Asset   events.AssetID
	Type    events.AssetType
	Owner   string
	Name    string
	Version events.Digest
	Tier    events.Tier
	// Fixed says that a person gave this version its tier: what the tool says of itself does
	// not count any more, for another definition is another version.
	Fixed   bool
	State   events.AssetState
	Expires events.Instant
	// Met says that some version of the name was met before, and Highest is the tier of
	// the one that was met last, or that a person gave it since.
	Met     bool
	Highest events.Tier
	// Approved is the version of the name that is approved; empty where none is.
	Approved events.AssetID
}

var tiers = []events.Tier{events.ReadOnly, events.Reversible, events.Privileged}

// rank orders tiers; an unknown one is the highest.
func rank(t events.Tier) int {
	if i := slices.Index(tiers, t); i >= 0 {
		return i
	}
	return len(tiers) - 1
}

// Known says whether t is one of the tiers.
func Known(t events.Tier) bool { return slices.Contains(tiers, t) }

// Effective is the tier that counts: the highest of what the tool says of itself now and of
// what is on record. Of a version that a person approved that is its own tier; of another
// one it is also that of the version which was met last.
func (f Facts) Effective(said events.Tier) events.Tier {
	if f.Asset != "" && f.Fixed {
		return tiers[rank(f.Tier)]
	}
	high := rank(said)
	if f.Met && f.State != events.AssetStateApproved {
		high = max(high, rank(f.Highest))
	}
	if f.Asset != "" {
		high = max(high, rank(f.Tier))
	}
	return tiers[high]
}

// Outcome is what the gate hears about a call.
type Outcome struct {
	// Asset is the version that the call meets; empty where it needs none.
	Asset events.AssetID
	Runs  bool
	// Rule and Reason say why it does not run.
	Rule, Reason string
	// Events are to be recorded with the decision, before it.
	Events []events.Event
}

// Meeting is one call of a tool that is not built in.
type Meeting struct {
	Tool       events.ToolKey
	Definition events.Digest
	// Said is the tier that the tool says it has; an unknown one counts as privileged.
	Said events.Tier
	Call events.CallID
	// New is the id of the asset where this call meets it first.
	New events.AssetID
	Now events.Instant
}

// OnCall says whether the tool of a call runs, and what the call changes on record.
func OnCall(f Facts, m Meeting) Outcome {
	tier := f.Effective(m.Said)
	switch {
	case tier == events.ReadOnly && f.State != events.AssetStateRefused:
		return Outcome{Runs: true}
	case f.Asset == "":
		return meet(f, m, tier)
	}
	out := Outcome{Asset: f.Asset}
	if rank(tier) > rank(f.Tier) {
		r := Retier(f, tier)
		out.Events, f.State = append(out.Events, r), r.State
	}
	switch {
	case f.State == events.AssetStateApproved:
		out.Runs = true
	case f.State == events.AssetStateProvisional && !Over(f, m.Now):
		out.Runs = true
	case f.State == events.AssetStateProvisional:
		out.Events = append(out.Events, events.AssetExpired{Asset: f.Asset})
		out.Rule, out.Reason = "expired", "the seven days that "+m.name()+" could run without a decision are over; "+askFor(f.Asset)
	default:
		out.Rule, out.Reason = string(f.State), m.name()+" is "+string(f.State)+"; "+askFor(f.Asset)
	}
	return out
}

// Over says whether the grace of a provisional asset has ended. A time that is out of
// every range has ended.
func Over(f Facts, now events.Instant) bool {
	return now >= f.Expires || f.Expires-now > events.Instant(Grace)
}

// Retier gives a version another tier. What was let run for less is blocked.
func Retier(f Facts, tier events.Tier) events.AssetRetiered {
	runs := f.State == events.AssetStateProvisional || f.State == events.AssetStateApproved
	if runs && rank(tier) > rank(f.Tier) {
		f.State = events.AssetStateBlocked
	}
	return events.AssetRetiered{Asset: f.Asset, Tier: tier, State: f.State}
}

// meet registers a version that was never met.
func meet(f Facts, m Meeting, tier events.Tier) Outcome {
	r := events.AssetRegistered{
		Asset: m.New, Type: events.AssetTool, Owner: m.Tool.Owner, Name: m.Tool.Name, Version: m.Definition,
		Tier: tier, State: events.AssetStateBlocked, Call: m.Call,
	}
	out := Outcome{Asset: m.New}
	switch {
	case tier == events.Reversible && !f.Met:
		r.State, r.Expires, out.Runs = events.AssetStateProvisional, m.Now+events.Instant(Grace), true
	case !f.Met:
		out.Rule, out.Reason = "unknown", fmt.Sprintf("%s is privileged and nobody has approved it; %s", m.name(), askFor(m.New))
	default:
		out.Rule, out.Reason = "changed", m.name()+" is not defined as it was: this is another version, which nobody has approved; "+askFor(m.New)
	}
	out.Events = []events.Event{r}
	return out
}

func (m Meeting) name() string { return events.Escape(m.Tool.String()) }

func askFor(id events.AssetID) string {
	return fmt.Sprintf("a person sees it with gatebook asset show %s and can approve it", id)
}

// Registered is what a person's registration of a version records, which waits for a
// decision from then on.
func Registered(f Facts, id events.AssetID) events.AssetRegistered {
	return events.AssetRegistered{
		Asset: id, Type: cmp.Or(f.Type, events.AssetTool), Owner: f.Owner, Name: f.Name, Version: f.Version, Tier: tiers[rank(f.Tier)], State: events.AssetStateBlocked,
	}
}
