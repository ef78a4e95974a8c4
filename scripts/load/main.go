// Command load keeps a gatebook engine under load for a time and says whether it
// stays as it was:
//
//	go run ./scripts/load                            an hour, 20 agents, soak.png
//	go run ./scripts/load --duration 5m --json samples.json
//
// The engine is a "gatebook serve" of its own on a fresh folder. Agents write, read,
// list, search, change and delete files, at --rate calls a second together; a share
// of their calls is to be refused; rounds end and begin. Every answer is compared with
// what the agent knows of its files. Every few seconds the process and its folder are
// measured, and the figures are drawn over time into one PNG.
//
// Start with judge in verdict.go, which is what the program is for. The exit code is 1
// where something grew that should stay, where an answer did not fit, where the engine
// ended or was in trouble, where a call that was answered is not in the book with that
// end, or where verify and rebuild do not agree about it. Then the folder is kept.
// Memory and descriptors come from /proc: it runs on Linux.
//
// Dependencies: gonum.org/v1/plot draws the picture. Axes with readable ticks and
// text are more code than all the rest, and nothing that is shipped imports it. The
// rest is that of scripts/harness.
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
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// options are the command line.
type options struct {
	duration, every time.Duration
	agents, rate    int
	out, json       string
	binary, dir     string
	keep            bool
}

// maxAgents is how many requests of one channel may wait for the engine.
const maxAgents = 64

// errFailed says that the run does not hold; why is printed already.
var errFailed = errors.New("the run failed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	var usage usageError
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

type usageError struct{ error }

func parse(args []string, say io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.SetOutput(say)
	f.Usage = func() {
		fmt.Fprintln(say, "usage: go run ./scripts/load [flags]")
		f.PrintDefaults()
	}
	f.DurationVar(&o.duration, "duration", time.Hour, "how long the load lasts; growth is judged in its second half, and from 4m on")
	f.DurationVar(&o.every, "every", 0, "how often is measured (default: every 5s, and at least 40 times)")
	f.IntVar(&o.agents, "agents", 20, "how many agents call")
	f.IntVar(&o.rate, "rate", 300, "calls a second of all agents together; 0: as many as the engine takes, which fills the disk")
	f.StringVar(&o.out, "out", "soak.png", "the picture")
	f.StringVar(&o.json, "json", "", "write the samples and the findings to this file too")
	f.StringVar(&o.binary, "binary", "", "load this gatebook instead of building one")
	f.StringVar(&o.dir, "dir", "", "the folder for the data (default: that of temporary files)")
	f.BoolVar(&o.keep, "keep", false, "keep the data, also where all is well")
	if err := f.Parse(args); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			err = usageError{err}
		}
		return o, err
	}
	if o.every == 0 {
		o.every = min(5*time.Second, o.duration/40)
	}
	switch {
	case f.NArg() > 0:
		return o, usageError{fmt.Errorf("unknown argument %q", f.Arg(0))}
	case o.duration < time.Second:
		return o, usageError{errors.New("--duration must be at least 1s")}
	case o.every <= 0 || o.duration/o.every < 2*fewest:
		return o, usageError{fmt.Errorf("--every must fit %d times into --duration", 2*fewest)}
	case o.agents < 1 || o.agents > maxAgents:
		return o, usageError{fmt.Errorf("--agents must be 1 to %d", maxAgents)}
	case o.rate < 0:
		return o, usageError{errors.New("--rate must not be negative")}
	}
	return o, nil
}

// report is what --json writes.
type report struct {
	DurationMS int64    `json:"duration_ms"`
	Agents     int      `json:"agents"`
	Rate       int      `json:"rate"`
	Tally      tally    `json:"tally"`
	Findings   []string `json:"findings"` // empty: the run holds
	Samples    []sample `json:"samples"`
}

func run(ctx context.Context, args []string, out, say io.Writer) (err error) {
	opt, err := parse(args, say)
	if err != nil {
		return err
	}
	// What cannot be written is better known before the hour than after it.
	picture, err := create(opt.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, picture.Close()) }()
	dir, err := os.MkdirTemp(opt.dir, "gatebook-load-")
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	s := &soak{opt: opt, dir: dir, say: say}
	r, err := s.run(ctx)
	if err != nil || len(r.Findings) > 0 || opt.keep {
		fmt.Fprintf(say, "load: the data is kept in %s\n", dir)
	} else {
		err = os.RemoveAll(dir)
	}
	if len(r.Samples) > 1 {
		err = errors.Join(err, drawPicture(picture, r))
		fmt.Fprintf(say, "load: the picture is %s\n", picture.Name())
	}
	if opt.json != "" {
		err = errors.Join(err, writeJSON(opt.json, r))
	}
	if err != nil {
		return err
	}
	return r.print(out)
}

func create(path string) (*os.File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return os.Create(path)
}

func writeJSON(path string, r report) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return json.MarshalWrite(f, r, jsontext.WithIndent("  "))
}

// print says how it went; a finding is an error.
func (r report) print(out io.Writer) error {
	fmt.Fprintf(out, "%s\n", r.headline())
	for _, m := range measures {
		if first, last, ok := m.ends(r.Samples); ok && r.DurationMS >= shortestJudged.Milliseconds() {
			fmt.Fprintf(out, "  %-16s %s after the first half, %s at the end; may grow by %s between\n", m.name, m.text(first), m.text(last), m.text(m.allowed(r.Samples)))
		}
	}
	for _, f := range r.Findings {
		fmt.Fprintf(out, "FAILED: %s\n", f)
	}
	if len(r.Findings) > 0 {
		return errFailed
	}
	return nil
}

func (r report) headline() string {
	verdict := "holds"
	if len(r.Findings) > 0 {
		verdict = "fails"
	}
	return fmt.Sprintf("gatebook, %d agents for %s: %d calls, %d of them refused, %d rounds: %s",
		r.Agents, time.Duration(r.DurationMS)*time.Millisecond, r.Tally.Calls, r.Tally.Refused, r.Tally.Rounds, verdict)
}
