package main

import (
	"context"
	"strings"
	"testing"

	"gatebook/infra/identity"
)

// runLine is one command line in this process, with nothing around it: no folder, no
// keys, no terminal.
func runLine(t *testing.T, line ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr strings.Builder
	home := t.TempDir()
	a := NewApp()
	a.In, a.Out, a.Err = strings.NewReader(""), &stdout, &stderr
	a.Terminal = identity.TTY{Path: home + "/terminal"}
	a.Getenv = func(name string) string {
		if name == "HOME" {
			return home
		}
		return ""
	}
	code = a.Run(context.Background(), append([]string{"--dir", home + "/data"}, line...))
	return code, stdout.String(), stderr.String()
}

// A command line that cannot be meant ends with 2 and says why, before anything
// is looked for.
func TestUsage(t *testing.T) {
	for _, row := range []struct {
		line string // words apart by one space; _ is an empty word
		says string
	}{
		{"bogus", `unknown command "bogus"`},
		{"agnet", "did you mean agent?"},
		{"agent bogus", `unknown command "bogus" for "gatebook agent"`},
		{"agent add", "accepts 1 arg"},
		{"agent add alice", "--role is missing"},
		{"agent add Alice --role worker", "lower-case"},
		{"agent add system --role worker", "reserved"},
		{"agent add alice --rool worker", "unknown flag"},
		{"agent release", "accepts 1 arg"},
		{"agent profile alice", "accepts 2 arg"},
		{"channel add chat", "--agents is missing"},
		{"channel add chat/room --agents alice", "lower-case"},
		{"person add bob --observe alice", "--supervisor"},
		{"person add bob --approve-key U", "needs --key"},
		{"round begin", "--agent is missing"},
		{"round begin --agent ../x", "lower-case"},
		{"round begin --agent alice --conversation foo", "--conversation"},
		{"serve --port 99999", "0 to 65535"},
		{"audit --follow --until 1h", "do not go with --follow"},
		{"audit --follow --before 7", "do not go with --follow"},
		{"audit --since 2026-11-30 --until 2026-11-29", "nothing can lie between"},
		{"round end --agent alice --end maybe", "completed, failed or cancelled"},
		{"call file.list", "--agent is missing"},
		{"call --agent alice", "name a tool"},
		{"call --agent alice file.list {", "strict JSON"},
		{"call --agent alice file.list _", "strict JSON"},
		{`call --agent alice file.list {},"tool":"x"`, "strict JSON"},
		{`call --agent alice file.list {"path":"a","path":"b"}`, "duplicate"},
		{"call --agent alice file.list {} --outcome x", "leave out the tool"},
		{"call --agent alice --outcome xyz", `--outcome: `},
		{"explain xyz", "is not a ULID: want 26 characters of 0-9 and A-Z without I, L, O and U, the first at most 7\n"},
		{"audit --limit x", `--limit "x": want a whole number; see gatebook audit --help`},
		{"audit --before -1", `--before "-1": want a whole number, 0 or more; see`},
		{"audit --json=perhaps", `--json "perhaps": want true or false; see`},
		{"channel add chat --agents a --sender x=work --sender x=guest", `--sender "x": this sender is named twice`},
		{"channel add chat --agents a --sender x", `--sender "x": want NAME=PROFILE`},
		{"version now", "unknown command"},
		{"phase 3", "want phase 1"},
		{"check a b", "accepts at most 1"},
		{"catalog approve now", "unknown command"},
		{"completion bogus", `unknown command "bogus" for "gatebook completion"; see gatebook completion --help`},
		{"completion bash now", `unknown command "now"`},
		{"help nope", `unknown command "nope" for "gatebook"`},
		{"help agent ad", "did you mean add?"},
		{"audit --json --limit 0", "gatebook: --limit 0: want at least 1\n"}, // plain text with --json too
		{"round list --limit 0", "--limit 0: want at least 1"},
		{"--bogus", "unknown flag"},
	} {
		t.Run(row.line, func(t *testing.T) {
			words := strings.Split(row.line, " ")
			for i, w := range words {
				if w == "_" {
					words[i] = ""
				}
			}
			code, out, said := runLine(t, words...)
			if code != exitUsage || !strings.Contains(said, row.says) || out != "" {
				t.Errorf("exit code %d, want 2; printed %q and said %q, want it to say %q", code, out, said, row.says)
			}
		})
	}
}

// Help and completion are no errors, and what completes words is quiet without a
// folder.
func TestHelp(t *testing.T) {
	for line, want := range map[string]string{
		"": "Usage:", "agent": "Usage:", "call --help": "gatebook call --agent alice",
		"version": "gatebook version 0.1.0", "version --json": `"version": "0.1.0`,
		"help": "Usage:", "help agent add": "gatebook agent add alice", "completion": "Usage:", "__complete help age": "agent",
		"completion bash": "bash completion", "__complete call --agent alice ": "file.read", "__complete agent add a --role ": ":4",
	} {
		code, out, said := runLine(t, strings.Split(line, " ")...)
		if line == "" {
			code, out, said = runLine(t)
		}
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%q: exit code %d, %q, want %q in it; said %q", line, code, out, want, said)
		}
	}
}

// Only tools that an engine has are offered, not all names of the closed list.
func TestCompletesTools(t *testing.T) {
	const want = "child.begin\nchild.declare\nchild.revoke\nfile.append\nfile.copy\nfile.delete\nfile.edit\nfile.list\nfile.move\nfile.read\nfile.restore\nfile.search\nfile.stat\nfile.trash\nfile.write\n:4\n"
	for _, line := range []string{"__complete call --agent alice ", "__complete audit --tool "} {
		if _, out, _ := runLine(t, strings.Split(line, " ")...); out != want {
			t.Errorf("%s: %q", line, out)
		}
	}
}
