package config

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/policy"
)

var update = flag.Bool("update", false, "write the golden files anew")

// key gives a public key with a right checksum for a number.
func key(n int) events.PublicKey {
	raw := make([]byte, 32)
	binary.BigEndian.PutUint64(raw, uint64(n))
	k, err := nkeys.Encode(nkeys.PrefixByteUser, raw)
	if err != nil {
		panic(err)
	}
	return events.PublicKey(k)
}

// wrongKey is a key with one letter changed.
func wrongKey(k events.PublicKey) string {
	return string(k[:20]) + "Q" + string(k[21:])
}

func firstFile() []byte {
	return First("anna", Keys{Key: key(1), ApproveKey: key(2)}, key(3))
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
	}
}

func TestFirst(t *testing.T) {
	data := firstFile()
	golden(t, "first.yaml", data)
	c, err := Parse("gatebook.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	p := c.People["anna"]
	if c.Phase != 2 || len(c.Agents) != 0 || !p.Approver || !p.Supervisor || !p.Operator || p.Key != key(1) || p.ApproveKey != key(2) {
		t.Errorf("%+v", c)
	}
	if c.Limits != (policy.Limits{RoundTimeout: events.MicrosOf(time.Hour), ToolTime: events.MicrosOf(30 * time.Second), QueuedCalls: 64, RunningTools: 16, ReviewTime: events.MicrosOf(24 * time.Hour), TrashAge: policy.DefaultTrashAge, TrashSize: policy.DefaultTrashSize}) {
		t.Errorf("limits %+v", c.Limits)
	}
	ch := c.Channels["terminal"]
	if ch.Senders["anna"] != (policy.Sender{Principal: "anna", Kind: events.PrincipalUser, Profile: "work"}) || ch.Guest.Profile != "guest" {
		t.Errorf("%+v", ch)
	}
	for _, id := range []events.PersonID{"0", "123", "1e5", "true", "null", "no", "a-b_c", "0x1f"} {
		c, err := Parse("f", First(id, Keys{key(1), key(2)}, key(3)))
		if err != nil || c.Channels["terminal"].Senders[string(id)].Principal != string(id) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// What stands as an example in the first catalog changes nothing, and is valid where
// its marks are taken away.
func TestFirstExamples(t *testing.T) {
	data := firstFile()
	c, err := Parse("first", data)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Baseline.Deny)+len(c.Content)+len(c.Tools)+len(c.Principals.IDs) > 0 || len(c.Roles) != 1 || len(c.Profiles) != 2 {
		t.Errorf("an example is in force: %+v", c)
	}
	mark := regexp.MustCompile(`(?m)^( *)# `)
	paragraphs, examples := strings.Split(string(data), "\n\n"), 0
	for i, p := range paragraphs {
		if regexp.MustCompile(`^ *# [a-z]+:\n`).MatchString(p) {
			paragraphs[i] = mark.ReplaceAllString(p, "$1")
			examples++
		}
	}
	c, err = Parse("examples", []byte(strings.Join(paragraphs, "\n\n")))
	if err != nil {
		t.Fatal(err)
	}
	planner := c.Roles["planner"].Grants
	if examples != 7 || len(c.Baseline.Deny) != 1 || len(c.Content) != 1 || len(c.Tools) != 2 || len(c.Profiles["drafts"].Deny) != 1 ||
		len(c.Principals.Kinds) != 1 || len(c.Principals.IDs) != 1 || len(c.Principals.Channels) != 1 ||
		len(planner) != 2 || planner[0].MaxPerRound != 1 || string(planner[1].Exact) != `{"path":"plan.md"}` ||
		len(c.Roles["notary"].Grants) != 1 || c.Roles["notary"].Grants[0].When == "" {
		t.Errorf("%d examples: %+v", examples, c)
	}
}

// Every fault is reported with its place.
func TestFaults(t *testing.T) {
	const head = "schema: 1\n"
	for _, tc := range []struct{ name, yaml, want string }{
		{"control", head, ""},
		{"control: nothing after a colon", head + "agents:\nroles:\n", ""},
		{"control: one document with a mark", "---\n" + head, ""},
		{"empty", "", "1:1"},
		{"only comments", "# x\n", "1:1"},
		{"a list", "- a\n", "1:1"},
		{"broken", head + "roles: [a\n", "2:8"},
		{"tab", head + "roles:\n\ta: 1\n", "3:1"},
		{"not UTF-8", head + "roles: \"\xff\"\n", "2:1"},
		{"lone carriage return", "schema: 1\rphase: 1\n", "1:1"},
		{"control: CRLF", "schema: 1\r\n# c\r\nphase: 1\r\n", ""},
		{"place under CRLF", "schema: 1\r\n# c\r\n\r\nphases: 1\r\n", "4:1"},
		{"NUL", head + "roles: \"\x00\"\n", "2:1"},
		{"O-R20 go-sdk#805 other case", "Schema: 1\n", "1:1"},
		{"O-R20 double key", head + "phase: 1\nphase: 2\n", "3:1"},
		{"O-R20 double key deep", head + "profiles:\n  a: {}\n  b: {}\n  a: {}\n", "5:3"},
		{"unknown keys, all of them", head + "roles:\n  a:\n    versoin: 1\n    grants:\n      - tool: file.read\n        path: [a]\nlimit: {}\n", "4:5 7:9 8:1"},
		{"types, all of them", "schema: \"1\"\nphase: 2.0\nroles: [a]\nscopes:\n  x:\n    tools: file.read\nprofiles:\n  p:\n    tools: [1, true, null]\npeople:\n  a:\n    key: 12\n    operator: \"true\"\n",
			"1:9 2:8 3:8 6:12 9:13 9:16 9:22 12:10 13:15"},
		{"a bound of nothing", head + "roles:\n  a:\n    version: 1\n    grants: [{tool: file.read, max_per_round: 0}]\n", "5:47"},
		{"R13 yes is no boolean", head + "people:\n  a:\n    operator: yes\n", "4:15"},
		{"hexadecimal", "schema: 0x1\n", "1:9"},
		{"times", head + "limits:\n  round_timeout: 3600\n  tool_time: 5\u00b5\n", "3:18 4:14"},
		{"time under a microsecond", head + "limits:\n  tool_time: 5ns\n", "3:14"},
		{"the name of the canonical form", head + "limits:\n  tool_time_us: 5\n", "3:3"},
		{"O-C09 prices that are none", head + "prices:\n  currency: EUR\n  models:\n    a: {input: -1, output: 1e3, cache_write: 1.0000001}\n    b:\n      cached_input: three\n      output:\n", "5:16 5:28 5:46 7:21 8:15"},
		{"O-C09 Compile: prices", head + "prices:\n  currency: euro\n  models:\n    gpt-4.1: {input: 10000001}\n", "3:13 5:22"},
		{"anchor and alias", head + "scopes:\n  a: &x\n    tools: []\n  b: *x\n", "3:6 5:6"},
		{"merge key", head + "scopes:\n  a:\n    <<: {tools: []}\n", "4:5"},
		{"tag", "schema: !!int 1\n", "1:9"},
		{"second document", head + "---\nschema: 1\n", "3:1"},
		{"directive", "%YAML 1.2\n---\nschema: 1\n", "3:1"},
		{"number as a key", head + "profiles:\n  12: {}\n", "3:3"},
		{"block text", head + "roles:\n  a:\n    version: |\n      1\n", "4:14"},
		{"Compile: schema missing", "phase: 1\n", "1:1"},
		{"Compile: at the value", head + "agents:\n  alice:\n    role: gone\n    key: short\n", "4:11 5:10"},
		{"Compile: at the item", head + "scopes:\n  a:\n    tools:\n      - file.read\n      - shell\n", "6:9"},
		{"Compile: at the entry for what is not written", head + "agents:\n  alice: {}\n", "3:3 3:3"},
		{"Compile: sender with dots", head + "channels:\n  c:\n    key: x\n    agents: []\n    senders:\n      a.b.c:\n        kind: self\n        principal: p\n", "4:10 8:15"},
		{"Compile: none", head + "profiles:\n  none: {}\n", "3:3"},
		{"Compile: limit", head + "limits:\n  tool_time: -5s\n", "3:14"},
		{"keys with a letter changed, all of them, and another fault", head + "roles:\n  r: {}\nphase: 3\nagents:\n  a: {role: r, key: " + wrongKey(key(1)) + "}\nchannels:\n  c:\n    key: " + wrongKey(key(2)) + "\npeople:\n  p:\n    key: " + wrongKey(key(3)) + "\n    approve_key: " + wrongKey(key(4)) + "\n",
			"4:8 6:21 9:10 12:10 13:18"},
		{"Compile: a policy that leaves nothing", head + "principals:\n  kinds:\n    user:\n      only:\n    group:\n      only: []\n", "5:7 7:7"},
		{"too deep", head + "roles: " + strings.Repeat("[", 200_000), "2:1"},
		{"too many dashes", head + "roles:\n " + strings.Repeat("- ", 200_000) + "\n", "3:1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse("x.yaml", []byte(tc.yaml))
			if got := places(err); got != tc.want {
				t.Errorf("faults at %q, want %q\n%v", got, tc.want, err)
			}
			if err != nil && (!errors.Is(err, policy.ErrCatalog) || !strings.Contains(err.Error(), "x.yaml:")) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := Parse("x", bytes.Repeat([]byte("#\n"), MaxFile)); places(err) != "1:1" {
		t.Errorf("a large file: %v", err)
	}
}

func places(err error) string {
	switch e := err.(type) {
	case *Fault:
		return fmt.Sprintf("%d:%d", e.Line, e.Col)
	case interface{ Unwrap() []error }:
		var out []string
		for _, inner := range e.Unwrap() {
			if p := places(inner); p != "" {
				out = append(out, p)
			}
		}
		return strings.Join(out, " ")
	}
	return ""
}

func TestExtraTools(t *testing.T) {
	data := []byte("schema: 1\nscopes:\n  demo:\n    tools: [demo.wait]\n")
	if _, err := Parse("x", data); err == nil {
		t.Error("an unknown tool was taken")
	}
	if _, err := Parse("x", data, "demo.wait"); err != nil {
		t.Error(err)
	}
}

// A pipe without another side would be waited for without end.
func TestLoadWantsARegularFile(t *testing.T) {
	folder := t.TempDir()
	pipe := filepath.Join(folder, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("this file system has no named pipes: %v", err)
	}
	link := filepath.Join(folder, "link")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, link, pipe, os.DevNull} {
		_, data, err := Load(path)
		if !errors.Is(err, errNotRegular) || errors.Is(err, policy.ErrCatalog) || data != nil || !strings.Contains(err.Error(), path+": it is not a regular file") {
			t.Errorf("%s: %d bytes, %v", path, len(data), err)
		}
	}
}

func TestLoadAndWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	if _, _, err := Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, data := range [][]byte{[]byte("schema: 2\n"), firstFile()} {
		if err := Write(path, data); err != nil {
			t.Fatal(err)
		}
		_, raw, err := Load(path)
		if !bytes.Equal(raw, data) || (err == nil) != (len(data) > 20) {
			t.Errorf("%q, %v", raw, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := Write(filepath.Join(path, "x"), nil); err == nil {
		t.Error("written below a file")
	}
	folder := filepath.Join(filepath.Dir(path), "taken")
	if err := os.MkdirAll(filepath.Join(folder, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(folder, []byte("a")); err == nil {
		t.Error("a folder was replaced")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".gatebook-*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(firstFile())
	for _, s := range []string{"schema: 1\n", "a: &b [*b]\n", "? a\n: b\n", "- - -\n", "{a: {b: [c]}}", "a: |\n  x\n", "\"a\\x00\": 1", "!!map {}", "<<: {}", "schema: 1\nagents: {a: {role: b, key: c}}", "a:\r\n b: c\r\n", "schema: 1\nlimits: {tool_time: 1h}",
		"schema: 1\nroles: {r: {}}\nagents:\n  b: {role: r, key: " + string(key(2)) + "}\nchannels: {c: {key: " + string(key(1)) + ", agents: [b,\n b]}}\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("x", data)
		if err != nil {
			if !errors.Is(err, policy.ErrCatalog) || places(err) == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		if _, err := policy.Compile(c); err != nil {
			t.Fatal(err)
		}
		if out, err := AddPerson(data, "fuzz-person", policy.Person{Key: key(900)}); err == nil {
			if c, err := Parse("x", out); err != nil || c.People["fuzz-person"].Key != key(900) {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		for id := range c.Agents {
			if out, err := RemoveAgent(data, id); err != nil && !errors.Is(err, ErrByHand) {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	})
}

// What an edit leaves is what was there, and the entry.
func TestEditsAddAndTakeAway(t *testing.T) {
	const base = "# top\nschema: 1\nroles: {worker: {version: 1}}\n\n# the agents\nagents: {}\n\n# the end\nphase: 1\n"
	rapid.Check(t, func(t *rapid.T) {
		data := []byte(base)
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,6}`), 1, 3, rapid.ID).Draw(t, "ids")
		before := strings.Split(string(data), "\n")
		for i, id := range ids {
			next, err := AddAgent(data, events.AgentID(id), policy.Agent{Role: "worker", Key: key(100 + i)})
			if err != nil {
				t.Fatal(err)
			}
			data = next
		}
		c, err := Parse("x", data)
		if err != nil || len(c.Agents) != len(ids) {
			t.Fatalf("%v, %d agents", err, len(c.Agents))
		}
		for _, line := range before {
			if line != "agents: {}" && !strings.Contains(string(data), line+"\n") && line != "" {
				t.Fatalf("lost %q", line)
			}
		}
		for _, id := range ids {
			if data, err = RemoveAgent(data, events.AgentID(id)); err != nil {
				t.Fatal(err)
			}
		}
		if want := strings.Replace(base, "agents: {}", "agents:", 1); string(data) != want {
			t.Fatalf("got\n%s", data)
		}
	})
}

// A link is read through and never replaced: what it leads to would go out of use.
func TestWriteRefusesALink(t *testing.T) {
	folder := t.TempDir()
	target, link := filepath.Join(folder, "real.yaml"), filepath.Join(folder, FileName)
	if err := errors.Join(os.WriteFile(target, []byte("schema: 1\n"), 0o600), os.Symlink("real.yaml", link)); err != nil {
		t.Fatal(err)
	}
	err := Write(link, []byte("schema: 1\nphase: 1\n"))
	if !errors.Is(err, ErrLink) || !strings.Contains(err.Error(), link) || !strings.Contains(err.Error(), `"real.yaml"`) {
		t.Errorf("%v", err)
	}
	_, data, err := Load(link)
	if info, _ := os.Lstat(link); err != nil || string(data) != "schema: 1\n" || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("%q, %v, %v", data, info.Mode(), err)
	}
	if err := Write(target, []byte("schema: 1\nphase: 1\n")); err != nil {
		t.Error(err)
	}
}
