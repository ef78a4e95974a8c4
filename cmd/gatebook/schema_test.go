package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	yaml "github.com/goccy/go-yaml"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"gatebook/events"
	"gatebook/infra/config"
)

// catalogSchema is what check --schema prints, read by a validator of its own.
func catalogSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	var out, errs bytes.Buffer
	app := NewApp()
	app.Out, app.Err = &out, &errs
	if code := app.Run(t.Context(), []string{"check", "--schema"}); code != 0 {
		t.Fatalf("exit code %d, %s", code, &errs)
	}
	doc, err := jsonschema.UnmarshalJSON(&out)
	check(t, err)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft4) // the schema says which one it is of
	check(t, c.AddResource("catalog.schema.json", doc))
	s, err := c.Compile("catalog.schema.json")
	check(t, err)
	if s.DraftVersion != 2020 {
		t.Errorf("a schema of the draft %d", s.DraftVersion)
	}
	return s
}

// bySchema validates the text of a catalog file.
func bySchema(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	check(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	check(t, err)
	return s.Validate(doc)
}

func firstCatalog() string {
	return string(config.First("anna", config.Keys{Key: keyPublic('B'), ApproveKey: keyPublic('C')}, keyPublic('D')))
}

func keyPublic(last byte) events.PublicKey { return events.PublicKey(keyOf(last)) }

// rightsCatalog is the catalog of the transcript rights.
func rightsCatalog(t *testing.T) string {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "script", "rights.txtar"))
	check(t, err)
	files := map[string]string{}
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	return strings.NewReplacer("\nscopes:\n", "\nscopes:\n"+files["scopes.yaml"], "\nroles:\n", "\nroles:\n"+files["roles.yaml"]).Replace(firstCatalog()) +
		files["denials.yaml"]
}

// What the engine takes is valid by the schema that editors get.
func TestSchemaTakesCatalogs(t *testing.T) {
	s := catalogSchema(t)
	for name, text := range map[string]string{
		"the first": firstCatalog(), "the transcript's": rightsCatalog(t), "the example": exampleCatalog(t),
		"the least": "schema: 1\n", "parts left open": "schema: 1\nroles:\nlimits:\nscopes: {a: , b: {tools: }}\n",
	} {
		if _, err := config.Parse(name, []byte(text)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := bySchema(t, s, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the schema refuses, the engine refuses: no editor marks what is right.
func TestSchemaRefuses(t *testing.T) {
	s := catalogSchema(t)
	base := regexp.MustCompile(`(?m)^ *#.*\n`).ReplaceAllString(rightsCatalog(t), "")
	for name, c := range map[string][2]string{
		"a key that nobody knows":          {"max_per_round:", "max_per_rond:"},
		"a key at the top":                 {"people:", "peple:"},
		"a key in another case":            {"baseline:", "Baseline:"},
		"another version of the format":    {"schema: 1", "schema: 2"},
		"no version":                       {"schema: 1", ""},
		"a time without its unit":          {"tool_time: 30s", "tool_time: 30"},
		"a time as text without its unit":  {"tool_time: 30s", `tool_time: "30"`},
		"a number as text":                 {"max_per_round: 1", `max_per_round: "1"`},
		"text for a flag":                  {"create_only: true", `create_only: "true"`},
		"one path without a list":          {`paths: ["public/**"]`, "paths: public/**"},
		"a tool that is not there":         {"- tool: file.delete", "- tool: file.destroy"},
		"a private tool that is not there": {"  file.trash:", "  file.tresh:"},
		"a rule of nothing":                {"- scope: by-path\n      paths", "- paths"},
		"a rule of two things":             {"- scope: by-path", "- scope: by-path\n      tool: file.read"},
		"a fraction in arguments":          {"content: done", "content: 1.5"},
		"arguments that are no object":     {"exact: {path: state.txt, content: done}", "exact: [a]"},
		"a verdict that is none":           {"verdict: deny", "verdict: allow"},
		"no verdict":                       {"verdict: deny", ""},
		"a kind that is misspelt":          {"kind: user", "kind: usr"},
		"a kind that no channel brings":    {"kind: user", "kind: internal"},
		"a policy for no kind":             {"  ids:\n", "  kinds: {usr: {}}\n  ids:\n"},
		"what is no key":                   {"key: " + keyOf('D'), "key: abc"},
		"less than nothing":                {"queued_calls: 64", "queued_calls: -1"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(base, c[0], c[1], 1)
			if text == base {
				t.Fatalf("nothing is %q", c[0])
			}
			if _, err := config.Parse(name, []byte(text)); err == nil {
				t.Error("the engine takes it")
			}
			if err := bySchema(t, s, text); err == nil {
				t.Error("the schema takes it")
			}
		})
	}
}
