package events

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// goldenRecords gives every golden body with its subject.
func goldenRecords(t *testing.T) (records []Record) {
	t.Helper()
	for kind, k := range kinds {
		text, err := os.ReadFile(filepath.Join("testdata", "golden", string(kind)+".v1.json"))
		if err != nil {
			t.Fatal(err)
		}
		for body := range bytes.Lines(text) {
			r := Record{Seq: 1, Body: bytes.TrimSuffix(body, []byte("\n"))}
			var env envelope
			if err := json.Unmarshal(r.Body, &env); err != nil {
				t.Fatal(err)
			}
			meta, err := env.meta(k.entity)
			if err != nil {
				t.Fatal(err)
			}
			event, err := k.decode(env.Data)
			if err != nil {
				t.Fatal(err)
			}
			if r.Subject, err = kinds.subject(Draft{Meta: meta, Event: event}); err != nil {
				t.Fatal(err)
			}
			records = append(records, r)
		}
	}
	return records
}

// The head that is written by hand is the one that the library writes.
func TestHeadIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string {
			return rapid.OneOf(rapid.String(), rapid.Just(""), rapid.Just("<&>\u2028\x7f\\\"/\x00\t"), rapid.Just("\xff")).Draw(t, name)
		}
		env := envelope{
			SpecVersion: text("specversion"), ID: EventID(text("id")), Source: text("source"), Type: text("type"),
			Subject: text("subject"), Time: Instant(rapid.Int64().Draw(t, "time")), ContentType: text("content"),
			Actor: text("actor"), Writer: WriterID(text("writer")), Cause: EventID(text("cause")),
			Catalog: Digest(text("catalog")), Trace: text("trace"), Data: []byte("{}"),
		}
		want, wrong := json.Marshal(env)
		head, err := env.head(nil)
		if (err == nil) != (wrong == nil) || err == nil && string(head)+"{}}" != string(want) {
			t.Fatalf("%v, want: %v\n%s{}}\n%s", err, wrong, head, want)
		}
	})
}

// The shortcut is taken for what a book is made of, else it is of no use.
func TestScanTakesGoldenBytes(t *testing.T) {
	for _, r := range goldenRecords(t) {
		env, ok := scan(r.Body)
		var want envelope
		if err := json.Unmarshal(r.Body, &want); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(env)
		if !ok || err != nil || !bytes.Equal(got, r.Body) {
			t.Errorf("%v, %v\n%s\n%s", ok, err, got, r.Body)
		}
		if _, err := (Codec{}).open(&env, r); err != nil {
			t.Error(err)
		}
	}
}

// With and without the shortcut the same is read, and refused for the same reason.
func TestScanChangesNothing(t *testing.T) {
	records := goldenRecords(t)
	reasons := []error{ErrMalformed, ErrNotCanonical, ErrUnknownKind, ErrID, ErrInstant, ErrPersonal}
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.SampledFrom(records).Draw(t, "record")
		piece := rapid.OneOf(
			rapid.SampledFrom([]string{"", "\\", `"`, "{", "}", "}}", ",", " ", "\n", "null", `,"data":`, `"data":{}`, `,"x":1`, `\u0061`, "\x00", "\xff", "é"}),
			rapid.Custom(func(t *rapid.T) string {
				from := rapid.IntRange(0, len(r.Body)).Draw(t, "from")
				return string(r.Body[from:rapid.IntRange(from, len(r.Body)).Draw(t, "to")])
			}),
		).Draw(t, "piece")
		at := rapid.IntRange(0, len(r.Body)).Draw(t, "at")
		cut := rapid.IntRange(at, min(at+rapid.IntRange(0, 40).Draw(t, "length"), len(r.Body))).Draw(t, "cut")
		r.Body = []byte(string(r.Body[:at]) + piece + string(r.Body[cut:]))
		got, err := Decode(r)
		want, wrong := Codec{}.strict(r)
		if got != want || (err == nil) != (wrong == nil) {
			t.Fatalf("%+v, %v\n%+v, %v", got, err, want, wrong)
		}
		for _, reason := range reasons {
			if errors.Is(err, reason) != errors.Is(wrong, reason) {
				t.Fatalf("%v, want: %v", err, wrong)
			}
		}
	})
}

// An upcaster never sees data that is no JSON.
func TestUpcastersGetJSON(t *testing.T) {
	looks := Upcaster{KindProfileSet, 1, func(data jsontext.Value) (jsontext.Value, error) {
		if !data.IsValid() {
			t.Errorf("the upcaster is given %s", data)
		}
		return toTwo.Up(data)
	}}
	codec, err := newCodec(tomorrow(of[profileSet2](EntityAgent, 2)), looks)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{`{"profile":"a","profile":"b"}`, `{"profile":"a"`, `{"profile":"a"}}`, `{}{}`, "\"\xff\"", ``} {
		r := profileSet(t)
		r.Body = bytes.Replace(r.Body, []byte(`{"profile":"owner"}`), []byte(data), 1)
		if got, err := codec.Decode(r); !errors.Is(err, ErrMalformed) || got != (Recorded{}) {
			t.Errorf("data %s: %v", data, err)
		}
	}
}
