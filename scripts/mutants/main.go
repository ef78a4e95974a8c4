// Command mutants shows that the tests hold the gate: it applies small named
// changes to a copy of the repository, one at a time, and runs the test that must
// go red for each.
//
//	go run ./scripts/mutants                        all
//	go run ./scripts/mutants private-ignored        these
//	go run ./scripts/mutants --list                 what there is
//	go run ./scripts/mutants --since main           those of packages changed since then
//	go run ./scripts/mutants --within 1m --seed X   as many as fit, in an order made of X
//	go run ./scripts/mutants --jobs 4               so many at once, each in a copy of its own
//
// Start with the table in table.go; a new rule of the gate gets a row.
//
// What the command promises: the working tree is never touched. It exits with 1
// where a change does not apply exactly once, because the code moved, where it
// does not compile, where no test of that name runs, and where the test stays
// green; and where a test is red without any change, which would prove nothing
// (--no-control takes that on trust). The build cache is the user's own, with the
// race detector, as scripts/check has it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the flags.
type options struct {
	list, noControl bool
	since, seed     string
	within          time.Duration
	jobs            int
	names           []string
}

func parse(args []string, errout io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(errout)
	flags.BoolVar(&o.list, "list", false, "list the mutants and run none")
	flags.BoolVar(&o.noControl, "no-control", false, "the tests are known to be green without a change")
	flags.StringVar(&o.since, "since", "", "only of packages that changed since this commit of git")
	flags.StringVar(&o.seed, "seed", "", "makes the order; empty for that of the table")
	flags.DurationVar(&o.within, "within", 0, "begin none that would not end within this time; 0 for all")
	flags.IntVar(&o.jobs, "jobs", max(1, runtime.NumCPU()/2), "how many run at once")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.names = flags.Args()
	for _, name := range o.names {
		if !slices.ContainsFunc(table, func(m mutant) bool { return m.name == name }) {
			return o, fmt.Errorf("there is no mutant %q; --list names them", name)
		}
	}
	if o.jobs < 1 {
		return o, fmt.Errorf("--jobs: want 1 or more")
	}
	return o, nil
}

// run gives the exit code.
func run(ctx context.Context, args []string, out, errout io.Writer) int {
	o, err := parse(args, errout)
	if err != nil {
		fmt.Fprintln(errout, "mutants:", err)
		return 2
	}
	root, err := output(ctx, ".", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		fmt.Fprintln(errout, "mutants:", err)
		return 1
	}
	chosen, err := choose(ctx, root, o)
	if err != nil {
		fmt.Fprintln(errout, "mutants:", err)
		return 1
	}
	if o.list {
		for _, m := range chosen {
			fmt.Fprintf(out, "%-26s %s (%s, %s %s)\n", m.name, m.means, m.file, m.pkg, m.test)
		}
		return 0
	}
	if len(chosen) == 0 {
		fmt.Fprintf(out, "no mutant is about a package that changed since %s\n", o.since)
		return 0
	}
	ok, err := hunt(ctx, root, chosen, o, out)
	if err != nil {
		fmt.Fprintln(errout, "mutants:", err)
	}
	if !ok || err != nil {
		return 1
	}
	return 0
}

// choose gives the mutants that were asked for, in the order to run them in.
func choose(ctx context.Context, root string, o options) ([]mutant, error) {
	chosen := slices.Clone(table)
	if len(o.names) > 0 {
		chosen = slices.DeleteFunc(chosen, func(m mutant) bool { return !slices.Contains(o.names, m.name) })
	}
	if o.since != "" {
		changed, err := changedSince(ctx, root, o.since)
		if err != nil {
			return nil, err
		}
		chosen = slices.DeleteFunc(chosen, func(m mutant) bool { return !m.about(changed) })
	}
	if o.seed != "" {
		slices.SortFunc(chosen, func(a, b mutant) int { return strings.Compare(a.place(o.seed), b.place(o.seed)) })
	}
	return chosen, nil
}
