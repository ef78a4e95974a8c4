package main

import (
	"context"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gatebook/events"
	"gatebook/infra/datadir"
	"gatebook/infra/identity"
)

// TestMain makes this test binary the gatebook of the scripts: the program as
// people run it, but for cheap passphrases and no terminal to ask on.
func TestMain(m *testing.M) {
	// The race detector lets every process sleep for a second before it exits; the
	// tests start some hundreds. What it has found it has printed by then.
	if err := os.Setenv(raceOptions, strings.TrimSpace(os.Getenv(raceOptions)+" atexit_sleep_ms=20")); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){
		"gatebook": func() {
			app := NewApp()
			app.WorkFactor = 10
			app.Terminal = identity.TTY{Path: filepath.Join(os.TempDir(), "no", "terminal")}
			app.Extra, app.Now = mailTools(os.Getenv(testTools)), later(os.Getenv(testLater))
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			code := app.Run(ctx, os.Args[1:])
			stop()
			os.Exit(code)
		},
		"mcptest": mcpTest,
	})
}

// raceOptions is the variable that the race detector reads.
const raceOptions = "GORACE"

// The transcripts in testdata/script run real processes: an engine and the
// commands that people type.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			for name, dir := range map[string]string{"HOME": "home", "XDG_CONFIG_HOME": "config"} {
				env.Setenv(name, filepath.Join(env.WorkDir, dir))
			}
			env.Setenv("USER", "anna")
			env.Setenv(raceOptions, os.Getenv(raceOptions))
			pass := filepath.Join(env.WorkDir, "passphrase")
			env.Setenv(identity.PassphraseFile, pass)
			return os.WriteFile(pass, []byte("correct horse\n"), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready": waitReady, "printed": runPrinted, "capture": capture, "code": wantCode, "nohandle": noHandle,
			"webhook": serveWebhook, "telegram": serveTelegram, "told": waitTold,
		},
	})
}

// until polls a condition; what follows a process's start is only seen from
// outside.
func until(ts *testscript.TestScript, what string, holds func() bool) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-tick.C {
		if holds() {
			return
		}
	}
	said, _ := os.ReadFile(ts.MkAbs("serve.err"))
	ts.Fatalf("%s, not within 30 s; serve.err: %s", what, said)
}

// waitReady waits until an engine says in a file that it is ready, and answers.
func waitReady(ts *testscript.TestScript, _ bool, given []string) {
	line := regexp.MustCompile(`(?m)^gatebook is ready on (\S+), data folder .*\n`)
	until(ts, given[0]+" says of no engine that it is ready", func() bool {
		text, _ := os.ReadFile(ts.MkAbs(given[0])) // the shell makes it in its own time
		m := line.FindSubmatch(text)
		if m == nil {
			return false
		}
		conn, err := net.Dial("tcp", string(m[1]))
		return err == nil && conn.Close() == nil
	})
}

// runPrinted runs the four indented lines of a file, as printed, in a shell.
func runPrinted(ts *testscript.TestScript, _ bool, given []string) {
	var lines []string
	until(ts, given[0]+" has no four commands", func() bool {
		lines = regexp.MustCompile(`(?m)^  gatebook .*$`).FindAllString(ts.ReadFile(given[0]), -1)
		return len(lines) == 4
	})
	for _, line := range lines {
		if err := ts.Exec("sh", "-c", strings.TrimSpace(line)); err != nil {
			ts.Fatalf("%s: %v", strings.TrimSpace(line), err)
		}
	}
}

// capture sets a variable to what a pattern finds in the last standard output.
func capture(ts *testscript.TestScript, _ bool, given []string) {
	m := regexp.MustCompile(given[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("no match of %s", given[1])
	}
	ts.Setenv(given[0], m[1])
}

// wantCode runs a command that must end with an exit code: code 2 gatebook …
func wantCode(ts *testscript.TestScript, _ bool, given []string) {
	err := ts.Exec(given[1], given[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != given[0] {
		ts.Fatalf("exit code %s, want %s", code, given[0])
	}
}

// noHandle looks for the handle of an agent's round in every file of the data
// folder: it is nowhere but in the round's own file.
func noHandle(ts *testscript.TestScript, _ bool, given []string) {
	dir, err := datadir.Open(ts.MkAbs(".gatebook"), false)
	ts.Check(err)
	r, err := readRound(dir, events.AgentID(given[0]))
	ts.Check(err)
	ts.Check(filepath.WalkDir(dir.Path(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == roundPath(dir, events.AgentID(given[0])) || path == dir.Ballast() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), r.Handle) {
			ts.Fatalf("the handle is in %s", path)
		}
		return err
	}))
}

// A path that is no plain word is printed so that a shell reads it as one.
func TestShellWord(t *testing.T) {
	for _, word := range []string{"plain", "two words", "it's", `$HOME "x" \`, "a\nb", "*", ""} {
		out, err := exec.Command("sh", "-c", "printf %s "+shellWord(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q is read as %q (%v)", word, out, err)
		}
	}
}
