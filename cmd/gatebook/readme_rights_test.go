package main

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nkeys"

	"gatebook/events"
	"gatebook/infra/config"
	"gatebook/policy"
	"gatebook/policy/paths"
	"gatebook/policy/price"
	"gatebook/policy/when"
)

// Every entry of the catalog is in the README.
func TestReadmeCatalog(t *testing.T) {
	same(t, "catalog", marked(t, "catalog").first(), entriesOf("", reflect.TypeFor[policy.Catalog]()))
	same(t, "rule", marked(t, "rule").first(), entriesOf("", reflect.TypeFor[policy.Rule]()))
	same(t, "variable", marked(t, "variables").first(), when.Variables())
}

func entriesOf(path string, of reflect.Type) []string {
	switch {
	case of == reflect.TypeFor[price.Rate]():
		return []string{path}
	case of.Kind() == reflect.Struct:
		var all []string
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			name = strings.TrimSuffix(name, "_us")
			all = append(all, entriesOf(strings.TrimPrefix(path+"."+name, "."), f.Type)...)
		}
		return all
	case of == reflect.TypeFor[[]policy.Rule]():
		return []string{path} // a table of its own says what is in one
	case of.Kind() == reflect.Map && of.Key() == reflect.TypeFor[events.PrincipalKind]():
		return entriesOf(path+".<kind>", of.Elem())
	case of.Kind() == reflect.Map && of.Key() == reflect.TypeFor[string]():
		return entriesOf(path+".<name>", of.Elem())
	case of.Kind() == reflect.Map:
		return entriesOf(path+".<id>", of.Elem())
	case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct:
		return entriesOf(path+"[]", of.Elem())
	}
	return []string{path}
}

// limitRules are the limits that a grant can name, of the layers that grant. Only a
// role's can bound how many.
func limitRules(t *testing.T) []string {
	t.Helper()
	var rules []string
	for _, limit := range found(t, `(?m)^\t\treturn "([a-z_]+)"$`, "policy") {
		switch limit {
		case "nothing", "everything": // texts for people
			continue
		case "max_per_round":
		default:
			rules = append(rules, "profile "+limit, "principal "+limit)
		}
		rules = append(rules, "role "+limit)
	}
	for range found(t, `outside\{limit: "(when)"\}`, "policy") {
		rules = append(rules, "role when", "profile when", "principal when")
	}
	if len(rules) != 10 {
		t.Errorf("limits %q", rules)
	}
	return rules
}

// around is the catalog that a piece of the README is a part of; what the piece
// declares takes the place of the same part here.
var around = map[string]string{
	"schema": "1", "phase": "2",
	"profiles": "{work: {tools: [file.list, file.read, file.stat, file.search, file.write, file.append, file.edit, file.copy, file.move, file.delete, file.trash, file.restore]}}",
	"roles":    "{worker: {version: 1, grants: [{tool: file.list}, {tool: file.read}, {tool: file.stat}, {tool: file.search}, {tool: file.write}, {tool: file.append}, {tool: file.edit}, {tool: file.copy}, {tool: file.move}, {tool: file.delete}, {tool: file.trash}, {tool: file.restore}]}}",
	"channels": "{terminal: {key: " + keyOf('B') + ", agents: [alice]}}",
}

// keyOf is a public key with a right checksum.
func keyOf(n byte) string {
	key, err := nkeys.Encode(nkeys.PrefixByteUser, append(make([]byte, 31), n))
	if err != nil {
		panic(err) // the length is right
	}
	return string(key)
}

// pieceCalls say what a piece does: a call, and what the gate says.
var pieceCalls = map[string][]pieceCall{
	"planner": {
		{tool: "file.write", args: `{"content":"x","path":"docs/intent/a-1.md"}`, want: "allow, new files only"},
		{tool: "file.write", args: `{"content":"x","path":"docs/intent/a-1.md"}`, used: 1, want: "role max_per_round"},
		{tool: "file.write", args: `{"content":"x","path":"docs/intent/A.md"}`, want: "role paths"},
		{tool: "file.read", args: `{"path":"x/y"}`, used: 9, want: "allow"},
		{tool: "file.delete", args: `{"path":"x"}`, want: "role grant"},
	},
	"clerk": {
		{tool: "file.write", args: `{"content":"done","path":"state.txt"}`, want: "allow"},
		{tool: "file.write", args: `{"content":"done.","path":"state.txt"}`, want: "role exact"},
	},
	"notary": {
		{tool: "file.write", args: `{"content":"x","path":"notes/a.md"}`, used: 2, want: "allow"},
		{tool: "file.write", args: `{"content":"x","path":"notes/a.md"}`, used: 3, want: "role when"},
		{tool: "file.write", args: `{"content":"x","path":"notes/a.draft.md"}`, used: 3, want: "allow"},
		{tool: "file.write", args: `{"content":"` + strings.Repeat("x", 1001) + `","path":"notes/a.md"}`, want: "role when"},
		{tool: "file.write", args: `{"content":7,"path":"notes/a.md"}`, want: "role when"},
		{tool: "file.write", args: `{"path":"notes/a.md"}`, want: "role when"},
		{tool: "file.write", args: `{"content":"x","path":"a.draft.md"}`, want: "role paths"},
	},
	"profile": {
		{tool: "file.write", args: `{"content":"x","path":"drafts/a"}`, want: "allow"},
		{tool: "file.write", args: `{"content":"x","path":"a"}`, want: "profile paths"},
		{tool: "file.read", args: `{"path":"a"}`, want: "allow"},
		{tool: "file.read", args: `{"path":"Drafts/Private/a"}`, want: "profile deny"},
		{tool: "file.delete", args: `{"path":"a"}`, want: "profile profile"},
	},
	"baseline": {
		{tool: "file.read", args: `{"path":"private/a"}`, want: "baseline deny"},
		{tool: "file.list", args: `{"path":"private"}`, want: "baseline deny"},
		{tool: "file.restore", args: `{"id":"x","path":"private/a"}`, want: "baseline deny"},
		{tool: "file.copy", args: `{"from":"private/a","to":"a"}`, want: "baseline deny"},
		{tool: "file.move", args: `{"from":"a","to":"private/a"}`, want: "baseline deny"},
		{tool: "file.search", args: `{"pattern":"x","path":"."}`, want: "baseline deny"},
		{tool: "file.trash", args: `{}`, want: "allow"},
		{tool: "file.read", args: `{"path":"a"}`, want: "allow"},
	},
	"staging": {
		{tool: "file.delete", args: `{"path":"a"}`, want: "staging tool"},
		{tool: "file.write", args: `{"content":"an invoice","path":"a"}`, want: "staging content money"},
		{tool: "file.write", args: `{"content":"hello","path":"a"}`, want: "staging role"},
		{tool: "file.read", args: `{"path":"a"}`, want: "allow"},
	},
	"content": {
		{tool: "file.write", args: `{"content":"-----BEGIN PRIVATE KEY-----","path":"a"}`, want: "baseline content key-material"},
		{tool: "file.append", args: `{"content":"-----BEGIN PRIVATE KEY-----","path":"a"}`, want: "baseline content key-material"},
		{tool: "file.write", args: `{"content":"the key","path":"a"}`, want: "allow"},
	},
	"principals": {
		{tool: "file.read", args: `{"path":"a"}`, want: "allow"},
		{tool: "file.write", args: `{"content":"x","path":"archive/a"}`, want: "principal deny"},
		{tool: "file.delete", args: `{"path":"a"}`, kind: events.PrincipalGroup, want: "principal deny"},
		{tool: "file.read", args: `{"path":"public/a"}`, who: "terminal-guest", want: "allow"},
		{tool: "file.read", args: `{"path":"a"}`, who: "terminal-guest", want: "principal paths"},
		{tool: "file.list", args: `{"path":"public"}`, who: "terminal-guest", want: "principal only"},
	},
	"children": {
		{tool: "file.read", args: `{"path":"a"}`, want: "allow"},
		{tool: "file.write", args: `{"content":"x","path":"a"}`, want: "role grant"},
		{tool: "child.begin", args: `{"child":"kid","task":"x"}`, profile: "work", want: "profile profile"},
		{tool: "child.begin", args: `{"child":"kid","task":"x"}`, profile: "lead", want: "allow"},
	},
	"servers":  {{tool: "files/look", args: `{}`, want: "role grant"}},
	"propose":  {{tool: "asset.propose", args: `{"content":"x","document":"x","kind":"skill","name":"x"}`, want: "role grant"}},
	"telegram": {{tool: "file.read", args: `{"path":"a"}`, want: "allow"}},
	"alerts":   {{tool: "file.read", args: `{"path":"a"}`, want: "allow"}}, // they change no verdict
	"job":      {{tool: "file.read", args: `{"path":"a"}`, want: "allow"}},
	"private": {
		{tool: "file.trash", args: `{}`, want: "baseline private"},
		{tool: "file.trash", args: `{}`, kind: events.PrincipalInternal, want: "allow"},
	},
}

type pieceCall struct {
	tool, args string
	used       int64
	who        string
	kind       events.PrincipalKind // user unless said
	profile    string               // the first of the catalog unless said
	want       string
}

// Every piece of a catalog in the README is valid, and does what is said of it.
func TestReadmePieces(t *testing.T) {
	proven := 0
	for _, p := range readme(t) {
		name, isPiece := strings.CutPrefix(p.mark, "piece ")
		if !isPiece {
			if p.lang == "yaml" {
				t.Errorf("nothing proves\n%s", strings.Join(p.lines, "\n"))
			}
			continue
		}
		proven++
		text := strings.Join(p.lines, "\n") + "\n"
		role := "worker"
		if m := regexp.MustCompile(`^roles:\n  (\w+):`).FindStringSubmatch(text); m != nil {
			role = m[1]
		}
		c := pieceCatalog(t, name, text, role)
		if len(pieceCalls[name]) == 0 {
			t.Errorf("nothing is called under the piece %s", name)
		}
		for _, call := range pieceCalls[name] {
			if got := call.decided(t, c); got != call.want {
				t.Errorf("%s: %+v: %s", name, call, got)
			}
		}
	}
	if proven != len(pieceCalls) {
		t.Errorf("%d pieces, calls for %d", proven, len(pieceCalls))
	}
}

// pieceCatalog is the piece with what is around it, and alice of a role.
func pieceCatalog(t *testing.T, name, text, role string) *policy.Compiled {
	t.Helper()
	for _, part := range slices.Sorted(maps.Keys(around)) {
		if !strings.Contains("\n"+text, "\n"+part+":") {
			text += part + ": " + around[part] + "\n"
		}
	}
	if !strings.Contains("\n"+text, "\npeople:") {
		text += "people: {anna: {key: " + keyOf('D') + ", approve_key: " + keyOf('E') + ", approver: true}}\n"
	}
	text += "agents: {alice: {role: " + role + ", key: " + keyOf('C') + "}}\n"
	c, err := config.Parse(name, []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	compiled, err := policy.Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func (p pieceCall) decided(t *testing.T, c *policy.Compiled) string {
	t.Helper()
	const handle = events.Digest("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	profile := cmp.Or(p.profile, slices.Sorted(maps.Keys(c.Catalog().Profiles))[0])
	req := policy.CallRequest{
		Agent: "alice", Round: "R", HandleHash: handle, Tool: events.ToolKey{Owner: events.OwnerBuiltin, Name: p.tool}, Args: jsontext.Value(p.args),
	}
	for _, m := range regexp.MustCompile(`"(?:path|from|to)":"([^"]*)"`).FindAllStringSubmatch(p.args, -1) {
		path, err := paths.Parse(m[1])
		check(t, err)
		req.Paths = append(req.Paths, path)
	}
	d := policy.DecideCall(c, req, policy.CallFacts{
		Agent: policy.AgentFacts{Enrolled: true},
		Round: policy.RoundFacts{
			Round: "R", Agent: "alice", Channel: "terminal", HandleHash: handle, Open: true, Session: profile,
			Principal: events.Principal{ID: p.who, Kind: cmp.Or(p.kind, events.PrincipalUser)}, Used: p.used,
		},
		Tool: policy.ToolFacts{Known: true},
	}).Decided
	switch {
	case d.Verdict != events.Allow:
		return fmt.Sprintf("%s %s", d.Layer, d.Rule)
	case d.Facts.CreateOnly:
		return "allow, new files only"
	}
	return "allow"
}
