package file_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/handlers/tools/file"
	"gatebook/handlers/tools/workspace"
)

type entry struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Size     int64  `json:"size"`
	Modified string `json:"modified"`
}

type listing struct {
	Entries []entry `json:"entries"`
	Next    string  `json:"next"`
}

type deleted struct {
	ID      events.CallID `json:"id"`
	Path    string        `json:"path"`
	Deleted string        `json:"deleted"`
	Type    string        `json:"type"`
	Size    int64         `json:"size"`
}

type trashPage struct {
	Entries []deleted     `json:"entries"`
	Next    events.CallID `json:"next"`
}

type appended struct {
	Path     string        `json:"path"`
	Before   int           `json:"before"`
	After    int           `json:"after"`
	Replaced events.CallID `json:"replaced"`
}

type edited struct {
	Path         string        `json:"path"`
	Replacements int           `json:"replacements"`
	Lines        []int         `json:"lines"`
	Before       int           `json:"before"`
	After        int           `json:"after"`
	Replaced     events.CallID `json:"replaced"`
}

type moved struct {
	From string `json:"from"`
	To   string `json:"to"`
	Type string `json:"type"`
}

type copied struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Type  string `json:"type"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

type status struct {
	Path     string `json:"path"`
	Type     string `json:"type"`
	Size     int64  `json:"size"`
	Modified string `json:"modified"`
	SHA256   string `json:"sha256"`
}

type match struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

type found struct {
	Matches   []match `json:"matches"`
	Files     int     `json:"files"`
	Skipped   int     `json:"skipped"`
	Truncated bool    `json:"truncated"`
}

func newHouseTools() map[string]tools.Tool {
	all := map[string]tools.Tool{}
	for _, tool := range file.Tools(workspace.New("nowhere")) {
		all[tool.Definition().Name] = tool
	}
	return all
}

func TestWriteKeepsTheFormerVersion(t *testing.T) {
	h := newHouse(t)
	first := ok[writeResult](t, h, "file.write", `{"path":"a/b/c.txt","content":"one"}`)
	if first != (writeResult{Path: "a/b/c.txt", Bytes: 3, Effect: "created"}) {
		t.Errorf("%+v", first)
	}
	second := ok[writeResult](t, h, "file.write", `{"path":"a/b/c.txt","content":"zwölf"}`)
	if second != (writeResult{Path: "a/b/c.txt", Bytes: 6, Effect: "replaced", Replaced: callID(h.calls)}) {
		t.Errorf("%+v", second)
	}
	page := ok[trashPage](t, h, "file.trash", `{}`)
	want := []deleted{{callID(2), "a/b/c.txt", "1970-01-01T00:00:02.000000Z", "file", 3}}
	if !slices.Equal(page.Entries, want) || page.Next != "" {
		t.Errorf("%+v", page)
	}
	_, err := h.call("file.restore", args("id", second.Replaced))
	if outcome(err) != "exists" || !strings.Contains(err.Error(), `the path "a/b/c-restored-1.txt" is free`) {
		t.Errorf("%v", err)
	}
	ok[map[string]any](t, h, "file.restore", args("id", second.Replaced, "path", "a/b/c-restored-1.txt"))
	for path, content := range map[string]string{"a/b/c.txt": "zwölf", "a/b/c-restored-1.txt": "one"} {
		if got := ok[readResult](t, h, "file.read", args("path", path)); got.Content != content {
			t.Errorf("%s: %+v", path, got)
		}
		for name, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
			if info, err := os.Stat(filepath.Join(h.ws, name)); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: mode %v %v", name, info.Mode(), err)
			}
		}
	}
	if page := ok[trashPage](t, h, "file.trash", `{}`); len(page.Entries) != 0 {
		t.Errorf("after the restore: %+v", page)
	}
	if rest, err := os.ReadDir(h.ws + "/.trash"); len(rest) != 0 || err != nil {
		t.Errorf("the trash folder keeps %v %v", rest, err)
	}
}

func TestDeleteAndRestore(t *testing.T) {
	h := newHouse(t)
	ok[deleted](t, h, "file.delete", `{"path":"sub"}`)
	ok[writeResult](t, h, "file.write", `{"path":"sub/inner.txt","content":"second"}`)
	again := ok[deleted](t, h, "file.delete", `{"path":"sub"}`)
	if again.ID != callID(3) || again.Type != "dir" || again.Path != "sub" {
		t.Errorf("%+v", again)
	}
	page := ok[trashPage](t, h, "file.trash", `{}`)
	if len(page.Entries) != 2 || page.Entries[0].ID != callID(3) || page.Entries[1].ID != callID(1) {
		t.Errorf("newest first: %+v", page)
	}
	ok[map[string]any](t, h, "file.restore", args("id", callID(1)))
	ok[map[string]any](t, h, "file.restore", args("id", callID(3), "path", "deep/er/sub"))
	for path, content := range map[string]string{"sub/inner.txt": "inner", "deep/er/sub/inner.txt": "second"} {
		if got := ok[readResult](t, h, "file.read", args("path", path)); got.Content != content {
			t.Errorf("%s: %+v", path, got)
		}
	}
	for _, row := range []struct{ tool, args, text string }{
		{"file.delete", `{"path":"."}`, `".": is the workspace itself`},
		{"file.delete", `{"path":"none"}`, `"none": not found`},
		{"file.delete", `{"path":"ok.txt/x"}`, `"ok.txt/x": is not a folder`},
		{"file.write", `{"path":"sub","content":""}`, `"sub": is a folder`},
		{"file.write", `{"path":".","content":""}`, `".": is the workspace itself`},
		{"file.read", `{"path":"sub"}`, `"sub": is a folder`},
		{"file.list", `{"path":"ok.txt"}`, `"ok.txt": is not a folder`},
		{"file.list", `{"cursor":"%"}`, `".": the cursor "%" is not one that file.list gave`},
		{"file.restore", args("id", callID(1)), `"` + string(callID(1)) + `": there is no such trash entry`},
		{"file.restore", args("id", callID(77)), `"` + string(callID(77)) + `": there is no such trash entry`},
	} {
		if _, err := h.call(row.tool, row.args); err == nil || err.Error() != row.text {
			t.Errorf("%s %s: %v, want %s", row.tool, row.args, err, row.text)
		}
	}
}

// O-T01 nextcloud/server#57447 cs3org/reva#1833: every copy is kept, with its own origin,
// also where several of one name are deleted at the same time.
func TestT01EveryCopyIsKept(t *testing.T) {
	h := newHouse(t)
	want := map[events.CallID][2]string{} // path and content
	for i, path := range []string{"a/x.txt", "b/x.txt", "x.txt", "x.txt"} {
		content := fmt.Sprint("copy ", i)
		h.put(filepath.Join(h.ws, path), content)
		want[ok[deleted](t, h, "file.delete", args("path", path)).ID] = [2]string{path, content}
	}
	if len(want) != 4 {
		t.Fatalf("%d entries of 4: %v", len(want), want)
	}
	for id, is := range want {
		to := "back/" + string(id)
		for _, e := range ok[trashPage](t, h, "file.trash", `{}`).Entries {
			if e.ID == id && e.Path != is[0] {
				t.Errorf("%s comes from %s, and is said to come from %s", id, is[0], e.Path)
			}
		}
		ok[map[string]any](t, h, "file.restore", args("id", id, "path", to))
		if got := ok[readResult](t, h, "file.read", args("path", to)); got.Content != is[1] {
			t.Errorf("%s holds %q, want %q", id, got.Content, is[1])
		}
	}
}

// O-T04 owncloud/core#22824: an empty name is not everything.
func TestT04EmptyNames(t *testing.T) {
	h := newHouse(t)
	before, outside := h.inside(), h.outside()
	for _, path := range []string{"", ".", "./", "sub/..", "/", ".trash", ".trash/.."} {
		if _, err := h.call("file.delete", args("path", path)); err == nil {
			t.Errorf("file.delete took %q", path)
		}
		if h.inside() != before || h.outside() != outside {
			t.Fatalf("file.delete of %q changed something", path)
		}
	}
}

// O-T02 owncloud/core#16246 owncloud/core#35974: what is there now stays.
func TestRestoreNamesAFreePath(t *testing.T) {
	h := newHouse(t)
	for name, want := range map[string]string{".env": ".env-restored-1", "a.b/noext": "a.b/noext-restored-1", "x.tar.gz": "x.tar-restored-2.gz"} {
		h.put(filepath.Join(h.ws, name), "old")
		h.put(h.ws+"/x.tar-restored-1.gz", "taken")
		id := ok[deleted](t, h, "file.delete", args("path", name)).ID
		h.put(filepath.Join(h.ws, name), "new")
		_, err := h.call("file.restore", args("id", id))
		if outcome(err) != "exists" || !strings.Contains(err.Error(), `"`+want+`" is free`) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := h.call("file.restore", args("id", id, "path", "ok.txt")); outcome(err) != "exists" {
			t.Errorf("%s to a path that is there: %v", name, err)
		}
		if got, _ := os.ReadFile(filepath.Join(h.ws, "ok.txt")); string(got) != "ok" {
			t.Errorf("ok.txt was overwritten: %s", got)
		}
		if got, _ := os.ReadFile(filepath.Join(h.ws, name)); string(got) != "new" {
			t.Errorf("%s was overwritten: %s", name, got)
		}
	}
}

func TestReadPages(t *testing.T) {
	h := newHouse(t)
	text := strings.Repeat("aß€😀", 500)
	h.put(h.ws+"/t", text)
	var all strings.Builder
	for offset := int64(0); ; {
		got := ok[readResult](t, h, "file.read", args("path", "t", "offset", offset, "limit", 101))
		if got.Encoding != "utf-8" || got.Offset != offset || got.Size != int64(len(text)) || got.Truncated != (got.Next != 0) {
			t.Fatalf("%+v", got)
		}
		all.WriteString(got.Content)
		if offset = got.Next; !got.Truncated {
			break
		}
	}
	if all.String() != text {
		t.Error("pages of text do not join to the file")
	}
	h.put(h.ws+"/b", "\xff\x00\x01")
	for _, row := range []struct {
		args string
		want readResult
	}{
		{`{"path":"b"}`, readResult{Path: "b", Content: "/wAB", Encoding: "base64", Size: 3}},
		{`{"path":"b","limit":1}`, readResult{Path: "b", Content: "/w==", Encoding: "base64", Size: 3, Truncated: true, Next: 1}},
		{`{"path":"b","offset":9007199254740991}`, readResult{Path: "b", Encoding: "utf-8", Size: 3, Offset: 9007199254740991}},
		{`{"path":"t","offset":1,"limit":1}`, readResult{Path: "t", Content: "ww==", Encoding: "base64", Size: 5000, Offset: 1, Truncated: true, Next: 2}},
	} {
		if got := ok[readResult](t, h, "file.read", row.args); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.args, got, row.want)
		}
	}
}

// TestAnswersHaveABound: no result is larger than an answer may be.
func TestAnswersHaveABound(t *testing.T) {
	const most = 768 << 10
	const files = 700 // with these names about 1.2 pages
	h := newHouse(t)
	for i := range files {
		h.put(fmt.Sprintf("%s/many/%05d%s", h.ws, i, strings.Repeat("\x01", 240)), "")
	}
	for name, content := range map[string]string{"x": "x", "quoted": "\n", "control": "\x01", "binary": "\xff", "euro": "€"} {
		h.put(h.ws+"/"+name, strings.Repeat(content, workspace.MaxContent/len(content)+10))
		got, size := sized[readResult](t, h, "file.read", args("path", name, "limit", workspace.MaxContent))
		if size > most {
			t.Errorf("%s: %d bytes", name, size)
		}
		data := []byte(got.Content)
		if got.Encoding == "base64" {
			data, _ = base64.StdEncoding.DecodeString(got.Content)
		}
		if !got.Truncated || got.Next != int64(len(data)) || strings.Trim(string(data), content) != "" || len(data) < workspace.MaxContent-4 {
			t.Errorf("%s: %d bytes, next %d", name, len(data), got.Next)
		}
	}
	seen := map[string]bool{}
	for cursor := ""; ; {
		page, size := sized[listing](t, h, "file.list", args("path", "many", "cursor", cursor))
		if size > most {
			t.Fatalf("list: %d bytes", size)
		}
		for _, e := range page.Entries {
			if seen[e.Name] || strings.ContainsRune(e.Name, '\x01') {
				t.Fatalf("twice or not escaped: %q", e.Name)
			}
			seen[e.Name] = true
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(seen) != files {
		t.Errorf("the pages hold %d entries", len(seen))
	}
}

func TestListShowsEveryType(t *testing.T) {
	h := newHouse(t)
	h.put(h.ws+"/trail.", "x")
	h.put(h.ws+"/bad\xff", "")
	ok[deleted](t, h, "file.delete", `{"path":"sub/inner.txt"}`)
	page := ok[listing](t, h, "file.list", `{}`)
	var got []string
	for _, e := range page.Entries {
		got = append(got, fmt.Sprintf("%s %s %d %v", e.Name, e.Type, e.Size, e.Modified != ""))
	}
	want := []string{`bad\xff file 0 true`, "ok.txt file 2 true", "sub dir 0 true", "trail. file 1 true"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTrashToleratesRests(t *testing.T) {
	h := newHouse(t)
	trash := h.ws + "/.trash/"
	h.put(trash+"note", "not an entry")
	h.must(os.MkdirAll(trash+string(callID(90)), 0o700))                     // a kill before anything
	h.put(trash+string(callID(91))+"/meta.json", `{"path":"a"}`)             // a kill before the move
	h.put(trash+string(callID(92))+"/content", "kept")                       // no description
	h.put(trash+string(callID(93))+"/content", "kept")                       // half a description
	h.put(trash+string(callID(93))+"/meta.json", `{"path":`)                 //
	h.put(trash+string(callID(94))+"/content", "kept")                       // a large one
	h.put(trash+string(callID(94))+"/meta.json", strings.Repeat(" ", 1<<20)) //
	h.put(trash+string(callID(95)), "a file")
	page := ok[trashPage](t, h, "file.trash", `{}`)
	var ids []events.CallID
	for _, e := range page.Entries {
		ids = append(ids, e.ID)
	}
	if want := []events.CallID{callID(94), callID(93), callID(92)}; !slices.Equal(ids, want) {
		t.Errorf("%v, want %v", ids, want)
	}
	_, err := h.call("file.restore", args("id", callID(92)))
	if err == nil || !strings.Contains(err.Error(), "name one") {
		t.Errorf("%v", err)
	}
	ok[map[string]any](t, h, "file.restore", args("id", callID(92), "path", "found"))
	if got := ok[readResult](t, h, "file.read", `{"path":"found"}`); got.Content != "kept" {
		t.Errorf("%+v", got)
	}
}

func TestTrashPages(t *testing.T) {
	h := newHouse(t)
	const all = workspace.MaxTrash + 5
	for i := range all {
		h.put(fmt.Sprintf("%s/.trash/%s/content", h.ws, callID(i)), "")
	}
	first := ok[trashPage](t, h, "file.trash", `{}`)
	second := ok[trashPage](t, h, "file.trash", args("cursor", first.Next))
	if len(first.Entries) != workspace.MaxTrash || first.Entries[0].ID != callID(all-1) || len(second.Entries) != 5 || second.Next != "" || second.Entries[4].ID != callID(0) {
		t.Errorf("%d entries, then %d", len(first.Entries), len(second.Entries))
	}
}

func TestRunKeepsToItsAgentAndContext(t *testing.T) {
	h := newHouse(t)
	ok[writeResult](t, h, "file.write", `{"path":"mine","content":"x"}`)
	if _, err := h.callAs("bob", 50, "file.read", `{"path":"mine"}`); outcome(err) != "not found" {
		t.Errorf("bob: %v", err)
	}
	for _, bad := range []events.AgentID{"", "..", "a/b", "Alice", "con"} {
		if _, err := h.callAs(bad, 51, "file.list", `{}`); err == nil {
			t.Errorf("agent %q has a workspace", bad)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for name, members := range valid() {
		decoded, err := h.tools[name].Decode([]byte("{" + members + "}"))
		h.must(err)
		if _, err := h.tools[name].Run(ctx, tools.Env{May: anywhere, Agent: "alice", Call: callID(60)}, decoded.Args); !errors.Is(err, context.Canceled) {
			t.Errorf("%s after the end of its context: %v", name, err)
		}
		if _, err := h.tools[name].Run(context.Background(), tools.Env{May: anywhere, Agent: "alice", Call: callID(61)}, "foreign"); err == nil {
			t.Errorf("%s takes foreign arguments", name)
		}
	}
}

// Under create_only file.write makes a new file; it refuses where anything is, and
// leaves it and the trash as they were.
func TestWriteOnlyNew(t *testing.T) {
	h := newHouse(t)
	h.link("ok.txt", "lnk")
	h.createOnly = true
	first := ok[writeResult](t, h, "file.write", args("path", "docs/intent/plan.md", "content", "one"))
	if first.Effect != "created" || first.Replaced != "" {
		t.Errorf("%+v", first)
	}
	for _, path := range []string{"docs/intent/plan.md", "ok.txt", "sub", "lnk"} {
		if _, err := h.call("file.write", args("path", path, "content", "OWNED")); outcome(err) != "refused create_only" {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, want := range map[string]string{"docs/intent/plan.md": "one", "ok.txt": "ok", "lnk": "ok", "sub/inner.txt": "inner"} {
		if raw, err := os.ReadFile(filepath.Join(h.ws, path)); string(raw) != want {
			t.Errorf("%s holds %q (%v)", path, raw, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(h.ws, ".trash", "*")); len(left) > 0 {
		t.Errorf("in the trash: %q", left)
	}
	h.createOnly = false
	if again := ok[writeResult](t, h, "file.write", args("path", "ok.txt", "content", "two")); again.Effect != "replaced" {
		t.Errorf("%+v", again)
	}
}
