package scripts_test

import (
	"slices"
	"strings"
	"testing"
)

// layer is one row of the layering: code in the folder pkg may not import what
// is in the folder mayNot, because.
type layer struct {
	pkg     string // "" is everything
	mayNot  string
	because string
	// tests: test code is held to it too.
	tests bool
}

// layers is the layering of the house, from the bottom up. A package may always
// import its own: for infra that is the one folder below it, elsewhere the
// folder at the top.
var layers = []layer{
	{"events", "policy", "facts do not change when a rule does: events is at the bottom and imports nothing of ours", false},
	{"events", "projections", "facts stand without the views made of them: events is at the bottom and imports nothing of ours", false},
	{"events", "handlers", "events is at the bottom and imports nothing of ours", false},
	{"events", "infra", "events defines the contract of the log and never sees who keeps it", false},

	{"policy", "projections", "a decision is a function of recorded facts: the handler reads them from the views and hands them over as a value", false},
	{"policy", "handlers", "rules are pure functions of their arguments; who asks must not matter", false},
	{"policy", "infra", "rules are pure functions of their arguments and touch nothing outside", false},

	{"projections", "policy", "a changed rule must not change how history reads", false},
	{"projections", "handlers", "a view is a fold of the book and nothing else; it cannot know who asks", false},
	{"projections", "infra", "a view speaks to its own Store contract, so that every store folds alike", false},

	{"handlers", "infra", "handlers translate and drive; what touches the outside is handed to them by cmd", false},

	{"infra", "handlers", "an outside thing must not know who drives it", false},
	{"infra", "infra", "each infra package is one outside thing that can be replaced alone; cmd puts them together", true},

	{"", "cmd", "cmd is the wiring; what another package needs of it belongs below", true},
	{"", "scripts", "scripts holds no product code", true},
}

// unit is the folder whose packages belong together.
func unit(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	if parts[0] == "infra" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

func (l layer) check(tr *tree) []finding {
	var found []finding
	for _, f := range tr.files {
		if !within(f.dir, l.pkg) || f.test && !l.tests {
			continue
		}
		for imported, spec := range f.imports {
			dir, ours := strings.CutPrefix(imported, module+"/")
			if ours && within(dir, l.mayNot) && unit(dir) != unit(f.dir) {
				found = append(found, f.at(spec, "imports %s", imported))
			}
		}
	}
	return found
}

func TestLayers(t *testing.T) {
	tr := readTree(t)
	for _, l := range layers {
		report(t, l.because, l.check(tr))
	}
}

func TestLayersSeeABreach(t *testing.T) {
	for _, l := range layers {
		from, to := l.pkg, l.mayNot
		switch {
		case l.pkg == "":
			from = "handlers/tools"
		case l.pkg == "infra":
			from = "infra/jetlog"
		}
		to += "/other"
		code := map[string]string{from + "/x.go": "package x\nimport _ \"gatebook/" + to + "\"\n"}
		if l.tests {
			code[from+"/x_test.go"] = code[from+"/x.go"]
		}
		if found := l.check(mustTree(t, code)); len(found) != len(code) {
			t.Errorf("%s importing %s was not seen: %v", from, to, found)
		}
	}
	own := mustTree(t, map[string]string{
		"infra/jetlog/x.go":         "package x\nimport _ \"gatebook/infra/jetlog/disk\"\n",
		"events/eventstest/x.go":    "package eventstest\nimport _ \"gatebook/events\"\n",
		"handlers/intake/x_test.go": "package x\nimport _ \"gatebook/infra/jetlog\"\n",
	})
	for _, l := range layers {
		if found := l.check(own); len(found) > 0 {
			t.Errorf("%s to %s: reported what is allowed: %v", l.pkg, l.mayNot, found)
		}
	}
}

// pure is the part of the standard library that only computes. time is here for
// its types; reading the clock is found by the syntax test.
var pure = strings.Fields(`bytes cmp crypto/hmac crypto/sha256 crypto/subtle encoding encoding/base32 encoding/base64
	encoding/binary encoding/hex errors fmt hash iter maps math math/bits path regexp regexp/syntax slices sort strconv strings time
	unicode unicode/utf16 unicode/utf8`)

var strictJSON = []string{"github.com/go-json-experiment/json", "github.com/go-json-experiment/json/jsontext"}

// celOnly is CEL, by the packages that the language of rules is made with.
var celOnly = []string{
	"cel.dev/cel-go/cel", "cel.dev/cel-go/common", "cel.dev/cel-go/common/ast", "cel.dev/cel-go/common/env",
	"cel.dev/cel-go/common/operators", "cel.dev/cel-go/common/overloads", "cel.dev/cel-go/common/types",
	"cel.dev/cel-go/common/types/ref", "cel.dev/cel-go/common/types/traits", "cel.dev/cel-go/interpreter",
}

// leaves lists every import that the packages at the bottom may have. A folder below
// one with a row of its own is held to that row alone.
var leaves = []struct {
	pkg     string
	allowed []string
	because string
}{
	{"events", slices.Concat(pure, strictJSON, []string{"context", "github.com/oklog/ulid/v2"}),
		"events is read by everything and for ever: it computes, with strict JSON and ulid as its only dependencies, and neither reads a clock nor does IO"},
	{"policy", slices.Concat(pure, strictJSON, []string{"gatebook/events"}),
		"policy is pure: no context, no clock, no randomness, no IO, so that a decision can be repeated from its recorded facts"},
	{"policy/paths", slices.Concat(pure, []string{"gatebook/events", "golang.org/x/text/unicode/norm"}),
		"what a path may be is told from its text alone, and does not depend on the rules that name it"},
	{"policy/when", slices.Concat(pure, strictJSON, celOnly, []string{"sync"}),
		"the language of rules is as pure as policy, and knows nothing of it: CEL stays behind this one package, and sync makes its environment once"},
	{"projections", slices.Concat(pure, []string{"context", "sync", "gatebook/events", "github.com/fxamacker/cbor/v2", "golang.org/x/mod/sumdb/tlog"}),
		"a view is a fold of the book: it reaches rows only through its Store contract, and encodes them with cbor and the Merkle tree of tlog"},
}

// leafOf is the nearest folder around dir that has a row in leaves; "" for none.
func leafOf(dir string) string {
	nearest := ""
	for _, l := range leaves {
		if within(dir, l.pkg) && len(l.pkg) > len(nearest) {
			nearest = l.pkg
		}
	}
	return nearest
}

// checkLeaf looks at production code alone; helpers of tests may import more.
func checkLeaf(tr *tree, pkg string, allowed []string) []finding {
	var found []finding
	for _, f := range tr.files {
		if leafOf(f.dir) != pkg || f.forTests() {
			continue
		}
		for imported, spec := range f.imports {
			own := within(imported, module+"/"+pkg)
			if !own && !slices.Contains(allowed, imported) {
				found = append(found, f.at(spec, "imports %s, which is not among the imports that %s may have", imported, pkg))
			}
		}
	}
	return found
}

func TestLeavesImportOnlyWhatTheyList(t *testing.T) {
	tr := readTree(t)
	for _, l := range leaves {
		report(t, l.because, checkLeaf(tr, l.pkg, l.allowed))
		for _, bad := range []string{"os", "net/http", "math/rand/v2", "gatebook/handlers/engine", "github.com/nats-io/nats.go", "google.golang.org/protobuf/proto"} {
			code := map[string]string{l.pkg + "/x.go": "package x\nimport _ \"" + bad + "\"\n"}
			if len(checkLeaf(mustTree(t, code), l.pkg, l.allowed)) != 1 {
				t.Errorf("%s importing %s was not seen", l.pkg, bad)
			}
		}
	}
}

// checkCEL finds CEL outside of the one package that hides it, in tests too.
func checkCEL(tr *tree) []finding {
	var found []finding
	for _, f := range tr.files {
		for imported, spec := range f.imports {
			if within(imported, "cel.dev/cel-go") && f.dir != "policy/when" {
				found = append(found, f.at(spec, "imports %s", imported))
			}
		}
	}
	return found
}

func TestOnlyWhenImportsCEL(t *testing.T) {
	report(t, "the language of rules is what policy/when makes of CEL: its bounds hold only where nobody goes around them", checkCEL(readTree(t)))
	code := "package x\nimport _ \"cel.dev/cel-go/cel\"\n"
	bad := mustTree(t, map[string]string{
		"policy/x.go": code, "policy/x_test.go": code, "handlers/engine/x.go": code, "cmd/gatebook/x.go": code, "policy/when/x.go": code,
	})
	if found := checkCEL(bad); len(found) != 4 {
		t.Errorf("4 breaches, %d found: %v", len(found), found)
	}
}

// testOnly are packages that belong to tests.
var testOnly = []string{"testing", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/rogpeppe/go-internal"}

// diffOfTests makes unified diffs. It stands among packages for tests, is none, and
// shows people what a call would change.
const diffOfTests = "github.com/rogpeppe/go-internal/diff"

// checkTestOnly finds test code in what is shipped.
func checkTestOnly(tr *tree) []finding {
	var found []finding
	for _, f := range tr.files {
		if f.forTests() {
			continue
		}
		for imported, spec := range f.imports {
			outside := imported != diffOfTests && slices.ContainsFunc(testOnly, func(p string) bool { return within(imported, p) })
			helper := within(imported, module) && strings.HasSuffix(imported, "test")
			if outside || helper {
				found = append(found, f.at(spec, "imports %s", imported))
			}
		}
	}
	return found
}

func TestProductionImportsNoTestCode(t *testing.T) {
	report(t, "what is shipped must not hold test code: put it in a _test.go file or in a package whose name ends in test",
		checkTestOnly(readTree(t)))
	bad := mustTree(t, map[string]string{
		"infra/x/a.go": "package x\nimport _ \"testing\"\n",
		"infra/x/b.go": "package x\nimport _ \"testing/fstest\"\n",
		"infra/x/c.go": "package x\nimport _ \"gatebook/events/eventstest\"\n",
		"infra/x/d.go": "package x\nimport _ \"pgregory.net/rapid\"\n",
	})
	if found := checkTestOnly(bad); len(found) != 4 {
		t.Errorf("4 breaches, %d found: %v", len(found), found)
	}
}

// topLevel is all that may lie at the top beside dot-files.
var topLevel = strings.Fields("cmd events projections handlers policy infra scripts go.mod go.sum README.md")

func checkTop(names []string) []finding {
	var found []finding
	for _, n := range names {
		if !strings.HasPrefix(n, ".") && !slices.Contains(topLevel, n) {
			found = append(found, finding{path: n, text: "does not belong at the top of the repository"})
		}
	}
	for _, n := range topLevel {
		if !slices.Contains(names, n) {
			found = append(found, finding{path: n, text: "is missing at the top of the repository"})
		}
	}
	return found
}

func TestTopLevel(t *testing.T) {
	report(t, "the top of the repository is the map of the house: one folder for each layer, and nothing else", checkTop(readTree(t).top))
	if found := checkTop(append([]string{"docs", ".ci"}, topLevel[1:]...)); len(found) != 2 {
		t.Errorf("a stray and a missing entry, %d found: %v", len(found), found)
	}
}

func mustTree(t *testing.T, code map[string]string) *tree {
	t.Helper()
	tr, err := treeOf(code)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}
