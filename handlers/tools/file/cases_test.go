//go:build linux || darwin

package file_test

import (
	"fmt"
	"go/version"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// refusal is a call that must end as wanted and change nothing outside.
type refusal struct {
	name  string
	setup func(*house)
	tool  string
	args  string
	want  string
}

// way is one argument by which a tool reaches a path.
type way struct {
	name  string
	field string
	args  func(p string) string
}

func (w way) tool() string {
	tool, _, _ := strings.Cut(w.name, " ")
	return tool
}

// ways are all but that of file.restore, which has a test of its own. The least
// arguments of a tool are those of valid; the paths here take the place of theirs.
func ways() []way {
	only := func(p string) string { return args("path", p) }
	return []way{
		{"file.list", "path", only}, {"file.read", "path", only}, {"file.stat", "path", only}, {"file.delete", "path", only},
		{"file.search", "path", func(p string) string { return args("path", p, "pattern", "CANARY") }},
		{"file.write", "path", func(p string) string { return args("path", p, "content", "OWNED") }},
		{"file.append", "path", func(p string) string { return args("path", p, "content", "OWNED") }},
		{"file.edit", "path", func(p string) string { return args("path", p, "old", "CANARY", "new", "OWNED") }},
		{"file.copy from", "from", func(p string) string { return args("from", p, "to", "copied") }},
		{"file.copy to", "to", func(p string) string { return args("from", "ok.txt", "to", p) }},
		{"file.move from", "from", func(p string) string { return args("from", p, "to", "moved") }},
		{"file.move to", "to", func(p string) string { return args("from", "ok.txt", "to", p) }},
	}
}

// pathRows are the paths through one way.
func pathRows(id, through, want string, paths ...string) []refusal {
	var rows []refusal
	for _, w := range ways() {
		if w.name != through {
			continue
		}
		for _, p := range paths {
			ends := want
			if want == "reject path" {
				ends = "reject " + w.field
			}
			rows = append(rows, refusal{id + " " + through + " " + p, nil, w.tool(), w.args(p), ends})
		}
	}
	if len(rows) == 0 {
		panic("there is no way " + through)
	}
	return rows
}

// TestEveryWayIsKnown: every tool with a path among its arguments is in the tables
// of refusals, each of its paths.
func TestEveryWayIsKnown(t *testing.T) {
	known := map[string]bool{"file.restore path": true, "file.trash": true}
	for _, w := range ways() {
		known[w.tool()+" "+w.field] = true
	}
	for name, tool := range newHouseTools() {
		var schema struct {
			Properties map[string]struct {
				Description string `json:"description"`
			} `json:"properties"`
		}
		if err := json.Unmarshal(tool.Definition().Schema, &schema); err != nil {
			t.Fatal(err)
		}
		for field, p := range schema.Properties {
			if strings.Contains(p.Description, "Path in your workspace") && !known[name+" "+field] {
				t.Errorf("no row tries %s of %s", field, name)
			}
		}
	}
}

func with(setup func(*house), rows ...refusal) []refusal {
	for i := range rows {
		rows[i].setup = setup
	}
	return rows
}

func linkRows() []refusal {
	leak := func(target string) func(*house) {
		return func(h *house) { h.link(strings.ReplaceAll(target, "HOST", h.host), "leak") }
	}
	at := func(target, name string) func(*house) {
		return func(h *house) { h.link(filepath.Join(h.out, target), name) }
	}
	var rows []refusal
	add := func(more ...refusal) { rows = append(rows, more...) }
	for _, target := range []string{"../../../../OUT/secret.txt", "HOST/OUT/secret.txt", "ok.txt"} {
		add(with(leak(target), pathRows("O-P02 CVE-2025-53109 servers#1845 link to "+target, "file.read", "refused link", "leak")...)...)
		add(with(leak(target), pathRows("O-P19 (var.) gortex#745 link to "+target, "file.delete", "refused link", "leak")...)...)
	}
	add(with(leak("sub"), pathRows("O-P02 (var.) a link that stays inside", "file.read", "refused link", "leak/inner.txt")...)...)
	add(with(at("new.txt", "draft.txt"), pathRows("O-P03 DesktopCommanderMCP#420 dangling link", "file.write", "refused link", "draft.txt")...)...)
	add(with(at("", "d"), pathRows("O-P03 OpenBot#100 link as parent", "file.write", "refused link", "d/new.txt", "d/deep/new.txt")...)...)
	add(with(at("victim.txt", "notes.md"), pathRows("O-P04 OpenBot#100 last component", "file.write", "refused link", "notes.md")...)...)
	add(with(at("missing", "gone"), pathRows("O-P03 DesktopCommanderMCP#420 dangling link", "file.copy to", "exists", "gone")...)...)
	add(with(at("missing", "gone"), pathRows("O-P03 DesktopCommanderMCP#420 dangling link", "file.move to", "exists", "gone")...)...)
	for _, w := range ways() {
		tool, last := w.name, "refused link"
		if w.field == "to" {
			last = "exists" // a link is in the way, and nothing goes through it
		}
		add(with(at("", "lnk"), pathRows("O-P05 CVE-2026-39822", tool, "reject path", "lnk/", "lnk//")...)...)
		add(with(at("", "lnk"), pathRows("O-P05 CVE-2026-39822", tool, last, "lnk", "lnk/.")...)...)
		add(with(at("", "lnk"), pathRows("O-P05 CVE-2026-39822", tool, "refused link", "lnk/secret.txt")...)...)
		add(with(at("", "out"), pathRows("O-P24 CVE-2026-39861 a link made by another tool", tool, "refused link", "out/x")...)...)
	}
	add(with(func(h *house) { h.link("/proc/self/root", "p") }, pathRows("O-P17 sandlock#246", "file.read", "refused link", "p/etc/hostname")...)...)
	add(with(func(h *house) { h.link("/proc/self/environ", "e") }, pathRows("O-P17 golang/go#67002", "file.read", "refused link", "e")...)...)
	add(pathRows("O-P17 sandlock#246", "file.read", "reject path", "/proc/self/environ")...)
	return rows
}

func fileRows() []refusal {
	hard := func(h *house) { h.must(os.Link(h.out+"/secret.txt", h.ws+"/h.txt")) }
	pipe := func(h *house) { h.must(syscall.Mkfifo(h.ws+"/pipe", 0o600)) }
	zero := func(h *house) { h.link("/dev/zero", "zero") }
	var rows []refusal
	inside := func(make func(*house)) func(*house) { // what the folder sub holds, and its copy would
		return func(h *house) { make(h); h.must(os.Rename(h.ws+"/h.txt", h.ws+"/sub/h.txt")) }
	}
	piped := func(h *house) { h.must(syscall.Mkfifo(h.ws+"/sub/pipe", 0o600)) }
	linked := func(h *house) { h.link(h.out, "sub/lnk") }
	rows = append(rows, with(inside(hard), pathRows("O-P08 (var.) below the folder", "file.copy from", "refused hard_link", "sub")...)...)
	rows = append(rows, with(piped, pathRows("O-P18 (var.) below the folder", "file.copy from", "refused special_file", "sub")...)...)
	rows = append(rows, with(linked, pathRows("O-P22 CVE-2024-8244 below the folder", "file.copy from", "refused link", "sub")...)...)
	for _, w := range ways() {
		tool := w.name
		if tool == "file.list" || w.field == "to" {
			continue
		}
		rows = append(rows, with(hard, pathRows("O-P08 Codewhale#5569 codex#21819", tool, "refused hard_link", "h.txt")...)...)
		rows = append(rows, with(pipe, pathRows("O-P18 wayland#644 named pipe", tool, "refused special_file", "pipe")...)...)
		rows = append(rows, with(zero, pathRows("O-P18 wayland#644 link to a device", tool, "refused link", "zero")...)...)
	}
	rows = append(rows, with(pipe, pathRows("O-P18 (var.)", "file.list", "error", "pipe")...)...)
	return append(rows, with(pipe, pathRows("O-P18 (var.)", "file.write", "error", "pipe/x")...)...)
}

// lexicalRows are paths that no tool takes, whatever is on the disk.
func lexicalRows() []refusal {
	var rows []refusal
	for _, w := range ways() {
		tool := w.name
		for _, r := range []struct {
			id, want string
			paths    []string
		}{
			{"O-P01 CVE-2025-53110 Figma-Context-MCP#238 sibling with the same prefix", "refused workspace", []string{"../Workspace-Backup/secret.txt", "../workspaceX"}},
			{"O-P06 CVE-2025-22873 golang/go#73555", "refused workspace", []string{"..", "./..", "sub/../.."}},
			{"O-P06 CVE-2025-22873 trailing slash", "reject path", []string{"../", "sub/../../"}},
			{"O-P09 CVE-2023-45283 CVE-2023-45284", "reject path", []string{`..\..\AgentSettings.json`, `C:\x`, `C:x`, `\\srv\share\x`, `//srv/share/x`, `\\?\C:\x`, `\??\C:\x`, `\\.\COM1`}},
			{"O-P10 servers#4523 obsidian-mcp-pro#102", "reject path", []string{"notes.md:hidden", "Identity.md::$DATA", "AgentSettings.json::$DATA", "a:b/c.txt"}},
			{"O-P11 cadis#1166", "reject path", []string{"report.txt.", "sub /x.txt", "AgentSettings.json ", "Identity.md. ."}},
			{"O-P12 CVE-2022-41720 CVE-2023-45284", "reject path", []string{"COM1", "nul", "aux.txt", "sub/CON", "COM1 ", "COM\u00b9", "LPT1.log"}},
			{"O-P13 finbot-ctf#358", "reject path", []string{"a.txt\x00.png", "a\nb", "a\x1b[2J", "a\x7f", "a\u0085b"}},
			{"O-P14 CVE-2025-59944 odysseus#5096 node#47105", "refused workspace", []string{"../agentsettings.JSON", "../AGENTSETTINGS.json", "../identity.MD"}},
			{"O-P20 claude-code#78752 short aliases", "refused workspace", []string{"../AGENTS~1.JSO", "../WORKSP~1/x"}},
			{"O-P15 Gitlawb/node#101", "reject path", []string{"se\u0301cret/x.txt"}},
			{"O-P25 connectonion#722 claude-code#92034 CVE-2026-25725", "refused workspace", []string{"../AgentSettings.json", "../Other.json"}},
			{"O-K01 picoclaw#1756 picoclaw#2042", "refused workspace", []string{"../Soul.md", "../../alice/Soul.md", "../Identity.md"}},
			{"trash is reserved", "refused workspace", []string{".trash", ".trash/x", ".TRASH/x"}},
		} {
			rows = append(rows, pathRows(r.id, tool, r.want, r.paths...)...)
		}
	}
	return append(rows,
		refusal{"O-P23 CVE-2026-25722", nil, "file.write", `{"cwd":"..","path":"Identity.md","content":"x"}`, "reject cwd"},
		refusal{"O-P23 (var.)", nil, "file.move", `{"cwd":"..","from":"ok.txt","to":"Identity.md"}`, "reject cwd"},
		refusal{"O-P25 connectonion#722 move over AgentSettings", nil, "file.move", `{"from":"ok.txt","to":"../AgentSettings.json"}`, "refused workspace"},
		refusal{"O-P25 (var.) move where AgentSettings is absent", func(h *house) { h.must(os.Remove(h.data + "/agents/alice/AgentSettings.json")) }, "file.move", `{"from":"ok.txt","to":"../AgentSettings.json"}`, "refused workspace"},
		refusal{"O-K01 (var.) move over Soul", nil, "file.move", `{"from":"ok.txt","to":"../../alice/Soul.md"}`, "refused workspace"},
		refusal{"O-K01 (var.) Soul absent", func(h *house) { h.must(os.Remove(h.data + "/agents/alice/Soul.md")) }, "file.write", `{"path":"../Soul.md","content":"x"}`, "refused workspace"},
		refusal{"O-P25 AgentSettings absent", func(h *house) { h.must(os.Remove(h.data + "/agents/alice/AgentSettings.json")) }, "file.write", `{"path":"../AgentSettings.json","content":"x"}`, "refused workspace"})
}

func TestRefusals(t *testing.T) {
	for _, row := range append(append(linkRows(), fileRows()...), lexicalRows()...) {
		t.Run(row.name, func(t *testing.T) {
			h := newHouse(t)
			if row.setup != nil {
				row.setup(h)
			}
			before, inside := h.outside(), h.inside()
			start := time.Now()
			result, err := h.call(row.tool, row.args)
			if took := time.Since(start); took > time.Second {
				t.Errorf("took %v", took)
			}
			if got := outcome(err); got != row.want {
				t.Errorf("%s %s: %s (%v), want %s", row.tool, row.args, got, err, row.want)
			}
			h.unharmed(before, result, err)
			if after := h.inside(); after != inside {
				t.Errorf("the workspace changed:\n%s\nwas\n%s", after, inside)
			}
		})
	}
}

// unharmed checks that nothing outside changed and nothing of it was shown.
func (h *house) unharmed(before string, result []byte, err error) {
	h.t.Helper()
	if after := h.outside(); after != before {
		h.t.Errorf("outside changed:\n%s\nwas\n%s", after, before)
	}
	shown := fmt.Sprintf("%s %v", result, err)
	for _, secret := range []string{canary, h.host, "AgentSettings.json\",\"type"} {
		if strings.Contains(shown, secret) {
			h.t.Errorf("shows %s: %s", secret, shown)
		}
	}
	if strings.ContainsFunc(shown, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x85 }) {
		h.t.Errorf("not escaped: %q", shown)
	}
}

func TestP05Toolchain(t *testing.T) {
	if v, _, _ := strings.Cut(runtime.Version(), " "); version.Compare(v, "go1.26.5") < 0 {
		t.Errorf("O-P05 CVE-2026-39822: built with %s, which follows a last link with a trailing slash; want at least go1.26.5", v)
	}
}

func TestP16LookAlikesAreLiteral(t *testing.T) {
	for _, name := range []string{"..\uff0fAgentSettings.json", "\uff0e\uff0e/x", "Workspace\u2215..\u2215AgentSettings.json"} {
		t.Run("O-P16 DenchClaw#14 "+name, func(t *testing.T) {
			h := newHouse(t)
			before := h.outside()
			result, err := h.call("file.read", args("path", name))
			if outcome(err) != "not found" {
				t.Errorf("read: %v", err)
			}
			h.unharmed(before, result, err)
			ok[writeResult](t, h, "file.write", args("path", name, "content", "literal"))
			if got, err := os.ReadFile(filepath.Join(h.ws, name)); string(got) != "literal" {
				t.Errorf("%q %v", got, err)
			}
			h.unharmed(before, nil, nil)
		})
	}
}

func TestP18SparseFile(t *testing.T) {
	h := newHouse(t)
	const size = 5 << 30
	h.put(h.ws+"/big", "")
	h.must(os.Truncate(h.ws+"/big", size))
	got := ok[readResult](t, h, "file.read", `{"path":"big"}`)
	if !got.Truncated || got.Size != size || got.Next != 64<<10 || len(got.Content) != 64<<10 {
		t.Errorf("O-P18 wayland#644: truncated %v size %d next %d", got.Truncated, got.Size, got.Next)
	}
}

func TestP23NoFolderState(t *testing.T) {
	h := newHouse(t)
	before := h.outside()
	ok[map[string]any](t, h, "file.list", `{"path":"sub"}`)
	ok[writeResult](t, h, "file.write", `{"path":"Identity.md","content":"mine"}`)
	if got, err := os.ReadFile(h.ws + "/Identity.md"); string(got) != "mine" {
		t.Errorf("O-P23 CVE-2026-25722: %q %v", got, err)
	}
	h.unharmed(before, nil, nil)
}

// TestP25Restore tries every way to make a restore reach what holds the rules.
func TestP25Restore(t *testing.T) {
	h := newHouse(t)
	ok[map[string]any](t, h, "file.delete", `{"path":"ok.txt"}`)
	id := string(callID(h.calls))
	meta := filepath.Join(h.ws, ".trash", id, "meta.json")
	before := h.outside()
	try := func(name, arguments, want string) {
		t.Helper()
		result, err := h.call("file.restore", arguments)
		if got := outcome(err); got != want {
			t.Errorf("O-P25 connectonion#722 %s: %s (%v), want %s", name, got, err, want)
		}
		h.unharmed(before, result, err)
	}
	try("named path", args("id", id, "path", "../AgentSettings.json"), "refused workspace")
	try("O-K01 her own soul", args("id", id, "path", "../Soul.md"), "refused workspace")
	try("into the trash", args("id", id, "path", ".trash/x"), "refused workspace")
	try("id is no path", args("id", "../../AgentSettings", "path", "x"), "reject id")
	h.must(os.WriteFile(meta, []byte(`{"path":"../AgentSettings.json","deleted":"2026-01-01T00:00:00.000000Z"}`), 0o600))
	try("forged description", args("id", id), "refused workspace")
	h.must(os.Remove(meta))
	h.link(h.data+"/agents/alice/AgentSettings.json", ".trash/"+id+"/meta.json")
	try("description is a link", args("id", id), "error")
	h.link(h.out, "d")
	try("through a link", args("id", id, "path", "d/x"), "refused link")
	content := filepath.Join(h.ws, ".trash", id, "content")
	h.must(os.Remove(content))
	h.must(os.Symlink(h.out+"/secret.txt", content))
	try("content is a link", args("id", id, "path", "x"), "refused link")
	h.must(os.RemoveAll(h.ws + "/.trash"))
	h.link(h.out, ".trash")
	try("trash is a link", args("id", id, "path", "x"), "refused link")
	for _, a := range [][2]string{{"file.delete", `{"path":"sub"}`}, {"file.trash", `{}`}, {"file.write", `{"path":"new","content":""}`}} {
		result, err := h.call(a[0], a[1])
		if outcome(err) != "refused link" {
			t.Errorf("%s with a link as trash: %s %v", a[0], result, err)
		}
		h.unharmed(before, result, err)
	}
}

func TestP26Control(t *testing.T) {
	h := newHouse(t)
	h.must(os.Rename(h.data, h.host+"/real"))
	h.must(os.Symlink("real", h.data))
	ok[writeResult](t, h, "file.write", `{"path":"notes/a.txt","content":"hello"}`)
	if got := ok[readResult](t, h, "file.read", `{"path":"notes/a.txt"}`); got.Content != "hello" {
		t.Errorf("O-P26 QuillCode#722: %+v", got)
	}
	before := strings.ReplaceAll(h.outside(), h.ws, "")
	result, err := h.call("file.read", `{"path":"../x"}`)
	if outcome(err) != "refused workspace" {
		t.Errorf("O-P26: %v", err)
	}
	h.unharmed(before, result, err)
	_, err = h.call("file.read", `{"path":"notes/b.txt"}`)
	if err == nil || err.Error() != `"notes/b.txt": not found` {
		t.Errorf("O-P26: the error must show the given path and no more: %v", err)
	}
}

// TestP22Search: what a link below the folder leads to is not found, and is
// counted as not searched.
func TestP22Search(t *testing.T) {
	h := newHouse(t)
	h.put(h.ws+"/sub/deep/own.txt", "CANARY of my own")
	h.link(h.out, "sub/folder")
	h.link(h.out+"/secret.txt", "sub/leak")
	h.must(os.Link(h.out+"/secret.txt", h.ws+"/sub/hard"))
	h.must(syscall.Mkfifo(h.ws+"/sub/pipe", 0o600))
	before := h.outside()
	for _, path := range []string{".", "sub"} {
		result, err := h.call("file.search", args("path", path, "pattern", "CANARY"))
		h.unharmed(before, result, err)
		const want = `"matches":[{"line":1,"path":"sub/deep/own.txt","text":"CANARY of my own"}],"skipped":4,"truncated":false`
		if !strings.Contains(string(result), want) {
			t.Errorf("O-P22 kimi-code#1934 %s: %s", path, result)
		}
	}
}

// TestP22ListLinks: a listing shows a link as a link and nothing of its target.
func TestP22ListLinks(t *testing.T) {
	h := newHouse(t)
	h.link(h.out, "folder")
	h.link(h.out+"/secret.txt", "leak")
	result, err := h.call("file.list", `{}`)
	h.unharmed(h.outside(), result, err)
	for _, want := range []string{`{"name":"folder","type":"link"}`, `{"name":"leak","type":"link"}`} {
		if !strings.Contains(string(result), want) {
			t.Errorf("O-P22 CVE-2024-8244: no %s in %s", want, result)
		}
	}
}
