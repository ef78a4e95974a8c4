package main

import (
	"reflect"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/policy"
)

// Every entry of the catalog is in the README.
func TestReadmeCatalog(t *testing.T) {
	same(t, "catalog", marked(t, "catalog").first(), entriesOf("", reflect.TypeFor[policy.Catalog]()))
	same(t, "rule", marked(t, "rule").first(), entriesOf("", reflect.TypeFor[policy.Rule]()))
}

func entriesOf(path string, of reflect.Type) []string {
	switch {
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
	if len(rules) != 7 {
		t.Errorf("limits %q", rules)
	}
	return rules
}
