package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gatebook/scripts/harness"
)

// role is what the agents may: not file.copy, and file.move nowhere near the files
// that they have.
const role = "soak"

var catalog = []harness.Insert{
	{Below: "\nprofiles:\n", Text: "  soak:\n    scopes: [files]\n"},
	{Below: "\nroles:\n", Text: `  soak:
    version: 1
    grants:
      - tool: file.list
      - tool: file.read
      - tool: file.stat
      - tool: file.search
      - tool: file.write
      - tool: file.append
      - tool: file.edit
      - tool: file.delete
      - tool: file.trash
      - tool: file.restore
      - tool: file.move
        paths: ["moved/**"]
`},
}

// soak is one run.
type soak struct {
	opt    options
	dir    string // all that is written
	say    io.Writer
	binary string
	folder *harness.Folder
}

func (s *soak) note(format string, a ...any) { fmt.Fprintf(s.say, "load: "+format+"\n", a...) }

// run loads an engine and judges. An error is what kept it from doing so; what the
// engine did wrong is among the findings of the report.
func (s *soak) run(ctx context.Context) (report, error) {
	r := report{DurationMS: s.opt.duration.Milliseconds(), Agents: s.opt.agents, Rate: s.opt.rate, Findings: []string{}}
	if err := s.prepare(ctx); err != nil {
		return r, err
	}
	e, err := harness.Start(ctx, s.binary, s.folder.Path, "serve")
	if err != nil {
		return r, err
	}
	c, err := newCrew(ctx, s.folder, e, s.opt)
	if err != nil {
		return r, errors.Join(err, e.Stop())
	}
	found := s.load(ctx, e, c, &r)
	if ctx.Err() != nil {
		return r, errors.Join(errors.New("interrupted"), c.close(), e.Stop())
	}
	r.Tally = c.tally()
	found = errors.Join(found, c.close(), e.Stop())
	s.note("%d calls; comparing them with the book", r.Tally.Calls)
	found = errors.Join(found, s.prove(ctx, c))
	if found != nil {
		r.Findings = append(r.Findings, found.Error())
	}
	if s.opt.duration < shortestJudged {
		s.note("growth is not judged: the engine gets warm, which takes longer than half of %s; it is from %s on", s.opt.duration, shortestJudged)
	} else {
		r.Findings = append(r.Findings, judge(r.Samples)...)
	}
	return r, nil
}

func (s *soak) prepare(ctx context.Context) (err error) {
	if s.binary, err = filepath.Abs(s.opt.binary); err != nil {
		return err
	}
	if s.opt.binary == "" {
		s.binary = filepath.Join(s.dir, "gatebook")
		s.note("building gatebook")
		if err := harness.Build(ctx, s.binary); err != nil {
			return err
		}
	}
	s.folder, err = harness.MakeFolder(ctx, harness.Setup{
		Binary: s.binary, Dir: s.dir, Command: []string{"serve"}, Agents: s.opt.agents, Role: role, More: catalog,
	})
	return err
}

// load lets the crew work for the time and fills in the samples.
func (s *soak) load(ctx context.Context, e *harness.Engine, c *crew, r *report) error {
	look, err := newSampler(s.folder, e, c)
	if err != nil {
		return err
	}
	defer look.close()
	s.note("%d agents call for %s", s.opt.agents, s.opt.duration)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		if err := c.work(ctx, done); err != nil {
			stop(err)
		}
	})
	if err := s.watch(ctx, e, look, r); err != nil {
		stop(err)
	}
	close(done)
	working.Wait()
	return context.Cause(ctx)
}

// watch takes samples until the time is over, ctx ends, or something is wrong.
func (s *soak) watch(ctx context.Context, e *harness.Engine, look *sampler, r *report) error {
	end, tick := time.NewTimer(s.opt.duration), time.NewTicker(s.opt.every)
	defer end.Stop()
	defer tick.Stop()
	said := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil // the cause is known
		case <-e.Ended():
			return fmt.Errorf("the engine ended by itself: %s", e.Said())
		case <-end.C:
			return nil
		case <-tick.C:
		}
		m, err := look.take(ctx)
		if err != nil {
			return err
		}
		r.Samples = append(r.Samples, m)
		if time.Since(said) >= time.Minute {
			said = time.Now()
			s.note("%s: %d calls/s, p99 %d us, memory %d MiB, heap %d MiB, %d goroutines, %d descriptors, book %d MiB",
				time.Duration(m.AtMS)*time.Millisecond, m.Rate, m.P99, m.Memory>>20, m.Heap>>20, m.Goroutines, m.Descriptors, m.Book>>20)
		}
	}
}

// environ is what commands of the folder's person need.
func (s *soak) environ() []string { return append(os.Environ(), "XDG_CONFIG_HOME="+s.folder.Home) }
