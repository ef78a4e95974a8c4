// Command bench measures a gatebook engine from outside, each figure beside its
// yardstick from the same run:
//
//	go run ./scripts/bench                          all rows, as a table
//	go run ./scripts/bench --quick calls-256        one row, one short run
//	go run ./scripts/bench --json >before.json      one JSON object
//	go run ./scripts/bench --compare before.json    ratios against earlier figures
//	go run ./scripts/bench --events 20000000 start-1m
//	                                                with a book of ten million calls
//
// Start with rows.go, which has a function for each row. A row is measured in
// several runs, and what is compared takes turns within a run, so that a busy
// machine slows both alike: trust ratios before absolute figures, and look at the
// spread. The engine is the gatebook binary in a process of its own, on a data
// folder that is made for this; the load comes from this process over TCP, one
// connection for each agent, and shares the machine with the engine.
//
// What the package promises: it never fails because something was slow, only
// where an answer was wrong or missing; each row with a target says whether it
// holds. It ends every process that it started, and removes its folder unless told
// to keep it. Nothing of cmd/gatebook is imported; engines, folders and connections
// are those of scripts/harness.
//
// Dependencies: nats.go and nats-server, for the channel that begins the rounds and
// for the servers of the yardsticks (the load speaks the protocol itself); x/sys,
// for the facts of the machine; go-json-experiment/json, the JSON of the project.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/scripts/harness"
)

// rowNames are the rows that can be asked for.
var rowNames = []string{"calls-256", "call-1", "calls-approved", "calls-blocked", "page-people", "rebuild", "memory", "binary", "rebuild-1m", "views-size", "page-1m", "totals-1m", "start-1m", "idle-memory"}

// options are the command line.
type options struct {
	json, quick, keep, keys bool
	runs                    int
	events                  int64 // of the big book
	binary, dir             string
	compare, cpuProfile     string
	rows                    []string
}

// warm and window are how long a load runs before it is measured, and how long
// it is.
func (o options) warm() time.Duration {
	if o.quick {
		return 300 * time.Millisecond
	}
	return 500 * time.Millisecond
}

func (o options) window() time.Duration {
	if o.quick {
		return time.Second
	}
	return 3 * time.Second
}

func (o options) wants(rows ...string) bool {
	return slices.ContainsFunc(rows, func(r string) bool { return slices.Contains(o.rows, r) })
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if len(os.Args) == 3 && os.Args[1] == serverWord {
		err = serveYardstick(os.Args[2], os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, say io.Writer) error {
	opt, err := parse(args, say)
	if err != nil {
		return err
	}
	earlier, err := readReport(opt.compare)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" { // as serve and rebuild do, whose fold and whose peers run here
		debug.SetGCPercent(400)
	}
	b, err := newBench(ctx, opt, say)
	if err != nil {
		return err
	}
	r, err := b.measure(ctx)
	if err := errors.Join(err, b.close()); err != nil {
		return err
	}
	if opt.json {
		return json.MarshalWrite(out, r, jsontext.WithIndent("  "))
	}
	return r.print(out, earlier)
}

func parse(args []string, say io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(say)
	f.Usage = func() {
		fmt.Fprintf(say, "usage: go run ./scripts/bench [flags] [rows]\nrows: %s (default: all)\n", strings.Join(rowNames, " "))
		f.PrintDefaults()
	}
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	f.BoolVar(&o.quick, "quick", false, "one short run")
	f.IntVar(&o.runs, "runs", 5, "how often each row is measured")
	f.Int64Var(&o.events, "events", 2_000_000, "about how many events the big book has; half are calls")
	f.BoolVar(&o.keys, "keys", false, "give each call an idempotency key")
	f.StringVar(&o.binary, "binary", "", "measure this gatebook instead of building one")
	f.StringVar(&o.dir, "dir", "", "the folder, on the disk to measure, for the data (default: that of temporary files)")
	f.BoolVar(&o.keep, "keep", false, "keep the data")
	f.StringVar(&o.compare, "compare", "", "print ratios against this earlier output of --json")
	f.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile of the engine of calls-256 to this file")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.rows = f.Args(); len(o.rows) == 0 {
		o.rows = rowNames
	}
	for _, r := range o.rows {
		if !slices.Contains(rowNames, r) {
			return o, fmt.Errorf("no row %q: there are %s", r, strings.Join(rowNames, ", "))
		}
	}
	if o.quick {
		o.runs = 1
	}
	if o.runs < 1 {
		return o, errors.New("--runs must be at least 1")
	}
	if o.events < 1000 {
		return o, errors.New("--events must be at least 1000")
	}
	if o.json && o.compare != "" {
		return o, errors.New("--compare prints a table: leave out --json")
	}
	if o.cpuProfile != "" {
		path, err := filepath.Abs(o.cpuProfile)
		if err != nil {
			return o, err
		}
		o.cpuProfile = path
	}
	return o, nil
}

// bench is one invocation: its folder and what it has measured so far.
type bench struct {
	opt    options
	say    io.Writer // progress
	dir    string    // all that is written
	binary string
	folder *harness.Folder
	report report
}

func newBench(ctx context.Context, opt options, say io.Writer) (*bench, error) {
	dir, err := os.MkdirTemp(opt.dir, "gatebook-bench-")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	b := &bench{opt: opt, say: say, dir: dir, binary: opt.binary}
	if b.binary == "" {
		b.binary = filepath.Join(dir, "gatebook")
		b.note("building gatebook")
		if err := harness.Build(ctx, b.binary); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	if b.binary, err = filepath.Abs(b.binary); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) note(format string, a ...any) { fmt.Fprintf(b.say, "bench: "+format+"\n", a...) }

func (b *bench) close() error {
	if b.opt.keep {
		b.note("the data is kept in %s", b.dir)
		return nil
	}
	return os.RemoveAll(b.dir)
}
