package paths

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPatternMatchesExactly(t *testing.T) {
	for _, row := range []struct {
		pattern string
		yes, no string // paths, separated by spaces
	}{
		{"notes.md", "notes.md", "Notes.md notes.mdx notes.md/x x/notes.md ."},
		{".", ".", "a"},
		{"**", ". a a/b a/b/c", ""},
		{"docs/**", "docs docs/a docs/a/b", "doc docs2 docs2/a x/docs/a ."},
		{"**/a.md", "a.md x/a.md x/y/a.md", "a.md/x xa.md"},
		{"a/**/z", "a/z a/b/z a/b/c/z", "a a/z/b az"},
		{"docs/*.md", "docs/a.md docs/.md", "docs/a.txt docs/a.md/b docs/a/b.md docs"},
		{"*", "a b.c", "a/b ."},
		// The planner's file: slug is one component of [a-z0-9-].
		{"docs/intent/<slug>.md", "docs/intent/a-1.md docs/intent/-.md", "docs/intent/.md docs/intent/A.md docs/intent/a_b.md docs/intent/a.b.md docs/intent/a/b.md docs/intent/ä.md docs/intent/a.md.md docs/intentx/a.md"},
		{"a+b(c)[d]", "a+b(c)[d]", "aab(c)[d] a+bc[d]"},
		{"**/*.md", "a.md x/a.md", "a x/a"},
	} {
		t.Run(row.pattern, func(t *testing.T) {
			p, err := ParsePattern(row.pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range strings.Fields(row.yes) {
				if !p.Matches(mustPath(t, path)) || !p.Refuses(mustPath(t, path), false) {
					t.Errorf("%s does not match %s", p, path)
				}
			}
			for _, path := range strings.Fields(row.no) {
				if p.Matches(mustPath(t, path)) {
					t.Errorf("%s matches %s", p, path)
				}
			}
			if p.Matches(mustPath(t, "../x")) || !p.Refuses(mustPath(t, "../x"), false) {
				t.Error("a path that leaves the workspace is allowed nowhere and denied everywhere")
			}
		})
	}
}

func TestPatternRefusesMore(t *testing.T) {
	for _, row := range []struct {
		pattern, path    string
		refuses, deepToo bool
	}{
		{"private/**", "PRIVATE/a", true, true},
		{"private/**", "pri\u00advate/a", true, true}, // a soft hyphen, which some file systems ignore
		{"pri\u00advate/**", "private/a", true, true}, // and in the pattern as well
		{"pri\u00advate/**", "pri\u00advate/a", true, true},
		{"a\u200cb*", "a\u200cbc", true, true},
		{"👨\u200d👩.txt", "👨\u200d👩.txt", true, true},
		{"*.KEY", "a.key", true, true},
		{"a/private/**", "a", false, true},
		{"a/private/**", ".", false, true},
		{"a/private/**", "b", false, false},
		{"a/*.key", "a/b", false, false},
		{"a/*.key", "a", false, true},
		{"x/a.md", "x/a.md/b", false, false},
	} {
		t.Run(row.pattern+" "+row.path, func(t *testing.T) {
			p, err := ParsePattern(row.pattern)
			if err != nil {
				t.Fatal(err)
			}
			path := mustPath(t, row.path)
			if p.Refuses(path, false) != row.refuses || p.Refuses(path, true) != row.deepToo {
				t.Errorf("refuses %v, deep %v", p.Refuses(path, false), p.Refuses(path, true))
			}
		})
	}
}

func TestPatternFaults(t *testing.T) {
	for _, text := range []string{
		"", "/a", "a/", "a//b", "../a", "a/../b", "./a", "a**", "**b/c", "a/**/**", "***", ".trash/**", ".TRASH", `a\b`, "a:b",
		"a/\x00", "con/*", strings.Repeat("a/", 40) + "a",
	} {
		if p, err := ParsePattern(text); err == nil {
			t.Errorf("%q is taken as %v", text, p)
		}
	}
}

// A rule that denies a pattern denies at least what one that allows it allows, also
// where either holds format characters.
func TestPatternRefusesWhatItMatches(t *testing.T) {
	component := rapid.SampledFrom([]string{"a", "b", "A", "ab", "a.md", "x-1", "a\u00ad", "a\u200cb.md", "\u200d"})
	piece := rapid.SampledFrom([]string{"a", "b", "*", "**", "<slug>", "*.md", "a*", "x-<slug>", "a\u00ad", "a\u200c*", "\u200d", "*\u00ad*"})
	rapid.Check(t, func(t *rapid.T) {
		p, err := ParsePattern(strings.Join(rapid.SliceOfN(piece, 1, 5).Draw(t, "pattern"), "/"))
		if err != nil {
			t.Skip()
		}
		path := mustPath(t, strings.Join(rapid.SliceOfN(component, 1, 5).Draw(t, "path"), "/"))
		if p.Matches(path) && !p.Refuses(path, false) || p.Refuses(path, false) && !p.Refuses(path, true) {
			t.Fatalf("%s and %s: matches %v, refuses %v, deep %v", p, path, p.Matches(path), p.Refuses(path, false), p.Refuses(path, true))
		}
	})
}

func mustPath(t interface{ Fatal(...any) }, raw string) Path {
	p, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
