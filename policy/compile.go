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
)

// The defaults of [Limits].
const (
	DefaultRoundTimeout events.Micros = 3_600_000_000
	DefaultToolTime     events.Micros = 30_000_000
	DefaultQueuedCalls                = 64
	DefaultRunningTools               = 16
)

// toolSet is a set of tool names.
type toolSet map[string]bool

func (s toolSet) within(other toolSet) bool {
	for tool := range s {
		if !other[tool] {
			return false
		}
	}
	return true
}

// Compiled is a catalog without faults, ready to be asked. It never changes and
// is safe for concurrent use.
type Compiled struct {
	catalog   Catalog
	digest    events.Digest
	canonical []byte
	roles     map[string]toolSet
	profiles  map[string]toolSet
}

// Compile checks c and makes it fast to ask. extra names tools of the registry
// beside the closed list of built-in ones. The error wraps [ErrCatalog] and one
// [*Fault] for each thing wrong. c is copied.
func Compile(c Catalog, extra ...string) (*Compiled, error) {
	v := checker{c: c, extra: setOf(extra), keys: map[events.PublicKey]string{}}
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
		catalog: normal, canonical: canonical, digest: events.DigestOf(canonical),
		roles: map[string]toolSet{}, profiles: map[string]toolSet{},
	}
	out.index()
	return out, nil
}

func (c *Compiled) index() {
	for name, p := range c.catalog.Profiles {
		set := setOf(p.Tools)
		for _, scope := range p.Scopes {
			set.add(c.catalog.Scopes[scope].Tools)
		}
		c.profiles[name] = set
	}
	for name, r := range c.catalog.Roles {
		set := toolSet{}
		for _, g := range r.Grants {
			if g.Tool != "" {
				set[g.Tool] = true
			}
			set.add(c.catalog.Scopes[g.Scope].Tools)
		}
		c.roles[name] = set
	}
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
	}
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
		return Profile{Scopes: sorted(p.Scopes), Tools: sorted(p.Tools)}
	})
	n.Roles = each(n.Roles, func(r Role) Role {
		slices.SortFunc(r.Grants, func(a, b Grant) int {
			return cmp.Or(cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Scope, b.Scope))
		})
		r.Grants = nilIfEmpty(slices.Compact(r.Grants))
		return r
	})
	n.Agents = each(n.Agents, func(a Agent) Agent { return a })
	n.Channels = each(n.Channels, normalChannel)
	n.People = each(n.People, func(p Person) Person {
		p.ObservableAgents = sorted(p.ObservableAgents)
		return p
	})
	n.Limits = normalLimits(n.Limits)
	return n, nil
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
