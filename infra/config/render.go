package config

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// plain is text that means itself without quotes in every YAML.
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

func quoted(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return strconv.Quote(s)
	}
	if plain.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// render is v as what follows a key and its colon, line end included; the lines
// below it begin with indent. It knows what agents, channels and people hold.
func render(v any, indent string) string { return renderValue(reflect.ValueOf(v), indent) }

func renderValue(v reflect.Value, indent string) string {
	switch v.Kind() {
	case reflect.Struct:
		return block(renderFields(v, indent))
	case reflect.Map:
		return block(renderMap(v, indent))
	case reflect.Slice:
		var items []string
		for i := range v.Len() {
			items = append(items, quoted(v.Index(i).String()))
		}
		return " [" + strings.Join(items, ", ") + "]\n"
	case reflect.Bool:
		return " " + strconv.FormatBool(v.Bool()) + "\n"
	default:
		return " " + quoted(v.String()) + "\n"
	}
}

func block(lines string) string {
	if lines == "" {
		return " {}\n"
	}
	return "\n" + lines
}

func renderFields(v reflect.Value, indent string) string {
	var b strings.Builder
	for i := range v.NumField() {
		name, omit := fieldName(v.Type().Field(i))
		if omit && empty(v.Field(i)) {
			continue
		}
		b.WriteString(indent + name + ":" + renderValue(v.Field(i), indent+"  "))
	}
	return b.String()
}

func empty(v reflect.Value) bool {
	if v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
		return v.Len() == 0
	}
	return v.IsZero()
}

func renderMap(v reflect.Value, indent string) string {
	var names []string
	for _, k := range v.MapKeys() {
		names = append(names, k.String())
	}
	slices.Sort(names)
	var b strings.Builder
	for _, n := range names {
		value := v.MapIndex(reflect.ValueOf(n).Convert(v.Type().Key()))
		b.WriteString(indent + quoted(n) + ":" + renderValue(value, indent+"  "))
	}
	return b.String()
}
