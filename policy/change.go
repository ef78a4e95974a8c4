package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gatebook/events"
	"gatebook/policy/outlet"
	"gatebook/policy/price"
	"gatebook/policy/proposal"
	"gatebook/policy/upstream"
)

// Change is one difference between two catalogs.
type Change struct {
	Path string
	// Text is for people: "agents.alice added (role worker)".
	Text string
	// Widens is true for everything but less: fewer tools, grants, senders,
	// agents or people, lower limits, a lower phase.
	Widens bool
}

// Compare lists what changed from old to next, sorted by path. old may be nil:
// everything is new and widens. The list is empty exactly where the digests are
// equal.
func Compare(old, next *Compiled) []Change {
	d := diff{old: old, next: next}
	if old == nil {
		d.old = &Compiled{catalog: Catalog{Schema: 1}}
		d.add("catalog", "is the first one", true)
	}
	d.all(d.old.catalog, next.catalog)
	if approvers(d.old.catalog) > 0 && approvers(next.catalog) == 0 {
		// It gives nobody more, but nobody could ever take it back.
		d.add("people", "has no approver any more: nothing could be approved again", true)
	}
	if len(d.out) == 0 && d.old.digest != next.digest {
		d.add("catalog", "changed in a way that this program cannot name", true)
	}
	slices.SortFunc(d.out, func(a, b Change) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Text, b.Text)) })
	return d.out
}

func approvers(c Catalog) int {
	n := 0
	for _, p := range c.People {
		if p.Approver {
			n++
		}
	}
	return n
}

// Widens says whether a list of changes widens: one that does is enough.
func Widens(changes []Change) bool {
	return slices.ContainsFunc(changes, Change.widens)
}

func (c Change) widens() bool { return c.Widens }

type diff struct {
	old, next *Compiled
	out       []Change
}

func (d *diff) add(path, what string, widens bool) {
	d.out = append(d.out, Change{Path: path, Text: events.Escape(path) + " " + what, Widens: widens})
}

func (d *diff) all(a, b Catalog) {
	if x, y := max(a.Phase, 1), max(b.Phase, 1); x != y {
		d.add("phase", fmt.Sprintf("changed from %d to %d", x, y), y > x)
	}
	denying := a.denyingScopes()
	entries(d, "scopes", a.Scopes, b.Scopes, kind[Scope]{
		changed: func(path, name string, x, y Scope) { d.scope(path+".tools", x.Tools, y.Tools, denying[name]) },
	})
	d.denials("baseline.deny", a.Baseline.Deny, b.Baseline.Deny)
	d.content(a.Content, b.Content)
	d.tools(a.Tools, b.Tools)
	entries(d, "profiles", a.Profiles, b.Profiles, kind[Profile]{
		changed: func(path, _ string, x, y Profile) {
			d.set(path+".scopes", x.Scopes, y.Scopes)
			d.set(path+".tools", x.Tools, y.Tools)
			d.grants(path+".allow", x.Allow, y.Allow)
			d.denials(path+".deny", x.Deny, y.Deny)
		},
	})
	policies(d, "principals.kinds", a.Principals.Kinds, b.Principals.Kinds)
	policies(d, "principals.ids", a.Principals.IDs, b.Principals.IDs)
	policies(d, "principals.channels", a.Principals.Channels, b.Principals.Channels)
	entries(d, "roles", a.Roles, b.Roles, kind[Role]{changed: d.role})
	entries(d, "agents", a.Agents, b.Agents, kind[Agent]{
		label:   func(x Agent) string { return " (role " + x.Role + ")" },
		changed: d.agent,
	})
	entries(d, "channels", a.Channels, b.Channels, kind[Channel]{changed: d.channel})
	entries(d, "people", a.People, b.People, kind[Person]{label: rightsOf, changed: d.person})
	entries(d, "jobs", a.Jobs, b.Jobs, kind[Job]{
		label:   func(j Job) string { return " (agent " + string(j.Agent) + ", profile " + orLongtime(j.Profile) + ")" },
		changed: d.job,
	})
	for _, c := range outlet.Compare(a.Alerts, b.Alerts, a.Telegram, b.Telegram) {
		d.add(c.Path, c.Text, true)
	}
	for _, c := range upstream.Compare(a.Servers, b.Servers) {
		d.add(c.Path, c.Text, c.Widens)
	}
	for _, c := range proposal.Compare(a.Propose, b.Propose) {
		d.add(c.Path, c.Text, c.Widens)
	}
	x, y := d.old.Limits(), d.next.Limits()
	d.limit("limits.round_timeout", int64(x.RoundTimeout), int64(y.RoundTimeout), true)
	d.limit("limits.tool_time", int64(x.ToolTime), int64(y.ToolTime), true)
	d.limit("limits.review_time", int64(x.ReviewTime), int64(y.ReviewTime), true)
	d.limit("limits.queued_calls", int64(x.QueuedCalls), int64(y.QueuedCalls), false)
	d.limit("limits.running_tools", int64(x.RunningTools), int64(y.RunningTools), false)
	d.prices(a.Prices, b.Prices)
	// With less in the trash, more is lost for good.
	d.bound("limits.trash_age", int64(x.TrashAge), int64(y.TrashAge), true, y.TrashAge < x.TrashAge)
	d.bound("limits.trash_size", int64(x.TrashSize), int64(y.TrashSize), false, y.TrashSize < x.TrashSize)
}

// kind says how entries of one kind compare. label and removed may be nil: no
// label, and removing narrows.
type kind[V any] struct {
	label   func(V) string
	removed func(V) (widens bool)
	changed func(path, key string, x, y V)
}

// entries compares two maps: what is new widens.
func entries[K ~string, V any](d *diff, path string, a, b map[K]V, k kind[V]) {
	label := func(v V) string {
		if k.label == nil {
			return ""
		}
		return k.label(v)
	}
	for _, key := range inOrder(b) {
		at := path + "." + string(key)
		if x, ok := a[key]; ok {
			k.changed(at, string(key), x, b[key])
		} else {
			d.add(at, "added"+label(b[key]), true)
		}
	}
	for _, key := range inOrder(a) {
		if _, ok := b[key]; !ok {
			d.add(path+"."+string(key), "removed"+label(a[key]), k.removed != nil && k.removed(a[key]))
		}
	}
}

// set compares two lists without order; "*" holds everything.
func (d *diff) set(path string, a, b []string) {
	for _, s := range b {
		if !slices.Contains(a, s) {
			d.add(path, "gains "+s, !slices.Contains(a, "*"))
		}
	}
	for _, s := range a {
		if !slices.Contains(b, s) {
			d.add(path, "loses "+s, false)
		}
	}
}

// scope compares the tools of a scope. What it loses is denied no more where
// something denies by it.
func (d *diff) scope(path string, a, b []string, denying bool) {
	before := len(d.out)
	d.set(path, a, b)
	for i := range d.out[before:] {
		d.out[before+i].Widens = d.out[before+i].Widens || denying
	}
}

// denyingScopes are the scopes by which rules deny, content rules look, or a parent may
// deny something to its child.
func (c Catalog) denyingScopes() map[string]bool {
	lists := [][]Rule{c.Baseline.Deny}
	for _, p := range c.Profiles {
		lists = append(lists, p.Deny)
	}
	for _, p := range c.Principals.all() {
		lists = append(lists, p.Deny)
	}
	out := map[string]bool{}
	for _, r := range slices.Concat(lists...) {
		out[r.Scope] = true
	}
	for _, r := range c.Roles {
		for scope := range c.Scopes {
			out[scope] = out[scope] || len(r.MayDeclare) > 0
		}
	}
	for _, r := range c.Content {
		for _, scope := range r.Scopes {
			out[scope] = true
		}
	}
	return out
}

func (d *diff) limit(path string, x, y int64, micros bool) {
	d.bound(path, x, y, micros, y > x)
}

func (d *diff) bound(path string, x, y int64, micros, widens bool) {
	text := fmt.Sprintf("changed from %d to %d", x, y)
	if micros {
		text = fmt.Sprintf("changed from %s to %s", events.Micros(x).Duration(), events.Micros(y).Duration())
	}
	if x != y {
		d.add(path, text, widens)
	}
}

// value compares what has no order: any change widens, but for the loss of a key.
func (d *diff) value(path, x, y string) {
	switch {
	case x == y:
	case x == "":
		d.add(path, "added", true)
	case y == "":
		d.add(path, "removed", false)
	default:
		d.add(path, "changed from "+events.Quote(x)+" to "+events.Quote(y), true)
	}
}

func (d *diff) flag(path string, x, y bool) {
	if x != y {
		d.add(path, fmt.Sprintf("changed from %t to %t", x, y), y)
	}
}

// guestProfile compares two profile names by what they allow, each in its
// catalog: a change of the profile itself is listed at the profile.
func (d *diff) guestProfile(path, x, y string) {
	if x, y = orNone(x), orNone(y); x != y {
		d.add(path, "changed from "+x+" to "+y, d.profileWidens(x, y))
	}
}

// profileWidens says whether another profile may allow what the former did not: by
// its rules, or because an expression asks for its name.
func (d *diff) profileWidens(x, y string) bool {
	next := d.next.profile(y)
	return !next.within(d.old.profile(x)) || len(next.allow) > 0 && d.next.reads("profile")
}

// senderProfile is guestProfile for a mapped sender. Without one the agent's
// longtime profile decides, which may allow anything or nothing: to it widens
// always, and from it whatever allows something.
func (d *diff) senderProfile(path, x, y string) {
	if x != y {
		d.add(path, "changed from "+orLongtime(x)+" to "+orLongtime(y), y == "" || d.profileWidens(x, y))
	}
}

func orLongtime(profile string) string { return cmp.Or(profile, "the agent's longtime profile") }

func (d *diff) role(path, _ string, x, y Role) {
	if x.Version != y.Version {
		d.add(path+".version", fmt.Sprintf("changed from %d to %d", x.Version, y.Version), true)
	}
	d.grants(path+".grants", x.Grants, y.Grants)
	d.set(path+".may_declare", x.MayDeclare, y.MayDeclare)
	d.approve(path+".approve", x.Approve, y.Approve)
}

// approve compares the tools that wait for a person: one less widens.
func (d *diff) approve(path string, x, y []string) {
	for _, tool := range x {
		if !slices.Contains(y, tool) {
			d.add(path, "loses "+tool+", whose calls run at once then", true)
		}
	}
	for _, tool := range y {
		if !slices.Contains(x, tool) {
			d.add(path, "gains "+tool+", whose calls wait for a person then", false)
		}
	}
}

func (d *diff) job(path, _ string, x, y Job) {
	d.value(path+".agent", string(x.Agent), string(y.Agent))
	d.value(path+".task", x.Task, y.Task)
	if x.Every != y.Every {
		d.add(path+".every", fmt.Sprintf("changed from %s to %s", x.Every.Duration(), y.Every.Duration()), y.Every < x.Every)
	}
	d.senderProfile(path+".profile", x.Profile, y.Profile)
}

// grants compares two lists of rules that allow. A new one widens unless an old one
// of the same tool or scope allows as much.
func (d *diff) grants(path string, a, b []Rule) {
	d.rules(path, a, b, func(r Rule) bool {
		return !slices.ContainsFunc(a, func(o Rule) bool { return o.Tool == r.Tool && o.Scope == r.Scope && r.within(o) })
	}, func(Rule) bool { return false })
}

// denials compares two lists of rules that deny: the loss of one widens unless a
// new one of the same tool or scope denies as much.
func (d *diff) denials(path string, a, b []Rule) {
	d.rules(path, a, b, func(Rule) bool { return false }, func(r Rule) bool {
		return !slices.ContainsFunc(b, func(o Rule) bool { return o.Tool == r.Tool && o.Scope == r.Scope && r.within(o) })
	})
}

// rules lists what two lists do not share; gain and loss say which of it widens.
func (d *diff) rules(path string, a, b []Rule, gain, loss func(Rule) bool) {
	lacks := func(list []Rule, r Rule) bool {
		return !slices.ContainsFunc(list, func(o Rule) bool { return compareRules(o, r) == 0 })
	}
	for _, r := range b {
		if lacks(a, r) {
			d.add(path, "gains "+r.String(), gain(r))
		}
	}
	for _, r := range a {
		if lacks(b, r) {
			d.add(path, "loses "+r.String(), loss(r))
		}
	}
}

// policies compares policies, of which each narrows: a new one never widens, the
// loss of one does.
func policies[K ~string](d *diff, path string, a, b map[K]Policy) {
	for _, key := range union(a, b) {
		x, had := a[key]
		y, has := b[key]
		at := path + "." + string(key)
		switch {
		case !had:
			d.add(at, "added", false)
		case !has:
			d.add(at, "removed", true)
		case (x.Only == nil) != (y.Only == nil):
			d.add(at+".only", "changed from "+rulesText(x.Only)+" to "+rulesText(y.Only), y.Only == nil)
		default:
			d.grants(at+".only", x.Only, y.Only)
		}
		if had && has {
			d.denials(at+".deny", x.Deny, y.Deny)
		}
	}
}

func rulesText(list []Rule) string {
	if list == nil {
		return "everything"
	}
	var out []string
	for _, r := range list {
		out = append(out, r.String())
	}
	return strings.Join(out, ", ")
}

func union[K ~string, V any](a, b map[K]V) []K {
	all := maps.Clone(a)
	if all == nil {
		all = map[K]V{}
	}
	maps.Copy(all, b)
	return inOrder(all)
}

// prices compares what models cost: only that something is not known any more widens
// nothing.
func (d *diff) prices(a, b price.Table) {
	d.value("prices.currency", a.Currency, b.Currency)
	for _, name := range union(a.Models, b.Models) {
		x, had := a.Models[name]
		y, has := b.Models[name]
		at := "prices.models." + name
		switch {
		case !had:
			d.add(at, "added: "+y.String(), true)
		case !has:
			d.add(at, "removed", false)
		case x != y:
			d.add(at, "changed from "+x.String()+" to "+y.String(), true)
		}
	}
}

func (d *diff) agent(path, _ string, x, y Agent) {
	if x.Role != y.Role {
		next := d.next.roles[y.Role]
		d.add(path+".role", "changed from "+x.Role+" to "+y.Role,
			!next.within(d.old.roles[x.Role]) || len(next) > 0 && d.next.reads("role") ||
				!subset(d.next.catalog.Roles[y.Role].MayDeclare, d.old.catalog.Roles[x.Role].MayDeclare) ||
				!subset(d.old.catalog.Roles[x.Role].Approve, d.next.catalog.Roles[y.Role].Approve))
	}
	d.value(path+".key", string(x.Key), string(y.Key))
	d.flag(path+".self_rounds", x.SelfRounds, y.SelfRounds)
}

func (d *diff) channel(path, id string, x, y Channel) {
	d.value(path+".key", string(x.Key), string(y.Key))
	d.set(path+".agents", x.Agents, y.Agents)
	guest, most := talks(Channel{Guest: y.Guest}, events.ChannelID(id), "")
	entries(d, path+".senders", x.Senders, y.Senders, kind[Sender]{
		label: func(s Sender) string {
			return " (principal " + s.Principal + ", profile " + orLongtime(s.Profile) + ")"
		},
		// Without an entry the sender is the guest, who may have more.
		removed: func(s Sender) bool {
			return d.profileWidens(s.Profile, most) || len(d.next.profile(most).allow) > 0 && d.next.talksWider(s, guest)
		},
		changed: func(path, _ string, a, b Sender) {
			d.value(path+".principal", a.Principal, b.Principal)
			d.value(path+".kind", string(a.Kind), string(b.Kind))
			d.senderProfile(path+".profile", a.Profile, b.Profile)
		},
	})
	former, _ := talks(Channel{Guest: x.Guest}, events.ChannelID(id), "")
	d.value(path+".guest.kind", string(former.Kind), string(guest.Kind))
	d.guestProfile(path+".guest.profile", x.Guest.Profile, y.Guest.Profile)
}

// talksWider says whether the sender may more once they are the guest, whatever the
// profile is: a policy is about the sender and not as narrow about the guest, or an
// expression asks who talks.
func (c *Compiled) talksWider(s Sender, guest events.Principal) bool {
	return !c.kinds[guest.Kind].within(c.kinds[s.Kind]) || !c.ids[guest.ID].within(c.ids[s.Principal]) ||
		c.reads("principal.id", "principal.kind")
}

func (d *diff) person(path, _ string, x, y Person) {
	d.value(path+".key", string(x.Key), string(y.Key))
	d.value(path+".approve_key", string(x.ApproveKey), string(y.ApproveKey))
	d.flag(path+".approver", x.Approver, y.Approver)
	d.flag(path+".supervisor", x.Supervisor, y.Supervisor)
	d.flag(path+".operator", x.Operator, y.Operator)
	d.set(path+".observable_agents", x.ObservableAgents, y.ObservableAgents)
}

func rightsOf(p Person) string {
	out := ""
	for _, r := range []struct {
		has  bool
		name string
	}{{p.Approver, " approver"}, {p.Supervisor, " supervisor"}, {p.Operator, " operator"}} {
		if r.has {
			out += r.name
		}
	}
	return cmp.Or(out, " without rights")
}

// CatalogRequest is a wish to put a catalog in force.
type CatalogRequest struct {
	By events.Actor
	// Approves says that it came with the person's approving key.
	Approves bool
	Next     *Compiled
}

// LoadCatalog answers it. A catalog that only narrows applies at once, whoever
// asks; one that widens needs an approver of the catalog in force, or, where
// there is none, of the new one. The same catalog gives no events.
func LoadCatalog(current *Compiled, req CatalogRequest) ([]events.Event, *Refusal) {
	if req.Next == nil {
		return nil, refuse(CodeInvalid, "there is no catalog to load")
	}
	changes := Compare(current, req.Next)
	if len(changes) == 0 {
		return nil, nil
	}
	loaded := events.CatalogLoaded{Digest: req.Next.digest, Size: int64(len(req.Next.canonical))}
	if Widens(changes) {
		judge := current
		if judge == nil {
			judge = req.Next
		}
		if !judge.mayApprove(req.By, req.Approves) {
			first := changes[slices.IndexFunc(changes, Change.widens)]
			return nil, refuse(CodeNotAllowed, events.Cut("the catalog widens what is in force ("+first.Text+"); that waits until an approver runs gatebook catalog approve", maxReason))
		}
		loaded.Widens = true
		loaded.ApprovedBy = events.PersonID(req.By.ID)
	}
	return []events.Event{loaded}, nil
}
