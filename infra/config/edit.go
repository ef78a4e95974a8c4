package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"gatebook/events"
	"gatebook/policy"
)

// FileName is the catalog's file in the data folder.
const FileName = "gatebook.yaml"

// ErrByHand marks a file that is valid but written so that an edit would have to
// touch more than its entry.
var ErrByHand = errors.New("the catalog is written in a form that this command does not edit; change it by hand")

// AddAgent gives data with the agent's entry added. The same entry again gives
// data unchanged; another one under the same id is an error that wraps
// fs.ErrExist. Other errors are those of [Parse], also for what the entry itself
// breaks, and [ErrByHand]. extra is as for [policy.Compile].
func AddAgent(data []byte, id events.AgentID, entry policy.Agent, extra ...string) ([]byte, error) {
	return add(data, "agents", id, entry, func(c *policy.Catalog) *map[events.AgentID]policy.Agent { return &c.Agents }, extra)
}

// AddChannel is [AddAgent] for channels.
func AddChannel(data []byte, id events.ChannelID, entry policy.Channel, extra ...string) ([]byte, error) {
	return add(data, "channels", id, entry, func(c *policy.Catalog) *map[events.ChannelID]policy.Channel { return &c.Channels }, extra)
}

// AddPerson is [AddAgent] for people.
func AddPerson(data []byte, id events.PersonID, entry policy.Person, extra ...string) ([]byte, error) {
	return add(data, "people", id, entry, func(c *policy.Catalog) *map[events.PersonID]policy.Person { return &c.People }, extra)
}

func add[K ~string, V any](data []byte, section string, id K, entry V, in func(*policy.Catalog) *map[K]V, extra []string) ([]byte, error) {
	doc, err := read(FileName, data, extra)
	if err != nil {
		return nil, err
	}
	want := in(&doc.catalog)
	if old, ok := (*want)[id]; ok {
		if render(old, "") == render(entry, "") {
			return data, nil
		}
		return nil, fmt.Errorf("%s.%s: another entry has this id: %w", section, id, fs.ErrExist)
	}
	if *want == nil {
		*want = map[K]V{}
	}
	(*want)[id] = entry
	t := textOf(data)
	if err := t.insert(doc.root, section, string(id), func(indent string) string { return render(entry, indent) }); err != nil {
		return nil, err
	}
	return t.proved(doc.catalog, extra)
}

// RemoveAgent gives data without the agent's entry, and without its id in the
// lists of channels; what a supervisor may observe stays, for it has a history. No
// such entry is an error that wraps fs.ErrNotExist. One that wraps [ErrByHand] also
// wraps a [*Fault] for each place to change.
func RemoveAgent(data []byte, id events.AgentID, extra ...string) ([]byte, error) {
	doc, err := read(FileName, data, extra)
	if err != nil {
		return nil, err
	}
	if _, ok := doc.catalog.Agents[id]; !ok {
		return nil, fmt.Errorf("agents.%s: no entry has this id: %w", id, fs.ErrNotExist)
	}
	delete(doc.catalog.Agents, id)
	for name, ch := range doc.catalog.Channels {
		ch.Agents = slices.DeleteFunc(ch.Agents, func(a string) bool { return a == string(id) })
		doc.catalog.Channels[name] = ch
	}
	lists := agentLists(doc.root)
	out, err := textOf(data).without(doc, lists, string(id), extra)
	if errors.Is(err, ErrByHand) {
		return nil, byHand(doc.root, lists, string(id))
	}
	return out, err
}

func (t *text) without(doc document, lists []agentList, id string, extra []string) ([]byte, error) {
	for _, l := range lists {
		if err := t.dropFrom(l, id); err != nil {
			return nil, err
		}
	}
	if err := t.remove(doc.root, "agents", id); err != nil {
		return nil, err
	}
	return t.proved(doc.catalog, extra)
}

// text is a file as lines, each with its end. Places come from the parser and
// may be wrong: its methods stay within the lines, and proved finds what is amiss.
type text struct {
	lines []string
	end   string // of a line in this file
}

func textOf(data []byte) *text {
	t := &text{lines: strings.SplitAfter(string(data), "\n"), end: "\n"}
	if n := len(t.lines); t.lines[n-1] == "" {
		t.lines = t.lines[:n-1]
	}
	if bytes.Contains(data, []byte("\r\n")) {
		t.end = "\r\n"
	}
	return t
}

// proved reads the text again: it must mean exactly want.
func (t *text) proved(want policy.Catalog, extra []string) ([]byte, error) {
	expected, err := compile(want, extra)
	data := []byte(strings.Join(t.lines, ""))
	doc, readErr := read(FileName, data, extra)
	if err != nil {
		return nil, errors.Join(readErr, onlyIf(readErr == nil, err))
	}
	if readErr != nil || doc.compiled.Digest() != expected.Digest() {
		return nil, ErrByHand
	}
	return data, nil
}

func onlyIf(yes bool, err error) error {
	if yes {
		return err
	}
	return nil
}

// insert puts the entry, which render gives for an indentation, at the end of
// its section.
func (t *text) insert(root *ast.MappingNode, section, id string, render func(indent string) string) error {
	if root.IsFlowStyle {
		return ErrByHand
	}
	if n := len(t.lines); n > 0 && !strings.HasSuffix(t.lines[n-1], "\n") {
		t.lines[n-1] += t.end
	}
	indent := "  "
	at := len(t.lines)
	i := find(root, section)
	if i < 0 {
		t.splice(at, at, section+":\n")
		at++
	} else if m, ok := root.Values[i].Value.(*ast.MappingNode); ok && !m.IsFlowStyle {
		indent = strings.Repeat(" ", placeOf(m).col-1)
		at = t.blockEnd(t.nextLine(root, i), len(indent))
	} else {
		at = placeOf(root.Values[i].Key).line
		if ok && (len(m.Values) > 0 || !t.dropBraces(at-1)) {
			return ErrByHand
		}
	}
	t.splice(at, at, indent+quoted(id)+":"+render(indent+"  "))
	return nil
}

// dropBraces takes the empty braces after the key out of the line.
func (t *text) dropBraces(line int) bool {
	if line >= len(t.lines) {
		return false
	}
	before, rest, ok := strings.Cut(t.lines[line], "{")
	inner, after, closed := strings.Cut(rest, "}")
	if !ok || !closed || strings.TrimSpace(inner) != "" {
		return false
	}
	t.lines[line] = strings.TrimRight(before, " ") + after
	return true
}

func (t *text) remove(root *ast.MappingNode, section, id string) error {
	i := find(root, section)
	m, ok := root.Values[i].Value.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || root.IsFlowStyle {
		return ErrByHand
	}
	indent := placeOf(m).col - 1
	next := t.blockEnd(t.nextLine(root, i), indent)
	j := find(m, id)
	if j+1 < len(m.Values) {
		next = placeOf(m.Values[j+1].Key).line - 1
	}
	from := placeOf(m.Values[j].Key).line - 1
	t.splice(from, max(from+1, t.blockEnd(next, indent+1)), "")
	return nil
}

// splice puts more in the place of the lines from to to, with the file's own
// line ends.
func (t *text) splice(from, to int, more string) {
	added := strings.SplitAfter(strings.ReplaceAll(more, "\n", t.end), "\n")
	added = added[:len(added)-1]
	to = min(to, len(t.lines))
	from = min(from, to)
	t.lines = append(t.lines[:from:from], append(added, t.lines[to:]...)...)
}

// nextLine is the index of the line of the key after the i-th, or the end.
func (t *text) nextLine(m *ast.MappingNode, i int) int {
	if i+1 < len(m.Values) {
		return placeOf(m.Values[i+1].Key).line - 1
	}
	return len(t.lines)
}

// blockEnd goes back from end over blank lines and over comments that are
// indented by less than the block: those belong to what follows.
func (t *text) blockEnd(end, indent int) int {
	for end = min(end, len(t.lines)); end > 0; end-- {
		line := strings.TrimLeft(t.lines[end-1], " ")
		outside := strings.HasPrefix(line, "#") && len(t.lines[end-1])-len(line) < indent
		if strings.TrimSpace(line) != "" && !outside {
			return end
		}
	}
	return end
}

// find is the index of the key, or -1.
func find(m *ast.MappingNode, key string) int {
	for i, v := range m.Values {
		if s, ok := v.Key.(*ast.StringNode); ok && s.Value == key {
			return i
		}
	}
	return -1
}
