package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/policy/price"
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

// boundOfNothing is the limit whose 0 reads as none at all, and would be no limit.
const boundOfNothing = "max_per_round"

func (d *decoder) fault(n ast.Node, format string, args ...any) {
	f := faultAt(n, fmt.Sprintf(format, args...))
	f.File = d.file
	d.faults = append(d.faults, f)
}

var (
	microsType = reflect.TypeFor[events.Micros]()
	jsonType   = reflect.TypeFor[jsontext.Value]()
	rateType   = reflect.TypeFor[price.Rate]()
)

func (d *decoder) value(path string, n ast.Node, into reflect.Value) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		d.fault(n, "no anchor, alias, tag or merge key: write the value out")
		return
	}
	switch into.Type() {
	case microsType:
		d.micros(n, into)
		return
	case jsonType:
		d.json(n, into)
		return
	case rateType:
		d.rate(n, into)
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
			if name == boundOfNothing && into.Field(i).IsZero() {
				d.fault(v.Value, "want at least 1; without the line there is no bound")
			}
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

// list fills a list. Nothing after the colon is an empty one, which is not the same
// everywhere as none.
func (d *decoder) list(path string, n ast.Node, into reflect.Value) {
	if _, null := n.(*ast.NullNode); null {
		into.Set(reflect.MakeSlice(into.Type(), 0, 0))
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
	case reflect.Int, reflect.Int64:
		if i, ok := n.(*ast.IntegerNode); ok {
			if v, err := strconv.ParseInt(i.GetToken().Value, 10, 64); err == nil && !into.OverflowInt(v) {
				into.SetInt(v)
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

// json takes what a JSON value can be, in its canonical form.
func (d *decoder) json(n ast.Node, into reflect.Value) {
	v, ok := d.plain(n)
	if !ok {
		return
	}
	text, err := json.Marshal(v)
	value := jsontext.Value(text)
	if err == nil {
		err = value.Canonicalize()
	}
	if err != nil {
		d.fault(n, "this cannot be written as JSON")
		return
	}
	into.Set(reflect.ValueOf(value))
}

// plain is n as Go's values for JSON. What JSON writes in many ways, a number that
// is not whole, has no place where arguments are compared.
func (d *decoder) plain(n ast.Node) (any, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		out := map[string]any{}
		for _, v := range n.Values {
			key, ok := d.key(v.Key)
			if _, double := out[key]; ok && double {
				d.fault(v.Key, "the key %s is there twice", events.Quote(key))
				ok = false
			}
			if !ok {
				return nil, false
			}
			if out[key], ok = d.plain(v.Value); !ok {
				return nil, false
			}
		}
		return out, true
	case *ast.SequenceNode:
		out := make([]any, len(n.Values))
		for i, v := range n.Values {
			var ok bool
			if out[i], ok = d.plain(v); !ok {
				return nil, false
			}
		}
		return out, true
	case *ast.StringNode:
		if _, err := strconv.ParseFloat(n.Value, 64); err == nil && n.GetToken().Type == token.StringType {
			break // 1e3: text to this YAML, a number to others
		}
		return n.Value, true
	case *ast.BoolNode:
		return n.Value, true
	case *ast.NullNode:
		return nil, true
	case *ast.IntegerNode:
		if v, err := strconv.ParseInt(n.GetToken().Value, 10, 54); err == nil {
			return v, true
		}
	}
	d.fault(n, "want text, a whole number, true, false, null, a list, or keys and values")
	return nil, false
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

// rate takes a price by its digits: no binary fraction stands between.
func (d *decoder) rate(n ast.Node, into reflect.Value) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.StringNode:
		if micros, err := price.ParseDecimal(n.GetToken().Value); err == nil {
			into.Set(reflect.ValueOf(price.Rate{Amount: events.AmountOf(micros)}))
			return
		}
	}
	d.fault(n, "want the price of a million tokens, such as 3 or 0.075")
}
