package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/policy"
	"gatebook/projections"
)

// names is a set of tools or roles.
type names map[string]bool

func setOf(list string) names {
	out := names{}
	for _, s := range strings.Fields(list) {
		out[s] = true
	}
	return out
}

func (s names) list() []string { return slices.Sorted(maps.Keys(s)) }

// rights are what the catalog of a history says, in the model's words: which tools a
// role grants, a profile allows and a scope names, which roles a role may declare, and
// which tools nobody may use, or not where this principal talks.
type rights struct {
	grants, declares, profiles, scopes, principals map[string]names
	baseline                                       names
}

func firstRights() rights {
	all := strings.Join(tried, " ")
	return rights{
		grants:   map[string]names{"top": setOf(all), "middle": setOf(all), "low": setOf("file.list file.read")},
		declares: map[string]names{"top": setOf("middle low"), "middle": setOf("middle low"), "low": {}},
		profiles: map[string]names{"owner": setOf(all), "guest": setOf("file.read"), "spare": setOf("file.list file.read")},
		scopes:   map[string]names{"writes": setOf("file.write"), "lists": setOf("file.list")}, principals: map[string]names{}, baseline: names{},
	}
}

// catalog says the same to the engine.
func (r rights) catalog(tb testing.TB) *policy.Compiled {
	base := withProfiles(tb).Catalog()
	rules := func(tools names) (out []policy.Rule) {
		for _, tool := range tools.list() {
			out = append(out, policy.Rule{Tool: tool})
		}
		return out
	}
	base.Profiles, base.Roles, base.Scopes = map[string]policy.Profile{}, map[string]policy.Role{}, map[string]policy.Scope{}
	for name, tools := range r.profiles {
		base.Profiles[name] = policy.Profile{Tools: tools.list()}
	}
	for name, tools := range r.grants {
		base.Roles[name] = policy.Role{Version: 1, Grants: rules(tools), MayDeclare: r.declares[name].list()}
	}
	for name, tools := range r.scopes {
		base.Scopes[name] = policy.Scope{Tools: tools.list()}
	}
	base.Agents = map[events.AgentID]policy.Agent{"alice": {Role: "top", Key: base.Agents["alice"].Key}, "bob": {Role: "top", Key: base.Agents["bob"].Key}}
	base.Baseline.Deny = rules(r.baseline)
	base.Principals.IDs = map[string]policy.Policy{}
	for id, tools := range r.principals {
		base.Principals.IDs[id] = policy.Policy{Deny: rules(tools)}
	}
	out, err := policy.Compile(base)
	must(tb, err)
	return out
}

// member is an agent of a history; without a parent one of the catalog.
type member struct {
	id             events.AgentID
	parent         *member
	role, longtime string
	allow, deny    string // what its parent leaves it
	gone           bool
}

func (m *member) GoString() string { return string(m.id) }

// served is a round of a history.
type served struct {
	*turn
	by      *member
	session string // its profile; empty: the longtime one
	talks   string // the principal
	cause   *served
	over    bool
}

func (r *served) GoString() string {
	return fmt.Sprintf("%s of %s, profile %q, %s talks", r.Round, r.by.id, r.session, r.talks)
}

// history is an engine, what has happened to it, and a model of who may what, which is
// made of names and sets only.
type history struct {
	*house
	rt      *rapid.T
	t       *testing.T
	now     rights
	members []*member // in the order of their begin
	rounds  []*served
	made    int // handles
}

// refuses says by whom a call of a tool in this round is refused, and why; empty where
// everybody may: the agent itself, and each one above it, in the round that caused this
// one where there is one, else with its longtime profile.
func (h *history) refuses(r *served, tool string) string {
	if r.over {
		return "the round is over"
	}
	round, talks, below := r, r.talks, (*member)(nil)
	for m := r.by; m != nil; m = m.parent {
		profile := m.longtime
		if round != nil {
			talks = round.talks
			if round.session != "" {
				profile = round.session
			}
		}
		above := below != nil
		for why, no := range map[string]bool{
			"gone": m.gone, "baseline": h.now.baseline[tool], "role": !h.now.grants[m.role][tool],
			"declares": above && !h.now.declares[m.role][below.role],
			"profile":  !h.now.profiles[profile][tool],
			"longtime": above && m.longtime != "" && !h.now.profiles[m.longtime][tool],
			"talks":    h.now.principals[talks][tool],
			"policy":   above && h.now.principals[string(m.id)][tool],
			"left":     m.allow != "" && !h.now.profiles[m.allow][tool],
			"denied":   m.deny != "" && h.now.scopes[m.deny][tool],
		} {
			if no {
				return fmt.Sprintf("%s: %s", m.id, why)
			}
		}
		if below = m; round != nil {
			round = round.cause
		}
	}
	return ""
}

func pick[V any](h *history, what string, list []V) V {
	return rapid.SampledFrom(list).Draw(h.rt, what)
}

// agree ends this history where the engine refused what the model does not, or the
// other way round.
func (h *history) agree(what string, answer any, want bool) {
	h.rt.Helper()
	if _, refused := answer.(engine.Refused); refused == want {
		h.rt.Fatalf("%s: %+v", what, answer)
	}
}

func (h *history) depth(m *member) (n int) {
	for ; m.parent != nil; m = m.parent {
		n++
	}
	return n
}

// declare makes a child, or gives one another role, or leaves it something else.
func (h *history) declare() {
	parent := pick(h, "parent", h.members)
	wish := member{
		id: pick(h, "child", []events.AgentID{"c1", "c2", "c3", "c4", "c5", "c6"}), parent: parent, role: pick(h, "role", []string{"middle", "middle", "low"}),
		allow: pick(h, "allow", []string{"", "", "owner", "spare", "guest"}), deny: pick(h, "deny", []string{"", "", "", "writes", "lists"}),
	}
	h.declared(wish)
}

func (h *history) declared(wish member) {
	at := slices.IndexFunc(h.members, func(m *member) bool { return m.id == wish.id })
	_, known := h.now.profiles[wish.allow]
	want := !wish.parent.gone && h.now.declares[wish.parent.role][wish.role] && h.depth(&wish) <= policy.MaxChildDepth &&
		(at < 0 || h.members[at].parent == wish.parent && !h.members[at].gone) && (known || wish.allow == "")
	key := events.PublicKey("U" + strings.Repeat(string(wish.id[1]-'1'+'P'), 55))
	h.agree(fmt.Sprintf("%s declares %+v", wish.parent.id, wish), h.ask(func(a engine.Answer) engine.Command {
		return &engine.DeclareChild{Answer: a, Request: policy.ChildRequest{
			Parent: wish.parent.id, Call: "C", Child: wish.id, Key: key, Role: wish.role, Allow: wish.allow, Deny: wish.deny,
		}}
	}), want)
	switch {
	case want && at < 0:
		h.members = append(h.members, &wish)
	case want:
		wish.longtime = h.members[at].longtime
		*h.members[at] = wish
	}
}

// revoke is the wish of a parent, or of somebody else.
func (h *history) revoke() {
	by, child := pick(h, "by", h.members), pick(h, "child", h.members)
	want := child.parent != nil && child.parent == by
	h.agree(fmt.Sprintf("%s revokes %s", by.id, child.id), h.ask(func(a engine.Answer) engine.Command {
		return &engine.RevokeChild{Answer: a, Request: policy.ChildRequest{Parent: by.id, Call: "C", Child: child.id}}
	}), want)
	if want && !child.gone {
		child.gone = true
		h.orphans()
	}
}

func (h *history) release() {
	one := pick(h, "who", h.members)
	if one.gone || one.parent == nil && pick(h, "stays", []bool{true, true, false}) {
		return
	}
	h.agree("release", h.ask(func(a engine.Answer) engine.Command {
		return &engine.ReleaseAgent{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Agent: one.id}
	}), true)
	one.gone = true
	h.orphans()
}

// orphans lets those go whose parents are gone or may not have them any more, and waits
// until the book says so too.
func (h *history) orphans() {
	for again := true; again; {
		again = false
		for _, m := range h.members {
			if m.parent != nil && !m.gone && (m.parent.gone || !h.now.declares[m.parent.role][m.role]) {
				m.gone, again = true, true
			}
		}
	}
	for _, m := range h.members {
		for tries := 0; m.gone && !h.released(m.id); tries++ {
			if tries > 1000 {
				h.rt.Fatalf("%s is still there", m.id)
			}
			yield(h.t)
		}
	}
}

func (h *history) released(id events.AgentID) bool {
	snap := h.store.Snapshot()
	defer snap.Close()
	row, _, err := projections.AgentByID(snap, id)
	must(h.t, err)
	return row.Released
}

// load changes the catalog: it takes something away, or gives everything back.
func (h *history) load() {
	next := h.now
	for _, m := range []*map[string]names{&next.grants, &next.declares, &next.profiles, &next.scopes, &next.principals} {
		copied := map[string]names{}
		for name, set := range *m {
			copied[name] = maps.Clone(set)
		}
		*m = copied
	}
	next.baseline = maps.Clone(next.baseline)
	tool := pick(h, "tool", tried)
	switch pick(h, "change", []string{"role", "role", "profile", "profile", "spare", "declares", "nobody", "talks", "back", "back"}) {
	case "role":
		delete(next.grants[pick(h, "role", []string{"top", "middle", "low"})], tool)
	case "profile":
		delete(next.profiles[pick(h, "profile", []string{"owner", "guest"})], tool)
	case "spare":
		delete(next.profiles, "spare")
	case "declares":
		delete(next.declares[pick(h, "role", []string{"top", "middle"})], "low")
	case "nobody":
		next.baseline[tool] = true
	case "talks":
		next.principals[pick(h, "principal", []string{"anna", "mute", "terminal-guest", "alice", "bob"})] = names{tool: true}
	default:
		next = firstRights()
	}
	h.now, h.catalog = next, next.catalog(h.t)
	v := h.ask(func(a engine.Answer) engine.Command {
		return &engine.LoadCatalog{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Next: h.catalog}
	})
	h.agree("the catalog", v, true)
	if v.(engine.Done).Changed {
		h.orphans()
	}
}

func (h *history) longtime() {
	one, profile := pick(h, "who", h.members), pick(h, "longtime", []string{"owner", "owner", "spare", "guest", ""})
	_, known := h.now.profiles[profile]
	want := !one.gone && (known || profile == "")
	h.agree(fmt.Sprintf("the longtime profile %q of %s", profile, one.id), h.party(h.t, one.id).longtime(profile), want)
	if want {
		one.longtime = profile
	}
}

// begin begins a round over the channel.
func (h *history) begin(one *member, sender string) {
	if one.gone {
		return
	}
	p := h.party(h.t, one.id)
	p.turn = h.made // handles are new
	h.made++
	r := &served{turn: p.begin(sender, "", ""), by: one}
	switch sender {
	case owner:
		r.session, r.talks = "owner", "anna"
	case absent:
		r.talks = "mute"
	default:
		r.session, r.talks = "guest", "terminal-guest"
	}
	h.rounds = append(h.rounds, r)
}

// cause begins a round of a child by one of an agent's: its parent's, or not.
func (h *history) cause(of *served, child *member) {
	want := !of.over && !child.gone && child.parent == of.by
	h.made++
	handle := fmt.Sprintf("%s caused %d", h.t.Name(), h.made)
	wish := func(a engine.Answer) engine.Command {
		return &engine.CauseRound{Context: h.t.Context(), By: of.by.id, Answer: a, Request: policy.RoundRequest{Agent: child.id, Cause: of.Round}}
	}
	var offer <-chan any
	if want {
		offer = h.send(accept(child.id, handle, ""))
	}
	got := h.ask(wish)
	h.agree(fmt.Sprintf("a round of %s causes one of %s", of.by.id, child.id), got, want)
	if !want {
		return
	}
	session := of.session
	if session == "" {
		session = of.by.longtime
	}
	if _, known := h.now.profiles[session]; !known {
		session = policy.NoProfile
	}
	began, _ := got.(engine.RoundAnswer)
	taken, _ := soon(h.t, offer).(engine.RoundAnswer)
	if began.Round != taken.Round || began.Profile != session || began.Principal != string(of.by.id) {
		h.rt.Fatalf("it has begun as %+v, for the process as %+v, want the profile %s", began, taken, session)
	}
	h.rounds = append(h.rounds, &served{turn: &turn{RoundAnswer: began, handle: handle}, by: child, session: session, talks: string(of.by.id), cause: of})
}

func (h *history) finishRound() {
	r := pick(h, "round", h.rounds)
	if r.over || r.by.gone {
		return
	}
	if r.over = true; r.cause == nil {
		h.party(h.t, r.by.id).end(r.turn, events.RoundCompleted)
		return
	}
	h.agree("end", h.ask(func(a engine.Answer) engine.Command {
		return &engine.EndRound{Answer: a, Request: policy.RoundEndRequest{
			Agent: r.by.id, Self: true, Round: r.Round, HandleHash: hashOf(r.handle), End: events.RoundCompleted,
		}}
	}), true)
}

// share is how the calls of children ended.
type share struct{ calls, allowed, caused, above int }

// call tries every tool in a round, and compares what ran with the model.
func (h *history) call(r *served, s *share) {
	ran := strings.Fields(h.party(h.t, r.by.id).tries(r.turn)[0])
	for _, tool := range tried {
		why, runs := h.refuses(r, tool), slices.Contains(ran, tool)
		if runs && why != "" {
			h.rt.Fatalf("%s of %s in the round %s ran, which is refused by %s", tool, r.by.id, r.Round, why)
		}
		if !runs && why == "" {
			h.rt.Fatalf("%s of %s in the round %s did not run, which everybody above it may", tool, r.by.id, r.Round)
		}
		if r.by.parent == nil {
			continue
		}
		s.calls++
		switch {
		case runs && r.cause != nil:
			s.caused++
			fallthrough
		case runs:
			s.allowed++
		case !strings.HasPrefix(why, string(r.by.id)):
			s.above++
		}
	}
}

// step lets one thing happen.
func (h *history) step(s *share) {
	switch pick(h, "step", strings.Fields("call call call call call begin begin cause cause cause declare declare longtime longtime load load revoke release end crash")) {
	case "call":
		h.call(pick(h, "round", h.rounds), s)
	case "begin":
		h.begin(pick(h, "who", h.members), pick(h, "sender", []string{owner, owner, guest, absent}))
	case "cause":
		of := pick(h, "of", h.rounds)
		own := slices.DeleteFunc(slices.Clone(h.members), func(m *member) bool { return m.parent != of.by })
		if len(own) == 0 || pick(h, "another's", []bool{false, false, false, true}) {
			own = h.members
		}
		h.cause(of, pick(h, "child", own))
	case "declare":
		h.declare()
	case "longtime":
		h.longtime()
	case "load":
		h.load()
	case "revoke":
		h.revoke()
	case "release":
		h.release()
	case "end":
		h.finishRound()
	case "crash":
		h.crash()
		h.start()
		h.orphans() // a start looks for them
	}
}

// Whatever was declared, revoked, released, begun and narrowed before: a call of a child
// runs only where each agent above it might make the same call itself, in the round that
// caused the child's, or with its longtime profile of this moment; and nobody runs
// anything who was revoked or released. The model says exactly who may what, so that
// nothing is refused too much either.
func TestRightsOverHistories(t *testing.T) {
	var s share
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{house: newHouse(t), rt: rt, t: t, now: firstRights()}
		h.catalog = h.now.catalog(t)
		h.start()
		defer h.finish()
		for _, id := range []events.AgentID{"alice", "bob"} {
			one := &member{id: id, role: "top", longtime: "owner"}
			h.members = append(h.members, one)
			h.party(t, id).longtime("owner")
			h.begin(one, pick(h, "sender", []string{owner, guest, absent}))
		}
		h.declared(member{id: "c1", parent: h.members[0], role: "middle"})
		h.cause(h.rounds[0], h.members[2])
		h.declared(member{id: "c2", parent: h.members[2], role: "middle"})
		h.cause(h.rounds[2], h.members[3])
		for range rapid.IntRange(8, 24).Draw(rt, "steps") {
			h.step(&s)
		}
		for _, r := range h.rounds {
			h.call(r, &s)
		}
	})
	if s.allowed < s.calls/10 || s.caused < s.calls/20 || s.above < s.calls/20 {
		t.Errorf("of %d calls of children %d ran, %d in rounds that others caused, and %d were refused by those above alone: this shows little", s.calls, s.allowed, s.caused, s.above)
	}
	t.Logf("%+v", s)
}

// What a parent denies its child, it denies what is below that as well.
func TestDenialsReachGrandchildren(t *testing.T) {
	h := newHouse(t)
	family(t, h, nil)
	h.recompile(t, func(c *policy.Catalog) { c.Scopes = map[string]policy.Scope{"probing": {Tools: []string{"probe"}}} })
	h.start()
	for _, c := range []policy.ChildRequest{
		{Parent: "alice", Child: "kid", Key: kidKey, Deny: "probing"},
		{Parent: "kid", Child: "grand", Key: "UGRAND" + kidKey[6:]},
	} {
		c.Call, c.Role = "C", "worker"
		if v := h.ask(func(a engine.Answer) engine.Command { return &engine.DeclareChild{Answer: a, Request: c} }); v == nil || fmt.Sprintf("%T", v) != "engine.Done" {
			t.Fatalf("%s: %+v", c.Child, v)
		}
	}
	for _, agent := range []events.AgentID{"alice", "kid"} { // who without it leaves nothing
		h.ask(func(a engine.Answer) engine.Command {
			return &engine.SetLongtime{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Agent: agent, Profile: "work"}
		})
	}
	v := h.ask(func(a engine.Answer) engine.Command {
		return &engine.BeginRound{Answer: a, Request: policy.RoundRequest{Channel: "terminal", Agent: "grand", Sender: "anna", HandleHash: hashOf("g"), Task: "x"}}
	})
	r, ok := v.(engine.RoundAnswer)
	if !ok {
		t.Fatalf("%+v", v)
	}
	answer := h.ask(func(a engine.Answer) engine.Command {
		c, _ := call(r.Round, "g", "k", "x", h.probe)(a).(*engine.Call)
		c.Request.Agent = "grand"
		return c
	})
	if a, ok := answer.(engine.CallAnswer); !ok || a.Layer != events.LayerAncestors || a.Rule != "child_policy" {
		t.Errorf("%+v", answer)
	}
	h.close()
}
