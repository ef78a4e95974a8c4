package policy

import (
	"slices"

	"gatebook/events"
)

// OwnerBuiltin is the owner, in a tool's key, of every tool that the engine
// itself holds.
const OwnerBuiltin = "builtin"

// Builtin is one entry of the closed list of built-in tools. They are
// sanctioned: they need no asset, and every other layer applies.
type Builtin struct {
	Name string
	Tier events.Tier
}

// builtins is the closed list, in order of name.
var builtins = [...]Builtin{
	{"file.append", events.Reversible},
	{"file.copy", events.Reversible},
	{"file.delete", events.Reversible},
	{"file.edit", events.Reversible},
	{"file.list", events.ReadOnly},
	{"file.move", events.Reversible},
	{"file.read", events.ReadOnly},
	{"file.restore", events.Reversible},
	{"file.search", events.ReadOnly},
	{"file.stat", events.ReadOnly},
	{"file.trash", events.ReadOnly},
	{"file.write", events.Reversible},
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

// tierOf is the tier that counts: the closed list's, else what the wiring says,
// else privileged.
func tierOf(name string, said events.Tier) events.Tier {
	if b, ok := LookupBuiltin(name); ok {
		return b.Tier
	}
	if said == events.ReadOnly || said == events.Reversible {
		return said
	}
	return events.Privileged
}
