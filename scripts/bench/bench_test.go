package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"gatebook/scripts/harness"
)

func TestMedianHasAsManyOnEachSide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 50), 1, 20).Draw(t, "values")
		m, below, above := median(values), 0, 0
		for _, v := range values {
			if v < m {
				below++
			}
			if v > m {
				above++
			}
		}
		if 2*below > len(values) || 2*above > len(values) {
			t.Fatalf("median of %v is %d", values, m)
		}
	})
}

func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		p := rapid.IntRange(1, 100).Draw(t, "p")
		values := make([]time.Duration, n)
		for i := range values {
			values[i] = time.Duration(n - i) // n..1
		}
		q := int(harness.Quantile(values, p)) // as many values are not above it
		if 100*q < p*n || 100*(q-1) >= p*n {
			t.Fatalf("p%d of 1..%d is %d", p, n, q)
		}
	})
	if median(nil) != 0 || harness.Quantile(nil, 50) != 0 {
		t.Error("of nothing it is 0")
	}
}

func TestRatiosAreOfPairs(t *testing.T) {
	// The machine was twice as slow in the second run: the ratio is the same.
	r := row{Runs: []int64{1000, 500, 1010}}
	r.beside("other", "calls/s", []int64{400, 200, 404})
	if r.Ratio != 2.5 {
		t.Errorf("ratio %v, want 2.5", r.Ratio)
	}
	if got := ratios([]int64{1, 2}, []int64{0}); len(got) != 0 {
		t.Errorf("a division by nothing: %v", got)
	}
}

func TestReportComparesWithItsOwnJSON(t *testing.T) {
	old, now := report{Machine: machine{CPU: "a"}}, report{Machine: machine{CPU: "b"}}
	old.add(row{Name: "calls-256", Unit: "calls/s", Better: higher, Runs: []int64{3000, 2000, 1000}})
	old.add(row{Name: "call-1", Unit: "us", Better: lower, Runs: []int64{500}})
	fast := row{Name: "calls-256", Unit: "calls/s", Better: higher, Runs: []int64{5000}}
	fast.target("at least 5,000 calls/s", true)
	fast.target("at least 9,000 calls/s", false)
	now.add(fast)
	now.add(row{Name: "call-1", Unit: "us", Better: lower, Runs: []int64{600}})
	now.add(row{Name: "rebuild", Unit: "events/s", Better: higher, Runs: []int64{1}})
	raw, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "old.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	earlier, err := readReport(file)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := now.print(&out, earlier); err != nil {
		t.Fatal(err)
	}
	var words []string
	for line := range strings.Lines(out.String()) {
		words = append(words, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"calls-256 5000 5000 5000 calls/s - - 2000 2.50",
		"call-1 600 600 600 us - - 500 1.20 (worse)",
		"rebuild 1 1 1 events/s - - - -",
		"calls-256: target at least 5,000 calls/s: holds",
		"calls-256: target at least 9,000 calls/s: does not hold",
		"the earlier figures come from another machine, disk or setting: compare ratios only",
	} {
		if !strings.Contains("\n"+strings.Join(words, "\n")+"\n", "\n"+want+"\n") {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
}

func TestCommandLine(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		runs int
		rows int
		ok   bool
	}{
		{"all rows by default", nil, 5, len(rowNames), true},
		{"quick is one run", []string{"--quick", "call-1"}, 1, 1, true},
		{"a row that does not exist", []string{"calls"}, 0, 0, false},
		{"no runs", []string{"--runs", "0"}, 0, 0, false},
		{"a comparison is for people", []string{"--json", "--compare", "x"}, 0, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			opt, err := parse(row.args, io.Discard)
			if (err == nil) != row.ok {
				t.Fatal(err)
			}
			if row.ok && (opt.runs != row.runs || len(opt.rows) != row.rows) {
				t.Errorf("%d runs of %v", opt.runs, opt.rows)
			}
		})
	}
}

func TestRequestIsOneJSONObject(t *testing.T) {
	w := worker{head: []byte(`{"round":"r","handle":"h","tool":"demo.none","args":{}`)}
	for _, keys := range []bool{false, true} {
		w.keys = keys
		first := string(w.request()) // before the next one overwrites it
		second := string(w.request())
		if (first != second) != keys {
			t.Errorf("keys %v: %s and %s", keys, first, second)
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(second), &v); err != nil {
			t.Errorf("%s: %v", second, err)
		}
	}
}
