package main

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/policy"
)

// exampleCatalog is what catalog example prints.
func exampleCatalog(t *testing.T) string {
	t.Helper()
	var out, errs bytes.Buffer
	app := NewApp()
	app.Out, app.Err = &out, &errs
	if code := app.Run(t.Context(), []string{"catalog", "example"}); code != 0 {
		t.Fatalf("exit code %d, %s", code, &errs)
	}
	return out.String()
}

// exampleCalls say what each role of the example is for, in rounds of its owner.
var exampleCalls = map[string][]pieceCall{
	"orchestrator": {writes("tasks/today.md", "allow"), writes("plan.md", "role paths"), deletes("tasks/today.md", "role grant")},
	"planner":      {writes("docs/intent/a-1.md", "allow, new files only"), writes("docs/intent/a/b.md", "role paths"), {tool: "file.write", args: `{"content":"x","path":"docs/intent/b.md"}`, used: 1, want: "role max_per_round"}},
	"researcher":   {writes("research/2026/a.md", "allow, new files only"), writes("a.md", "role paths"), deletes("research/a.md", "role grant")},
	"administrator": {writes("a.md", "allow"), deletes("a", "allow"), writes("private/a", "baseline deny"), {tool: "file.trash", args: "{}", want: "allow"}, {tool: "file.restore", args: "{}", want: "allow"},
		{tool: "file.move", args: `{"from":"a","to":"b"}`, want: "allow"}, {tool: "file.copy", args: `{"from":"private/a","to":"b"}`, want: "baseline deny"}, {tool: "file.search", args: `{"pattern":"x","path":"."}`, want: "baseline deny"}},
	"agent-manager": {writes("agents/new-one/Soul.md", "allow"), writes("agents/Soul.md", "role paths")},
	"graphics":      {writes("graphics/a.svg", "allow"), deletes("graphics/a.svg", "allow"), deletes("a.svg", "role paths")},
	"orga": {writes("minutes/1.md", "allow"), {tool: "file.write", args: `{"content":"Meeting. Please knock.","path":"door.txt"}`, want: "allow"},
		{tool: "file.write", args: `{"content":"Free","path":"door.txt"}`, want: "role exact"},
		{tool: "file.write", args: `{"content":"` + strings.Repeat("x", 20_001) + `","path":"minutes/2.md"}`, want: "role exact"}},
	"reviewer":   {writes("a.md", "role grant"), {tool: "file.trash", args: "{}", want: "role grant"}},
	"supervisor": {writes("a.md", "role grant"), {tool: "file.trash", args: "{}", want: "allow"}},
}

func writes(path, want string) pieceCall {
	return pieceCall{tool: "file.write", args: `{"content":"x","path":"` + path + `"}`, want: want}
}

func deletes(path, want string) pieceCall {
	return pieceCall{tool: "file.delete", args: `{"path":"` + path + `"}`, want: want}
}

// The example is valid as printed, has these nine roles, and each does what it is for.
func TestExampleRoles(t *testing.T) {
	text := exampleCatalog(t)
	for role, calls := range exampleCalls {
		c := pieceCatalog(t, "example", text, role)
		if got := slices.Sorted(maps.Keys(c.Catalog().Roles)); !slices.Equal(got, slices.Sorted(maps.Keys(exampleCalls))) {
			t.Fatalf("the roles are %q", got)
		}
		calls = append(calls, pieceCall{tool: "file.read", args: `{"path":"a.md"}`, used: 7, want: "allow"},
			pieceCall{tool: "file.read", args: `{"path":"private/a.md"}`, want: "baseline deny"},
			pieceCall{tool: "file.read", args: `{"path":"a.md"}`, profile: "guest", want: "profile paths"},
			pieceCall{tool: "file.read", args: `{"path":"public/a.md"}`, profile: "guest", want: "allow"})
		for _, call := range calls {
			call.profile = cmp.Or(call.profile, "owner")
			if got := call.decided(t, c); got != call.want {
				t.Errorf("%s: %+v: %s", role, call, got)
			}
		}
	}
	c := pieceCatalog(t, "example", text, "administrator")
	for call, want := range map[*pieceCall]string{
		{tool: "file.delete", args: `{"path":"a"}`, kind: events.PrincipalGroup, profile: "owner"}:               "principal deny",
		{tool: "file.write", args: `{"content":"x","path":"archive/a"}`, profile: "team"}:                        "profile deny",
		{tool: "file.write", args: `{"content":"x","path":"a"}`, profile: "team"}:                                "allow",
		{tool: "file.write", args: `{"content":"-----BEGIN RSA PRIVATE KEY-----","path":"a"}`, profile: "owner"}: "baseline content key-material",
	} {
		if got := call.decided(t, c); got != want {
			t.Errorf("%+v: %s, want %s", call, got, want)
		}
	}
}

// The reviewer and the supervisor have nothing that acts, whatever the arguments.
func TestExampleReadersOnlyRead(t *testing.T) {
	text := exampleCatalog(t)
	for _, role := range []string{"reviewer", "supervisor"} {
		c := pieceCatalog(t, "example", text, role)
		for _, b := range policy.Builtins() {
			call := pieceCall{tool: b.Name, args: `{"path":"a"}`, profile: "owner"}
			if got := call.decided(t, c); strings.HasPrefix(got, "allow") && b.Tier != events.ReadOnly {
				t.Errorf("%s: %s: %s", role, b.Name, got)
			}
		}
	}
}
