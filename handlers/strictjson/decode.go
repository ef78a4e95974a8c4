// Package strictjson reads the requests of agents, channels and people: strictly, and
// in one way for all.
//
// Start with [Decode].
//
// What the package promises: exact names, no name twice, nothing unknown, valid
// UTF-8, one value and nothing behind it; a fault names the field and the reason
// and shows no value. The name of a field may be the sender's own text.
//
// Concurrency: functions without state. go-json-experiment/json is here for its
// strictness, which the standard library's decoder does not have.
package strictjson

import (
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/policy"
)

// Decode reads one JSON value into a pointer; nil means that it could.
func Decode(data []byte, into any) *policy.Malformed {
	return Fault(json.Unmarshal(data, into, json.RejectUnknownMembers(true)))
}

// Fault says where a decoding error lies, without a value; nil for nil.
func Fault(err error) *policy.Malformed {
	if err == nil {
		return nil
	}
	bad := &policy.Malformed{Field: "request", Reason: "not one strict JSON object"}
	var semantic *json.SemanticError
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic) && errors.Is(semantic.Err, json.ErrUnknownName):
		bad.Field, bad.Reason = field(semantic.JSONPointer), "unknown field"
	case errors.As(err, &semantic):
		bad.Field, bad.Reason = field(semantic.JSONPointer), "wrong type: "+semantic.JSONKind.String()
	case errors.As(err, &syntax) && errors.Is(syntax.Err, jsontext.ErrDuplicateName):
		bad.Field, bad.Reason = field(syntax.JSONPointer), "given twice"
	case errors.As(err, &syntax):
		bad.Field, bad.Reason = field(syntax.JSONPointer), "not valid JSON"
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		bad.Reason = "ends too early"
	}
	return bad
}

func field(p jsontext.Pointer) string {
	name := strings.ReplaceAll(strings.TrimPrefix(string(p), "/"), "/", ".")
	if name == "" {
		return "request"
	}
	return events.Quote(name)
}
