package main

import (
	"bytes"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"gatebook/events"
)

// A second with real processes, so that the hour does not fail for what a change
// elsewhere broke.
func TestShortRun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory and descriptors come from /proc")
	}
	t.Parallel()
	dir := t.TempDir()
	picture, samples := filepath.Join(dir, "soak.png"), filepath.Join(dir, "samples.json")
	var out, say bytes.Buffer
	err := run(t.Context(), []string{
		"--duration", "1s", "--agents", "4", "--rate", "200", "--dir", dir, "--out", picture, "--json", samples,
	}, &out, &say)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &say)
	}
	raw, err := os.ReadFile(samples)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	// A busy machine gets through little in a second.
	if len(r.Samples) < 2 || r.Tally.Calls < 10 || r.Tally.Calls > 100 && r.Tally.Refused == 0 || r.Tally.Rounds < 1 {
		t.Fatalf("%d samples, %+v", len(r.Samples), r.Tally)
	}
	for name, of := range map[string]func(sample) int64{
		"memory": func(s sample) int64 { return s.Memory }, "goroutines": func(s sample) int64 { return s.Goroutines },
		"descriptors": func(s sample) int64 { return s.Descriptors }, "book": func(s sample) int64 { return s.Book },
		"views": func(s sample) int64 { return s.Views }, "agents": func(s sample) int64 { return s.Agents },
		"rate": func(s sample) int64 { return s.Rate }, "p99": func(s sample) int64 { return s.P99 },
	} {
		if !slices.ContainsFunc(r.Samples, func(s sample) bool { return of(s) > 0 }) {
			t.Errorf("%s is nothing in every sample", name)
		}
	}
	looksLikeAPicture(t, picture)
	left, err := filepath.Glob(filepath.Join(dir, "gatebook-load-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func looksLikeAPicture(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	image, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if b := image.Bounds(); b.Dx() < 1000 || b.Dy() < 800 {
		t.Errorf("the picture is %s", b)
	}
	colours := map[[3]uint32]bool{}
	for y := range image.Bounds().Dy() {
		for x := range image.Bounds().Dx() {
			r, g, b, _ := image.At(x, y).RGBA()
			colours[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
		}
	}
	for _, c := range curveColours {
		r, g, b, _ := c.RGBA()
		if !colours[[3]uint32{r >> 8, g >> 8, b >> 8}] {
			t.Errorf("no curve has the colour %v", c)
		}
	}
}

func TestEveryAnswerMustBeInTheBook(t *testing.T) {
	ends := map[events.CallID]events.Status{"a": events.StatusOK, "b": events.StatusDenied, "c": events.StatusUnknown}
	for _, row := range []struct {
		name string
		all  []answered
		want string // "" for none
	}{
		{"all are there", []answered{{"a", events.StatusOK}, {"b", events.StatusDenied}}, ""},
		{"an answer is not in the book", []answered{{"a", events.StatusOK}, {"z", events.StatusOK}}, `call z was answered "ok" and has no end in the book`},
		{"it ended otherwise", []answered{{"c", events.StatusOK}}, `call c was answered "ok" and ended as "unknown" in the book`},
		{"one call for two requests", []answered{{"a", events.StatusOK}, {"a", events.StatusOK}}, "call a was the answer to two requests"},
		{"many", []answered{{"1", ""}, {"2", ""}, {"3", ""}, {"4", ""}, {"5", ""}, {"6", ""}, {"7", ""}}, "and 2 more"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := missing(row.all, ends)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		ok   bool
	}{
		{"an hour by default", nil, true},
		{"short", []string{"--duration", "2s"}, true},
		{"no time", []string{"--duration", "0"}, false},
		{"looks too seldom to judge", []string{"--duration", "1m", "--every", "5s"}, false},
		{"no agents", []string{"--agents", "0"}, false},
		{"more agents than may wait", []string{"--agents", "65"}, false},
		{"an argument", []string{"5m"}, false},
		{"an unknown flag", []string{"--hours", "1"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			opt, err := parse(row.args, io.Discard)
			var usage usageError
			if (err == nil) != row.ok || err != nil && !errors.As(err, &usage) {
				t.Fatal(err)
			}
			if row.args == nil && (opt.duration != time.Hour || opt.agents != 20 || opt.every != 5*time.Second || opt.out != "soak.png") {
				t.Errorf("%+v", opt)
			}
		})
	}
}
