package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
	"gatebook/infra/clock"
	"gatebook/infra/datadir"
	"gatebook/policy"
)

// drainTime is how long running tools may finish at a stop.
const drainTime = 10 * time.Second

func (a *App) serveCommand() *cobra.Command {
	var opt serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the engine; makes the data folder at the first start",
		Long: `Run the engine on the data folder until SIGTERM or Ctrl-C.

The first start makes the folder with a commented catalog and your two keys: it
asks for a passphrase on the terminal, or takes it from the file that
GATEBOOK_PASSPHRASE_FILE names. One line says when the engine is ready.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opt.port < 0 || opt.port > 65535 {
				return usageError{fmt.Errorf("--port %d: want 0 to 65535", opt.port)}
			}
			return a.serve(cmd.Context(), opt)
		},
	}
	cmd.Flags().IntVar(&opt.port, "port", 0, "the port on 127.0.0.1 (0: a free one, written to the folder)")
	cmd.Flags().BoolVar(&opt.verify, "verify", false, "compare the whole book with its tree before being ready")
	return cmd
}

// serveOptions say how an engine runs; smallDisk and singles are for the
// demonstration and for measurements.
type serveOptions struct {
	port                       int
	verify, smallDisk, singles bool
}

func (a *App) serve(ctx context.Context, opt serveOptions) error {
	dir, first, err := a.serveFolder(ctx)
	if err != nil {
		return err
	}
	a.collectLess()
	n, err := openNode(ctx, nodeConfig{
		dir: dir, port: opt.port, verify: opt.verify, smallDisk: opt.smallDisk, singles: opt.singles, extra: a.Extra, drain: drainTime, stop: ctx.Done(),
		clock: clock.System{Now: a.Now}, log: a.logLine, getenv: a.Getenv, progress: a.progress,
	})
	if err != nil {
		return err
	}
	stopSaid := a.sayStopping(ctx)
	err = n.run(ctx, func() error {
		if err := dir.WriteAddress(n.bus.server.Addr()); err != nil {
			return err
		}
		for _, w := range n.warnings.all() {
			fmt.Fprintln(a.Err, "gatebook: warning: "+w)
		}
		fmt.Fprintf(a.Out, "gatebook is ready on %s, data folder %s\n", n.bus.server.Addr(), dir.Path())
		if first {
			fmt.Fprint(a.Out, a.firstCommands())
		}
		return nil
	})
	err = errors.Join(err, n.close())
	if stopSaid() && err == nil {
		fmt.Fprintln(a.Err, "gatebook: stopped")
	}
	return err
}

// sayStopping says when a stop begins: it may take as long as tools run. What it
// gives waits until that is said, if ctx has ended, and tells.
func (a *App) sayStopping(ctx context.Context) (said func() bool) {
	done := make(chan struct{})
	unless := context.AfterFunc(ctx, func() {
		defer close(done)
		fmt.Fprintf(a.Err, "gatebook: stopping; tools that run have up to %s to end\n", drainTime)
	})
	return func() bool {
		if unless() {
			return false
		}
		<-done
		return true
	}
}

// collectLess makes the garbage collector run less often: the heap that stays is
// a few megabytes, so by its default it would run many times a second under load.
// Who sets the variables of the Go runtime has the last word.
func (a *App) collectLess() {
	if a.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if a.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(1 << 30)
	}
}

// processNow measures this process.
func processNow() people.Process {
	samples := []metrics.Sample{{Name: "/sched/goroutines:goroutines"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return people.Process{Goroutines: int64(samples[0].Value.Uint64()), HeapBytes: int64(samples[1].Value.Uint64())}
}

// serveFolder opens the folder or makes it; first says that no engine ever ran
// on it.
func (a *App) serveFolder(ctx context.Context) (dir *datadir.Dir, first bool, err error) {
	dir, err = datadir.Open(a.flags.dir, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir, _, err = a.makeFolder(ctx)
	case err == nil:
		_, err = dir.ReadIncarnation()
		if errors.Is(err, fs.ErrNotExist) {
			if err = damagedFolder(dir); err == nil {
				dir, _, err = a.makeFolder(ctx) // a broken first attempt
			}
		}
	}
	if err != nil {
		return nil, false, err
	}
	return dir, !exists(dir.Head()) && !exists(viewsPointer(dir)), nil
}

// firstCommands lead from a new folder to the first allowed call.
func (a *App) firstCommands() string {
	return fmt.Sprintf(`In another terminal:
  gatebook%[1]s agent add alice --role worker
  gatebook%[1]s round begin --agent alice --task "say hello"
  gatebook%[1]s call --agent alice file.write '{"path":"hello.txt","content":"hello"}'
  gatebook%[1]s audit
`, a.where())
}

// logLine prints what the server and the stores have to say, from warn on.
func (a *App) logLine(level, text string) {
	if level == "info" {
		return
	}
	fmt.Fprintln(a.Err, "gatebook: "+level+": "+text)
}

// progress shows long work on a terminal.
func (a *App) progress(what string, done, of events.Seq) {
	if f, ok := a.Err.(*os.File); ok && isTerminal(f) && of > 0 {
		end := "\r"
		if done >= of {
			end = "\n"
		}
		fmt.Fprintf(a.Err, "gatebook: %s %d of %d events%s", what, done, of, end)
	}
}

// warnStays begins what a start says of a file with faults.
const warnStays = "the catalog file was not valid at the start; what was in force stays in force"

// firstCatalog puts the file in force where nothing is, or where it only
// narrows what is; what widens waits for an approver. The loop has begun.
func (n *node) firstCatalog(ctx context.Context) error {
	next, err := compileFile(n.cfg.dir, toolNames(n.cfg.extra))
	now := n.engine.Catalog()
	if err != nil && now != nil {
		n.warn(warnStays + ": " + err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	if now != nil && next.Digest() == now.Digest() {
		return nil
	}
	if now == nil {
		person, err := approvedFirst(n.cfg.dir, next)
		if err != nil {
			return err
		}
		by := events.Actor{Kind: events.ActorPerson, ID: string(person)}
		_, err = n.load(ctx, next, engine.Act{By: by, Approves: true})
		return err
	}
	changes := policy.Compare(now, next)
	if policy.Widens(changes) {
		n.warn("the catalog file differs from the catalog in force; see gatebook catalog diff, then gatebook catalog approve")
		return nil
	}
	done, err := n.load(ctx, next, engine.Act{By: events.Engine()})
	if done.Changed {
		n.warn(narrowed(done.Seq, changes))
	}
	return err
}

// saidChanges is how many changes a start names; catalog diff cannot show them
// any more.
const saidChanges = 5

// narrowed says what a start took away by itself: nobody may know yet that the
// file was edited.
func narrowed(at events.Seq, changes []policy.Change) string {
	var texts []string
	for _, c := range changes[:min(len(changes), saidChanges)] {
		texts = append(texts, events.Escape(c.Text))
	}
	if more := len(changes) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("the catalog file gives less than what was in force; that is in force now (event %d): %s", at, strings.Join(texts, "; "))
}

// load waits until the loop has answered.
func (n *node) load(ctx context.Context, next *policy.Compiled, act engine.Act) (done engine.Done, err error) {
	answered := make(chan any, 1)
	act.Answer = func(v any) { answered <- v }
	if err := n.engine.Submit(ctx, &engine.LoadCatalog{Act: act, Next: next}); err != nil {
		return done, err
	}
	select {
	case v := <-answered:
		if no, refused := v.(engine.Refused); refused {
			n.warn("the catalog file is not in force: " + no.Error.Reason)
		}
		done, _ = v.(engine.Done)
		return done, nil
	case <-n.engine.Done():
		return done, nil // Run says why
	case <-ctx.Done():
		return done, context.Cause(ctx)
	}
}
