package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"gatebook/handlers/tools/workspace"
)

// said are calls that end in an error of these words and change nothing.
type said struct{ tool, args, text string }

func (h *house) says(rows ...said) {
	h.t.Helper()
	for _, row := range rows {
		before := h.inside()
		if _, err := h.call(row.tool, row.args); err == nil || !strings.Contains(err.Error(), row.text) {
			h.t.Errorf("%s %.200s: %v, want %s", row.tool, row.args, err, row.text)
		}
		if h.inside() != before {
			h.t.Errorf("%s %.200s changed the workspace", row.tool, row.args)
		}
	}
}

// holds says what a file must hold.
func (h *house) holds(path, want string) {
	h.t.Helper()
	if raw, err := os.ReadFile(filepath.Join(h.ws, path)); string(raw) != want {
		h.t.Errorf("%s holds %.200q (%v), want %.200q", path, raw, err, want)
	}
}

func TestAppend(t *testing.T) {
	h := newHouse(t)
	for n, want := range []appended{{"ok.txt", 2, 9, ""}, {"ok.txt", 9, 16, ""}} {
		if got := ok[appended](t, h, "file.append", args("path", "ok.txt", "content", " zwölf")); got != want {
			t.Errorf("%d: %+v", n, got)
		}
	}
	h.holds("ok.txt", "ok zwölf zwölf")
	if page := ok[trashPage](t, h, "file.trash", `{}`); len(page.Entries) != 0 {
		t.Errorf("what a file begins with is kept a second time: %+v", page)
	}
	if rest, err := os.ReadDir(h.ws + "/.trash"); len(rest) != 0 || err != nil {
		t.Errorf("the trash folder keeps %v %v", rest, err)
	}
	h.put(h.ws+"/binary", "\x00\xff")
	ok[appended](t, h, "file.append", args("path", "binary", "content", "x"))
	h.holds("binary", "\x00\xffx")
	h.put(h.ws+"/long", "")
	h.must(os.Truncate(h.ws+"/long", workspace.MaxAppended-1))
	if got := ok[appended](t, h, "file.append", args("path", "long", "content", "x")); got.After != workspace.MaxAppended {
		t.Errorf("%+v", got)
	}
	h.says(
		said{"file.append", args("path", "long", "content", "x"), `"long": would have 16777217 bytes; file.append makes a file of at most 16777216`},
		said{"file.append", args("path", "none", "content", "x"), `"none": not found; file.write makes a new file`},
		said{"file.append", args("path", "none/a", "content", "x"), `"none/a": not found`},
		said{"file.append", args("path", "sub", "content", "x"), `"sub": is a folder`},
		said{"file.append", args("path", ".", "content", "x"), `".": is the workspace itself`},
	)
}

func TestEdit(t *testing.T) {
	h := newHouse(t)
	h.put(h.ws+"/a.txt", "one\ntwo\nthree two\n\ntwo")
	first := ok[edited](t, h, "file.edit", args("path", "a.txt", "old", "one\ntwo", "new", "1\n1½\n2"))
	if first.Replacements != 1 || !slices.Equal(first.Lines, []int{1}) || first.Before != 22 || first.After != 22 || first.Replaced != callID(h.calls) {
		t.Errorf("%+v", first)
	}
	h.holds("a.txt", "1\n1½\n2\nthree two\n\ntwo")
	all := ok[edited](t, h, "file.edit", args("path", "a.txt", "old", "two", "new", "2\n2", "all", true))
	if all.Replacements != 2 || !slices.Equal(all.Lines, []int{4, 7}) || all.After != 22 {
		t.Errorf("%+v", all)
	}
	h.holds("a.txt", "1\n1½\n2\nthree 2\n2\n\n2\n2")
	ok[map[string]any](t, h, "file.restore", args("id", first.Replaced, "path", "former"))
	h.holds("former", "one\ntwo\nthree two\n\ntwo")
	ok[edited](t, h, "file.edit", args("path", "former", "old", "one\ntwo\nthree two\n\ntwo", "new", ""))
	h.holds("former", "")

	h.put(h.ws+"/aaa", "\naaa")
	h.put(h.ws+"/many", strings.Repeat("a\n", 5000))
	h.put(h.ws+"/latin", "caf\xe9 one")
	h.put(h.ws+"/large", strings.Repeat("a", workspace.MaxContent+1))
	h.put(h.ws+"/self", strings.Repeat("a", workspace.MaxContent))
	h.says(
		said{"file.edit", args("path", "aaa", "old", "aa", "new", "b"), `"aaa": holds the text old 2 times, at the lines 2, 2; give more`},
		said{"file.edit", args("path", "many", "old", "a\n", "new", "b"), `more than 10 times, first at the lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10; give more`},
		said{"file.edit", args("path", "many", "old", "a", "new", strings.Repeat("b", 200), "all", true), `"many": would have 1005000 bytes; file.edit makes a file of at most 524288`},
		said{"file.edit", args("path", "many", "old", "A", "new", "b", "all", true), `"many": does not hold the text old`},
		said{"file.edit", args("path", "latin", "old", "one", "new", "two"), `"latin": is not UTF-8 text`},
		said{"file.edit", args("path", "large", "old", "a", "new", "b"), `"large": has 524289 bytes; file.edit takes a file of at most 524288`},
		said{"file.edit", args("path", "self", "old", strings.Repeat("a", workspace.MaxContent/2), "new", "b"), `more than 10 times`},
		said{"file.edit", args("path", "none", "old", "a", "new", "b"), `"none": not found`},
		said{"file.edit", args("path", "sub", "old", "a", "new", "b"), `"sub": is a folder`},
	)
	got := ok[edited](t, h, "file.edit", args("path", "many", "old", "a", "new", "b", "all", true))
	if got.Replacements != 5000 || len(got.Lines) != workspace.MaxLines || got.Lines[999] != 1000 {
		t.Errorf("%d replacements, %d lines", got.Replacements, len(got.Lines))
	}
}

func TestMoveAndCopy(t *testing.T) {
	h := newHouse(t)
	h.put(h.ws+"/sub/deep/own.txt", "own")
	h.must(os.Mkdir(h.ws+"/sub/empty", 0o700))
	if got := ok[copied](t, h, "file.copy", `{"from":"sub","to":"new/place"}`); got != (copied{"sub", "new/place", "dir", 2, 8}) {
		t.Errorf("%+v", got)
	}
	if got := ok[moved](t, h, "file.move", `{"from":"sub/deep","to":"other/deep"}`); got != (moved{"sub/deep", "other/deep", "dir"}) {
		t.Errorf("%+v", got)
	}
	if got := ok[moved](t, h, "file.move", `{"from":"ok.txt","to":"sub/ok-2.txt"}`); got.Type != "file" {
		t.Errorf("%+v", got)
	}
	if got := ok[copied](t, h, "file.copy", `{"from":"sub/ok-2.txt","to":"ok.txt"}`); got != (copied{"sub/ok-2.txt", "ok.txt", "file", 1, 2}) {
		t.Errorf("%+v", got)
	}
	for path, want := range map[string]string{"sub/inner.txt": "inner", "new/place/inner.txt": "inner", "new/place/deep/own.txt": "own", "other/deep/own.txt": "own", "sub/ok-2.txt": "ok", "ok.txt": "ok"} {
		h.holds(path, want)
	}
	for name, mode := range map[string]os.FileMode{"new/place/empty": 0o700, "new": 0o700, "new/place/inner.txt": 0o600, "ok.txt": 0o600} {
		if info, err := os.Stat(filepath.Join(h.ws, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	if rest, err := os.ReadDir(h.ws + "/.trash"); len(rest) != 0 || err != nil {
		t.Errorf("the trash folder keeps %v %v", rest, err)
	}
	h.put(h.ws+"/odd/bad\xffname", "x")
	h.put(h.ws+"/trail/name.", "x")
	long := strings.Repeat("d/", paths64-2) + "d"
	h.says(
		said{"file.copy", `{"from":"odd","to":"x/y"}`, `"odd/bad\xffname": cannot be copied: its new path`},
		said{"file.copy", `{"from":"trail","to":"x/y"}`, `ends in a dot or a space`},
		said{"file.copy", args("from", "other", "to", long), `has more than 64 components`},
	)
	for _, tool := range []string{"file.copy", "file.move"} {
		h.says(
			said{tool, `{"from":"none","to":"x/y"}`, `"none": not found`},
			said{tool, `{"from":"sub","to":"sub"}`, `"sub": is the same as from, or inside it`},
			said{tool, `{"from":"sub","to":"sub/x/y"}`, `"sub/x/y": is the same as from, or inside it`},
			said{tool, `{"from":"ok.txt","to":"ok.txt/x"}`, `"ok.txt/x": is the same as from, or inside it`},
			said{tool, `{"from":"sub/inner.txt","to":"ok.txt/x"}`, `"ok.txt/x": is not a folder`},
			said{tool, `{"from":"sub/inner.txt","to":"ok.txt"}`, `"ok.txt": already exists, and nothing is overwritten; name another path`},
			said{tool, `{"from":"sub/inner.txt","to":"sub"}`, `"sub": already exists`},
			said{tool, `{"from":".","to":"x/y"}`, `".": is the workspace itself`},
			said{tool, `{"from":"ok.txt","to":"."}`, `".": `},
		)
	}
	if _, err := os.Stat(h.ws + "/x"); err == nil {
		t.Error("a folder was made for what was not copied")
	}
}

func TestCopyHasBounds(t *testing.T) {
	h := newHouse(t)
	h.put(h.ws+"/huge/deep/file", "")
	h.must(os.Truncate(h.ws+"/huge/deep/file", workspace.MaxCopyBytes+1))
	for i := range workspace.MaxCopyEntries {
		h.put(fmt.Sprintf("%s/many/%05d", h.ws, i), "")
	}
	h.says(
		said{"file.copy", `{"from":"huge","to":"x/y"}`, `"huge": is too much for one call: at most 2000 files and folders with 67108864 bytes`},
		said{"file.copy", `{"from":"many","to":"x/y"}`, `"many": is too much for one call`},
	)
	h.must(os.Remove(h.ws + "/many/00000"))
	if got := ok[copied](t, h, "file.copy", `{"from":"many","to":"x/y"}`); got.Files != workspace.MaxCopyEntries-1 {
		t.Errorf("%+v", got)
	}
}

// paths64 is the most components of a path.
const paths64 = 64

func TestStat(t *testing.T) {
	h := newHouse(t)
	h.put(h.ws+"/empty", "")
	h.put(h.ws+"/large", "")
	h.must(os.Truncate(h.ws+"/large", workspace.MaxHashed+1))
	for path, want := range map[string]status{
		"ok.txt": {Path: "ok.txt", Type: "file", Size: 2, SHA256: "2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df"},
		"empty":  {Path: "empty", Type: "file", SHA256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		"large":  {Path: "large", Type: "file", Size: workspace.MaxHashed + 1},
		"sub":    {Path: "sub", Type: "dir"},
		".":      {Path: ".", Type: "dir"},
	} {
		got := ok[status](t, h, "file.stat", args("path", path))
		if !strings.HasSuffix(got.Modified, "Z") {
			t.Errorf("%s was changed at %q", path, got.Modified)
		}
		if got.Modified = ""; got != want {
			t.Errorf("%+v", got)
		}
	}
	h.says(said{"file.stat", `{"path":"none"}`, `"none": not found`}, said{"file.stat", `{"path":"ok.txt/x"}`, `"ok.txt/x": is not a folder`})
}

func TestSearch(t *testing.T) {
	h := newHouse(t)
	h.put(h.ws+"/b.txt", "first\r\nsecond needle\r\n\r\nNEEDLE twice needle\r\n")
	h.put(h.ws+"/a/z.txt", "needle at the end")
	h.put(h.ws+"/a/b/c.txt", "needle")
	h.put(h.ws+"/a.txt", strings.Repeat("ß", 500)+"needle"+strings.Repeat("€", 500))
	h.put(h.ws+"/binary", "needle\x00")
	h.put(h.ws+"/latin", "caf\xe9 needle")
	h.put(h.ws+"/far", strings.Repeat("x", workspace.MaxLine)+"needle\nnext needle\n")
	h.put(h.ws+"/odd.", "needle")
	ok[deleted](t, h, "file.delete", `{"path":"sub"}`)
	h.put(h.ws+"/.trash/needle", "needle")
	got := ok[found](t, h, "file.search", `{"pattern":"needle"}`)
	var seen []string
	for _, m := range got.Matches {
		if len(m.Text) > workspace.MaxExcerpt || !utf8.ValidString(m.Text) || !strings.Contains(m.Text, "needle") {
			t.Errorf("%+v", m)
		}
		seen = append(seen, fmt.Sprint(m.Path, " ", m.Line))
	}
	if want := []string{"a/b/c.txt 1", "a/z.txt 1", "a.txt 1", "b.txt 2", "b.txt 4", "far 2", "latin 1"}; !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
	if got.Files != 7 || got.Skipped != 3 || got.Truncated {
		t.Errorf("%+v", got)
	}
	if text := got.Matches[4].Text; text != "NEEDLE twice needle" {
		t.Errorf("%q", text)
	}
	if text := got.Matches[2].Text; strings.Contains(text, "\uFFFD") || !strings.HasPrefix(text, "ß") || !strings.HasSuffix(text, "€") {
		t.Errorf("%q", text)
	}
	for arguments, want := range map[string]int{
		`{"pattern":"(?i)^needle$","regexp":true}`:                1,
		`{"pattern":"needle","path":"a"}`:                         2,
		`{"pattern":"needle","path":"b.txt"}`:                     2,
		`{"pattern":"(?i)^needle","regexp":true,"path":"b.txt"}`:  1,
		`{"pattern":"^$","regexp":true,"path":"b.txt"}`:           1,
		`{"pattern":"x*","regexp":true,"path":"b.txt"}`:           4,
		`{"pattern":".","path":"a"}`:                              0,
		`{"pattern":"(?i)NEEDLE$","regexp":true,"path":"b.txt"}`:  2,
		`{"pattern":"second\\s","regexp":true,"path":"b.txt"}`:    1,
		`{"pattern":"needle\\r$","regexp":true,"path":"b.txt"}`:   0,
		`{"pattern":"needle","path":"binary"}`:                    0,
		`{"pattern":"caf\ufffd","path":"latin"}`:                  0,
		`{"pattern":"caf\\x{FFFD}","regexp":true,"path":"latin"}`: 1,
	} {
		if got := ok[found](t, h, "file.search", arguments); len(got.Matches) != want || got.Matches == nil {
			t.Errorf("%s: %+v, want %d", arguments, got, want)
		}
	}
	h.says(said{"file.search", `{"pattern":"x","path":"none"}`, `"none": not found`})
}

// TestSearchHasBounds: in lines, in bytes of the answer, in entries and in bytes
// looked through; each of them is said. In a bubble no time passes, so that the bound
// of time is not met first.
func TestSearchHasBounds(t *testing.T) { synctest.Test(t, searchHasBounds) }

func searchHasBounds(t *testing.T) {
	h := newHouse(t)
	h.put(h.ws+"/lines/a", strings.Repeat("x\n", workspace.MaxMatches+1))
	h.put(h.ws+"/exact/a", strings.Repeat("x\n", workspace.MaxMatches))
	h.put(h.ws+"/wide/a", strings.Repeat(strings.Repeat("\x01", 250)+"x\n", workspace.MaxMatches))
	h.put(h.ws+"/large/a", "x")
	h.must(os.Truncate(h.ws+"/large/a", workspace.MaxSearchFile+1))
	for i := range workspace.MaxSearchBytes/workspace.MaxSearchFile + 1 { // one line, mostly a hole
		name := fmt.Sprintf("%s/bytes/%02d", h.ws, i)
		h.put(name, strings.Repeat("x", 8<<10))
		h.must(os.Truncate(name, workspace.MaxSearchFile))
	}
	h.must(os.Mkdir(h.ws+"/entries", 0o700))
	for i := range workspace.MaxSearchEntries + 1 {
		h.must(os.WriteFile(fmt.Sprintf("%s/entries/%05d", h.ws, i), nil, 0o600))
	}
	for path, want := range map[string]struct {
		matches, files, skipped int
		truncated               bool
	}{
		"lines":   {workspace.MaxMatches, 1, 0, true},
		"exact":   {workspace.MaxMatches, 1, 0, false},
		"wide":    {425, 1, 0, true},
		"large":   {0, 0, 1, false},
		"bytes":   {16, 16, 16, true},
		"entries": {0, workspace.MaxSearchEntries, 0, true},
	} {
		got, size := sized[found](t, h, "file.search", args("pattern", "x", "path", path))
		if len(got.Matches) != want.matches || got.Files != want.files || got.Skipped != want.skipped || got.Truncated != want.truncated {
			t.Errorf("%s: %d matches, %d files, %d skipped, truncated %v; want %+v", path, len(got.Matches), got.Files, got.Skipped, got.Truncated, want)
		}
		if size > 768<<10 {
			t.Errorf("%s: an answer of %d bytes", path, size)
		}
	}
}
