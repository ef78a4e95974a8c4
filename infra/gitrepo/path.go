package gitrepo

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"gatebook/events"
	"gatebook/policy/paths"
)

// ValidPath says whether a file may be committed under this path: relative, with
// slashes, and meaning the same file on every system. Refused with [ErrBadPath] are,
// beside what no workspace path may be (".." steps, absolute paths, backslashes,
// colons, control characters, devices, names ending in a dot or a space):
//
//   - components that begin with a dash, which programs take for an option
//   - components that begin with .git, in any spelling that a system folds to it:
//     .gitattributes, .gitmodules and .gitignore configure git, .github and its kin
//     run programs elsewhere, and .gitkeep has no content to propose
//   - .lfsconfig and .mailmap, in any spelling
//   - short names as git~1, characters that nobody sees, and <>"|?*
func ValidPath(path string) error {
	if why := badPath(path); why != "" {
		return fmt.Errorf("%w: %s %s", ErrBadPath, events.Quote(path), why)
	}
	return nil
}

func badPath(path string) string {
	if len(path) > MaxPath {
		return "is longer than 255 bytes"
	}
	p, err := paths.Parse(path)
	switch {
	case err != nil:
		return "is no path that every system takes alike: " + err.Error()
	case p.Leaves():
		return "leads out of the folder"
	case p.String() != path || path == ".":
		return "holds a . or .. step, or names no file"
	case strings.Count(path, "/") >= MaxDepth:
		return "has more than 16 components"
	}
	for part := range strings.SplitSeq(path, "/") {
		if why := badComponent(part); why != "" {
			return why
		}
	}
	return ""
}

func badComponent(part string) string {
	folded := fold(part)
	switch {
	case strings.HasPrefix(folded, "-"):
		return "has a component that begins with a dash, like an option"
	case strings.ContainsFunc(part, unseen):
		return "holds a character that nobody sees, and that some systems drop"
	case strings.ContainsAny(folded, `<>"|?*\/:`):
		return `holds one of <>"|?*\/: which some systems refuse or read otherwise`
	case strings.HasPrefix(strings.TrimLeft(folded, " "), ".git"), folded == ".lfsconfig", folded == ".mailmap":
		return "has a component that git, or who keeps git repositories, reads as configuration"
	case isShortName(folded):
		return "has a component that some systems take for a short name, like git~1"
	case folded != strings.TrimRight(folded, ". "):
		return "has a component that ends in a dot or a space, which some systems drop"
	}
	if _, err := paths.Parse(folded); err != nil {
		return "has a component that some systems take for another: " + err.Error()
	}
	return ""
}

// unseen are the characters that file systems ignore in names, or that show as
// nothing.
func unseen(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Cc, unicode.Zl, unicode.Zp,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// fold is one text for all spellings that some system takes for the same name.
func fold(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case unseen(r):
			return -1
		case r == 'ı' || r == 'İ':
			return 'i'
		}
		return unicode.ToLower(unicode.ToUpper(r)) // ſ is an s, K a k
	}, norm.NFKC.String(name))
	return norm.NFC.String(name)
}

// isShortName knows the names that FAT and NTFS make for long ones: a tilde before
// a digit.
func isShortName(name string) bool {
	_, after, ok := strings.Cut(name, "~")
	for ok {
		if after != "" && after[0] >= '0' && after[0] <= '9' {
			return true
		}
		_, after, ok = strings.Cut(after, "~")
	}
	return false
}
