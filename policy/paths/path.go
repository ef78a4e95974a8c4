package paths

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"gatebook/events"
)

// The bounds of a workspace path, in bytes and components.
const (
	MaxPath       = 4096
	MaxComponent  = 255
	MaxComponents = 64
)

// trash is the folder in a workspace that only file.trash, file.delete and
// file.restore reach, by their own means.
const trash = ".trash"

// Path is a workspace path after the lexical rules, which are the same on every
// OS. The zero value leaves the workspace.
type Path struct {
	clean    string // empty: leaves
	given    string
	reserved bool
}

// String is the clean path: components joined by slashes, "." for the workspace
// itself, never a ".." step. It is empty where the path leaves the workspace.
func (p Path) String() string { return p.clean }

// Given is the path as it was given.
func (p Path) Given() string { return p.given }

// Leaves says that the path steps out of the workspace at some point.
func (p Path) Leaves() bool { return p.clean == "" }

// Reserved says that the path is in the trash folder, which has tools of its own.
func (p Path) Reserved() bool { return p.reserved }

// Error says why a text is no workspace path.
type Error struct{ raw, why string }

func (e *Error) Error() string { return events.Quote(e.raw) + " " + e.why }

// Parse applies the lexical rules. Its only error is an [*Error]. A path that leaves
// the workspace is no error: refusing it is policy.
func Parse(raw string) (Path, error) {
	if why := checkWhole(raw); why != "" {
		return Path{}, &Error{raw, why}
	}
	parts := strings.Split(raw, "/")
	if len(parts) > MaxComponents {
		return Path{}, &Error{raw, "has more than 64 components"}
	}
	var kept []string
	leaves := false
	for _, part := range parts {
		if why := checkComponent(part); why != "" {
			return Path{}, &Error{raw, why}
		}
		switch {
		case part == ".":
		case part != "..":
			kept = append(kept, part)
		case len(kept) > 0:
			kept = kept[:len(kept)-1]
		default:
			leaves = true
		}
	}
	if leaves {
		return Path{given: raw}, nil
	}
	if len(kept) == 0 {
		return Path{clean: ".", given: raw}, nil
	}
	return Path{clean: strings.Join(kept, "/"), given: raw, reserved: isTrash(kept[0])}, nil
}

// checkWhole holds the rules that look at the whole text; "" means none broken.
func checkWhole(raw string) string {
	switch {
	case raw == "":
		return "is empty: name a path in the workspace, or . for the workspace itself"
	case len(raw) > MaxPath:
		return "is longer than 4096 bytes"
	case !utf8.ValidString(raw):
		return "is not valid UTF-8"
	case strings.ContainsFunc(raw, unicode.IsControl):
		return "holds a control character"
	case strings.Contains(raw, `\`):
		return "holds a backslash: separate components by /"
	case strings.Contains(raw, ":"):
		return "holds a colon, which names drives and streams on some systems"
	case raw[0] == '/':
		return "is absolute: name a path in the workspace"
	case raw[len(raw)-1] == '/':
		return "ends in a slash: leave it out"
	case strings.Contains(raw, "//"):
		return "holds an empty component"
	}
	return ""
}

// checkComponent holds the rules for one component; "" means none broken.
func checkComponent(part string) string {
	switch {
	case part == "." || part == "..":
		return ""
	case len(part) > MaxComponent:
		return "has a component longer than 255 bytes"
	case strings.HasSuffix(part, ".") || strings.HasSuffix(part, " "):
		return "has a component that ends in a dot or a space, which some systems drop"
	case !norm.NFC.IsNormalString(part):
		return "is not in composed form (Unicode NFC)"
	case isDevice(part):
		return "names a device on some systems"
	}
	return ""
}

// isDevice knows the device names of every OS, with any extension and with
// spaces before it.
func isDevice(part string) bool {
	base, _, _ := strings.Cut(part, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}
	number, ok := strings.CutPrefix(base, "COM")
	if !ok {
		number, ok = strings.CutPrefix(base, "LPT")
	}
	return ok && utf8.RuneCountInString(number) == 1 && strings.Contains("123456789¹²³", number)
}

// isTrash compares case-folded and without format characters, which some file
// systems ignore in names.
func isTrash(part string) bool {
	return strings.EqualFold(plainName(part), trash)
}

// plainName is a component without format characters.
func plainName(part string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, part)
}

// Within says whether the slash-separated path name is root or below it,
// component by component: a sibling that shares root's prefix is not. It is
// lexical and follows no link. No decision asks it: it is the containment test
// (O-P01) for whoever needs one, so that nobody writes a prefix test of their own.
func Within(root, name string) bool {
	root, name = path.Clean(root), path.Clean(name)
	if root == "." {
		return name != ".." && !strings.HasPrefix(name, "../") && !path.IsAbs(name)
	}
	return name == root || strings.HasPrefix(name, strings.TrimSuffix(root, "/")+"/")
}
