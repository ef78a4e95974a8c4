package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// agentList is the list of the agents of one channel, as it is written.
type agentList struct {
	path string
	key  ast.Node
	seq  *ast.SequenceNode
}

// agentLists are those of all channels; a channel without a list has none.
func agentLists(root *ast.MappingNode) []agentList {
	var out []agentList
	channels, _ := valueOf(root, "channels").(*ast.MappingNode)
	if channels == nil {
		return nil
	}
	for _, v := range channels.Values {
		name, _ := v.Key.(*ast.StringNode)
		channel, _ := v.Value.(*ast.MappingNode)
		if name == nil || channel == nil {
			continue
		}
		if seq, ok := valueOf(channel, "agents").(*ast.SequenceNode); ok {
			out = append(out, agentList{"channels." + name.Value + ".agents", channel.Values[find(channel, "agents")].Key, seq})
		}
	}
	return out
}

func valueOf(m *ast.MappingNode, key string) ast.Node {
	if i := find(m, key); i >= 0 {
		return m.Values[i].Value
	}
	return nil
}

// where says which items are id.
func (l agentList) where(id string) []int {
	var out []int
	for i, v := range l.seq.Values {
		if s, ok := v.(*ast.StringNode); ok && s.Value == id {
			out = append(out, i)
		}
	}
	return out
}

// dropFrom takes id out of the list. A line that goes becomes empty text, so that
// the places of what follows stay.
func (t *text) dropFrom(l agentList, id string) error {
	all := l.where(id)
	for _, i := range slices.Backward(all) {
		at := placeOf(l.seq.Values[i])
		if at.line > len(t.lines) {
			return ErrByHand
		}
		line := &t.lines[at.line-1]
		drop := dropInLine
		if l.seq.IsFlowStyle {
			drop = dropInBrackets
		}
		next, ok := drop(*line, at.col, id)
		if !ok {
			return ErrByHand
		}
		*line = next
	}
	if len(all) == 0 || len(all) < len(l.seq.Values) || l.seq.IsFlowStyle {
		return nil
	}
	line := &t.lines[min(placeOf(l.key).line, len(t.lines))-1]
	before, after, _ := strings.Cut(*line, ":")
	*line = before + ": []" + after
	return nil
}

// dropInLine is for an item that begins with a dash and has the line for itself.
func dropInLine(line string, _ int, id string) (string, bool) {
	item, dash := strings.CutPrefix(strings.TrimSpace(line), "-")
	return "", dash && written(strings.TrimLeft(item, " \t"), id) != ""
}

// dropInBrackets takes the item at a column, and one comma, out of a line.
func dropInBrackets(line string, col int, id string) (string, bool) {
	runes := []rune(line)
	before := string(runes[:min(col-1, len(runes))])
	item := written(line[len(before):], id)
	if item == "" {
		return "", false
	}
	after := line[len(before)+len(item):]
	rest, comma := strings.CutPrefix(strings.TrimLeft(after, " \t"), ",")
	rest = strings.TrimLeft(rest, " \t")
	comment := strings.HasPrefix(rest, "#")
	switch {
	case strings.TrimSpace(before) == "" && (comment || strings.TrimSpace(rest) == ""):
		return "", true
	case comment: // it takes a space before it
		return before + " " + rest, true
	case comma:
		return before + rest, true
	}
	return strings.TrimSuffix(strings.TrimRight(before, " \t"), ",") + after, true
}

// written is how id stands at the start of s; empty where it does not.
func written(s, id string) string {
	for _, form := range []string{id, `"` + id + `"`, "'" + id + "'"} {
		if strings.HasPrefix(s, form) {
			return form
		}
	}
	return ""
}

// byHand says what to take out by hand, each with its place.
func byHand(root *ast.MappingNode, lists []agentList, id string) error {
	var todo []*Fault
	if agents, ok := valueOf(root, "agents").(*ast.MappingNode); ok {
		if i := find(agents, id); i >= 0 {
			todo = append(todo, faultAt(agents.Values[i].Key, "take out agents."+id))
		}
	}
	for _, l := range lists {
		for _, i := range l.where(id) {
			todo = append(todo, faultAt(l.seq.Values[i], fmt.Sprintf("take %s out of %s", id, l.path+"."+strconv.Itoa(i))))
		}
	}
	for _, f := range todo {
		f.File = FileName
	}
	return listed(ErrByHand, todo)
}
