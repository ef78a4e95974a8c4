package file_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/handlers/tools/workspace"
	"gatebook/policy"
)

// valid are the least arguments of each tool.
func valid() map[string]string {
	return map[string]string{
		"file.list": ``, "file.trash": ``, "file.read": `"path":"ok.txt"`, "file.delete": `"path":"ok.txt"`,
		"file.write": `"path":"ok.txt","content":"x"`, "file.restore": `"id":"` + string(callID(1)) + `"`,
		"file.stat": `"path":"ok.txt"`, "file.search": `"pattern":"ok"`, "file.append": `"path":"ok.txt","content":"x"`,
		"file.edit": `"path":"ok.txt","old":"ok","new":"OK"`, "file.copy": `"from":"ok.txt","to":"new.txt"`, "file.move": `"from":"ok.txt","to":"new.txt"`,
	}
}

func TestDecodeIsStrict(t *testing.T) {
	h := newHouse(t)
	for _, row := range []struct{ name, tool, args, field string }{
		{"O-R20 go-sdk#805 case", "file.read", `{"path":"ok.txt","Path":"../Identity.md"}`, "Path"},
		{"O-R20 golang/go#14750 duplicate", "file.read", `{"path":"ok.txt","path":"../Identity.md"}`, "path"},
		{"O-R20 escaped duplicate (var.)", "file.read", `{"path":"ok.txt","\u0070ath":"../Identity.md"}`, "path"},
		{"O-R20 upper case", "file.read", `{"PATH":"x"}`, "PATH"},
		{"O-R20 long s", "file.read", `{"\u017ftatus":"x"}`, "\u017ftatus"},
		{"O-R20 kelvin sign", "file.read", `{"\u212aind":"human"}`, "\u212aind"},
		{"O-R20 two values", "file.read", `{"path":"a"}{"path":"../b"}`, "arguments"},
		{"O-R20 rest (var.)", "file.read", `{"path":"a"} x`, "arguments"},
		{"O-R22 agentguard#1427 kind", "file.read", `{"path":"a","principalKind":"human"}`, "principalKind"},
		{"O-R22 mission-control#217 id", "file.read", `{"path":"a","agent_id":"sup"}`, "agent_id"},
		{"escaped name", "file.read", `{"path":"a","\u001b[2J\u202e":1}`, `\x1b[2J\u202e`},
		{"not an object", "file.list", `[]`, "arguments"},
		{"null", "file.list", `null`, "arguments"},
		{"nothing", "file.list", ``, "arguments"},
		{"cut", "file.list", `{"path":"a"`, "arguments"},
		{"null member", "file.list", `{"path":null}`, "path"},
		{"number for string", "file.list", `{"path":1}`, "path"},
		{"lone surrogate", "file.write", `{"path":"a","content":"\ud800"}`, "content"},
		{"invalid UTF-8", "file.write", "{\"path\":\"a\",\"content\":\"\xff\"}", "content"},
		{"missing path", "file.read", `{}`, "path"},
		{"empty path", "file.read", `{"path":""}`, "path"},
		{"missing content", "file.write", `{"path":"a"}`, "content"},
		{"content one byte too large", "file.write", args("path", "a", "content", strings.Repeat("x", workspace.MaxContent+1)), "content"},
		{"content counted in bytes", "file.write", args("path", "a", "content", strings.Repeat("é", workspace.MaxContent/2+1)), "content"},
		{"negative offset", "file.read", `{"path":"a","offset":-1}`, "offset"},
		{"fraction", "file.read", `{"path":"a","offset":1.5}`, "offset"},
		{"number as text", "file.read", `{"path":"a","limit":"1"}`, "limit"},
		{"zero limit", "file.read", `{"path":"a","limit":0}`, "limit"},
		{"limit too large", "file.read", fmt.Sprintf(`{"path":"a","limit":%d}`, workspace.MaxContent+1), "limit"},
		{"offset that JSON does not keep exactly", "file.read", `{"path":"a","offset":9007199254740992}`, "offset"},
		{"missing id", "file.restore", `{}`, "id"},
		{"id in lower case", "file.restore", `{"id":"` + strings.ToLower(string(callID(1))) + `"}`, "id"},
		{"id by prefix", "file.restore", `{"id":"01J"}`, "id"},
		{"empty cursor is no id", "file.trash", `{"cursor":""}`, "cursor"},
		{"O-R20 (var.) case", "file.move", `{"from":"a","To":"b"}`, "To"},
		{"O-R20 (var.) duplicate", "file.copy", `{"from":"a","to":"b","to":"../c"}`, "to"},
		{"nothing to append", "file.append", `{"path":"a","content":""}`, "content"},
		{"too much to append", "file.append", args("path", "a", "content", strings.Repeat("é", workspace.MaxContent/2+1)), "content"},
		{"an empty text to replace", "file.edit", `{"path":"a","old":"","new":"x"}`, "old"},
		{"an edit that changes nothing", "file.edit", `{"path":"a","old":"x","new":"x"}`, "new"},
		{"flag as text", "file.edit", `{"path":"a","old":"x","new":"y","all":"true"}`, "all"},
		{"null for a flag", "file.search", `{"pattern":"x","regexp":null}`, "regexp"},
		{"too much to put in place", "file.edit", args("path", "a", "old", "x", "new", strings.Repeat("x", workspace.MaxContent+1)), "new"},
		{"empty pattern", "file.search", `{"pattern":""}`, "pattern"},
		{"long pattern", "file.search", args("pattern", strings.Repeat("x", workspace.MaxPattern+1)), "pattern"},
		{"pattern over two lines", "file.search", `{"pattern":"a
b"}`, "pattern"},
		{"not an expression", "file.search", `{"pattern":"a(","regexp":true}`, "pattern"},
		{"an expression of too many steps", "file.search", `{"pattern":"(a{100}){9}","regexp":true}`, "pattern"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := h.tools[row.tool].Decode(jsontext.Value(row.args))
			var malformed *policy.Malformed
			if !errors.As(err, &malformed) || malformed.Field != row.field || malformed.Reason == "" {
				t.Errorf("%v, want malformed %s", err, row.field)
			}
		})
	}
}

func TestDecodeGivesPathsToTheGate(t *testing.T) {
	h := newHouse(t)
	for _, row := range []struct{ tool, args, want string }{
		{"file.list", `{}`, "[.]"},
		{"file.list", `{"path":"a/./b"}`, "[a/b]"},
		{"file.read", `{"path":"a/../b","offset":1,"limit":2}`, "[b]"},
		{"file.write", `{"path":"../x","content":""}`, "[leaves]"},
		{"file.delete", `{"path":".trash/x"}`, "[.trash/x]"},
		{"file.restore", args("id", callID(1)), "[]"},
		{"file.restore", args("id", callID(1), "path", "../x"), "[leaves]"},
		{"file.trash", `{}`, "[]"},
		{"file.stat", `{"path":"a/./b"}`, "[a/b]"},
		{"file.search", `{"pattern":"x"}`, "[.]"},
		{"file.search", `{"pattern":"x","path":"a"}`, "[a]"},
		{"file.append", `{"path":"a","content":"x"}`, "[a]"},
		{"file.edit", `{"path":"../a","old":"x","new":"y"}`, "[leaves]"},
		{"file.copy", `{"from":"a","to":"../x"}`, "[a leaves]"},
		{"file.move", `{"to":"b/../c","from":".trash/x"}`, "[.trash/x c]"},
	} {
		decoded, err := h.tools[row.tool].Decode(jsontext.Value(row.args))
		paths := []string{}
		for _, p := range decoded.Paths {
			if p.Leaves() {
				paths = append(paths, "leaves")
				continue
			}
			paths = append(paths, p.String())
		}
		if got := fmt.Sprint(paths); err != nil || got != row.want {
			t.Errorf("%s %s: paths %s (%v), want %s", row.tool, row.args, got, err, row.want)
		}
	}
}

// TestDefinitions: what the schema declares is exactly what decode takes.
func TestDefinitions(t *testing.T) {
	h := newHouse(t)
	for name, members := range valid() {
		tool := h.tools[name]
		var schema struct {
			Type       string                    `json:"type"`
			Properties map[string]jsontext.Value `json:"properties"`
			Required   []string                  `json:"required"`
			Additional *bool                     `json:"additionalProperties"`
		}
		if err := json.Unmarshal(tool.Definition().Schema, &schema, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if schema.Type != "object" || schema.Additional == nil || *schema.Additional || tool.Definition().Description == "" {
			t.Errorf("%s: %s", name, tool.Definition().Schema)
		}
		if _, err := tool.Decode(jsontext.Value("{" + members + "}")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// The reason of an unknown member names the known ones.
		_, err := tool.Decode(jsontext.Value(`{"zz":1}`))
		known := slices.Sorted(maps.Keys(schema.Properties))
		_, listed, _ := strings.Cut(fmt.Sprint(err), "known are ")
		decodes := strings.Split(listed, ", ")
		slices.Sort(decodes)
		if !slices.Equal(known, decodes) {
			t.Errorf("%s: schema has %v, decode takes %v", name, known, decodes)
		}
		for _, field := range schema.Required {
			var least map[string]jsontext.Value
			if err := json.Unmarshal([]byte("{"+members+"}"), &least); err != nil {
				t.Fatal(err)
			}
			delete(least, field)
			raw, _ := json.Marshal(least)
			if _, err := tool.Decode(raw); outcome(err) != "reject "+field {
				t.Errorf("%s without %s: %v", name, field, err)
			}
		}
	}
}

// TestMalformedTextIsEscaped: what a pattern says of itself is shown to people too.
func TestMalformedTextIsEscaped(t *testing.T) {
	_, err := newHouseTools()["file.search"].Decode(jsontext.Value(`{"pattern":"\u001b[2J\u202e(","regexp":true}`))
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\u202e") {
		t.Errorf("%q", err)
	}
}

// FuzzDecode: whatever comes, the only error is a Malformed that names a field.
func FuzzDecode(f *testing.F) {
	f.Add(`{"path":"a","offset":1}`)
	f.Add(`{"path":"a","path":{"a":1,"a":2}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		for name, tool := range newHouseTools() {
			_, err := tool.Decode(jsontext.Value(raw))
			var malformed *policy.Malformed
			if err != nil && (!errors.As(err, &malformed) || malformed.Field == "") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
