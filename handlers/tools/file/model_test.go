package file_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/policy/paths"
)

// tree is files by path; a folder is a path with an empty content and a slash.
type tree map[string]string

func (m tree) isDir(p string) bool  { _, ok := m[p+"/"]; return ok || p == "." }
func (m tree) isFile(p string) bool { _, ok := m[p]; return ok }

// parents says whether the folders above p exist or can be made.
func (m tree) parents(p string) bool {
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		if m.isFile(d) {
			return false
		}
	}
	return true
}

func (m tree) makeParents(p string) {
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		m[d+"/"] = ""
	}
}

// part is p and what is below it, with names relative to p.
func (m tree) part(p string) tree {
	part := tree{}
	for name, content := range m {
		if name == p || strings.HasPrefix(name, p+"/") {
			part[strings.TrimPrefix(name, p)] = content
		}
	}
	return part
}

// cut takes that out of m.
func (m tree) cut(p string) tree {
	part := m.part(p)
	for name := range part {
		delete(m, p+name)
	}
	return part
}

// contents are those of the files.
func (m tree) contents() (all []string) {
	for name, content := range m {
		if !strings.HasSuffix(name, "/") {
			all = append(all, content)
		}
	}
	slices.Sort(all)
	return all
}

func (m tree) paste(p string, part tree) {
	m.makeParents(p)
	for name, content := range part {
		m[p+name] = content
	}
}

type trashed struct {
	origin string
	part   tree
}

// machine runs the tools beside a model of them.
type machine struct {
	h     *house
	agent events.AgentID
	calls int
	files tree
	trash map[events.CallID]trashed
	wrote []string // every content that must be somewhere
	n     int      // of writes, so that contents differ
}

func (m *machine) call(rt *rapid.T, tool, arguments, want string, result any) {
	m.calls++
	raw, err := m.h.callAs(m.agent, m.calls, tool, arguments)
	if got := outcome(err); got != want {
		rt.Fatalf("%s %s: %s (%v), the model says %s", tool, arguments, got, err, want)
	}
	if err == nil && result != nil {
		if err := json.Unmarshal(raw, result); err != nil {
			rt.Fatal(err)
		}
	}
}

func drawPath(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "a/x", "a/y", "b/x", "a/x/deep", "c/d/e"}).Draw(rt, "path")
}

func (m *machine) write(rt *rapid.T) {
	p := drawPath(rt)
	content := fmt.Sprintf("content %d", m.n)
	m.n++
	a := args("path", p, "content", content)
	if m.files.isDir(p) || !m.files.parents(p) {
		m.call(rt, "file.write", a, "error", nil)
		return
	}
	var got writeResult
	m.call(rt, "file.write", a, "ok", &got)
	if old, replaced := m.files[p]; replaced {
		m.trash[got.Replaced] = trashed{p, tree{"": old}}
	} else if got.Replaced != "" {
		rt.Fatalf("replaced nothing, says %+v", got)
	}
	m.files.paste(p, tree{"": content})
	m.wrote = append(m.wrote, content)
}

// append puts text at the end; the content before is part of the one after.
func (m *machine) append(rt *rapid.T) {
	p := drawPath(rt)
	a := args("path", p, "content", " content")
	old, is := m.files[p]
	switch {
	case m.files.isDir(p) || !m.files.parents(p):
		m.call(rt, "file.append", a, "error", nil)
	case !is:
		m.call(rt, "file.append", a, "not found", nil)
	default:
		var got appended
		m.call(rt, "file.append", a, "ok", &got)
		if want := (appended{Path: p, Before: len(old), After: len(old) + len(" content")}); got != want {
			rt.Fatalf("%+v", got)
		}
		m.files[p] = old + " content"
		m.wrote[slices.Index(m.wrote, old)] = m.files[p]
	}
}

func (m *machine) edit(rt *rapid.T) {
	p, all := drawPath(rt), rapid.Bool().Draw(rt, "all")
	a := args("path", p, "old", "content", "new", "CONTENT", "all", all)
	old, is := m.files[p]
	switch count := strings.Count(old, "content"); {
	case m.files.isDir(p) || !m.files.parents(p):
		m.call(rt, "file.edit", a, "error", nil)
	case !is:
		m.call(rt, "file.edit", a, "not found", nil)
	case count == 0 || count > 1 && !all:
		m.call(rt, "file.edit", a, "error", nil)
	default:
		var got edited
		m.call(rt, "file.edit", a, "ok", &got)
		if got.Replacements != count {
			rt.Fatalf("%+v, the model says %d", got, count)
		}
		m.trash[got.Replaced] = trashed{p, tree{"": old}}
		m.files[p] = strings.ReplaceAll(old, "content", "CONTENT")
		m.wrote = append(m.wrote, m.files[p])
	}
}

// transfer is a copy or a move; it says whether the tool should have done it.
func (m *machine) transfer(rt *rapid.T, tool string) (from, to string, done bool) {
	from, to = drawPath(rt), drawPath(rt)
	want := "ok"
	switch {
	case !m.files.parents(from):
		want = "error"
	case !m.files.isDir(from) && !m.files.isFile(from):
		want = "not found"
	case paths.Within(from, to) || !m.files.parents(to):
		want = "error"
	case m.files.isDir(to) || m.files.isFile(to):
		want = "exists"
	}
	m.call(rt, tool, args("from", from, "to", to), want, nil)
	return from, to, want == "ok"
}

func (m *machine) copy(rt *rapid.T) {
	if from, to, done := m.transfer(rt, "file.copy"); done {
		part := m.files.part(from)
		m.files.paste(to, part)
		m.wrote = append(m.wrote, part.contents()...)
	}
}

func (m *machine) move(rt *rapid.T) {
	if from, to, done := m.transfer(rt, "file.move"); done {
		m.files.paste(to, m.files.cut(from))
	}
}

func (m *machine) remove(rt *rapid.T) {
	p := drawPath(rt)
	switch {
	case !m.files.parents(p):
		m.call(rt, "file.delete", args("path", p), "error", nil)
	case !m.files.isDir(p) && !m.files.isFile(p):
		m.call(rt, "file.delete", args("path", p), "not found", nil)
	default:
		var got deleted
		m.call(rt, "file.delete", args("path", p), "ok", &got)
		m.trash[got.ID] = trashed{p, m.files.cut(p)}
	}
}

func (m *machine) restore(rt *rapid.T) {
	ids := slices.Sorted(maps.Keys(m.trash))
	if len(ids) == 0 {
		rt.Skip("the trash is empty")
	}
	id := rapid.SampledFrom(ids).Draw(rt, "id")
	t := m.trash[id]
	target, a := t.origin, args("id", id)
	if rapid.Bool().Draw(rt, "elsewhere") {
		target = drawPath(rt)
		a = args("id", id, "path", target)
	}
	switch {
	case !m.files.parents(target):
		m.call(rt, "file.restore", a, "error", nil)
	case m.files.isDir(target) || m.files.isFile(target):
		m.call(rt, "file.restore", a, "exists", nil)
	default:
		m.call(rt, "file.restore", a, "ok", nil)
		m.files.paste(target, t.part)
		delete(m.trash, id)
	}
}

// walk lists all folders through file.list and reads all files.
func (m *machine) walk(rt *rapid.T, dir string, into tree) {
	var page listing
	m.call(rt, "file.list", args("path", dir), "ok", &page)
	if !slices.IsSortedFunc(page.Entries, func(a, b entry) int { return strings.Compare(a.Name, b.Name) }) {
		rt.Fatalf("not sorted: %+v", page)
	}
	for _, e := range page.Entries {
		p := path.Join(dir, e.Name)
		if e.Type == "dir" {
			into[p+"/"] = ""
			m.walk(rt, p, into)
			continue
		}
		var got readResult
		m.call(rt, "file.read", args("path", p), "ok", &got)
		into[p] = got.Content
		var stat status
		m.call(rt, "file.stat", args("path", p), "ok", &stat)
		if stat.Size != int64(len(got.Content)) || stat.SHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte(got.Content))) {
			rt.Fatalf("%+v of %q", stat, got.Content)
		}
	}
}

// check compares the disk with the model, and the trash.
func (m *machine) check(rt *rapid.T) {
	seen := tree{}
	m.walk(rt, ".", seen)
	if !maps.Equal(seen, m.files) {
		rt.Fatalf("in place is %v, the model has %v", seen, m.files)
	}
	var hits found
	m.call(rt, "file.search", args("pattern", "(?i)^content", "regexp", true), "ok", &hits)
	lines := tree{}
	for _, hit := range hits.Matches {
		lines[hit.Path] = hit.Text
	}
	for name := range seen {
		if strings.HasSuffix(name, "/") {
			delete(seen, name)
		}
	}
	if !maps.Equal(lines, seen) || hits.Files != len(seen) || hits.Skipped != 0 || hits.Truncated {
		rt.Fatalf("found %+v, in place is %v", hits, seen)
	}
	var page trashPage
	m.call(rt, "file.trash", `{}`, "ok", &page)
	shown := map[events.CallID]string{}
	for i, e := range page.Entries {
		shown[e.ID] = e.Path
		if i > 0 && page.Entries[i-1].ID <= e.ID {
			rt.Fatalf("not newest first: %+v", page)
		}
	}
	want := map[events.CallID]string{}
	for id, t := range m.trash {
		want[id] = t.origin
	}
	if !maps.Equal(shown, want) {
		rt.Fatalf("the trash shows %v, the model has %v", shown, want)
	}
}

// look checks now and then; the end of a history always does.
func (m *machine) look(rt *rapid.T) {
	if rapid.IntRange(0, 4).Draw(rt, "look") == 0 {
		m.check(rt)
	}
}

// all restores the whole trash and gives every content found.
func (m *machine) all(rt *rapid.T) []string {
	for i, id := range slices.Sorted(maps.Keys(m.trash)) {
		p := fmt.Sprintf("back/%d", i)
		m.call(rt, "file.restore", args("id", id, "path", p), "ok", nil)
		m.files.paste(p, m.trash[id].part)
		delete(m.trash, id)
	}
	m.check(rt)
	return m.files.contents()
}

// TestNothingIsEverLost: after any history every content ever written is in
// place or can be restored, exactly once, alone or with what was appended to it, and the tools say what a simple model
// says.
func TestNothingIsEverLost(t *testing.T) {
	h := newHouse(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m := &machine{h: h, agent: events.AgentID(fmt.Sprintf("m%d", n)), files: tree{}, trash: map[events.CallID]trashed{}}
		rt.Repeat(map[string]func(*rapid.T){
			"write": m.write, "append": m.append, "edit": m.edit, "copy": m.copy, "move": m.move,
			"delete": m.remove, "restore": m.restore, "look": m.look,
		})
		slices.Sort(m.wrote)
		if found := m.all(rt); !slices.Equal(found, m.wrote) {
			rt.Fatalf("found %v, wrote %v", found, m.wrote)
		}
	})
}
