package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"gatebook/events"
	"gatebook/policy"
)

// decoder fills a catalog from the syntax tree, by the names of its json tags,
// and collects everything that does not fit.
type decoder struct {
	file   string
	places map[string]place // by path, as policy.Fault names them
	faults []*Fault
}

func (d *decoder) catalog(root *ast.MappingNode, c *policy.Catalog) {
	d.value("", root, reflect.ValueOf(c).Elem())
}

func (d *decoder) fault(n ast.Node, format string, args ...any) {
	f := faultAt(n, fmt.Sprintf(format, args...))
	f.File = d.file
	d.faults = append(d.faults, f)
}

var microsType = reflect.TypeFor[events.Micros]()

func (d *decoder) value(path string, n ast.Node, into reflect.Value) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		d.fault(n, "no anchor, alias, tag or merge key: write the value out")
		return
	}
	if into.Type() == microsType {
		d.micros(n, into)
		return
	}
	switch into.Kind() {
	case reflect.Struct, reflect.Map:
		d.mapping(path, n, into)
	case reflect.Slice:
		d.list(path, n, into)
	default:
		d.scalar(n, into)
	}
}

// mapping fills a struct or a map. Nothing after the colon is an empty one.
func (d *decoder) mapping(path string, n ast.Node, into reflect.Value) {
	m, ok := n.(*ast.MappingNode)
	if _, null := n.(*ast.NullNode); null {
		return
	}
	if !ok {
		d.fault(n, "want keys and values here")
		return
	}
	if into.Kind() == reflect.Map {
		into.Set(reflect.MakeMap(into.Type()))
	}
	seen := map[string]int{}
	for _, v := range m.Values {
		key, ok := d.key(v.Key)
		if !ok {
			continue
		}
		if first, double := seen[key]; double {
			d.fault(v.Key, "the key %s is there twice, first in line %d", events.Quote(key), first)
			continue
		}
		seen[key] = placeOf(v.Key).line
		d.entry(path, key, v, into)
	}
}

func (d *decoder) entry(path, key string, v *ast.MappingValueNode, into reflect.Value) {
	at := strings.TrimPrefix(path+"."+key, ".")
	d.places[at] = placeOf(v.Key)
	switch v.Value.(type) {
	case *ast.MappingNode, *ast.SequenceNode, *ast.NullNode:
	default:
		d.places[at] = placeOf(v.Value)
	}
	if into.Kind() == reflect.Map {
		value := reflect.New(into.Type().Elem()).Elem()
		d.value(at, v.Value, value)
		into.SetMapIndex(reflect.ValueOf(key).Convert(into.Type().Key()), value)
		return
	}
	var known []string
	for i := range into.NumField() {
		name, _ := fieldName(into.Type().Field(i))
		if name == key {
			d.value(at, v.Value, into.Field(i))
			return
		}
		known = append(known, name)
	}
	d.fault(v.Key, "unknown key %s: want one of %s", events.Quote(key), strings.Join(known, ", "))
}

// key takes plain and quoted text.
func (d *decoder) key(n ast.MapKeyNode) (string, bool) {
	s, ok := n.(*ast.StringNode)
	if !ok {
		d.fault(n, "want text as a key; put quotes around a number")
		return "", false
	}
	return s.Value, true
}

// fieldName is the name of a field in the file, and whether its zero value is
// left out. Times are written with their unit, so the name does not say one.
func fieldName(f reflect.StructField) (string, bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strings.TrimSuffix(name, "_us"), options == "omitzero"
}

func (d *decoder) list(path string, n ast.Node, into reflect.Value) {
	if _, null := n.(*ast.NullNode); null {
		return
	}
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fault(n, "want a list here: lines that begin with a dash, or [a, b]")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(s.Values), len(s.Values)))
	for i, v := range s.Values {
		at := path + "." + strconv.Itoa(i)
		d.places[at] = placeOf(v)
		d.value(at, v, into.Index(i))
	}
}

func (d *decoder) scalar(n ast.Node, into reflect.Value) {
	switch into.Kind() {
	case reflect.String:
		if s, ok := n.(*ast.StringNode); ok {
			into.SetString(s.Value)
			return
		}
		d.fault(n, "want text here; put quotes around what is not")
	case reflect.Int:
		if i, ok := n.(*ast.IntegerNode); ok {
			if v, err := strconv.Atoi(i.GetToken().Value); err == nil {
				into.SetInt(int64(v))
				return
			}
		}
		d.fault(n, "want a whole number here")
	case reflect.Bool:
		if b, ok := n.(*ast.BoolNode); ok {
			into.SetBool(b.Value)
			return
		}
		d.fault(n, "want true or false here")
	default:
		d.fault(n, "this program cannot read this part")
	}
}

func (d *decoder) micros(n ast.Node, into reflect.Value) {
	if s, ok := n.(*ast.StringNode); ok {
		t, err := time.ParseDuration(s.Value)
		if err == nil && t%time.Microsecond == 0 {
			into.SetInt(int64(events.MicrosOf(t)))
			return
		}
	}
	d.fault(n, "want a time with its unit, such as 30s or 1h")
}
