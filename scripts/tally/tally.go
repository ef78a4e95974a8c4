package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// event is one line of "go test -json" (see "go doc test2json").
type event struct {
	Action     string
	Package    string
	Test       string
	Output     string
	ImportPath string // of a build
}

// Tally is the account of one run of go test. Not safe for concurrent use.
type Tally struct {
	failures io.Writer
	// output is what a test, or with an empty name its package, has said and
	// has not ended yet.
	output map[test][]string
	// broken counts the failed tests of a package.
	broken                  map[string]int
	closing                 []string // go test's own line for each package
	skips                   []string
	passed, failed, skipped int
}

type test struct{ pkg, name string }

// NewTally starts an account that writes failures as they come.
func NewTally(failures io.Writer) *Tally {
	return &Tally{failures: failures, output: map[test][]string{}, broken: map[string]int{}}
}

// Read takes events until the end of r. A line that is no event, as a crash of
// the go command may leave, is passed on to the failures.
func (t *Tally) Read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				t.print(string(line))
			} else {
				t.take(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the events of go test: %w", err)
		}
	}
}

func (t *Tally) take(e event) {
	key := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		t.print(e.Output)
	case "output":
		t.output[key] = append(t.output[key], e.Output)
		if e.Test == "" && closes(e.Output) {
			t.closing = append(t.closing, e.Output)
		}
	case "pass":
		if e.Test != "" {
			t.passed++
		}
		delete(t.output, key)
	case "skip":
		if e.Test != "" {
			t.skipped++
			t.skips = append(t.skips, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(t.output[key])))
		}
		delete(t.output, key)
	case "fail":
		t.fail(key)
	}
}

// closes says that a line is go test's last word on a package.
func closes(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t")
}

// reason is what a skipped test said, without the lines of the test runner.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- SKIP") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

func (t *Tally) fail(key test) {
	if key.name != "" {
		t.failed++
		t.broken[key.pkg]++
	} else {
		t.failPackage(key.pkg)
	}
	t.print(t.output[key]...)
	delete(t.output, key)
}

// failPackage shows what tests said that had no end, as after a time-out, and
// counts a package that failed without a failing test.
func (t *Tally) failPackage(pkg string) {
	var open []test
	for k := range t.output {
		if k.pkg == pkg && k.name != "" {
			open = append(open, k)
		}
	}
	slices.SortFunc(open, func(a, b test) int { return strings.Compare(a.name, b.name) })
	for _, k := range open {
		t.print(t.output[k]...)
		delete(t.output, k)
	}
	if t.broken[pkg] == 0 {
		t.failed++
	}
}

// print passes lines on. A failure to write them is not worth losing the count.
func (t *Tally) print(lines ...string) {
	for _, line := range lines {
		_, _ = io.WriteString(t.failures, line)
	}
}

// Close writes the account and says whether all is well.
func (t *Tally) Close(out io.Writer, noSkips bool) (bool, error) {
	slices.Sort(t.skips)
	var b strings.Builder
	for _, line := range t.closing {
		b.WriteString(line)
	}
	for _, s := range t.skips {
		b.WriteString("skipped: " + s + "\n")
	}
	ok := t.failed == 0
	if noSkips && t.skipped > 0 {
		ok = false
		b.WriteString("skipped tests count as failures here\n")
	}
	if t.passed+t.failed == 0 {
		ok = false
		b.WriteString("no test ran\n")
	}
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped)
	if _, err := io.WriteString(out, b.String()); err != nil {
		return false, fmt.Errorf("write the account: %w", err)
	}
	return ok, nil
}
