//go:build unix

package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stage puts a program in the place of git that does what script says in run number
// at, counted from 0, and is git in all others. It tells the pipe that it got there.
func stage(t *testing.T, r *Repo, at int, script string) *os.File {
	t.Helper()
	dir := t.TempDir()
	pipe, count := filepath.Join(dir, "pipe"), filepath.Join(dir, "count")
	must(t, syscall.Mkfifo(pipe, 0o600))
	there, err := os.OpenFile(pipe, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { _ = there.Close() })
	write(t, "0\n", count)
	write(t, fmt.Sprintf("#!/bin/sh\nread n <'%s'\necho $((n+1)) >'%s'\nif [ $n = %d ]; then\n%s\nfi\nexec '%s' \"$@\"\n",
		count, count, at, strings.NewReplacer("PIPE", "'"+pipe+"'", "GIT", "'"+r.program.path+"'").Replace(script), r.program.path), dir, "git")
	must(t, os.Chmod(filepath.Join(dir, "git"), 0o700))
	r.program.path = filepath.Join(dir, "git")
	return there
}

// usable: git finds no fault, and a second proposal goes through.
func usable(t *testing.T, dir, branch string) {
	t.Helper()
	if _, err := opened(t, dir).Commit(t.Context(), proposal(branch)); err != nil {
		t.Errorf("a second commit: %v", err)
	}
	clean(t, dir)
}

// TestKilled: a git that is killed at any step leaves no half commit: there is no
// branch and an error, or the whole commit on its branch and none.
func TestKilled(t *testing.T) {
	for name, script := range map[string]string{
		"after":  "GIT \"$@\"\nkill -9 $$",
		"during": "exec 3<&0\nGIT \"$@\" <&3 &\nkill -9 $!\nwait\nkill -9 $$",
	} {
		t.Run(name, func(t *testing.T) {
			dir := project(t)
			branch := ""
			for at := 0; ; at++ {
				r, before := opened(t, dir), files(t, dir)
				stage(t, r, at, script)
				branch = fmt.Sprintf("b%d", at)
				done, err := r.Commit(t.Context(), proposal(branch))
				onlyAdded(t, before, withoutLock(files(t, dir)), branch)
				tip, _ := plain(t, dir, "", "rev-parse", "-q", "--verify", heads+branch)
				if tip = strings.TrimSpace(tip); tip != done.Hash || (err == nil) == (tip == "") {
					t.Fatalf("step %d: %v, and the branch is %q", at, err, tip)
				}
				usable(t, dir, fmt.Sprintf("again%d", at))
				if err == nil && !reached(t, r, at) {
					if at < 8 {
						t.Errorf("only %d steps", at)
					}
					break
				}
			}
		})
	}
}

// withoutLock leaves out the locks that a killed git cannot take away.
func withoutLock(all map[string]string) map[string]string {
	for name := range all {
		if strings.HasSuffix(name, ".lock") {
			delete(all, name)
		}
	}
	return all
}

// reached says whether git ran more than at times.
func reached(t *testing.T, r *Repo, at int) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(r.program.path), "count"))
	must(t, err)
	n := 0
	_, err = fmt.Sscan(string(text), &n)
	must(t, err)
	return n > at
}

// TestCancelled: the context ends while a git runs, at each step.
func TestCancelled(t *testing.T) {
	dir := project(t)
	late := 0 // steps that the context could not end
	for at := 0; ; at++ {
		r := opened(t, dir)
		r.program.limit = 3 * time.Second
		there := stage(t, r, at, "echo x >PIPE\nexec /bin/sleep 1000")
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			if _, err := there.Read(make([]byte, 1)); err == nil {
				cancel()
			}
		}()
		before := files(t, dir)
		done, err := r.Commit(ctx, proposal("branch"))
		cancel()
		must(t, there.Close())
		<-watched
		if err == nil {
			if at < 8 || late != 1 || git(t, dir, "rev-parse", heads+"branch") != done.Hash {
				t.Errorf("step %d: %+v, %d steps ended by their time limit", at, done, late)
			}
			break
		}
		if errors.Is(err, ErrTimeLimit) {
			late++
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("step %d: %v", at, err)
		}
		onlyAdded(t, before, files(t, dir), "none")
		usable(t, dir, fmt.Sprintf("again%d", at))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := opened(t, dir).Commit(ctx, proposal("late")); !errors.Is(err, context.Canceled) {
		t.Errorf("ended before: %v", err)
	}
}

// TestGroup: with a git that does not want to end, all that it started ends.
func TestGroup(t *testing.T) {
	r := opened(t, project(t))
	r.program.limit = time.Second
	held := filepath.Join(t.TempDir(), "held")
	must(t, syscall.Mkfifo(held, 0o600))
	stage(t, r, 0, "trap '' TERM\nexec 4>'"+held+"'\n/bin/sleep 1000 &\nwait\n/bin/sleep 1000")
	end := make(chan error, 1)
	go func() {
		f, err := os.Open(held)
		if err == nil {
			_, err = io.ReadAll(f) // to its end: when nobody holds the pipe any more
			err = errors.Join(err, f.Close())
		}
		end <- err
	}()
	if _, err := r.Commit(t.Context(), proposal("branch")); !errors.Is(err, ErrTimeLimit) {
		t.Errorf("got %v", err)
	}
	select {
	case err := <-end:
		must(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("somebody is left")
	}
}

// TestBoundedAnswer: a git that does not stop talking is ended, and its complaint is
// cut and escaped.
func TestBoundedAnswer(t *testing.T) {
	r := opened(t, project(t))
	stage(t, r, 0, "exec /bin/cat /dev/zero")
	if _, err := r.Commit(t.Context(), proposal("branch")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	r = opened(t, project(t))
	stage(t, r, 0, "printf '\\033[2J%09000d' 1 >&2\nexit 1")
	_, err := r.Commit(t.Context(), proposal("branch"))
	if err == nil || len(err.Error()) > 500 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got %v", err)
	}
}

// TestNothingLeft: the folders that stand in for a repository go with their
// operation.
func TestNothingLeft(t *testing.T) {
	temp := t.TempDir()
	dir := project(t)
	t.Setenv("TMPDIR", temp)
	r := opened(t, dir)
	done, err := r.Commit(t.Context(), proposal("a"))
	must(t, err)
	_, err = r.Blob(t.Context(), done.Hash, "assets/plugin.js")
	must(t, err)
	_, err = r.Blob(t.Context(), done.Hash, "none")
	if left, _ := os.ReadDir(temp); err == nil || len(left) != 0 {
		t.Errorf("%v, left: %v", err, left)
	}
}
