package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// Every key that the decoder knows is in the schema, and no other: an unknown key is
// put at each place of the schema, and the decoder says what it knows there.
func TestSchemaHasTheDecodersKeys(t *testing.T) {
	raw, err := Schema("demo.wait")
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	w := schemaWalk{t: t, defs: root["$defs"].(map[string]any)}
	w.walk(root, "%s")
	if w.objects < 25 {
		t.Errorf("only %d places were looked at", w.objects)
	}
	if names := fmt.Sprint(w.defs[toolName]); !strings.Contains(names, "demo.wait") || !strings.Contains(names, "file.write") {
		t.Errorf("tools: %s", names)
	}
}

type schemaWalk struct {
	t       *testing.T
	defs    map[string]any
	objects int
}

// walk looks at a schema that stands at %s of a catalog.
func (w *schemaWalk) walk(s map[string]any, at string) {
	if ref, ok := s["$ref"].(string); ok {
		s = w.defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	if items, ok := s["items"].(map[string]any); ok && !strings.Contains(at, "exact") {
		w.walk(items, fmt.Sprintf(at, "[%s]"))
	}
	if others, ok := s["additionalProperties"].(map[string]any); ok && !strings.Contains(at, "exact") {
		w.walk(others, fmt.Sprintf(at, "{name: %s}"))
	}
	properties, ok := s["properties"].(map[string]any)
	if !ok {
		return
	}
	w.objects++
	if others, said := s["additionalProperties"].(bool); !said || others {
		w.t.Errorf("%s may have members that nobody knows", at)
	}
	_, err := Parse("x", fmt.Appendf(nil, at, "{unheard-of: 1}"))
	m := regexp.MustCompile(`unknown key "unheard-of": want one of (.*)`).FindStringSubmatch(fmt.Sprint(err))
	if m == nil {
		w.t.Fatalf("%s: %v", at, err)
	}
	known, has := strings.Split(m[1], ", "), []string{}
	for name, member := range properties {
		has = append(has, name)
		w.walk(member.(map[string]any), fmt.Sprintf(at, "{"+name+": %s}"))
	}
	slices.Sort(known)
	slices.Sort(has)
	if !slices.Equal(known, has) {
		w.t.Errorf("at %s the schema has %q, the decoder %q", at, has, known)
	}
}
