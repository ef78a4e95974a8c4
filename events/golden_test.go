package events_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/events/eventstest"
)

// writeGolden adds what is missing under testdata/golden. It never changes a line.
var writeGolden = flag.Bool("golden", false, "add missing golden lines")

func golden(kind events.Kind) string {
	return filepath.Join("testdata", "golden", string(kind)+".v1.json")
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		if *writeGolden && os.IsNotExist(err) {
			return nil
		}
		t.Fatalf("%v: a new kind needs golden bytes: go test ./events -golden", err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func samplesOf(kind events.Kind) []events.Draft {
	return slices.DeleteFunc(eventstest.Samples(), func(d events.Draft) bool { return d.Event.Kind() != kind })
}

// A golden file has one line per sample of the kind: minimal, full, others.
func TestGolden(t *testing.T) {
	for _, kind := range events.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			samples := samplesOf(kind)
			if len(samples) < 2 {
				t.Fatalf("%d samples, want a minimal and a full one", len(samples))
			}
			want := lines(t, golden(kind))
			for i, d := range samples {
				rec := eventstest.Encode(t, d)
				if i >= len(want) && *writeGolden {
					want = append(want, string(rec.Body))
				}
				if i >= len(want) || string(rec.Body) != want[i] {
					t.Errorf("find another way, bytes are for ever: line %d of %s is not\n%s", i+1, golden(kind), rec.Body)
				}
			}
			for i, line := range want {
				got, err := events.Decode(events.Record{Seq: 1, Subject: subjectOf(t, samples[0]), Body: []byte(line)})
				if err != nil || i >= len(samples) || got.Draft != samples[i] {
					t.Errorf("find another way, bytes are for ever: line %d of %s cannot be read as what was written: %v", i+1, golden(kind), err)
				}
			}
			if *writeGolden {
				if err := os.WriteFile(golden(kind), []byte(strings.Join(want, "\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Every golden file belongs to a kind, so that no kind can be taken away.
func TestGoldenFilesHaveKinds(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, kind := range events.Kinds() {
		want = append(want, golden(kind))
	}
	slices.Sort(files)
	slices.Sort(want)
	if !slices.Equal(files, want) {
		t.Errorf("golden files and kinds differ; a name is for ever:\n%q\n%q", files, want)
	}
}

// The subject and the leaf of a record are for ever, too.
func TestGoldenLeaves(t *testing.T) {
	file := filepath.Join("testdata", "golden", "leaves.txt")
	want := lines(t, file)
	var have []string
	for _, d := range eventstest.Samples() {
		rec := eventstest.Encode(t, d)
		rec.Seq = 7
		leaf := string(events.Leaf(eventstest.ID[events.Incarnation](0), rec))
		have = append(have, leaf)
		if *writeGolden && !slices.Contains(want, leaf) {
			want = append(want, leaf)
		}
		if !slices.Contains(want, leaf) {
			t.Errorf("find another way, leaves are for ever: not in %s: %s", file, leaf)
		}
	}
	for _, leaf := range want {
		if !slices.Contains(have, leaf) {
			t.Errorf("find another way, leaves are for ever: nothing has the leaf %s", leaf)
		}
	}
	if *writeGolden {
		if err := os.WriteFile(file, []byte(strings.Join(want, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Every field is set in some sample of its kind, so no field escapes the golden
// bytes.
func TestSamplesAreFull(t *testing.T) {
	for _, kind := range events.Kinds() {
		unset := map[string]bool{}
		for i, d := range samplesOf(kind) {
			now := map[string]bool{}
			zeroFields(reflect.ValueOf(d.Event), "", now)
			for path := range unset {
				if !now[path] {
					delete(unset, path)
				}
			}
			if i == 0 {
				unset = now
			}
		}
		for path := range unset {
			t.Errorf("no sample of %s sets %s", kind, path)
		}
	}
}

func zeroFields(v reflect.Value, path string, zero map[string]bool) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			zeroFields(v.Field(i), path+"."+v.Type().Field(i).Name, zero)
		}
	case reflect.Map, reflect.Pointer, reflect.Float32, reflect.Float64, reflect.Slice, reflect.Interface:
		zero[path+" (a "+v.Kind().String()+" has no place in an event)"] = true
	default:
		if v.IsZero() {
			zero[path] = true
		}
	}
}

func subjectOf(t *testing.T, d events.Draft) string {
	t.Helper()
	subject, err := d.Subject()
	if err != nil {
		t.Fatal(err)
	}
	return subject
}
