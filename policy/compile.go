package policy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/policy/outlet"
	"gatebook/policy/price"
	"gatebook/policy/proposal"
	"gatebook/policy/upstream"
	"gatebook/policy/when"
)

// The defaults of [Limits].
const (
	DefaultRoundTimeout events.Micros = 3_600_000_000
	DefaultToolTime     events.Micros = 30_000_000
	DefaultQueuedCalls                = 64
	DefaultRunningTools               = 16
	DefaultReviewTime   events.Micros = 86_400_000_000
	DefaultTrashAge     events.Micros = 30 * 86_400_000_000
	DefaultTrashSize                  = 1 << 30
)

// toolSet is a set of tool names.
type toolSet map[string]bool

// Compiled is a catalog without faults, ready to be asked. It never changes and
// is safe for concurrent use.
type Compiled struct {
	catalog   Catalog
	digest    events.Digest
	canonical []byte
	roles     map[string]rules
	profiles  map[string]rights
	baseline  rules
	content   []contentRule
	staging   toolSet // the tools that a role lets wait for a person
	kinds     map[events.PrincipalKind]rights
	ids       map[string]rights
	channels  map[events.ChannelID]rights
	programs  map[string]when.Program // by their text
	keys      map[events.PublicKey]bool
}

// Compile checks c and makes it fast to ask. extra names tools of the registry
// beside the closed list of built-in ones. The error wraps [ErrCatalog] and one
// [*Fault] for each thing wrong. c is copied.
func Compile(c Catalog, extra ...string) (*Compiled, error) {
	v := checker{c: c, extra: setOf(extra), keys: map[events.PublicKey]string{}, programs: map[string]when.Program{}}
	v.all()
	if len(v.faults) > 0 {
		return nil, fmt.Errorf("%w:\n%w", ErrCatalog, errors.Join(v.faults...))
	}
	normal, err := normalise(c)
	if err != nil {
		return nil, err
	}
	canonical, err := canonicalBytes(normal)
	if err != nil {
		return nil, err
	}
	out := &Compiled{
		catalog: normal, canonical: canonical, digest: events.DigestOf(canonical), programs: v.programs, keys: map[events.PublicKey]bool{},
	}
	for k := range v.keys {
		out.keys[k] = true
	}
	if err := out.index(); err != nil { // of what the checker let through
		return nil, fmt.Errorf("%w: %w", ErrCatalog, err)
	}
	return out, nil
}

// index compiles the rules. Lists are in their normal order, so that which rule is
// named first does not depend on how the file orders them.
func (c *Compiled) index() (err error) {
	catalog := &c.catalog
	policies := func(p Policy) (rights, error) { return c.compileRights(p.Only, p.Deny) }
	if c.baseline, err = c.compileRules(catalog.Baseline.Deny); err != nil {
		return err
	}
	if c.content, err = catalog.compileContent(); err != nil {
		return err
	}
	c.staging = toolSet{}
	for _, r := range catalog.Roles {
		c.staging.add(r.Approve)
	}
	if c.roles, err = compileAll(catalog.Roles, func(r Role) (rules, error) { return c.compileRules(r.Grants) }); err != nil {
		return err
	}
	c.profiles, err = compileAll(catalog.Profiles, func(p Profile) (rights, error) {
		return c.compileRights(append([]Rule{}, p.allows()...), p.Deny)
	})
	if err != nil {
		return err
	}
	if c.kinds, err = compileAll(catalog.Principals.Kinds, policies); err != nil {
		return err
	}
	if c.ids, err = compileAll(catalog.Principals.IDs, policies); err != nil {
		return err
	}
	c.channels, err = compileAll(catalog.Principals.Channels, policies)
	return err
}

// approves says whether each call of the tool by an agent of the role waits for a person.
func (c *Compiled) approves(role, tool string) bool {
	_, found := slices.BinarySearch(c.catalog.Roles[role].Approve, tool)
	return found
}

// profile is what a profile allows; nothing where it is not declared.
func (c *Compiled) profile(name string) rights {
	if r, ok := c.profiles[name]; ok {
		return r
	}
	return rights{allow: rules{}}
}

func compileAll[K comparable, V, R any](from map[K]V, compile func(V) (R, error)) (map[K]R, error) {
	out := make(map[K]R, len(from))
	for k, v := range from {
		r, err := compile(v)
		if err != nil {
			return nil, err
		}
		out[k] = r
	}
	return out, nil
}

// reads says whether the expression of any rule names a variable.
func (c *Compiled) reads(variables ...string) bool {
	for _, p := range c.programs {
		for _, v := range variables {
			if p.Reads(v) {
				return true
			}
		}
	}
	return false
}

func setOf(tools []string) toolSet {
	s := toolSet{}
	s.add(tools)
	return s
}

func (s toolSet) add(tools []string) {
	for _, t := range tools {
		s[t] = true
	}
}

// Catalog is the catalog with its lists sorted and its defaults left out.
// The caller must not change it.
func (c *Compiled) Catalog() Catalog { return c.catalog }

// Digest is the SHA-256 of [Compiled.Canonical].
func (c *Compiled) Digest() events.Digest { return c.digest }

// Canonical is the catalog in RFC 8785 form. The caller owns the slice.
func (c *Compiled) Canonical() []byte { return slices.Clone(c.canonical) }

// Limits are the limits in force, defaults filled in.
func (c *Compiled) Limits() Limits {
	var l Limits
	if c != nil {
		l = c.catalog.Limits
	}
	return Limits{
		RoundTimeout: cmp.Or(l.RoundTimeout, DefaultRoundTimeout),
		ToolTime:     cmp.Or(l.ToolTime, DefaultToolTime),
		QueuedCalls:  cmp.Or(l.QueuedCalls, DefaultQueuedCalls),
		RunningTools: cmp.Or(l.RunningTools, DefaultRunningTools),
		ReviewTime:   cmp.Or(l.ReviewTime, DefaultReviewTime),
		TrashAge:     cmp.Or(l.TrashAge, DefaultTrashAge),
		TrashSize:    cmp.Or(l.TrashSize, DefaultTrashSize),
	}
}

// Outlets are where people are told of what happens.
func (c *Compiled) Outlets() outlet.All {
	if c == nil {
		return outlet.All{}
	}
	return outlet.All{Alerts: c.catalog.Alerts, Telegram: c.catalog.Telegram}
}

// Servers are those declared. The caller MUST NOT change the map.
func (c *Compiled) Servers() map[string]upstream.Server {
	if c == nil {
		return nil
	}
	return c.catalog.Servers
}

// Proposals say what agents may propose.
func (c *Compiled) Proposals() proposal.Settings {
	if c == nil {
		return proposal.Settings{}
	}
	return c.catalog.Propose
}

// Prices are those in force.
func (c *Compiled) Prices() price.Table {
	if c == nil {
		return price.Table{}
	}
	return c.catalog.Prices
}

// PhaseInForce is the lower of the catalog's phase and set, the last
// phase.changed (0: there was none). An unknown value counts as 1.
func (c *Compiled) PhaseInForce(set int) int {
	if c == nil || c.catalog.Phase != 2 || set != 2 && set != 0 {
		return 1
	}
	return 2
}

// ParseCatalog reads the bytes of [Compiled.Canonical] strictly: bytes that do
// not encode to themselves again are refused. The error wraps [ErrCatalog].
func ParseCatalog(canonical []byte) (Catalog, error) {
	var c Catalog
	if err := json.Unmarshal(canonical, &c, json.RejectUnknownMembers(true)); err != nil {
		return Catalog{}, fmt.Errorf("%w: %w", ErrCatalog, err)
	}
	again, err := canonicalBytes(c)
	if err != nil {
		return Catalog{}, err
	}
	if !bytes.Equal(again, canonical) {
		return Catalog{}, fmt.Errorf("%w: its bytes are not in canonical form", ErrCatalog)
	}
	return c, nil
}

func canonicalBytes(c Catalog) ([]byte, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCatalog, err)
	}
	v := jsontext.Value(raw)
	if err := v.Canonicalize(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCatalog, err)
	}
	return v, nil
}

// normalise copies c in the one form that has its meaning.
func normalise(c Catalog) (Catalog, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return Catalog{}, fmt.Errorf("%w: %w", ErrCatalog, err)
	}
	var n Catalog
	if err := json.Unmarshal(raw, &n); err != nil {
		return Catalog{}, fmt.Errorf("%w: %w", ErrCatalog, err)
	}
	n.Phase = max(n.Phase, 1)
	n.Scopes = each(n.Scopes, func(s Scope) Scope { return Scope{Tools: sorted(s.Tools)} })
	n.Profiles = each(n.Profiles, func(p Profile) Profile {
		return Profile{Scopes: sorted(p.Scopes), Tools: sorted(p.Tools), Allow: sortedRules(p.Allow), Deny: sortedRules(p.Deny)}
	})
	n.Baseline.Deny = sortedRules(n.Baseline.Deny)
	n.Tools = normalTools(n.Tools)
	n.Content = each(n.Content, func(r ContentRule) ContentRule {
		r.Tools, r.Scopes = sorted(r.Tools), sorted(r.Scopes)
		return r
	})
	n.Principals = Principals{
		Kinds: each(n.Principals.Kinds, normalPolicy), IDs: each(n.Principals.IDs, normalPolicy),
		Channels: each(n.Principals.Channels, normalPolicy),
	}
	n.Roles = each(n.Roles, func(r Role) Role {
		r.Grants, r.MayDeclare, r.Approve = sortedRules(r.Grants), sorted(r.MayDeclare), sorted(r.Approve)
		return r
	})
	n.Agents = each(n.Agents, func(a Agent) Agent { return a })
	n.Channels = each(n.Channels, normalChannel)
	n.People = each(n.People, func(p Person) Person {
		p.ObservableAgents = sorted(p.ObservableAgents)
		return p
	})
	n.Jobs = each(n.Jobs, func(j Job) Job { return j })
	n.Limits = normalLimits(n.Limits)
	n.Alerts = each(n.Alerts, func(d outlet.Destination) outlet.Destination {
		d.Format = unless(d.Format, outlet.JSON)
		return d
	})
	n.Telegram.Chats = each(n.Telegram.Chats, func(c outlet.Chat) outlet.Chat { return c })
	n.Servers = each(n.Servers, func(s upstream.Server) upstream.Server {
		same := func(text string) string { return text }
		s.Env, s.ReadOnlyEnv = each(s.Env, same), each(s.ReadOnlyEnv, same)
		s.Secrets = each(s.Secrets, func(of outlet.Source) outlet.Source { return of })
		return s
	})
	n.Propose.Kinds = each(n.Propose.Kinds, func(k proposal.Kind) proposal.Kind { return k })
	n.Prices.Models = each(n.Prices.Models, func(p price.Price) price.Price { return p })
	return n, nil
}

// normalTools leaves auto out where it says nothing: of another tool it says that calls do
// not wait even where the tool is privileged.
func normalTools(m map[string]Tool) map[string]Tool {
	for name, t := range m {
		if b, ok := LookupBuiltin(name); ok && b.Tier != events.Privileged {
			t.Staging = unless(t.Staging, StagingAuto)
		}
		t.Approvers = unless(t.Approvers, 1)
		m[name] = t
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

func normalPolicy(p Policy) Policy {
	return Policy{Only: sortedRules(p.Only), Deny: sortedRules(p.Deny)}
}

// sortedRules is the list in the order of [compareRules], each rule once.
func sortedRules(list []Rule) []Rule {
	for i := range list {
		list[i].Paths = sorted(list[i].Paths)
	}
	slices.SortFunc(list, compareRules)
	return nilIfEmpty(slices.CompactFunc(list, func(a, b Rule) bool { return compareRules(a, b) == 0 }))
}

func normalChannel(ch Channel) Channel {
	ch.Agents = sorted(ch.Agents)
	ch.Senders = each(ch.Senders, func(s Sender) Sender { return s })
	if ch.Guest.Kind == events.PrincipalUser {
		ch.Guest.Kind = ""
	}
	if ch.Guest.Profile == NoProfile {
		ch.Guest.Profile = ""
	}
	return ch
}

func normalLimits(l Limits) Limits {
	return Limits{
		RoundTimeout: unless(l.RoundTimeout, DefaultRoundTimeout),
		ToolTime:     unless(l.ToolTime, DefaultToolTime),
		QueuedCalls:  unless(l.QueuedCalls, DefaultQueuedCalls),
		RunningTools: unless(l.RunningTools, DefaultRunningTools),
		ReviewTime:   unless(l.ReviewTime, DefaultReviewTime),
		TrashAge:     unless(l.TrashAge, DefaultTrashAge),
		TrashSize:    unless(l.TrashSize, DefaultTrashSize),
	}
}

// unless is v, or the zero value where v is the default.
func unless[T comparable](v, standard T) T {
	if v == standard {
		var zero T
		return zero
	}
	return v
}

func orNone(profile string) string { return cmp.Or(profile, NoProfile) }

func each[K comparable, V any](m map[K]V, f func(V) V) map[K]V {
	if len(m) == 0 {
		return nil
	}
	for k, v := range m {
		m[k] = f(v)
	}
	return m
}

func sorted(list []string) []string {
	slices.Sort(list)
	return nilIfEmpty(slices.Compact(list))
}

func nilIfEmpty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
