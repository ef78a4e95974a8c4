package policy

import (
	"testing"

	"gatebook/events"
	"gatebook/policy/asset"
	"gatebook/policy/proposal"
)

// proposing lets agents propose skills, and the worker use the tool.
func proposing(c *Catalog) {
	c.Propose = proposal.Settings{Enabled: true, Repository: "/srv/repo", Kinds: map[events.AssetType]proposal.Kind{"skill": {}}}
	w := c.Roles["worker"]
	w.Grants = append(w.Grants, Rule{Tool: ToolAssetPropose})
	c.Roles["worker"] = w
	c.Profiles["work"] = Profile{Scopes: []string{"files"}, Tools: []string{ToolAssetPropose}}
}

// It takes the section with its flag, phase 2, a grant, and a profile.
func TestMayPropose(t *testing.T) {
	for _, row := range []struct {
		name string
		edit func(*Catalog)
		on   events.Layer // that refuses; empty: it runs
		rule string
	}{
		{"all is there", func(*Catalog) {}, "", ""},
		{"no section", func(c *Catalog) { c.Propose = proposal.Settings{} }, events.LayerTool, "off"},
		{"no flag", func(c *Catalog) { c.Propose.Enabled = false }, events.LayerTool, "off"},
		{"phase 1", func(c *Catalog) { c.Phase = 1 }, events.LayerPhase, "phase"},
		{"no grant", func(c *Catalog) { c.Roles["worker"] = Role{Version: 1, Grants: []Rule{{Tool: "file.list"}}} }, events.LayerRole, "grant"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := compiled(t, proposing, row.edit)
			d := DecideCall(c, request(ToolAssetPropose), facts()).Decided
			verdict := events.Deny
			if row.on == "" {
				verdict = events.Allow
			}
			if d.Verdict != verdict || d.Layer != row.on || d.Rule != row.rule {
				t.Errorf("%s by %s, rule %s: %s", d.Verdict, d.Layer, d.Rule, d.Reason)
			}
		})
	}
}

func TestProposeAsset(t *testing.T) {
	p := proposal.Proposal{Kind: "skill", Agent: "alice", Name: "tidy.md", Content: "x"}
	for _, row := range []struct {
		name string
		edit func(*Catalog)
		of   func(*proposal.Proposal)
		f    asset.Facts
		code Code
	}{
		{"new", func(*Catalog) {}, nil, asset.Facts{}, ""},
		{"another version of what was refused", func(*Catalog) {}, nil, asset.Facts{Met: true, Highest: events.Privileged}, ""},
		{"on record", func(*Catalog) {}, nil, asset.Facts{Asset: "A1", State: events.AssetStateRefused}, CodeConflict},
		{"off meanwhile", func(c *Catalog) { c.Propose.Enabled = false }, nil, asset.Facts{}, CodeNotAllowed},
		{"another kind", func(*Catalog) {}, func(p *proposal.Proposal) { p.Kind = "policy" }, asset.Facts{}, CodeNotAllowed},
		{"as a tool", func(*Catalog) {}, func(p *proposal.Proposal) { p.Kind = events.AssetTool }, asset.Facts{}, CodeNotAllowed},
	} {
		t.Run(row.name, func(t *testing.T) {
			q := p
			if row.of != nil {
				row.of(&q)
			}
			list, no := ProposeAsset(compiled(t, proposing, row.edit), q, "c0", "d0", row.f, "A9")
			if no != nil {
				if no.Code != row.code || list != nil {
					t.Errorf("%+v, %v, want %s", no, list, row.code)
				}
				return
			}
			e, ok := list[0].(events.AssetRegistered)
			if row.code != "" || !ok || len(list) != 1 || e.Tier != events.Privileged || e.State != events.AssetStateBlocked || e.Expires != 0 || e.Version != q.Version() || e.Owner != "alice" {
				t.Errorf("%+v, want %q", list, row.code)
			}
		})
	}
}

// What an agent proposed shows nobody who may not observe the agent, but who decides and
// who runs the engine.
func TestSeesAsset(t *testing.T) {
	c := compiled(t)
	for _, row := range []struct {
		who   events.PersonID
		of    events.AssetType
		owner string
		want  bool
	}{
		{"anna", "skill", "alice", true},
		{"olga", "skill", "alice", true},
		{"sven", "skill", "alice", false},
		{"sven", "skill", "bob", true},
		{"sven", events.AssetTool, "mailer", true},
		{"nobody", "skill", "bob", false},
	} {
		if got := SeesAsset(c, row.who, row.of, row.owner); got != row.want {
			t.Errorf("%s sees the %s of %s: %t", row.who, row.of, row.owner, got)
		}
	}
}

// Turning proposals on, or having them loaded elsewhere, takes an approver; turning them
// off does not.
func TestProposalsWiden(t *testing.T) {
	off, on := compiled(t), compiled(t, proposing)
	if !Widens(Compare(off, on)) {
		t.Error("turning proposals on widens nothing")
	}
	same := func(c *Catalog) { proposing(c); c.Propose.Enabled = false }
	if Widens(Compare(on, compiled(t, same))) {
		t.Error("turning proposals off widens")
	}
	into := func(c *Catalog) {
		proposing(c)
		c.Propose.Kinds["skill"] = proposal.Kind{Into: "/srv/skills"}
	}
	if !Widens(Compare(on, compiled(t, into))) {
		t.Error("having them loaded widens nothing")
	}
	bad := sample()
	bad.Propose = proposal.Settings{Enabled: true}
	if _, err := Compile(bad); err == nil {
		t.Error("a catalog that says too little is taken")
	}
}
