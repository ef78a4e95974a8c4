package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/handlers/tools"
)

// preview asks what a call would change.
func (h *house) preview(tool, arguments string) (tools.Decoded, tools.Change) {
	h.t.Helper()
	decoded, err := h.tools[tool].Decode(jsontext.Value(arguments))
	h.must(err)
	before := h.inside()
	change, err := h.tools[tool].(tools.Previewer).Preview(context.Background(), tools.Env{Agent: "alice"}, decoded.Args)
	h.must(err)
	if after := h.inside(); after != before {
		h.t.Errorf("the look at %s changed something", tool)
	}
	return decoded, change
}

func TestPreview(t *testing.T) {
	for _, row := range []struct{ name, tool, args, want string }{
		{"a new file", "file.write", `{"path":"new.txt","content":"x"}`, "There is nothing at new.txt.\n"},
		{"another version", "file.write", `{"path":"ok.txt","content":"two\n"}`, "At ok.txt is a file of 2 bytes.\ndiff now/ok.txt then/ok.txt\n--- now/ok.txt\n+++ then/ok.txt\n@@ -1,1 +1,1 @@\n-ok\n\\ No newline at end of file\n+two\n"},
		{"the same version", "file.write", `{"path":"ok.txt","content":"ok"}`, "At ok.txt is a file of 2 bytes.\nNothing in it would change.\n"},
		{"an edit", "file.edit", `{"path":"ok.txt","old":"ok","new":"no"}`, "-ok\n"},
		{"an edit that would fail", "file.edit", `{"path":"ok.txt","old":"zz","new":"no"}`, "So it would fail: the file does not hold the text old"},
		{"more at the end", "file.append", `{"path":"ok.txt","content":"!"}`, "+ok!\n"},
		{"an edit of places that overlap", "file.edit", `{"path":"aaa.txt","old":"aa","new":"b"}`, "So it would fail: the file holds the text old 2 times"},
		{"an edit that would be too large", "file.edit", `{"path":"many.txt","old":"a","new":"` + strings.Repeat("b", 500<<10) + `","all":true}`, "So it would fail: the file would have "},
		{"a folder goes", "file.delete", `{"path":"sub"}`, "At sub is a folder with 1 file and 0 folders below it, 5 bytes in all: inner.txt.\n"},
		{"two paths", "file.move", `{"from":"sub","to":"other"}`, "5 bytes in all: inner.txt.\nThere is nothing at other.\n"},
		{"what comes back", "file.restore", `{"id":"` + string(callID(1)) + `"}`, "There is nothing at gone.txt.\nIt brings back to gone.txt a file of 4 bytes.\n"},
		{"what comes back elsewhere", "file.restore", `{"id":"` + string(callID(1)) + `","path":"ok.txt"}`, "At ok.txt is a file of 2 bytes.\nIt brings back to ok.txt a file of 4 bytes.\n"},
		{"what no tool touches", "file.write", `{"path":"link","content":"x"}`, "At link is what no tool touches: "},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := newHouse(t)
			h.link("ok.txt", "link")
			h.put(filepath.Join(h.ws, "aaa.txt"), "aaa")
			h.put(filepath.Join(h.ws, "many.txt"), strings.Repeat("a", 512<<10))
			h.put(filepath.Join(h.ws, "gone.txt"), "gone")
			_, err := h.callAs("alice", 1, "file.delete", `{"path":"gone.txt"}`)
			h.must(err)
			_, change := h.preview(row.tool, row.args)
			if !strings.Contains(change.Text, row.want) || change.Base == "" {
				t.Errorf("%q, want %q", change.Text, row.want)
			}
			if strings.Contains(change.Text, h.host) {
				t.Errorf("%q shows a path of the host", change.Text)
			}
			_, again := h.preview(row.tool, row.args)
			if again != change {
				t.Errorf("another look at the same: %+v, %+v", change, again)
			}
		})
	}
}

// O-A21: what is not what the person saw stays as it is, whatever the tool.
func TestStale(t *testing.T) {
	for _, row := range []struct {
		tool, args string
		change     func(h *house)
	}{
		{"file.write", `{"path":"ok.txt","content":"x"}`, func(h *house) { h.put(filepath.Join(h.ws, "ok.txt"), "OK") }},
		{"file.write", `{"path":"new.txt","content":"x"}`, func(h *house) { h.put(filepath.Join(h.ws, "new.txt"), "somebody's") }},
		{"file.write", `{"path":"ok.txt","content":"x"}`, func(h *house) { h.must(os.Remove(filepath.Join(h.ws, "ok.txt"))) }},
		{"file.append", `{"path":"ok.txt","content":"x"}`, func(h *house) { h.put(filepath.Join(h.ws, "ok.txt"), "OK") }},
		{"file.edit", `{"path":"ok.txt","old":"k","new":"x"}`, func(h *house) { h.put(filepath.Join(h.ws, "ok.txt"), "okay") }},
		{"file.delete", `{"path":"sub"}`, func(h *house) { h.put(filepath.Join(h.ws, "sub/more.txt"), "x") }},
		{"file.delete", `{"path":"ok.txt"}`, func(h *house) { h.put(filepath.Join(h.ws, "ok.txt"), "OK") }},
		{"file.move", `{"from":"ok.txt","to":"there.txt"}`, func(h *house) { h.put(filepath.Join(h.ws, "ok.txt"), "OK") }},
		{"file.delete", `{"path":"sub"}`, func(h *house) { h.put(filepath.Join(h.ws, "sub/deep/er/more.txt"), "x") }},
		{"file.move", `{"from":"sub","to":"there"}`, func(h *house) { h.put(filepath.Join(h.ws, "sub/deep/er.txt"), "other") }},
		{"file.restore", `{"id":"` + string(callID(90)) + `"}`, func(h *house) { h.put(filepath.Join(h.ws, "gone.txt"), "somebody's") }},
		{"file.copy", `{"from":"sub","to":"there"}`, func(h *house) { h.put(filepath.Join(h.ws, "sub/inner.txt"), "changed") }},
	} {
		t.Run(row.tool+" "+row.args, func(t *testing.T) {
			h := newHouse(t)
			h.put(filepath.Join(h.ws, "sub/deep/er.txt"), "deep")
			h.put(filepath.Join(h.ws, "gone.txt"), "gone")
			_, err := h.callAs("alice", 90, "file.delete", `{"path":"gone.txt"}`)
			h.must(err)
			decoded, change := h.preview(row.tool, row.args)
			run := func(n int) error {
				env := tools.Env{May: anywhere, Agent: "alice", Call: callID(n), Base: change.Base}
				_, err := h.tools[row.tool].Run(context.Background(), env, decoded.Args)
				return err
			}
			row.change(h)
			before := h.inside()
			var refused *tools.Refused
			if err := run(1); !errors.As(err, &refused) || refused.Rule != "stale" {
				t.Errorf("%v, want it stale", err)
			}
			if after := h.inside(); after != before {
				t.Errorf("something changed:\n%s\nwas\n%s", after, before)
			}
			_, change = h.preview(row.tool, row.args)
			if err := run(2); errors.As(err, &refused) {
				t.Errorf("what was seen now: %v", err)
			}
		})
	}
}
