package events

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// profileSet2 is what "profile.set" could be in a later program: schema 2 asks for
// the person who set it.
type profileSet2 struct {
	Profile string   `json:"profile"`
	By      PersonID `json:"by"`
}

func (profileSet2) Kind() Kind { return KindProfileSet }
func (profileSet2) sealed()    {}

// profileSet3 renames a field.
type profileSet3 struct {
	Name string   `json:"name"`
	By   PersonID `json:"by"`
}

func (profileSet3) Kind() Kind { return KindProfileSet }
func (profileSet3) sealed()    {}

func tomorrow(s shape) kindSet {
	set := maps.Clone(kinds)
	set[KindProfileSet] = s
	return set
}

var toTwo = Upcaster{KindProfileSet, 1, func(data jsontext.Value) (jsontext.Value, error) {
	var old ProfileSet
	if err := json.Unmarshal(data, &old, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	return json.Marshal(profileSet2{Profile: old.Profile, By: "unknown"})
}}

var toThree = Upcaster{KindProfileSet, 2, func(data jsontext.Value) (jsontext.Value, error) {
	return jsontext.Value(strings.Replace(string(data), `"profile"`, `"name"`, 1)), nil
}}

func profileSet(t *testing.T) Record {
	t.Helper()
	rec, err := Encode(Draft{
		Meta:  Meta{ID: "01KEMBWC2ZNXFAN3BWFNGTXQ3F", Writer: "01KEMBWC2ZNXFAN3BWFNGTXQ3G", Actor: Engine(), Agent: "alice"},
		Event: ProfileSet{Profile: "owner"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestUpcasters(t *testing.T) {
	old := profileSet(t)
	two, err := newCodec(tomorrow(of[profileSet2](EntityAgent, 2)), toTwo)
	if err != nil {
		t.Fatal(err)
	}
	three, err := newCodec(tomorrow(of[profileSet3](EntityAgent, 3)), toTwo, toThree)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := two.Decode(old); err != nil || got.Event != (profileSet2{"owner", "unknown"}) || got.Agent != "alice" {
		t.Errorf("schema 1 as 2: %+v, %v", got, err)
	}
	if got, err := three.Decode(old); err != nil || got.Event != (profileSet3{"owner", "unknown"}) {
		t.Errorf("schema 1 as 3: %+v, %v", got, err)
	}

	// A later program's own bytes: its codec reads them, older ones stop.
	d := Draft{Meta: Meta{ID: old.ID, Writer: "01KEMBWC2ZNXFAN3BWFNGTXQ3G", Actor: Engine(), Agent: "alice"}, Event: profileSet2{"guest", "ada"}}
	newer, err := two.kinds.encode(d)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := two.Decode(newer); err != nil || got.Draft != d {
		t.Errorf("schema 2 as 2: %+v, %v", got, err)
	}
	if got, err := three.Decode(newer); err != nil || got.Event != (profileSet3{"guest", "ada"}) {
		t.Errorf("schema 2 as 3: %+v, %v", got, err)
	}
	if _, err := Decode(newer); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("schema 2 read by today's program: %v", err)
	}
	// The others are read as before.
	if _, err := three.Decode(profileReleased(t)); err != nil {
		t.Error(err)
	}
}

func profileReleased(t *testing.T) Record {
	t.Helper()
	rec, err := Encode(Draft{
		Meta:  Meta{ID: "01KEMBWC2ZNXFAN3BWFNGTXQ3F", Writer: "01KEMBWC2ZNXFAN3BWFNGTXQ3G", Actor: Engine(), Agent: "alice"},
		Event: AgentReleased{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// Old bytes are held to the same law as new ones.
func TestUpcastIsStrict(t *testing.T) {
	codec, err := newCodec(tomorrow(of[profileSet2](EntityAgent, 2)), toTwo)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, old, new string
		want           error
	}{
		{"whitespace", `,"actor"`, `, "actor"`, ErrNotCanonical},
		{"whitespace of the data", `{"profile"`, `{ "profile"`, ErrNotCanonical},
		{"unknown field of the data", `{"profile"`, `{"x":1,"profile"`, ErrMalformed},
		{"duplicate key of the data", `{"profile"`, `{"profile":"a","profile"`, ErrMalformed},
		{"another agent", "agent/alice", "agent/bob", ErrMalformed},
		{"another entity", "agent/alice", "engine/alice", ErrMalformed},
		{"another spelling of nobody", "agent/alice", "agent/", ErrMalformed},
	} {
		r := profileSet(t)
		body := strings.Replace(string(r.Body), row.old, row.new, 1)
		if body == string(r.Body) {
			t.Fatalf("%s: nothing to replace in %s", row.name, body)
		}
		r.Body = []byte(body)
		if got, err := codec.Decode(r); !errors.Is(err, row.want) || got != (Recorded{}) {
			t.Errorf("%s: %v, want: %v", row.name, err, row.want)
		}
	}
	fails := Upcaster{KindProfileSet, 1, func(jsontext.Value) (jsontext.Value, error) { return nil, errors.New("no") }}
	if codec, err = newCodec(codec.kinds, fails); err != nil {
		t.Fatal(err)
	}
	if _, err := codec.Decode(profileSet(t)); !errors.Is(err, ErrMalformed) {
		t.Errorf("an upcaster that fails: %v", err)
	}
	if _, err := (Codec{kinds: codec.kinds}).Decode(profileSet(t)); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("no upcaster: %v", err)
	}
}

func TestUpcastersFormAChain(t *testing.T) {
	set := tomorrow(of[profileSet3](EntityAgent, 3))
	for _, row := range []struct {
		name  string
		set   kindSet
		steps []Upcaster
		ok    bool
	}{
		{"today's schemas and no step", kinds, nil, true},
		{"a chain", set, []Upcaster{toThree, toTwo}, true},
		{"no step", set, nil, false},
		{"a gap", set, []Upcaster{toThree}, false},
		{"a missing end", set, []Upcaster{toTwo}, false},
		{"a double step", set, []Upcaster{toTwo, toTwo, toThree}, false},
		{"a step from today's schema", kinds, []Upcaster{toTwo}, false},
		{"a step from schema zero", set, []Upcaster{toTwo, toThree, {KindProfileSet, 0, toTwo.Up}}, false},
		{"a step without function", set, []Upcaster{toThree, {KindProfileSet, 1, nil}}, false},
		{"a step of no kind", set, []Upcaster{toTwo, toThree, {"x", 1, toTwo.Up}}, false},
	} {
		if _, err := newCodec(row.set, row.steps...); (err == nil) != row.ok || err != nil && !errors.Is(err, ErrUpcasters) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
	if _, err := NewCodec(); err != nil {
		t.Error(err)
	}
}
