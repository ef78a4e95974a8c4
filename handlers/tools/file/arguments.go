package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/policy/paths"
)

// arguments are the members of one object. The first fault found stays in
// malformed, and every getter then gives a zero value.
type arguments struct {
	values    map[string]jsontext.Value
	paths     []paths.Path
	malformed *policy.Malformed
}

// parse takes exactly one object with members from known, each at most once.
// It reads tokens rather than into a struct, because null and "absent" must
// differ and the fault must name its field.
func parse(raw jsontext.Value, known []string) (*arguments, *policy.Malformed) {
	a := &arguments{values: map[string]jsontext.Value{}}
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if dec.PeekKind() != '{' {
		return nil, &policy.Malformed{Field: "arguments", Reason: "want one JSON object"}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, syntax(err)
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, syntax(err)
		}
		name := token.String()
		if !slices.Contains(known, name) {
			return nil, &policy.Malformed{Field: shown(name), Reason: "unknown argument; known are " + list(known)}
		}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, syntax(err)
		}
		a.values[name] = value.Clone()
	}
	if _, err := dec.ReadToken(); err != nil { // the closing brace
		return nil, syntax(err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &policy.Malformed{Field: "arguments", Reason: "there is more after the object"}
	}
	return a, nil
}

func list(known []string) string { return strings.Join(known, ", ") }

// syntax names the member that a fault in the JSON belongs to.
func syntax(err error) *policy.Malformed {
	m := &policy.Malformed{Field: "arguments", Reason: "not valid JSON"}
	var at *jsontext.SyntacticError
	if !errors.As(err, &at) {
		return m
	}
	if name := at.JSONPointer.LastToken(); name != "" {
		m.Field = shown(name)
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		m.Reason = "given twice"
	}
	return m
}

// shown is a foreign name, escaped and cut.
func shown(name string) string {
	if escaped := events.Escape(name); escaped != "" && len(escaped) <= 80 {
		return escaped
	}
	return events.Quote(name)
}

func (a *arguments) fail(field, reason string) {
	if a.malformed == nil {
		a.malformed = &policy.Malformed{Field: field, Reason: reason}
	}
}

// text gives a string member, or whenAbsent.
func (a *arguments) text(field, whenAbsent string) string {
	value, ok := a.values[field]
	if !ok || a.malformed != nil {
		return whenAbsent
	}
	if value.Kind() != '"' {
		a.fail(field, "want a string")
		return ""
	}
	raw, err := jsontext.AppendUnquote(nil, []byte(value))
	if err != nil {
		a.fail(field, "not valid UTF-8")
	}
	return string(raw)
}

// content gives a string member of least to most bytes.
func (a *arguments) content(field string, least, most int) string {
	a.require(field)
	text := a.text(field, "")
	if n := len(text); n < least || n > most {
		a.fail(field, fmt.Sprintf("has %d bytes, want %d to %d", n, least, most))
	}
	return text
}

// flag gives a truth value, false when absent.
func (a *arguments) flag(field string) bool {
	value, ok := a.values[field]
	if !ok || a.malformed != nil {
		return false
	}
	if kind := value.Kind(); kind != 't' && kind != 'f' {
		a.fail(field, "want true or false")
	}
	return value.Kind() == 't'
}

func (a *arguments) require(field string) {
	if _, ok := a.values[field]; !ok {
		a.fail(field, "missing")
	}
}

// number gives a whole number from least to most, or whenAbsent.
func (a *arguments) number(field string, whenAbsent, least, most int64) int64 {
	value, ok := a.values[field]
	if !ok || a.malformed != nil {
		return whenAbsent
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < least || n > most {
		a.fail(field, fmt.Sprintf("want a whole number from %d to %d", least, most))
	}
	return n
}

// path gives a path that has passed the lexical rules; raw is the path meant
// when the member is absent.
func (a *arguments) path(field, raw string) paths.Path {
	raw = a.text(field, raw)
	if a.malformed != nil {
		return paths.Path{}
	}
	p, err := paths.Parse(raw)
	if err != nil {
		a.fail(field, err.Error())
		return paths.Path{}
	}
	a.paths = append(a.paths, p)
	return p
}

// call gives a call id, or "" when absent.
func (a *arguments) call(field string) events.CallID {
	raw := a.text(field, "")
	if _, ok := a.values[field]; !ok || a.malformed != nil {
		return ""
	}
	id, err := events.ParseULID[events.CallID](raw)
	if err != nil {
		a.fail(field, "want an id as file.trash and file.delete give it")
	}
	return id
}
