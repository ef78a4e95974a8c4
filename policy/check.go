package policy

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/policy/outlet"
	"gatebook/policy/paths"
	"gatebook/policy/upstream"
	"gatebook/policy/when"
)

// The highest limits that a catalog may set; they keep every integer far below
// the 2^53 that the canonical form can hold.
const (
	maxLimitMicros events.Micros = 365 * 24 * 3_600_000_000
	maxLimitCount                = 100_000
	maxLimitBytes                = 1 << 50
	minEvery       events.Micros = 60_000_000
)

var (
	nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]*$`)
	// keyForm is the outer form of an nkey's public user key. Its checksum is
	// proved where the catalog's file is read, and by each connection that uses it.
	keyForm = regexp.MustCompile(`^U[A-Z2-7]{55}$`)
)

// checker collects the faults of one catalog.
type checker struct {
	c     Catalog
	extra toolSet
	keys  map[events.PublicKey]string // to the path where it was seen first
	// programs are the expressions of rules that compile, by their text.
	programs map[string]when.Program
	faults   []error
}

func (v *checker) fault(path, format string, args ...any) {
	v.faults = append(v.faults, &Fault{Path: path, Text: fmt.Sprintf(format, args...)})
}

func (v *checker) all() {
	if v.c.Schema != 1 {
		v.fault("schema", "want 1, the version of this format")
	}
	if v.c.Phase < 0 || v.c.Phase > 2 {
		v.fault("phase", "%d is not a phase: 1 offers only read_only tools, 2 all", v.c.Phase)
	}
	for _, name := range inOrder(v.c.Scopes) {
		v.name("scopes."+name, "scope", name)
		v.tools("scopes."+name+".tools", v.c.Scopes[name].Tools)
	}
	v.rules("baseline.deny", v.c.Baseline.Deny, denying)
	for _, name := range inOrder(v.c.Content) {
		v.content("content."+name, name, v.c.Content[name])
	}
	for _, name := range inOrder(v.c.Tools) {
		v.tool("tools."+name, name)
		if s := v.c.Tools[name].Staging; s != "" && s != StagingAuto && s != StagingApprove {
			v.fault("tools."+name+".staging", "want auto or approve")
		}
	}
	v.approvers()
	v.principals(v.c.Principals)
	for _, name := range inOrder(v.c.Profiles) {
		v.profile("profiles."+name, name, v.c.Profiles[name])
	}
	for _, name := range inOrder(v.c.Roles) {
		v.role("roles."+name, name, v.c.Roles[name])
	}
	for _, id := range inOrder(v.c.Agents) {
		v.agent("agents."+string(id), id, v.c.Agents[id])
	}
	for _, id := range inOrder(v.c.Channels) {
		v.channel("channels."+string(id), id, v.c.Channels[id])
	}
	for _, id := range inOrder(v.c.People) {
		v.person("people."+string(id), id, v.c.People[id])
	}
	for _, name := range inOrder(v.c.Jobs) {
		v.job("jobs."+name, name, v.c.Jobs[name])
	}
	v.limits(v.c.Limits)
	v.c.Prices.Check(func(path, text string) { v.fault("prices."+path, "%s", text) })
	outlet.CheckDestinations(v.c.Alerts, func(at, text string) { v.fault("alerts"+at, "%s", text) })
	upstream.Check(v.c.Servers, func(at, text string) { v.fault("servers"+at, "%s", text) })
	v.c.Propose.Check(func(at, text string) { v.fault("propose"+at, "%s", text) })
	v.c.Telegram.Check(func(id events.PersonID) bool { return v.c.People[id].Approver }, func(at, text string) { v.fault("telegram"+at, "%s", text) })
}

// approvers says where more people must approve than can.
func (v *checker) approvers() {
	for _, name := range inOrder(v.c.Tools) {
		switch n := v.c.Tools[name].Approvers; {
		case n < 0 || n > 2:
			v.fault("tools."+name+".approvers", "want 1 or 2")
		case n == 2 && approvers(v.c) < 2:
			v.fault("tools."+name+".approvers", "two people must approve, and people has no two approvers: nothing could be approved")
		}
	}
}

func (v *checker) profile(path, name string, p Profile) {
	if name == NoProfile {
		v.fault(path, "the profile none is built in and cannot be declared")
	} else {
		v.name(path, "profile", name)
	}
	for i, scope := range p.Scopes {
		v.scope(item(path+".scopes", i), scope)
	}
	v.tools(path+".tools", p.Tools)
	v.rules(path+".allow", p.Allow, allowing)
	v.rules(path+".deny", p.Deny, denying)
}

func (v *checker) role(path, name string, r Role) {
	v.name(path, "role", name)
	if r.Version < 0 || r.Version > maxLimitCount {
		v.fault(path+".version", "want a number from 1 to %d", maxLimitCount)
	}
	v.rules(path+".grants", r.Grants, granting)
	v.tools(path+".approve", r.Approve)
	for i, child := range r.MayDeclare {
		if _, ok := v.c.Roles[child]; !ok {
			v.fault(item(path+".may_declare", i), "the role %s is not declared under roles", events.Quote(child))
		}
	}
}

func (v *checker) job(path, name string, j Job) {
	v.name(path, "job", name)
	if _, ok := v.c.Agents[j.Agent]; !ok {
		v.fault(path+".agent", "the agent %s is not declared under agents", events.Quote(string(j.Agent)))
	}
	if j.Every < minEvery || j.Every > maxLimitMicros {
		v.fault(path+".every", "want a time from 1 minute to 365 days")
	}
	if j.Task == "" || len(j.Task) > MaxTask || !utf8.ValidString(j.Task) {
		v.fault(path+".task", "say in 1 to %d bytes of UTF-8 what the round is for", MaxTask)
	}
	v.profileRef(path+".profile", j.Profile)
}

func (v *checker) agent(path string, id events.AgentID, a Agent) {
	_, err := events.ParseAgentID(string(id))
	v.err(path, err)
	if _, ok := v.c.Roles[a.Role]; !ok {
		v.fault(path+".role", "the role %s is not declared under roles", events.Quote(a.Role))
	}
	v.key(path+".key", a.Key)
	if !a.SelfRounds {
		return
	}
	for _, ch := range inOrder(v.c.Channels) {
		if v.c.Channels[ch].serves(id) {
			v.fault(path+".self_rounds", "the channel %s serves this agent: one that begins rounds by itself could go on with what somebody else asked for", ch)
		}
	}
}

func (v *checker) channel(path string, id events.ChannelID, ch Channel) {
	_, err := events.ParseChannelID(string(id))
	v.err(path, err)
	v.key(path+".key", ch.Key)
	v.agents(path+".agents", ch.Agents)
	for i, a := range ch.Agents {
		if _, ok := v.c.Agents[events.AgentID(a)]; !ok && a != "*" {
			v.fault(item(path+".agents", i), "the agent %s is not declared under agents", events.Quote(a))
		}
	}
	for _, name := range inOrder(ch.Senders) {
		v.sender(path+".senders."+name, name, ch.Senders[name])
	}
	if ch.Guest.Kind != "" {
		v.kind(path+".guest.kind", ch.Guest.Kind)
	}
	v.profileRef(path+".guest.profile", ch.Guest.Profile)
}

func (v *checker) sender(path, name string, s Sender) {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if name == "" || len(name) > MaxSender || !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable) {
		v.fault(path, "a sender's name is 1 to %d bytes of printable text", MaxSender)
	}
	v.name(path+".principal", "principal", s.Principal)
	if ch, ok := strings.CutSuffix(s.Principal, guestSuffix); ok {
		if _, ok := v.c.Channels[events.ChannelID(ch)]; ok {
			v.fault(path+".principal", "%s is the guest of the channel %s", s.Principal, ch)
		}
	}
	if job, ok := strings.CutSuffix(s.Principal, jobSuffix); ok {
		if _, ok := v.c.Jobs[job]; ok {
			v.fault(path+".principal", "%s is who talks in the rounds of the job %s", s.Principal, job)
		}
	}
	v.kind(path+".kind", s.Kind)
	v.profileRef(path+".profile", s.Profile)
}

func (v *checker) person(path string, id events.PersonID, p Person) {
	_, err := events.ParsePersonID(string(id))
	v.err(path, err)
	v.key(path+".key", p.Key)
	if p.ApproveKey != "" {
		v.key(path+".approve_key", p.ApproveKey)
	} else if p.Approver {
		v.fault(path+".approver", "an approver needs an approve_key")
	}
	v.agents(path+".observable_agents", p.ObservableAgents)
}

func (v *checker) limits(l Limits) {
	for _, m := range []struct {
		path string
		d    events.Micros
	}{
		{"limits.round_timeout", l.RoundTimeout}, {"limits.tool_time", l.ToolTime},
		{"limits.review_time", l.ReviewTime}, {"limits.trash_age", l.TrashAge},
	} {
		if m.d < 0 || m.d > maxLimitMicros {
			v.fault(m.path, "want a time from 0 (the default) to 365 days")
		}
	}
	if l.TrashSize < 0 || l.TrashSize > maxLimitBytes {
		v.fault("limits.trash_size", "want a number of bytes from 0 (the default) to %d", maxLimitBytes)
	}
	for _, m := range []struct {
		path string
		n    int
	}{{"limits.queued_calls", l.QueuedCalls}, {"limits.running_tools", l.RunningTools}} {
		if m.n < 0 || m.n > maxLimitCount {
			v.fault(m.path, "want a number from 0 (the default) to %d", maxLimitCount)
		}
	}
}

// name checks what names a scope, a profile, a role or a principal.
func (v *checker) name(path, what, s string) {
	switch {
	case len(s) > events.MaxName || !nameForm.MatchString(s):
		v.fault(path, "%s is not a name of a %s: want a lower-case letter or digit, then a-z 0-9 _ . -, at most %d in all", events.Quote(s), what, events.MaxName)
	case slices.Contains(events.ReservedNames(), s):
		v.fault(path, "%s is a reserved name", s)
	}
}

func (v *checker) err(path string, err error) {
	if err != nil {
		v.fault(path, "%v", err)
	}
}

func (v *checker) tools(path string, list []string) {
	for i, t := range list {
		v.tool(item(path, i), t)
	}
}

func (v *checker) tool(path, name string) {
	// What a server offers only it can say.
	owner, of, served := strings.Cut(name, "/")
	if _, known := v.c.Servers[owner]; served && known && of != "" && len(of) <= events.MaxName {
		return
	}
	if _, ok := LookupBuiltin(name); !ok && !v.extra[name] {
		v.fault(path, "there is no tool %s", events.Quote(name))
	}
}

func (v *checker) scope(path, name string) {
	if _, ok := v.c.Scopes[name]; !ok {
		v.fault(path, "the scope %s is not declared under scopes", events.Quote(name))
	}
}

func (v *checker) profileRef(path, name string) {
	if _, ok := v.c.Profiles[name]; !ok && name != "" && name != NoProfile {
		v.fault(path, "the profile %s is not declared under profiles", events.Quote(name))
	}
}

func (v *checker) kind(path string, k events.PrincipalKind) {
	if k != events.PrincipalUser && k != events.PrincipalGroup {
		v.fault(path, "%s is not a kind that can come over a channel: want user or group", events.Quote(string(k)))
	}
}

func (v *checker) key(path string, k events.PublicKey) {
	if !keyForm.MatchString(string(k)) {
		v.fault(path, "%s is not a public key: want U and 55 of A-Z 2-7", events.Quote(string(k)))
		return
	}
	if first, ok := v.keys[k]; ok {
		v.fault(path, "the same key as %s: every entry needs its own", first)
		return
	}
	v.keys[k] = path
}

// agents checks the form of a list that may be "*" alone.
func (v *checker) agents(path string, list []string) {
	for i, a := range list {
		if a != "*" {
			_, err := events.ParseAgentID(a)
			v.err(item(path, i), err)
		} else if len(list) > 1 {
			v.fault(item(path, i), "* is all agents and stands alone")
		}
	}
}

func item(path string, i int) string { return path + "." + strconv.Itoa(i) }

func inOrder[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// use is what a list of rules is there for.
type use int

const (
	granting use = iota // by a role
	allowing            // by a profile or a policy
	denying
)

const (
	// maxRules bounds a list of rules, maxPattern the text of a content rule's
	// pattern, in bytes.
	maxRules   = 1000
	maxPattern = 1 << 10
)

func (v *checker) rules(path string, list []Rule, what use) {
	if len(list) > maxRules {
		v.fault(path, "more than %d rules", maxRules)
	}
	for i, r := range list {
		v.rule(item(path, i), r, what)
	}
}

func (v *checker) rule(at string, r Rule, what use) {
	switch {
	case (r.Tool == "") == (r.Scope == ""):
		v.fault(at, "a rule names either a tool or a scope")
	case r.Tool != "":
		v.tool(at+".tool", r.Tool)
	default:
		v.scope(at+".scope", r.Scope)
	}
	for i, text := range r.Paths {
		_, err := paths.ParsePattern(text)
		v.err(item(at+".paths", i), err)
	}
	v.exact(at+".exact", r.Exact)
	v.when(at+".when", r.When)
	if r.MaxPerRound < 0 || r.MaxPerRound > maxLimitCount {
		v.fault(at+".max_per_round", "want a number from 1 to %d", maxLimitCount)
	}
	if r.MaxPerRound > 0 && what != granting {
		v.fault(at+".max_per_round", "only a role's grant can bound how many")
	}
	if r.CreateOnly && what != granting {
		v.fault(at+".create_only", "only a role's grant can say so")
	} else if b, _ := LookupBuiltin(r.Tool); r.CreateOnly && !b.Creates {
		v.fault(at+".create_only", "name one tool that can promise it: file.write")
	}
}

func (v *checker) when(at, expr string) {
	if _, known := v.programs[expr]; known || expr == "" {
		return
	}
	p, err := when.Compile(expr)
	if err != nil {
		v.fault(at, "%s", events.Escape(err.Error()))
		return
	}
	v.programs[expr] = p
}

// exact checks the arguments that a rule names: one object, in any order of its
// members; its canonical form is what counts.
func (v *checker) exact(at string, args jsontext.Value) {
	if len(args) == 0 {
		return
	}
	canonical := bytes.Clone(args)
	if err := (*jsontext.Value)(&canonical).Canonicalize(); err != nil || len(canonical) == 0 || canonical[0] != '{' {
		v.fault(at, "want the names and values of the arguments")
	} else if !bytes.Equal(canonical, args) {
		v.fault(at, "is not in canonical form")
	} else if len(args) > events.MaxInlineArguments {
		v.fault(at, "more than %d bytes", events.MaxInlineArguments)
	}
}

func (v *checker) content(path, name string, r ContentRule) {
	v.name(path, "content rule", name)
	if r.Pattern == "" || len(r.Pattern) > maxPattern {
		v.fault(path+".pattern", "want a pattern (RE2) of 1 to %d bytes", maxPattern)
	} else if _, err := when.PatternSize(r.Pattern); err != nil {
		v.fault(path+".pattern", "%s", events.Escape(err.Error()))
	}
	if r.Verdict != events.Deny && r.Verdict != events.Stage {
		v.fault(path+".verdict", "want deny or stage")
	}
	v.tools(path+".tools", r.Tools)
	for i, scope := range r.Scopes {
		v.scope(item(path+".scopes", i), scope)
	}
	if len(r.Reason) > maxReason {
		v.fault(path+".reason", "more than %d bytes", maxReason)
	}
}

// principals checks that each policy is about somebody who can talk: a name that
// is misspelt would narrow nothing and say so to nobody.
func (v *checker) principals(p Principals) {
	for _, kind := range inOrder(p.Kinds) {
		at := "principals.kinds." + string(kind)
		if !slices.Contains(Kinds(), kind) {
			v.fault(at, "%s is not a kind: want internal, self, sub_agent, user or group", events.Quote(string(kind)))
		}
		v.policy(at, p.Kinds[kind])
	}
	known := v.c.talkers()
	for _, id := range inOrder(p.IDs) {
		at := "principals.ids." + id
		if !known[id] {
			v.fault(at, "no channel names the principal %s", events.Quote(id))
		}
		v.policy(at, p.IDs[id])
	}
	for _, id := range inOrder(p.Channels) {
		at := "principals.channels." + string(id)
		if _, ok := v.c.Channels[id]; !ok {
			v.fault(at, "the channel %s is not declared under channels", events.Quote(string(id)))
		}
		v.policy(at, p.Channels[id])
	}
}

func (v *checker) policy(at string, p Policy) {
	if p.Only != nil && len(p.Only) == 0 {
		v.fault(at+".only", "is empty: leave it out to narrow nothing, or deny what nobody may")
	}
	v.rules(at+".only", p.Only, allowing)
	v.rules(at+".deny", p.Deny, denying)
}

// talkers are the principals of all channels, their guests too, those of the jobs, and
// the agents that begin rounds by themselves or of their children.
func (c *Catalog) talkers() map[string]bool {
	known := map[string]bool{}
	for id, a := range c.Agents {
		known[string(id)] = a.SelfRounds || len(c.Roles[a.Role].MayDeclare) > 0
	}
	for name := range c.Jobs {
		known[name+jobSuffix] = true
	}
	for id, ch := range c.Channels {
		known[string(id)+guestSuffix] = true
		for _, s := range ch.Senders {
			known[s.Principal] = true
		}
	}
	return known
}

// Kinds are the kinds of principals that a policy can be about. The caller owns the
// slice.
func Kinds() []events.PrincipalKind {
	return []events.PrincipalKind{
		events.PrincipalInternal, events.PrincipalSelf, events.PrincipalSubAgent, events.PrincipalUser, events.PrincipalGroup,
	}
}
