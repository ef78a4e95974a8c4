package main

import (
	"strings"
	"testing"
)

// lines makes a stream of events from short forms: "action package test output".
func lines(events ...[4]string) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(`{"Time":"2026-01-01T00:00:00Z","Action":"` + e[0] + `","Package":"` + e[1] + `","Test":"` + e[2] + `","Output":"` + e[3] + "\"}\n")
	}
	return b.String()
}

func TestTally(t *testing.T) {
	pass := [4]string{"pass", "m/a", "TestA", ""}
	skipped := lines(
		[4]string{"run", "m/a", "TestB", ""},
		[4]string{"output", "m/a", "TestB", `=== RUN   TestB\n`},
		[4]string{"output", "m/a", "TestB", `    a_test.go:7: needs a mount namespace\n`},
		[4]string{"output", "m/a", "TestB", `--- SKIP: TestB (0.00s)\n`},
		[4]string{"skip", "m/a", "TestB", ""})
	for _, c := range []struct {
		name            string
		in              string
		noSkips         bool
		ok              bool
		out, notOut     string
		failures, quiet string
	}{
		{name: "a pass closes with the line of go test",
			in: lines(pass, [4]string{"output", "m/a", "", `PASS\n`}, [4]string{"output", "m/a", "", `ok  \tm/a\t0.1s\n`}, [4]string{"pass", "m/a", "", ""}),
			ok: true, out: "ok  \tm/a\t0.1s\n1 passed, 0 failed, 0 skipped\n", quiet: "PASS"},
		{name: "what a passing test says stays out",
			in: lines([4]string{"output", "m/a", "TestA", `chatter\n`}, pass), ok: true, out: "1 passed", quiet: "chatter"},
		{name: "a skip is named with its reason",
			in: lines(pass) + skipped, ok: true,
			out: "skipped: m/a TestB: a_test.go:7: needs a mount namespace\n1 passed, 0 failed, 1 skipped\n"},
		{name: "a skip fails where none may be",
			in: lines(pass) + skipped, noSkips: true, out: "1 passed, 0 failed, 1 skipped\n"},
		{name: "a package without tests is no skip",
			in: lines(pass, [4]string{"output", "m/b", "", `?   \tm/b\t[no test files]\n`}, [4]string{"skip", "m/b", "", ""}), noSkips: true,
			ok: true, out: "1 passed, 0 failed, 0 skipped\n", notOut: "m/b"},
		{name: "a failure is shown",
			in: lines([4]string{"output", "m/a", "TestA", `    a_test.go:3: wrong\n`}, [4]string{"fail", "m/a", "TestA", ""},
				[4]string{"output", "m/a", "", `FAIL\tm/a\t0.1s\n`}, [4]string{"fail", "m/a", "", ""}),
			out: "FAIL\tm/a\t0.1s\n0 passed, 1 failed, 0 skipped\n", failures: "a_test.go:3: wrong"},
		{name: "a build that fails is a failure",
			in: `{"ImportPath":"m/a","Action":"build-output","Output":"a.go:1: undefined: x\n"}` + "\n" +
				lines(pass, [4]string{"output", "m/a", "", `FAIL\tm/a [build failed]\n`}, [4]string{"fail", "m/a", "", ""}),
			out: "1 passed, 1 failed, 0 skipped\n", failures: "undefined: x"},
		{name: "a test that never ended is shown",
			in:  lines(pass, [4]string{"output", "m/a", "TestC", `panic: test timed out\n`}, [4]string{"fail", "m/a", "", ""}),
			out: "1 passed, 1 failed, 0 skipped\n", failures: "panic: test timed out"},
		{name: "no test is no success", in: "", out: "no test ran\n"},
		{name: "what is no event is shown", in: "go: crashed\n" + lines(pass), ok: true, out: "1 passed", failures: "go: crashed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, failures strings.Builder
			ok, err := run(strings.NewReader(c.in), &out, &failures, c.noSkips)
			if err != nil || ok != c.ok {
				t.Errorf("ok = %v, %v; want %v", ok, err, c.ok)
			}
			if !strings.Contains(out.String(), c.out) || c.notOut != "" && strings.Contains(out.String(), c.notOut) {
				t.Errorf("output %q", out.String())
			}
			if !strings.Contains(failures.String(), c.failures) || c.quiet != "" && strings.Contains(failures.String(), c.quiet) {
				t.Errorf("failures %q", failures.String())
			}
		})
	}
}
