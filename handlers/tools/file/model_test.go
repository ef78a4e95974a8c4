package file_test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"gatebook/events"
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

// cut takes p and what is below it out of m, with names relative to p.
func (m tree) cut(p string) tree {
	part := tree{}
	for name, content := range m {
		if name == p || strings.HasPrefix(name, p+"/") {
			part[strings.TrimPrefix(name, p)] = content
			delete(m, name)
		}
	}
	return part
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
	wrote []string
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
	content := fmt.Sprintf("content %d", len(m.wrote))
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
	}
}

// check compares the disk with the model, and the trash.
func (m *machine) check(rt *rapid.T) {
	seen := tree{}
	m.walk(rt, ".", seen)
	if !maps.Equal(seen, m.files) {
		rt.Fatalf("in place is %v, the model has %v", seen, m.files)
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
	var found []string
	for name, content := range m.files {
		if !strings.HasSuffix(name, "/") {
			found = append(found, content)
		}
	}
	slices.Sort(found)
	return found
}

// TestNothingIsEverLost: after any history every content ever written is in
// place or can be restored, exactly once, and the tools say what a simple model
// says.
func TestNothingIsEverLost(t *testing.T) {
	h := newHouse(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m := &machine{h: h, agent: events.AgentID(fmt.Sprintf("m%d", n)), files: tree{}, trash: map[events.CallID]trashed{}}
		rt.Repeat(map[string]func(*rapid.T){"write": m.write, "delete": m.remove, "restore": m.restore, "look": m.look})
		slices.Sort(m.wrote)
		if found := m.all(rt); !slices.Equal(found, m.wrote) {
			rt.Fatalf("found %v, wrote %v", found, m.wrote)
		}
	})
}
