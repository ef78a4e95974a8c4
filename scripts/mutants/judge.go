package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// apply makes the change in the text of the file.
func (m mutant) apply(text string) (string, error) {
	if n := strings.Count(text, m.old); n != 1 {
		return "", fmt.Errorf("the code moved: %s has the old text %d times, want once: %q", m.file, n, m.old)
	}
	return strings.Replace(text, m.old, m.new, 1), nil
}

// about says that the mutant changes or tests one of the packages.
func (m mutant) about(changed []string) bool {
	return slices.Contains(changed, path.Dir(m.file)) || slices.Contains(changed, strings.TrimPrefix(m.pkg, "./"))
}

// place is where the mutant stands in the order that a seed makes.
func (m mutant) place(seed string) string {
	sum := sha256.Sum256([]byte(seed + "\n" + m.name))
	return hex.EncodeToString(sum[:])
}

// verdict is how a test run ended.
type verdict struct {
	text string // what go test printed
	err  error  // of go test, nil where it exited with 0
}

// judge takes what goTest gives.
func judge(text string, err error) verdict { return verdict{text, err} }

// ran says why the tests did not run to their end; nil where they did.
func (v verdict) ran() error {
	switch {
	case strings.Contains(v.text, "[build failed]"), strings.Contains(v.text, "[setup failed]"):
		return fmt.Errorf("it does not compile:\n%s", v.tail())
	case strings.Contains(v.text, "no tests to run"):
		return errors.New("no test of this name runs")
	case strings.Contains(v.text, "panic: test timed out"), errors.Is(v.err, context.DeadlineExceeded):
		return fmt.Errorf("the test did not end in time:\n%s", v.tail())
	}
	return nil
}

// red is nil where a test failed.
func (v verdict) red() error {
	if err := v.ran(); err != nil {
		return err
	}
	if v.err == nil {
		return errors.New("the test stays green")
	}
	if !strings.Contains(v.text, "--- FAIL: ") && !strings.Contains(v.text, "panic: ") {
		return fmt.Errorf("go test failed and no test did: %w\n%s", v.err, v.tail())
	}
	return nil
}

// green is nil where the tests passed.
func (v verdict) green() error {
	if err := v.ran(); err != nil {
		return err
	}
	if v.err != nil {
		return fmt.Errorf("a test is red: %w\n%s", v.err, v.tail())
	}
	return nil
}

// tail is the end of what was printed.
func (v verdict) tail() string {
	const most = 20
	lines := strings.Split(strings.TrimSpace(v.text), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// goTest runs tests of a package in dir.
func goTest(ctx context.Context, dir, pkg string, tests ...string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, wholeTime)
	defer stop()
	cmd := exec.CommandContext(ctx, "go", "test", "-race", "-vet=off", "-count=1", "-failfast",
		"-timeout="+testLimit.String(), "-run=^("+strings.Join(tests, "|")+")$", pkg)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(os.Environ(), "PWD="+dir, "GOWORK=off")
	text, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return string(text), err
}

// copyTree copies a repository, without git's own and without folders that begin with a
// dot: those hold data, no code.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir() && rel != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case !d.Type().IsRegular() || d.Name() == ".git": // a file in a worktree
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
}

// changedSince are the folders with code or test data that differ from a commit, in
// the working tree too.
func changedSince(ctx context.Context, root, commit string) ([]string, error) {
	differ, err := output(ctx, root, "git", "diff", "--name-only", "--no-renames", commit, "--")
	if err != nil {
		return nil, err
	}
	fresh, err := output(ctx, root, "git", "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	var dirs []string
	for name := range strings.SplitSeq(differ+"\n"+fresh, "\n") {
		dir, _, _ := strings.Cut(path.Dir(name), "/testdata")
		if name != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// output is what a command prints, without the last line break.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var errout bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &errout
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(errout.String()))
	}
	return strings.TrimSpace(string(text)), nil
}
