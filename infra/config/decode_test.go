package config

import (
	"strings"
	"testing"
)

const exactHead = "schema: 1\nroles:\n  r:\n    version: 1\n    grants:\n      - tool: file.read\n        exact: "

// The arguments of a rule are read as JSON and kept in its canonical form, however
// the file writes them.
func TestExact(t *testing.T) {
	const inner = "\n          "
	for name, c := range map[string]struct{ yaml, want string }{
		"text":                  {`{path: a.txt}`, `{"path":"a.txt"}`},
		"order":                 {`{path: a, offset: 1, "limit": 2}`, `{"limit":2,"offset":1,"path":"a"}`},
		"a block":               {inner + "path: a" + inner + "offset: 3", `{"offset":3,"path":"a"}`},
		"nothing in it":         {`{}`, `{}`},
		"numbers":               {`{a: 0, b: -7, c: 9007199254740991}`, `{"a":0,"b":-7,"c":9007199254740991}`},
		"a number as text":      {`{a: "7", b: '1e3', "7": v1.2}`, `{"7":"v1.2","a":"7","b":"1e3"}`},
		"the rest of JSON":      {`{a: true, b: false, c: null}`, `{"a":true,"b":false,"c":null}`},
		"R13 text, no boolean":  {`{a: yes, b: "true"}`, `{"a":"yes","b":"true"}`},
		"nested":                {`{a: [1, [x, {b: {}}], []], c: {d: {e: f}}}`, `{"a":[1,["x",{"b":{}}],[]],"c":{"d":{"e":"f"}}}`},
		"a nested block":        {inner + "a:" + inner + "  - x" + inner + "  - b: 1", `{"a":["x",{"b":1}]}`},
		"what JSON escapes":     {`{a: "q\"\\\n\u2028<"}`, `{"a":"q\"\\\n` + "\u2028" + `<"}`},
		"names by UTF-16 units": {"{\U0001F600: 1, \uFB33: 2}", "{\"\U0001F600\":1,\"\uFB33\":2}"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse("x.yaml", []byte(exactHead+c.yaml+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if exact := string(got.Roles["r"].Grants[0].Exact); exact != c.want {
				t.Errorf("%s, want %s", exact, c.want)
			}
		})
	}
}

// What has more than one form, or another meaning than it looks, has no place
// where arguments are compared; the fault names where.
func TestExactFaults(t *testing.T) {
	for name, c := range map[string]struct{ yaml, want string }{
		"no object":                   {`a.txt`, "7:16"},
		"a list":                      {`[a]`, "7:9"},
		"a fraction":                  {`{a: 1.5}`, "7:20"},
		"a whole number as a float":   {`{a: 1.0}`, "7:20"},
		"an exponent":                 {`{a: 1e3}`, "7:20"},
		"not a number":                {`{a: .nan}`, "7:20"},
		"endless":                     {`{a: -.inf}`, "7:20"},
		"hexadecimal":                 {`{a: 0x10}`, "7:20"},
		"octal":                       {`{a: 0o17}`, "7:20"},
		"with underscores":            {`{a: 1_000}`, "7:20"},
		"beyond what JSON holds":      {`{a: 9007199254740993}`, "7:20"},
		"an anchor":                   {`{a: &x b}`, "7:20"},
		"an anchor above all":         {`&x {a: b}`, "7:16"},
		"an alias":                    {`{a: *x}`, "7:20"},
		"a tag":                       {`{a: !!str 1}`, "7:20"},
		"a merge key":                 {`{<<: {a: b}}`, "7:17"},
		"a doubled key":               {`{a: 1, a: 1}`, "7:23"},
		"a doubled key deep":          {`{a: [{b: 1, "b": 2}]}`, "7:28"},
		"a number as a key":           {`{1: a}`, "7:17"},
		"a block text is text of two": {"\n          a: |\n            b\n", "8:14"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("x.yaml", []byte(exactHead+c.yaml+"\n"))
			if got := places(err); got != c.want || err != nil && !strings.Contains(err.Error(), "x.yaml:") {
				t.Errorf("faults at %q, want %q\n%v", got, c.want, err)
			}
		})
	}
}
