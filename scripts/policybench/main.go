// Command policybench lays gatebook's decision on one call beside three policy
// engines that decide the same rules in the same run:
//
//	go -C scripts/policybench run .            a table
//	go -C scripts/policybench run . --json     one JSON object
//
// The rules are grants of tools, each limited to a folder: five for each tool, 100
// and 1,000 in all. The call is one that the last rule allows; that each engine
// allows it, and denies one beside it, is checked before anything is measured.
// gatebook's figure is that of the whole gate, with all its layers and the event
// that it records; the others decide the rules alone. Its second row is the same call
// of a child with as many agents above it as there may be, of which each is asked too.
//
// It is a module of its own so that the product depends on none of the three, and
// scripts/check does not build it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// perTool is how many rules each tool has.
const perTool = 5

// rule allows a tool below a folder.
type rule struct{ tool, folder string }

// call is what is asked.
type call struct{ tool, path string }

func rulesOf(n int) []rule {
	out := make([]rule, n)
	for i := range out {
		out[i] = rule{fmt.Sprintf("tool.t%d", i/perTool), fmt.Sprintf("docs/f%d", i%perTool)}
	}
	return out
}

// decider takes a call in the form that its engine wants it in, and gives the
// decision on it, which may be asked again and again.
type decider func(call) (decide func() (bool, error), err error)

// engines make a decider of rules; gatebook is the first.
var engines = []struct {
	name string
	make func([]rule) (decider, error)
}{
	{"gatebook", newGatebook}, {"gatebook, a child", newLineage}, {"cedar-go", newCedar}, {"opa", newOPA}, {"casbin", newCasbin},
}

// row is one figure.
type row struct {
	Engine string  `json:"engine"`
	Rules  int     `json:"rules"`
	Ns     int64   `json:"ns"`
	Allocs int64   `json:"allocs"`
	Bytes  int64   `json:"bytes"`
	Times  float64 `json:"times_gatebook"`
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.Parse()
	if err := run(os.Stdout, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "policybench:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, asJSON bool) error {
	var rows []row
	for _, n := range []int{100, 1000} {
		var own int64
		for _, e := range engines {
			r, err := measure(e.make, n)
			if err != nil {
				return fmt.Errorf("%s, %d rules: %w", e.name, n, err)
			}
			r.Engine = e.name
			if own == 0 {
				own = r.Ns
			}
			r.Times = float64(r.Ns*100/own) / 100
			rows = append(rows, r)
		}
	}
	if asJSON {
		return json.MarshalWrite(out, map[string]any{"rows": rows}, jsontext.WithIndent("  "))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ENGINE\tRULES\tNS\tALLOCS\tBYTES\tTIMES GATEBOOK")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%.2f\n", r.Engine, r.Rules, r.Ns, r.Allocs, r.Bytes, r.Times)
	}
	return w.Flush()
}

func measure(engine func([]rule) (decider, error), n int) (row, error) {
	rules := rulesOf(n)
	take, err := engine(rules)
	if err != nil {
		return row{}, err
	}
	last := rules[n-1]
	yes, no := call{last.tool, last.folder + "/a.md"}, call{last.tool, "private/a.md"}
	for _, c := range []struct {
		call
		want bool
	}{{yes, true}, {no, false}, {call{"tool.none", yes.path}, false}} {
		ask, err := take(c.call)
		if err != nil {
			return row{}, err
		}
		if got, err := ask(); err != nil || got != c.want {
			return row{}, errors.Join(err, fmt.Errorf("%+v is allowed: %t", c.call, got))
		}
	}
	decide, err := take(yes)
	if err != nil {
		return row{}, err
	}
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got, err := decide(); err != nil || !got {
				b.Fatal("the answer changed")
			}
		}
	})
	return row{Rules: n, Ns: result.NsPerOp(), Allocs: result.AllocsPerOp(), Bytes: result.AllocedBytesPerOp()}, nil
}
