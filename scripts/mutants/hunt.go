package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// The most that a test may take, and a test with its compilation.
const (
	testLimit = 2 * time.Minute
	wholeTime = 6 * time.Minute
)

// result is what became of a mutant, and how long that took.
type result struct {
	mutant mutant
	err    error // nil: the test went red
	took   time.Duration
}

// hunter runs mutants in copies of a repository.
type hunter struct {
	root, temp string
	within     time.Duration
	begun      time.Time

	mu      sync.Mutex
	waiting []mutant
	longest map[string]time.Duration // that a mutant took, by the package of its test
}

// hunt runs the mutants and says how each did, and whether all were caught.
func hunt(ctx context.Context, root string, list []mutant, o options, out io.Writer) (bool, error) {
	temp, err := os.MkdirTemp("", "gatebook-mutants-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(temp)
	h := &hunter{root: root, temp: temp, within: o.within, begun: time.Now(), waiting: slices.Clone(list), longest: map[string]time.Duration{}}
	if !o.noControl {
		if err := h.control(ctx, list); err != nil {
			return false, err
		}
		fmt.Fprintf(out, "without a change the tests are green, %s\n", seconds(time.Since(h.begun)))
	}
	results, failed := make(chan result), make(chan error, o.jobs)
	var workers sync.WaitGroup
	for n := range min(o.jobs, len(list)) {
		workers.Go(func() { failed <- h.work(ctx, n, results) })
	}
	go func() {
		workers.Wait()
		close(results)
		close(failed)
	}()
	ok := report(out, results, len(list), h)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return ok, errors.Join(append(errs, ctx.Err())...)
}

// report prints results as they come, and the summary.
func report(out io.Writer, results <-chan result, all int, h *hunter) bool {
	var caught int
	var missed []string
	for r := range results {
		at := fmt.Sprintf("%d/%d %s", caught+len(missed)+1, all, r.mutant.name)
		if r.err == nil {
			caught++
			fmt.Fprintf(out, "%-34s caught by %s %s, %s\n", at, r.mutant.pkg, r.mutant.test, seconds(r.took))
			continue
		}
		missed = append(missed, r.mutant.name)
		fmt.Fprintf(out, "%-34s NOT CAUGHT: %s: %v\n", at, r.mutant.means, r.err)
	}
	line := fmt.Sprintf("mutants: %d of %d caught in %s", caught, all, seconds(time.Since(h.begun)))
	if len(missed) > 0 {
		line += "; not caught: " + strings.Join(missed, ", ")
	}
	if rest := all - caught - len(missed); rest > 0 {
		line += fmt.Sprintf("; %d not run", rest)
		if h.within > 0 {
			line += fmt.Sprintf(", which would take more than %s", h.within)
		}
	}
	fmt.Fprintln(out, line)
	return len(missed) == 0
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// next gives the first mutant that fits into the time that is left.
func (h *hunter) next() (mutant, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.IndexFunc(h.waiting, func(m mutant) bool {
		return h.within == 0 || time.Since(h.begun)+h.costs(m.pkg) <= h.within
	})
	if at < 0 {
		return mutant{}, false
	}
	m := h.waiting[at]
	h.waiting = slices.Delete(h.waiting, at, at+1)
	return m, true
}

// costs is what a mutant with a test in pkg took at most; that of any other package
// before the first.
func (h *hunter) costs(pkg string) time.Duration {
	if took, known := h.longest[pkg]; known || len(h.longest) == 0 {
		return took
	}
	return slices.Max(slices.Collect(maps.Values(h.longest)))
}

func (h *hunter) note(pkg string, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.longest[pkg] = max(h.longest[pkg], took)
}

// work runs mutants in copy n until there is none left.
func (h *hunter) work(ctx context.Context, n int, results chan<- result) error {
	dir, err := h.copy(n)
	if err != nil {
		return err
	}
	for {
		m, more := h.next()
		if !more || ctx.Err() != nil {
			return nil
		}
		begun := time.Now()
		err := h.try(ctx, dir, m)
		if ctx.Err() != nil {
			return nil
		}
		took := time.Since(begun)
		h.note(m.pkg, took)
		results <- result{mutant: m, err: err, took: took}
	}
}

// copy makes copy n of the repository, where there is none yet.
func (h *hunter) copy(n int) (string, error) {
	dir := filepath.Join(h.temp, fmt.Sprint(n))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, copyTree(h.root, dir)
}

// try applies a mutant, runs its test, and takes it back. Nil means that the test
// went red.
func (h *hunter) try(ctx context.Context, dir string, m mutant) (err error) {
	file := filepath.Join(dir, filepath.FromSlash(m.file))
	before, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("the code moved: %w", err)
	}
	after, err := m.apply(string(before))
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(after), 0o600); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.WriteFile(file, before, 0o600)) }()
	return judge(goTest(ctx, dir, m.pkg, m.test)).red()
}

// control runs the tests of all mutants without a change.
func (h *hunter) control(ctx context.Context, list []mutant) error {
	dir, err := h.copy(0)
	if err != nil {
		return err
	}
	tests := map[string][]string{}
	var order []string
	for _, m := range list {
		if tests[m.pkg] == nil {
			order = append(order, m.pkg)
		}
		if !slices.Contains(tests[m.pkg], m.test) {
			tests[m.pkg] = append(tests[m.pkg], m.test)
		}
	}
	for _, pkg := range order {
		if err := judge(goTest(ctx, dir, pkg, tests[pkg]...)).green(); err != nil {
			return fmt.Errorf("without any change, %s: %w", pkg, err)
		}
	}
	return nil
}
