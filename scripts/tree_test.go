// Package scripts_test holds the rules of this repository that a compiler does
// not know: the layers of the house, the budgets, and what no code may do.
//
// Start with rules in layers_test.go, budgets_test.go, syntax_test.go and
// handlers_test.go; this file reads the tree that they look at.
//
// What the package promises: the tree is read with go/parser and never through
// the go command, so that the test cache sees every file and a result is never
// older than the code; and each rule is shown a source that breaks it, so that a
// rule that sees nothing fails.
package scripts_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// module is the module path that our own imports begin with.
const module = "gatebook"

// finding is one breach: where, what, and why that is a rule.
type finding struct {
	path string // slash separated, from the root of the repository
	line int    // 0: the file or folder as a whole
	text string
}

func (f finding) String() string {
	if f.line == 0 {
		return f.path + ": " + f.text
	}
	return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.text)
}

// source is one parsed file.
type source struct {
	path string // from the root, "events/call.go"
	dir  string // "events"; "." for the root
	test bool   // a _test.go file
	size int    // lines
	ast  *ast.File
	fset *token.FileSet
	// imports are the imported paths with the place of each.
	imports map[string]*ast.ImportSpec
	// pkg and info are set for production files only. What comes from outside
	// the module has no type here.
	pkg  *types.Package
	info *types.Info
}

// forTests says that f may use what only tests may: it is a test file, or its
// package is named as a helper of tests.
func (f *source) forTests() bool {
	return f.test || strings.HasSuffix(f.ast.Name.Name, "test")
}

// under says that f is in one of the folders or below.
func (f *source) under(dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return within(f.dir, d) })
}

func (f *source) at(n ast.Node, format string, args ...any) finding {
	return finding{f.path, f.fset.Position(n.Pos()).Line, fmt.Sprintf(format, args...)}
}

var majorVersion = regexp.MustCompile(`/v[0-9]+$`)

// selects says which name of the package at importPath e selects: "Now" for
// time.Now, "" where e is something else.
func (f *source) selects(e ast.Node, importPath string) string {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	base, ok := sel.X.(*ast.Ident)
	spec := f.imports[importPath]
	if !ok || spec == nil {
		return ""
	}
	name := path.Base(majorVersion.ReplaceAllString(importPath, ""))
	if spec.Name != nil {
		name = spec.Name.Name
	}
	if base.Name != name {
		return ""
	}
	return sel.Sel.Name
}

// within says that p is dir or below it; everything is within "".
func within(p, dir string) bool {
	return dir == "" || p == dir || strings.HasPrefix(p, dir+"/")
}

// tree is all Go code of the repository, and the names at its top.
type tree struct {
	top   []string
	files []*source
}

// readTree gives the tree of the checkout, which is read once.
func readTree(t *testing.T) *tree {
	t.Helper()
	tr, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// checkout reads the checkout. Ignored files at the top are left out, and so
// are testdata, dot-folders and folders that are modules of their own.
var checkout = sync.OnceValues(func() (*tree, error) {
	const root = ".."
	ignored, err := readIgnored(filepath.Join(root, ".gitignore"))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	code := map[string]string{}
	var top []string
	for _, e := range entries {
		if ignored(e.Name()) {
			continue
		}
		top = append(top, e.Name())
		if err := readEntry(root, e.Name(), e, code); err != nil {
			return nil, err
		}
	}
	tr, err := treeOf(code)
	if err != nil {
		return nil, err
	}
	tr.top = top
	return tr, nil
})

// readEntry puts the Go files at p, and below where it is a folder, into code.
func readEntry(root, p string, e os.DirEntry, code map[string]string) error {
	switch {
	case e.Type().IsRegular() && strings.HasSuffix(p, ".go"):
		raw, err := os.ReadFile(filepath.Join(root, p))
		code[p] = string(raw)
		return err
	case !e.IsDir() || e.Name() == "testdata" || strings.HasPrefix(e.Name(), "."):
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(root, p))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "go.mod" }) {
		return nil
	}
	for _, e := range entries {
		if err := readEntry(root, path.Join(p, e.Name()), e, code); err != nil {
			return err
		}
	}
	return nil
}

// readIgnored reads the patterns that matter for names at the top.
func readIgnored(name string) (func(string) bool, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var patterns []string
	for line := range strings.Lines(string(raw)) {
		p := strings.Trim(strings.TrimSpace(line), "/")
		if p == "" || strings.HasPrefix(p, "#") {
			continue
		}
		if _, err := path.Match(p, ""); err != nil || strings.HasPrefix(p, "!") {
			return nil, fmt.Errorf("%s: this test does not understand %q", name, p)
		}
		patterns = append(patterns, p)
	}
	return func(entry string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			ok, err := path.Match(p, entry)
			return ok && err == nil
		})
	}, nil
}

// treeOf parses sources by path and resolves the names of production code.
func treeOf(code map[string]string) (*tree, error) {
	fset := token.NewFileSet()
	tr := &tree{}
	paths := make([]string, 0, len(code))
	for p := range code {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		parsed, err := parser.ParseFile(fset, p, code[p], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		f := &source{
			path: p, dir: path.Dir(p), test: strings.HasSuffix(p, "_test.go"),
			size: strings.Count(code[p], "\n"), ast: parsed, fset: fset, imports: map[string]*ast.ImportSpec{},
		}
		for _, spec := range parsed.Imports {
			if imported, err := strconv.Unquote(spec.Path.Value); err == nil {
				f.imports[imported] = spec
			}
		}
		tr.files = append(tr.files, f)
	}
	r := resolver{fset: fset, tree: tr, done: map[string]*types.Package{}}
	for _, f := range tr.files {
		r.resolve(f.dir)
	}
	return tr, nil
}

// resolver tells which declaration a name means. It knows our own packages
// only; an import from outside has no types, and faults are left to the compiler.
type resolver struct {
	fset *token.FileSet
	tree *tree
	done map[string]*types.Package
}

// Import is called by go/types.
func (r resolver) Import(importPath string) (*types.Package, error) {
	dir, ours := strings.CutPrefix(importPath, module+"/")
	if p := r.resolve(dir); ours && p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s: %w", importPath, os.ErrNotExist)
}

func (r resolver) resolve(dir string) *types.Package {
	if p, known := r.done[dir]; known {
		return p
	}
	r.done[dir] = nil // a cycle ends here
	var files []*ast.File
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Uses:  map[*ast.Ident]types.Object{},
		Defs:  map[*ast.Ident]types.Object{},
	}
	for _, f := range r.tree.files {
		if f.dir == dir && !f.test {
			files = append(files, f.ast)
		}
	}
	if len(files) == 0 {
		return nil
	}
	conf := types.Config{Importer: r, Error: func(error) {}, FakeImportC: true}
	// The error is the first of those that were left to the compiler.
	p, _ := conf.Check(path.Join(module, dir), r.fset, files, info)
	for _, f := range r.tree.files {
		if f.dir == dir && !f.test {
			f.pkg, f.info = p, info
		}
	}
	r.done[dir] = p
	return p
}

// report fails the test for each finding.
func report(t *testing.T, because string, found []finding) {
	t.Helper()
	for _, f := range found {
		t.Errorf("%s\n\tbecause %s", f, because)
	}
}
