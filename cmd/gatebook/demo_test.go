package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"
)

// demoLimit is what the demonstration may take once it is built; a build with the
// race detector, which is several times as slow, is given more.
func demoLimit() time.Duration {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				return longEnough
			}
		}
	}
	return 20 * time.Second
}

// demoRun prepares a demonstration whose temporary folder is a new one. That
// folder must be empty in the end, however the demonstration ends.
func demoRun(t *testing.T, flags ...string) *exec.Cmd {
	t.Helper()
	temp := t.TempDir()
	ctx, stop := context.WithTimeout(t.Context(), longEnough)
	t.Cleanup(func() {
		stop()
		left, err := os.ReadDir(temp)
		if err != nil || len(left) > 0 {
			t.Errorf("the demonstration left %v behind (%v)", left, err)
		}
	})
	cmd := exec.CommandContext(ctx, "gatebook", append([]string{"demo"}, flags...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "HOME="+temp)
	return cmd
}

// demoOutput is what a demonstration printed that must succeed in time.
func demoOutput(t *testing.T, flags ...string) string {
	t.Helper()
	cmd := demoRun(t, flags...)
	var errs strings.Builder
	cmd.Stderr = &errs
	begun := time.Now()
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("gatebook demo: %v\n%s%s", err, out, errs.String())
	}
	if spent := time.Since(begun); spent > demoLimit() {
		t.Errorf("the demonstration took %s, want at most %s", spent, demoLimit())
	}
	return string(out)
}

// The story shows everything that it must, in this order.
func TestDemoTellsItsStory(t *testing.T) {
	out := demoOutput(t)
	rest := out
	for _, want := range []string{
		`engine     ready on 127\.0\.0\.1:\d+ \(process \d+\)`,
		`round for assistant: anna is owner \(user\), profile work`,
		`round for desk: visitor is terminal-guest \(user\), profile guest`,
		`desk       file\.write .*\n +-> denied by layer profile: .*guest, does not allow file\.write`,
		`planner    file\.delete .*\n +-> denied by layer role: the role planner does not grant file\.delete`,
		`file\.read {"path":"\.\./\.\./gatebook\.yaml"}\n +-> denied by layer role: .*leaves the workspace`,
		`file\.shred .*\n +-> not_found by layer tool`,
		`"contents":"a"}\n +-> rejected by layer decode: contents: unknown argument`,
		`with the key plan\n +-> ok: `,
		`with the key plan\n +-> ok, as recorded`,
		`with the key plan\n +-> rejected by layer round: the key`,
		`file\.delete .*\n +-> ok: `,
		`file\.trash {}\n +-> ok: .*"path":"party/guests\.txt"`,
		`file\.restore .*\n +-> ok: `,
		`demo\.wait runs as call [0-9A-Z]{26}`,
		`engine     killed with SIGKILL`,
		`engine     ready on `,
		`asks how the call with the key slow ended\n +-> unknown, as recorded`,
		`with the key slow\n +-> unknown, as recorded`,
		`file\.read {"path":"plan\.txt"}\n +-> ok: .*cake`,
		`(?m)^AGENT +STEP +TALKING +TOOL `,
		`(?m)^planner +4 +owner +demo\.wait +\S+ +allow +unknown +-`,
		`Call [0-9A-Z]{26}, demo\.wait of planner, is unknown: `,
		`Receipts:`,
		`(?m)^assistant +owner +user +plan the party +completed +8 `,
		`the tree of \d+ events verifies, root \S+`,
		`Done in `,
	} {
		at := regexp.MustCompile(want).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no %s in what follows of\n%s", want, out)
		}
		rest = rest[at[1]:]
	}
	if regexp.MustCompile(`\b[0-9a-f]{32}\b`).MatchString(out) {
		t.Error("the story shows a handle")
	}
	t.Run("README", func(t *testing.T) { checkTranscript(t, out) })
}

// demo --json prints one object with exactly these fields.
func TestDemoJSON(t *testing.T) {
	out := demoOutput(t, "--json")
	var fields map[string]any
	var r demoResult
	if err := errors.Join(json.Unmarshal([]byte(out), &fields), json.Unmarshal([]byte(out), &r, json.RejectUnknownMembers(true))); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"calls", "by_status", "receipts", "unknown", "recovered", "verify"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("no field %s", name)
		}
	}
	if len(fields) != 6 {
		t.Errorf("%d fields, want 6: %s", len(fields), out)
	}
	sum := 0
	for n := range countsOf(r.ByStatus) {
		sum += n
	}
	s := r.ByStatus
	if r.Calls != sum || r.Calls < 12 || s.OK < 6 || s.Denied < 3 || s.Rejected < 2 || s.NotFound < 1 || s.Unknown != 1 {
		t.Errorf("%d calls, by status %+v", r.Calls, s)
	}
	if r.Receipts != 3 || r.Unknown != 1 || !r.Recovered {
		t.Errorf("receipts %d, unknown %d, recovered %t; want 3, 1, true", r.Receipts, r.Unknown, r.Recovered)
	}
	root, err := tlog.ParseHash(r.Verify.Root)
	if !r.Verify.OK || int(r.Verify.Size) <= r.Calls || err != nil || root == (tlog.Hash{}) {
		t.Errorf("verify: %+v (%v)", r.Verify, err)
	}
}

// countsOf gives the numbers of a struct of numbers.
func countsOf(s demoStatuses) func(func(int) bool) {
	return func(yield func(int) bool) {
		v := reflect.ValueOf(s)
		for i := range v.NumField() {
			if !yield(int(v.Field(i).Int())) {
				return
			}
		}
	}
}

var readyLine = regexp.MustCompile(`ready on .* \(process (\d+)\)`)

// disturb runs a demonstration, does something once its engine is ready, and
// gives the exit code, the error output and the engine's process.
func disturb(t *testing.T, do func(demo *os.Process, engine int) error) (code int, errs string, engine int) {
	t.Helper()
	cmd := demoRun(t)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := readyLine.FindStringSubmatch(lines.Text()); m != nil && engine == 0 {
			if engine, err = strconv.Atoi(m[1]); err != nil {
				t.Fatal(err)
			}
			if err := do(cmd.Process, engine); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), said.String(), engine
}

// Where something is not as it should be, the demonstration says what it did not
// see and ends with 1; nothing stays behind.
func TestDemoFailsByItself(t *testing.T) {
	code, errs, _ := disturb(t, func(_ *os.Process, engine int) error { return syscall.Kill(engine, syscall.SIGKILL) })
	if code != exitNo || !strings.Contains(errs, "it did not see: ") {
		t.Fatalf("exit code %d, want %d\n%s", code, exitNo, errs)
	}
	for _, sight := range []string{sawKill, sawLost, sawAudit, sawReceipts, sawTree} {
		if !strings.Contains(errs, sight) {
			t.Errorf("%q is not named: %s", sight, errs)
		}
	}
}

// Ctrl-C ends the demonstration, its processes, and its folder.
func TestDemoInterrupted(t *testing.T) {
	code, errs, engine := disturb(t, func(demo *os.Process, _ int) error { return demo.Signal(os.Interrupt) })
	if code != exitNo || !strings.Contains(errs, "gatebook: interrupted; ") {
		t.Errorf("exit code %d, want %d\n%s", code, exitNo, errs)
	}
	if err := syscall.Kill(engine, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the engine still runs: %v", err)
	}
}

// Each sight counts: a demonstration that missed any one of them fails.
func TestDemoNeedsEverySight(t *testing.T) {
	for _, sight := range demoSights() {
		d := new(demo)
		for _, other := range demoSights() {
			if err := d.saw(other, other != sight); (err != nil) != (other == sight) {
				t.Errorf("%s: %v", other, err)
			}
		}
		if missing := d.missing(); len(missing) != 1 || missing[0] != sight {
			t.Errorf("missing %v, want %s", missing, sight)
		}
	}
}

// A reader that goes away, as head does, leaves no folder behind.
func TestDemoCleansUpBehindAPipe(t *testing.T) {
	tmp := t.TempDir()
	cmd := exec.Command("sh", "-c", "gatebook demo | head -n 3")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	waitFor(t, "an empty folder", func() bool {
		left, err := os.ReadDir(tmp)
		return err == nil && len(left) == 0
	})
}
