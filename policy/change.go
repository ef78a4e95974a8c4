package policy

import (
	"cmp"
	"fmt"
	"slices"

	"gatebook/events"
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
	entries(d, "scopes", a.Scopes, b.Scopes, kind[Scope]{
		changed: func(path, _ string, x, y Scope) { d.set(path+".tools", x.Tools, y.Tools) },
	})
	entries(d, "profiles", a.Profiles, b.Profiles, kind[Profile]{
		changed: func(path, _ string, x, y Profile) {
			d.set(path+".scopes", x.Scopes, y.Scopes)
			d.set(path+".tools", x.Tools, y.Tools)
		},
	})
	entries(d, "roles", a.Roles, b.Roles, kind[Role]{changed: d.role})
	entries(d, "agents", a.Agents, b.Agents, kind[Agent]{
		label:   func(x Agent) string { return " (role " + x.Role + ")" },
		changed: d.agent,
	})
	entries(d, "channels", a.Channels, b.Channels, kind[Channel]{changed: d.channel})
	entries(d, "people", a.People, b.People, kind[Person]{label: rightsOf, changed: d.person})
	x, y := d.old.Limits(), d.next.Limits()
	d.limit("limits.round_timeout", int64(x.RoundTimeout), int64(y.RoundTimeout), true)
	d.limit("limits.tool_time", int64(x.ToolTime), int64(y.ToolTime), true)
	d.limit("limits.queued_calls", int64(x.QueuedCalls), int64(y.QueuedCalls), false)
	d.limit("limits.running_tools", int64(x.RunningTools), int64(y.RunningTools), false)
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

func (d *diff) limit(path string, x, y int64, micros bool) {
	if x == y {
		return
	}
	text := fmt.Sprintf("changed from %d to %d", x, y)
	if micros {
		text = fmt.Sprintf("changed from %s to %s", events.Micros(x).Duration(), events.Micros(y).Duration())
	}
	d.add(path, text, y > x)
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
		d.add(path, "changed from "+x+" to "+y, !d.next.profiles[y].within(d.old.profiles[x]))
	}
}

// senderProfile is guestProfile for a mapped sender. Without one the agent's
// longtime profile decides, which may allow anything or nothing: to it widens
// always, and from it whatever allows something.
func (d *diff) senderProfile(path, x, y string) {
	if x != y {
		d.add(path, "changed from "+orLongtime(x)+" to "+orLongtime(y), y == "" || !d.next.profiles[y].within(d.old.profiles[x]))
	}
}

func orLongtime(profile string) string { return cmp.Or(profile, "the agent's longtime profile") }

func (d *diff) role(path, _ string, x, y Role) {
	if x.Version != y.Version {
		d.add(path+".version", fmt.Sprintf("changed from %d to %d", x.Version, y.Version), true)
	}
	d.set(path+".grants", grantNames(x), grantNames(y))
}

func grantNames(r Role) []string {
	var out []string
	for _, g := range r.Grants {
		if g.Tool != "" {
			out = append(out, "tool "+g.Tool)
		} else {
			out = append(out, "scope "+g.Scope)
		}
	}
	return out
}

func (d *diff) agent(path, _ string, x, y Agent) {
	if x.Role != y.Role {
		d.add(path+".role", "changed from "+x.Role+" to "+y.Role, !d.next.roles[y.Role].within(d.old.roles[x.Role]))
	}
	d.value(path+".key", string(x.Key), string(y.Key))
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
		removed: func(s Sender) bool { return !d.next.profiles[most].within(d.old.profiles[s.Profile]) },
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
