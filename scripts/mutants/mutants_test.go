package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The table must fit the code: each change applies exactly once, and its test is
// there. What it shows is then a matter of running it.
func TestTableFitsTheCode(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	for _, m := range table {
		if seen[m.name] || m.name == "" || m.means == "" || m.old == m.new {
			t.Errorf("%q: want a name of its own, a meaning and a change", m.name)
		}
		seen[m.name] = true
		text, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if _, err := m.apply(string(text)); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if !hasTest(t, filepath.Join(root, m.pkg), m.test) {
			t.Errorf("%s: %s has no test %s", m.name, m.pkg, m.test)
		}
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("func "+name+"(t *testing.T)")) {
			return true
		}
	}
	return false
}

const (
	greenRun   = "ok  \tm\t0.002s\n"
	redRun     = "--- FAIL: TestOdd (0.00s)\n    odd_test.go:6: odd\nFAIL\nFAIL\tm\t0.002s\nFAIL\n"
	brokenRun  = "# m\n./odd.go:3:32: undefined: x\nFAIL\tm [build failed]\nFAIL\n"
	absentRun  = "testing: warning: no tests to run\nPASS\nok  \tm\t0.002s [no tests to run]\n"
	slowRun    = "panic: test timed out after 2m0s\nFAIL\tm\t120.0s\n"
	panicRun   = "panic: odd\n\ngoroutine 7 [running]:\nFAIL\tm\t0.002s\n"
	unknownRun = "go: cannot find main module\n"
)

func TestJudge(t *testing.T) {
	failed := errors.New("exit status 1")
	for _, row := range []struct {
		name, text string
		err        error
		red, green string // what is said; empty for yes
	}{
		{"green", greenRun, nil, "stays green", ""},
		{"red", redRun, failed, "", "is red"},
		{"panics", panicRun, failed, "", "is red"},
		{"does not compile", brokenRun, failed, "does not compile", "does not compile"},
		{"no such test", absentRun, nil, "no test of this name", "no test of this name"},
		{"takes too long", slowRun, failed, "in time", "in time"},
		{"compiles too long", "", context.DeadlineExceeded, "in time", "in time"},
		{"something else", unknownRun, failed, "no test did", "is red"},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := judge(row.text, row.err)
			told(t, "red", v.red(), row.red)
			told(t, "green", v.green(), row.green)
		})
	}
}

func told(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// small is a module with one rule and its test.
var small = map[string]string{
	"go.mod":      "module m\n\ngo 1.26\n",
	"odd.go":      "package m\n\nfunc odd(n int) bool { return n%2 == 1 }\n\n// twice twice\n",
	"odd_test.go": "package m\n\nimport \"testing\"\n\nfunc TestOdd(t *testing.T) {\n\tif !odd(1) {\n\t\tt.Error(\"odd\")\n\t}\n}\n",
	".git/HEAD":   "is not copied",
}

func smallModule(t *testing.T) string {
	root := t.TempDir()
	for name, text := range small {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return root
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A whole hunt: it tells what each mutant came to, goes on after it, and leaves the
// tree as it was.
func TestHunt(t *testing.T) {
	root := smallModule(t)
	one := func(name, old, new, test string) mutant {
		return mutant{name: name, means: "means " + name, file: "odd.go", old: old, new: new, pkg: ".", test: test}
	}
	list := []mutant{
		one("seen", "== 1", "== 0", "TestOdd"),
		one("unseen", "n%2 == 1", "n == 1", "TestOdd"),
		one("moved", "twice", "once", "TestOdd"),
		one("broken", "== 1", "== x", "TestOdd"),
		one("seen-again", "== 1", "> 1", "TestOdd"),
	}
	var out bytes.Buffer
	ok, err := hunt(t.Context(), root, list, options{jobs: 2}, &out)
	if ok || err != nil {
		t.Errorf("ok %v, error %v", ok, err)
	}
	for _, want := range []string{
		"unseen", "NOT CAUGHT: means unseen: the test stays green", "NOT CAUGHT: means moved: the code moved: odd.go has the old text 2 times",
		"NOT CAUGHT: means broken: it does not compile", "mutants: 2 of 5 caught",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not said in:\n%s", want, out.String())
		}
	}
	for name, text := range small {
		if is, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(is) != text {
			t.Errorf("%s is now %q (%v)", name, is, err)
		}
	}
	out.Reset()
	if ok, err := hunt(t.Context(), root, list, options{jobs: 1, within: 1, noControl: true}, &out); !ok || err != nil || !strings.Contains(out.String(), "5 not run, which would take more than 1ns") {
		t.Errorf("%v %v %s", ok, err, out.String())
	}
}

// In the time that is left the next mutant is the first that fits in.
func TestNextFitsIn(t *testing.T) {
	dear, cheap := mutant{name: "dear", pkg: "./dear"}, mutant{name: "cheap", pkg: "./cheap"}
	h := &hunter{begun: time.Now(), within: time.Minute, waiting: []mutant{dear, cheap, dear, cheap}, longest: map[string]time.Duration{}}
	var order []string
	for m, more := h.next(); more; m, more = h.next() {
		order = append(order, m.name)
		h.note("./cheap", time.Second)
		h.note("./dear", time.Hour)
	}
	if got := strings.Join(order, " "); got != "dear cheap cheap" || len(h.waiting) != 1 {
		t.Errorf("ran %s, %d left", got, len(h.waiting))
	}
}

// A test that is red by itself shows nothing.
func TestControl(t *testing.T) {
	root := smallModule(t)
	must(t, os.WriteFile(filepath.Join(root, "odd.go"), []byte("package m\n\nfunc odd(n int) bool { return false }\n"), 0o600))
	m := mutant{name: "any", file: "odd.go", old: "false", new: "n > 1", pkg: ".", test: "TestOdd"}
	var out bytes.Buffer
	_, err := hunt(t.Context(), root, []mutant{m}, options{jobs: 1}, &out)
	told(t, "a red control", err, "without any change, .: a test is red")
}

func TestWhatChanged(t *testing.T) {
	m := mutant{file: "policy/call.go", pkg: "./handlers/engine"}
	for dir, want := range map[string]bool{"policy": true, "handlers/engine": true, "handlers": false, "policy/x": false, ".": false} {
		if m.about([]string{"events", dir}) != want {
			t.Errorf("%s: want %v", dir, want)
		}
	}
	root := smallModule(t)
	must(t, os.RemoveAll(filepath.Join(root, ".git")))
	git := func(args ...string) {
		t.Helper()
		_, err := output(t.Context(), root, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"}, args...)...)
		must(t, err)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "first")
	for _, name := range []string{"fresh/x.go", "fresh/testdata/script/y.txtar"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
	}
	must(t, os.WriteFile(filepath.Join(root, "odd.go"), []byte("package m\n"), 0o600))
	dirs, err := changedSince(t.Context(), root, "HEAD")
	if must(t, err); strings.Join(dirs, " ") != ". fresh" {
		t.Errorf("changed: %q", dirs)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"no-such"}, {"--jobs", "0"}, {"--no-such"}} {
		var out, errout bytes.Buffer
		if code := run(t.Context(), args, &out, &errout); code != 2 || errout.Len() == 0 {
			t.Errorf("%v: code %d, %s", args, code, errout.String())
		}
	}
	var out, errout bytes.Buffer
	if code := run(t.Context(), []string{"--list", "--seed", "x"}, &out, &errout); code != 0 || strings.Count(out.String(), "\n") != len(table) {
		t.Errorf("code %d: %s%s", code, out.String(), errout.String())
	}
}
