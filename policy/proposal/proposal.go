// Package proposal is what agents may propose: the section of the catalog that turns it
// on, and where in a repository a proposal goes.
//
// Start with [Settings] and [Proposal]. Every function is pure.
//
// What the package promises: without the section, or without enabled: true in it, nothing
// can be proposed; a proposal's path in the repository and in the folder that loads its
// kind is told by kind, agent and name alone, so that no agent writes over what another
// one proposed.
package proposal

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"gatebook/events"
)

// Bounds.
const (
	MaxKinds   = 32
	MaxName    = 100      // bytes of a name, so that no path is too long for a repository
	MaxContent = 96 << 10 // bytes; people must be able to see all of it at once
	MaxText    = 16 << 10 // bytes of what the agent says about it
)

// suffix ends the name of a proposal's document, which stands beside it.
const suffix = ".proposal.md"

// Settings say whether agents may propose, and what. The zero value is: nothing.
type Settings struct {
	Enabled bool `json:"enabled,omitzero"`
	// Repository is the whole path of the git repository that gets the proposals.
	Repository string                    `json:"repository,omitzero"`
	Kinds      map[events.AssetType]Kind `json:"kinds,omitzero"`
}

// Kind is one kind of what can be proposed.
type Kind struct {
	// Folder is where in the repository it goes; where absent that has the kind's name.
	Folder string `json:"folder,omitzero"`
	// Into is the whole path of the folder that is kept equal to what people approved of
	// the kind, for a program that loads it from there. Where absent nothing is loaded
	// until somebody fetches it.
	Into string `json:"into,omitzero"`
}

// On says whether anything can be proposed.
func (s Settings) On() bool { return s.Enabled && s.Repository != "" && len(s.Kinds) > 0 }

// Names are the kinds that can be proposed, in order.
func (s Settings) Names() []string {
	var out []string
	for name := range s.Kinds {
		out = append(out, string(name))
	}
	slices.Sort(out)
	return out
}

// Into is where approved proposals go, by kind; kinds that go nowhere are absent. That
// agents may propose no more changes nothing about what was approved.
func (s Settings) Into() map[events.AssetType]string {
	out := map[events.AssetType]string{}
	for name, k := range s.Kinds {
		if k.Into != "" {
			out[name] = k.Into
		}
	}
	return out
}

var kindForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// reserved are the kinds that are not proposed.
var reserved = []events.AssetType{events.AssetTool, events.AssetServer}

// Check says what is wrong with the section, and at which path below it.
func (s Settings) Check(fault func(at, text string)) {
	switch {
	case s.Repository == "" && s.Enabled:
		fault(".repository", "want the whole path of a git repository, because proposals are enabled")
	case s.Repository != "" && !absolute(s.Repository):
		fault(".repository", "want the whole path of a git repository")
	}
	if s.Enabled && len(s.Kinds) == 0 {
		fault(".kinds", "want at least one kind, because proposals are enabled")
	}
	if len(s.Kinds) > MaxKinds {
		fault(".kinds", fmt.Sprintf("has %d entries, at most %d", len(s.Kinds), MaxKinds))
	}
	folders, into := map[string]string{}, map[string]string{}
	if s.Repository != "" {
		into[s.Repository] = "the repository"
	}
	for _, name := range s.Names() {
		k, at := s.Kinds[events.AssetType(name)], ".kinds."+name
		if !kindForm.MatchString(name) || slices.Contains(reserved, events.AssetType(name)) {
			fault(at, "want a name of a-z 0-9 _ - that begins with a letter, other than tool and server")
		}
		folder := k.folder(events.AssetType(name))
		if !relative(folder) {
			fault(at+".folder", "want the path of a folder in the repository: relative, of a-z A-Z 0-9 _ -, with slashes")
		} else {
			apart(folders, folder, name, func(text string) { fault(at+".folder", text) })
		}
		switch {
		case k.Into == "":
		case !absolute(k.Into):
			fault(at+".into", "want the whole path of a folder")
		default:
			apart(into, k.Into, name, func(text string) { fault(at+".into", text) })
		}
	}
}

func absolute(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && p != "/" && !strings.ContainsFunc(p, func(r rune) bool { return r < ' ' })
}

var folderForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*(/[A-Za-z0-9_][A-Za-z0-9_-]*)*$`)

func relative(p string) bool { return len(p) <= 64 && folderForm.MatchString(p) }

// apart says where a folder is another one's, or inside it, in any case of its letters.
func apart(seen map[string]string, folder, name string, fault func(string)) {
	this := strings.ToLower(folder) + "/"
	for _, other := range slices.Sorted(maps.Keys(seen)) {
		that := strings.ToLower(other) + "/"
		if strings.HasPrefix(this, that) || strings.HasPrefix(that, this) {
			fault("is the folder of " + seen[other] + " too, or one of both is inside the other")
		}
	}
	seen[folder] = name
}

func (k Kind) folder(name events.AssetType) string {
	if k.Folder == "" {
		return string(name)
	}
	return k.Folder
}

// Change is one difference between two sections.
type Change struct {
	Path, Text string
	Widens     bool
}

// Compare lists the differences. Only less is harmless.
func Compare(a, b Settings) (out []Change) {
	was, is := a.texts(), b.texts()
	paths := maps.Clone(was)
	maps.Copy(paths, is)
	for _, at := range slices.Sorted(maps.Keys(paths)) {
		switch x, y := was[at], is[at]; {
		case x == y:
		case x == "":
			out = append(out, Change{at, "added (" + y + ")", true})
		case y == "":
			out = append(out, Change{at, "removed (" + x + ")", false})
		default:
			out = append(out, Change{at, "changed from " + x + " to " + y, true})
		}
	}
	return out
}

// texts are the entries by their path, for people.
func (s Settings) texts() map[string]string {
	out := map[string]string{}
	if s.Enabled {
		out["propose.enabled"] = "agents may propose"
	}
	if s.Repository != "" {
		out["propose.repository"] = s.Repository
	}
	for name, k := range s.Kinds {
		text := "in folder " + k.folder(name)
		if k.Into != "" {
			text += ", loaded from " + k.Into
		}
		out["propose.kinds."+string(name)] = text
	}
	return out
}
