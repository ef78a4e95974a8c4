// Package policy says what may happen: the catalog and its rules, and the
// decisions on calls, rounds, agents and catalogs.
//
// Start with [Catalog] and [Compile], then [DecideCall], [BeginRound] and
// [Compare]. Every function is pure: it sees its arguments, reads no clock, does
// no IO, and gives the same answer for the same input. A refusal is an answer,
// not an error.
//
// What the package promises:
//
//   - Narrow only. A call is allowed when every layer allows it. The order of
//     rules never changes a verdict, deny wins, and an unknown value, an error
//     or an exceeded limit gives the narrowest result.
//   - The first layer that refuses is the one reported, with the rule and a
//     reason a person understands.
//
// The layers in force are 1 decode, 2 round, 3 tool, 4 phase, 5 baseline, 6 role,
// 7 profile, 8 principal, 9 ancestors, 12 asset and 13 staging; those between (DESIGN, section 8)
// put themselves there without a change to these.
//
// go-json-experiment/json is here for its strictness and the RFC 8785 form.
package policy

import (
	"errors"
	"maps"
	"slices"

	"gatebook/events"
	"gatebook/policy/outlet"
	"gatebook/policy/price"
	"gatebook/policy/proposal"
	"gatebook/policy/upstream"
)

// ErrCatalog marks a catalog that is not valid; the wrapping errors are
// [*Fault] values joined, one for each fault.
var ErrCatalog = errors.New("the catalog is not valid")

// Catalog is everything that people declare. It holds no secret: public keys
// only. Its canonical form is RFC 8785 JSON, with lists sorted and defaults left
// out, so that two catalogs that mean the same are the same bytes; the SHA-256
// of that form is its digest.
type Catalog struct {
	// Schema is the version of this format: 1.
	Schema int `json:"schema"`
	// Phase is the most that is offered: 1 only read_only tools, 2 all.
	// Absent (0) means 1.
	Phase      int                          `json:"phase,omitzero"`
	Scopes     map[string]Scope             `json:"scopes,omitzero"`
	Baseline   Baseline                     `json:"baseline,omitzero"`
	Content    map[string]ContentRule       `json:"content,omitzero"`
	Tools      map[string]Tool              `json:"tools,omitzero"`
	Profiles   map[string]Profile           `json:"profiles,omitzero"`
	Principals Principals                   `json:"principals,omitzero"`
	Roles      map[string]Role              `json:"roles,omitzero"`
	Agents     map[events.AgentID]Agent     `json:"agents,omitzero"`
	Channels   map[events.ChannelID]Channel `json:"channels,omitzero"`
	People     map[events.PersonID]Person   `json:"people,omitzero"`
	Jobs       map[string]Job               `json:"jobs,omitzero"`
	Limits     Limits                       `json:"limits,omitzero"`
	Prices     price.Table                  `json:"prices,omitzero"`
	// Alerts are where people are told of what happens, by name, and Telegram the bot by
	// which approvers decide.
	Alerts   map[string]outlet.Destination `json:"alerts,omitzero"`
	Telegram outlet.Telegram               `json:"telegram,omitzero"`
	// Servers are programs whose tools are offered, by the owner's name of those tools.
	Servers map[string]upstream.Server `json:"servers,omitzero"`
	// Propose says whether agents may propose what people may then approve.
	Propose proposal.Settings `json:"propose,omitzero"`
}

// Scope is a named set of tools.
type Scope struct {
	Tools []string `json:"tools"`
}

// Baseline is what nobody may, whatever else allows it.
type Baseline struct {
	Deny []Rule `json:"deny,omitzero"`
}

// Tool is what people declare about a tool.
type Tool struct {
	// Private keeps it for rounds whose principal is internal.
	Private bool `json:"private,omitzero"`
	// Staging is auto, or approve: each call waits for a person. Where it is absent, each
	// call of a privileged tool does.
	Staging Staging `json:"staging,omitzero"`
	// Approvers is how many people must approve a call that waits, 1 also where absent, or
	// 2: two different ones, neither of them who talks in the round.
	Approvers int `json:"approvers,omitzero"`
}

// Profile is a named set of rights: the union of its scopes, its tools and the
// calls of Allow, without those of Deny.
type Profile struct {
	Scopes []string `json:"scopes,omitzero"`
	Tools  []string `json:"tools,omitzero"`
	Allow  []Rule   `json:"allow,omitzero"`
	Deny   []Rule   `json:"deny,omitzero"`
}

// allows is what the profile allows, as rules.
func (p Profile) allows() []Rule {
	out := slices.Clone(p.Allow)
	for _, scope := range p.Scopes {
		out = append(out, Rule{Scope: scope})
	}
	for _, tool := range p.Tools {
		out = append(out, Rule{Tool: tool})
	}
	return out
}

// Principals are the policies for who talks in a round: by kind, by the
// principal's id, and by the channel. All that are about a round hold.
type Principals struct {
	Kinds    map[events.PrincipalKind]Policy `json:"kinds,omitzero"`
	IDs      map[string]Policy               `json:"ids,omitzero"`
	Channels map[events.ChannelID]Policy     `json:"channels,omitzero"`
}

// all are the policies, in no order.
func (p Principals) all() []Policy {
	return slices.Concat(slices.Collect(maps.Values(p.Kinds)), slices.Collect(maps.Values(p.IDs)), slices.Collect(maps.Values(p.Channels)))
}

// Policy narrows. Where Only is there, nothing but its calls is allowed.
type Policy struct {
	Only []Rule `json:"only,omitzero"`
	Deny []Rule `json:"deny,omitzero"`
}

// Role is what an agent is for: the calls that any of its grants covers.
type Role struct {
	Version int    `json:"version"`
	Grants  []Rule `json:"grants,omitzero"`
	// MayDeclare are the roles that a child of such an agent may have.
	MayDeclare []string `json:"may_declare,omitzero"`
	// Approve are the tools of which each call of such an agent, or of an agent below
	// it, waits for a person.
	Approve []string `json:"approve,omitzero"`
}

// Agent is an agent's entry.
type Agent struct {
	Role string           `json:"role"`
	Key  events.PublicKey `json:"key"`
	// SelfRounds lets the agent begin rounds by itself. No channel may serve such an
	// agent: it could go on by itself with what a guest asked for.
	SelfRounds bool `json:"self_rounds,omitzero"`
}

// Channel is what brings inputs to agents.
type Channel struct {
	Key events.PublicKey `json:"key"`
	// Agents that the channel may begin rounds for; "*", alone, is all of them.
	Agents []string `json:"agents"`
	// Senders maps the names that the channel gives to principals, by exact bytes.
	Senders map[string]Sender `json:"senders,omitzero"`
	// Guest is who an unmapped sender is; its principal is
	// "<channel>-guest" and its kind user unless said.
	Guest Guest `json:"guest,omitzero"`
}

// Sender is who a name of a channel stands for.
type Sender struct {
	Principal string `json:"principal"`
	// Kind is user or group; nothing else can come over a channel.
	Kind events.PrincipalKind `json:"kind"`
	// Profile is the session profile of such a round when none is asked for,
	// and the most that can be asked for. Absent, the round has no session
	// profile: the agent's longtime profile decides, and only what allows nothing
	// can be asked for. "none" is not absent: it covers the longtime profile.
	Profile string `json:"profile,omitzero"`
}

// Guest is what an unmapped sender gets. Absent, its profile is "none", not the
// agent's longtime profile: somebody unknown has nothing that is not written.
type Guest struct {
	Kind    events.PrincipalKind `json:"kind,omitzero"`
	Profile string               `json:"profile,omitzero"`
}

// Person is a person with two keys: Key reads and operates, ApproveKey
// approves, enrols, widens and raises the phase.
type Person struct {
	Key        events.PublicKey `json:"key"`
	ApproveKey events.PublicKey `json:"approve_key,omitzero"`
	Approver   bool             `json:"approver,omitzero"`
	Supervisor bool             `json:"supervisor,omitzero"`
	Operator   bool             `json:"operator,omitzero"`
	// ObservableAgents bounds feed, views and search; "*", alone, is all agents
	// and must be written out. It may name agents that are released already:
	// their history stays.
	ObservableAgents []string `json:"observable_agents,omitzero"`
}

// Job begins a round of an agent by itself, again and again.
type Job struct {
	Agent events.AgentID `json:"agent"`
	// Every is the time from one round's begin to the next, at least a minute.
	Every events.Micros `json:"every_us"`
	Task  string        `json:"task"`
	// Profile is the session profile of its rounds. Absent, the agent's longtime
	// profile decides.
	Profile string `json:"profile,omitzero"`
}

// Limits are bounds that people may set; a zero means the default named.
type Limits struct {
	// RoundTimeout ends a round after this long without a call (1 hour).
	RoundTimeout events.Micros `json:"round_timeout_us,omitzero"`
	// ToolTime ends a running tool (30 seconds).
	ToolTime events.Micros `json:"tool_time_us,omitzero"`
	// QueuedCalls is how many calls of one agent wait before it hears "busy" (64).
	QueuedCalls int `json:"queued_calls,omitzero"`
	// RunningTools is how many tools of one agent run at once (16).
	RunningTools int `json:"running_tools,omitzero"`
	// ReviewTime is how long a staged call waits for a person (24 hours).
	ReviewTime events.Micros `json:"review_time_us,omitzero"`
	// TrashAge is how long the trash keeps an entry (30 days), TrashSize how many bytes
	// the trash of one agent holds before its oldest entries go (1 GiB).
	TrashAge  events.Micros `json:"trash_age_us,omitzero"`
	TrashSize int           `json:"trash_size,omitzero"`
}

// Fault is one thing wrong in a catalog. Path is where, as keys joined by
// dots ("channels.terminal.senders.anna.kind"); the reader of the file turns it
// into line and column.
type Fault struct {
	Path string
	Text string
}

func (f *Fault) Error() string { return events.Escape(f.Path) + ": " + f.Text }

// NoProfile is the built-in profile that allows nothing. It cannot be declared.
const NoProfile = "none"
