package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gatebook/events"
)

// fixed stands before every subcommand. What the configuration of the stand-in could
// say is said here, where nothing overrides it.
var fixed = []string{
	"--no-pager", "--no-replace-objects", "--no-optional-locks", "--literal-pathspecs",
	"-c", "core.hooksPath=" + os.DevNull,
	"-c", "core.fsmonitor=false",
	"-c", "core.attributesFile=" + os.DevNull,
	"-c", "core.alternateRefsCommand=",
	"-c", "core.logAllRefUpdates=false",
	"-c", "core.fsync=loose-object,reference", // what is answered for is on the disk
	"-c", "core.bigFileThreshold=1m", // larger files are not taken into memory
	"-c", "core.filesRefLockTimeout=2000",
	"-c", "commit.gpgSign=false",
	"-c", "gc.auto=0",
	"-c", "maintenance.auto=false",
	"-c", "protocol.allow=never",
}

// environment is all that a git sees of the outside.
func environment(gitDir string) []string {
	return []string{
		"GIT_DIR=" + gitDir,
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_SYSTEM=" + os.DevNull,
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1", // known from 2.44 on; the stand-in has nowhere to fetch from
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_TERMINAL_PROMPT=0",
		// A ref's log that is there already is written to, and wants a name.
		"GIT_COMMITTER_NAME=gatebook", "GIT_COMMITTER_EMAIL=gatebook",
		"HOME=" + os.DevNull,
		"XDG_CONFIG_HOME=" + os.DevNull,
		"LC_ALL=C",
		"TZ=UTC",
	}
}

// program is a git on this machine.
type program struct {
	path  string
	limit time.Duration
}

// job is one run of it.
type job struct {
	dir   string // the stand-in; "" for what needs no repository
	stdin []byte
	most  int64 // bytes of its answer
	args  []string
}

// run gives what git wrote, which is never more than most bytes. Where git itself
// said no, the error wraps an [*exec.ExitError].
func (p program) run(ctx context.Context, j job) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, ErrTimeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, slices.Concat(fixed, j.args)...)
	out, complaint := &bounded{most: j.most}, &bounded{most: maxStderr, cut: true}
	cmd.Dir, cmd.Env = filepath.Dir(p.path), environment(os.DevNull)
	if j.dir != "" {
		cmd.Dir, cmd.Env = j.dir, environment(j.dir)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(j.stdin), out, complaint
	cmd.WaitDelay = grace
	inGroup(cmd)
	err := cmd.Run()
	if ctx.Err() != nil {
		endGroup(cmd)
	}
	switch {
	case out.over:
		return nil, fmt.Errorf("git %s: %w: more than %d bytes", j.args[0], ErrTooLarge, j.most)
	case err == nil:
		return out.buf.Bytes(), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("git %s: %w", j.args[0], context.Cause(ctx))
	}
	return nil, fmt.Errorf("git %s: %w: %s", j.args[0], err, events.Quote(strings.TrimSpace(complaint.buf.String())))
}

// refused says that git ended by itself and said no.
func refused(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.Exited()
}

// bounded keeps at most so many bytes. One more is an error, or cut away.
type bounded struct {
	buf  bytes.Buffer
	most int64
	cut  bool
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := b.most - int64(b.buf.Len())
	if int64(len(p)) <= room {
		return b.buf.Write(p)
	}
	b.buf.Write(p[:room])
	if b.cut {
		return len(p), nil
	}
	b.over = true
	return int(room), ErrTooLarge
}

// findGit looks for a git that is new enough, where the engine finds programs.
func findGit(ctx context.Context) (program, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return program{}, fmt.Errorf("%w: install git %d.%d or later: %w", ErrNoGit, oldest[0], oldest[1], err)
	}
	p := program{path: path, limit: timeLimit}
	said, err := p.run(ctx, job{most: maxAnswer, args: []string{"version"}})
	if err != nil {
		return program{}, fmt.Errorf("%w: %s does not say its version: %w", ErrNoGit, events.Quote(path), err)
	}
	var have [2]int
	if _, err := fmt.Sscanf(string(said), "git version %d.%d", &have[0], &have[1]); err != nil {
		return program{}, fmt.Errorf("%w: it says %s", ErrOldGit, events.Quote(string(said)))
	}
	if slices.Compare(have[:], oldest[:]) < 0 {
		return program{}, fmt.Errorf("%w: %s is %d.%d, %d.%d is needed", ErrOldGit, events.Quote(path), have[0], have[1], oldest[0], oldest[1])
	}
	return p, nil
}
