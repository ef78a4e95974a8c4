package policy

import (
	"fmt"
	"slices"

	"gatebook/events"
	"gatebook/policy/asset"
)

// Builtin is one entry of the closed list of built-in tools. They are
// sanctioned: they need no asset, and every other layer applies.
type Builtin struct {
	Name string
	Tier events.Tier
	// Below says that the tool acts on everything below a folder that it is given.
	Below bool
	// Finds says that the tool finds a path that no argument names, and asks about it
	// before it acts: [DecideCall] again, with that path too.
	Finds bool
	// Creates says that the tool can promise to make a new file and replace none.
	Creates bool
}

// The tools by which an agent has children. They have no effect but events.
const (
	ToolChildBegin   = "child.begin"
	ToolChildDeclare = "child.declare"
	ToolChildRevoke  = "child.revoke"
)

// ToolAssetPropose is the tool by which an agent proposes what people may then approve.
const ToolAssetPropose = "asset.propose"

// builtins is the closed list, in order of name.
var builtins = [...]Builtin{
	{Name: ToolAssetPropose, Tier: events.Reversible},
	{Name: ToolChildBegin, Tier: events.ReadOnly},
	{Name: ToolChildDeclare, Tier: events.ReadOnly},
	{Name: ToolChildRevoke, Tier: events.ReadOnly},
	{Name: "file.append", Tier: events.Reversible},
	{Name: "file.copy", Tier: events.Reversible, Below: true},
	{Name: "file.delete", Tier: events.Reversible, Below: true},
	{Name: "file.edit", Tier: events.Reversible},
	{Name: "file.list", Tier: events.ReadOnly},
	{Name: "file.move", Tier: events.Reversible, Below: true},
	{Name: "file.read", Tier: events.ReadOnly},
	{Name: "file.restore", Tier: events.Reversible, Below: true, Finds: true},
	{Name: "file.search", Tier: events.ReadOnly, Below: true},
	{Name: "file.stat", Tier: events.ReadOnly},
	{Name: "file.trash", Tier: events.ReadOnly},
	{Name: "file.write", Tier: events.Reversible, Creates: true},
}

// Builtins is the closed list, in order of name. The caller owns the slice.
func Builtins() []Builtin { return slices.Clone(builtins[:]) }

// LookupBuiltin finds a built-in tool by the exact bytes of its name.
func LookupBuiltin(name string) (Builtin, bool) {
	for _, b := range builtins {
		if b.Name == name {
			return b, true
		}
	}
	return Builtin{}, false
}

// FindsPaths says whether the tool finds a path that no argument names.
func FindsPaths(tool events.ToolKey) bool {
	b, _ := LookupBuiltin(tool.Name)
	return tool.Owner == events.OwnerBuiltin && b.Finds
}

// ChangesPath says whether a call that changes something may change what its n-th path
// names, 0 for the first. Only of the tools of the closed list it is known that they do not.
func ChangesPath(tool events.ToolKey, n int) bool {
	return tool.Owner != events.OwnerBuiltin || tool.Name != "file.copy" || n > 0
}

// tierOf is the tier that counts of a call's tool: the closed list's, else what the wiring
// says, else privileged; of a tool that is not built in never less than is on record.
func tierOf(tool events.ToolKey, f CallFacts) events.Tier {
	if b, ok := LookupBuiltin(tool.Name); ok && tool.Owner == events.OwnerBuiltin {
		return b.Tier
	}
	said := f.Tool.Tier
	if !asset.Known(said) {
		said = events.Privileged
	}
	if tool.Owner == events.OwnerBuiltin {
		return said
	}
	return f.Asset.Effective(said)
}

// reach says whether a tool acts on what is below its paths, and whether it finds one;
// of a tool that is not in the closed list neither is known, so it acts and finds none.
func reach(name string) (below, finds bool) {
	b, ok := LookupBuiltin(name)
	return !ok || b.Below, b.Finds
}

func refuseTool(g *gate) *refused {
	if !g.facts.Tool.Known {
		return &refused{
			verdict: events.NotFound, layer: events.LayerTool, rule: "unknown",
			reason: "there is no tool " + g.name() + "; names are exact, case included",
		}
	}
	if g.req.Tool == (events.ToolKey{Owner: events.OwnerBuiltin, Name: ToolAssetPropose}) && !g.c.Proposals().On() {
		return deny(events.LayerTool, "off", "proposals are off; who keeps the catalog can turn them on (propose: enabled, repository and kinds)")
	}
	return nil
}

func refusePhase(g *gate) *refused {
	if g.phase < 2 && g.tier != events.ReadOnly {
		return deny(events.LayerPhase, "phase", fmt.Sprintf(
			"phase %d offers only read_only tools and %s is %s; an approver can raise the phase with gatebook phase 2, where the catalog says phase: 2", g.phase, g.name(), g.tier))
	}
	return nil
}

// refuseAsset asks whether a tool that is not built in may run at all. It comes late, so
// that only a call that nothing else refuses puts a new tool on record.
func refuseAsset(g *gate) *refused {
	tool := g.req.Tool
	if tool.Owner == events.OwnerBuiltin {
		return nil
	}
	g.asset = asset.OnCall(g.facts.Asset, asset.Meeting{
		Tool: tool, Definition: g.facts.Tool.Definition, Said: g.facts.Tool.Tier, Call: g.req.Call, New: g.facts.NewAsset, Now: g.facts.Now,
	})
	switch {
	case !g.asset.Runs:
		return deny(events.LayerAsset, g.asset.Rule, g.asset.Reason)
	case g.release && len(g.asset.Events) > 0: // which a release does not record
		return deny(events.LayerAsset, "changed", g.name()+" is not what it was when the call came, and nothing of that is on record; a new call puts it there")
	}
	return nil
}

func (d *diff) tools(a, b map[string]Tool) {
	for _, name := range union(a, b) {
		if x, y := max(a[name].Approvers, 1), max(b[name].Approvers, 1); x != y {
			d.add("tools."+name+".approvers", fmt.Sprintf("changed from %d to %d", x, y), y < x)
		}
		if x, y := a[name].Private, b[name].Private; x != y {
			d.add("tools."+name+".private", fmt.Sprintf("changed from %t to %t", x, y), x)
		}
		if x, y := a[name].Staging, b[name].Staging; x != y {
			d.add("tools."+name+".staging", fmt.Sprintf("changed from %s to %s", x.shown(name), y.shown(name)), y.waits() < x.waits())
		}
	}
}
