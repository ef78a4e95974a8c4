package file_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/handlers/tools/file"
	"gatebook/handlers/tools/workspace"
	"gatebook/policy"
	"gatebook/policy/paths"
)

const canary = "CANARY-7f3a"

// house is a data folder with alice's workspace, what lies beside it, and OUT.
type house struct {
	t     testing.TB
	host  string // everything
	data  string
	ws    string // alice's Workspace
	out   string
	tools map[string]tools.Tool
	calls int
	// createOnly is what the calls from now on may do.
	createOnly bool
}

// memoryDir is a temporary folder on a memory disk where there is one: what the
// tests look at here does not depend on how long an fsync takes.
func memoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "gatebook")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newHouse(t testing.TB) *house {
	host := memoryDir(t)
	h := &house{t: t, host: host, data: filepath.Join(host, "data"), out: filepath.Join(host, "OUT"), tools: map[string]tools.Tool{}}
	alice := filepath.Join(h.data, "agents", "alice")
	h.ws = filepath.Join(alice, "Workspace")
	for name, content := range map[string]string{
		h.out + "/secret.txt": canary + " and more of it", h.out + "/victim.txt": "original",
		alice + "/AgentSettings.json": canary, alice + "/Identity.md": "alice", alice + "/Soul.md": "soul",
		alice + "/Workspace-Backup/secret.txt": canary, h.ws + "/sub/inner.txt": "inner", h.ws + "/ok.txt": "ok",
	} {
		h.put(name, content)
	}
	for _, tool := range file.Tools(workspace.New(h.data)) {
		h.tools[tool.Definition().Name] = tool
	}
	return h
}

func (h *house) put(name, content string) {
	h.t.Helper()
	h.must(os.MkdirAll(filepath.Dir(name), 0o700))
	h.must(os.WriteFile(name, []byte(content), 0o600))
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// link makes a link in the workspace.
func (h *house) link(target, name string) { h.must(os.Symlink(target, filepath.Join(h.ws, name))) }

// outside is every file outside the workspace with its content.
func (h *house) outside() string {
	var all strings.Builder
	h.must(filepath.WalkDir(h.host, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == h.ws {
			return filepath.SkipDir
		}
		var content []byte
		if d.Type().IsRegular() {
			content, err = os.ReadFile(name)
		}
		fmt.Fprintf(&all, "%s %s %s\n", name, d.Type(), content)
		return err
	}))
	return all.String()
}

// inside is everything in the workspace with its content, of a large file its size
// only, but for folders of the trash.
func (h *house) inside() string {
	var all strings.Builder
	h.must(filepath.WalkDir(h.ws, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(name, h.ws+"/.trash") {
			return err
		}
		info, err := d.Info()
		h.must(err)
		content := ""
		if d.Type().IsRegular() && info.Size() > 1<<20 {
			content = fmt.Sprint(info.Size())
		} else if d.Type().IsRegular() {
			raw, err := os.ReadFile(name)
			h.must(err)
			content = string(raw)
		}
		fmt.Fprintf(&all, "%s %s %s\n", name, d.Type(), content)
		return nil
	}))
	return all.String()
}

func callID(n int) events.CallID { return events.CallID(fmt.Sprintf("01J%023d", n)) }

// call decodes and runs as the engine does, as the n-th call.
func (h *house) call(tool, arguments string) (jsontext.Value, error) {
	h.calls++
	return h.callAs("alice", h.calls, tool, arguments)
}

func (h *house) callAs(agent events.AgentID, n int, tool, arguments string) (jsontext.Value, error) {
	decoded, err := h.tools[tool].Decode(jsontext.Value(arguments))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	env := tools.Env{May: anywhere, Agent: agent, Call: callID(n), Now: events.Instant(int64(n) * 1_000_000), CreateOnly: h.createOnly}
	return h.tools[tool].Run(ctx, env, decoded.Args)
}

// outcome is one word for how a call ended: "ok", "reject <field>", "refused
// <rule>", "exists", "not found" or "error".
func outcome(err error) string {
	var malformed *policy.Malformed
	var refused *tools.Refused
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &malformed):
		return "reject " + malformed.Field
	case errors.As(err, &refused):
		return "refused " + refused.Rule
	case errors.Is(err, fs.ErrNotExist):
		return "not found"
	case errors.Is(err, fs.ErrExist):
		return "exists"
	}
	return "error"
}

// ok calls and decodes the result.
func ok[T any](t testing.TB, h *house, tool, arguments string) T {
	t.Helper()
	v, _ := sized[T](t, h, tool, arguments)
	return v
}

// sized gives the size of the result too.
func sized[T any](t testing.TB, h *house, tool, arguments string) (T, int) {
	t.Helper()
	raw, err := h.call(tool, arguments)
	if err != nil {
		t.Fatalf("%s %s: %v", tool, arguments, err)
	}
	again := raw.Clone()
	if err := again.Canonicalize(); err != nil || string(again) != string(raw) {
		t.Fatalf("%s: the result is not canonical: %s", tool, raw)
	}
	var v T
	if err := json.Unmarshal(raw, &v, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	return v, len(raw)
}

type readResult struct {
	Path      string `json:"path"`
	Content   string `json:"content"`
	Encoding  string `json:"encoding"`
	Size      int64  `json:"size"`
	Offset    int64  `json:"offset"`
	Next      int64  `json:"next"`
	Truncated bool   `json:"truncated"`
}

type writeResult struct {
	Path     string        `json:"path"`
	Bytes    int           `json:"bytes"`
	Effect   string        `json:"effect"`
	Replaced events.CallID `json:"replaced"`
}

// args writes arguments as JSON from pairs of name and value.
func args(pairs ...any) string {
	var parts []string
	for i := 0; i < len(pairs); i += 2 {
		raw, err := json.Marshal(pairs[i+1])
		if err != nil {
			panic(err)
		}
		parts = append(parts, fmt.Sprintf("%q:%s", pairs[i], raw))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// anywhere lets a tool take from any place.
func anywhere(paths.Path) error { return nil }
