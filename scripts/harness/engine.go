// Package harness starts gatebook engines in processes of their own, on data folders
// made for this, and speaks with them as agents, channels and people do. Scripts that
// measure or wear out an engine share it; nothing of cmd/gatebook is imported.
//
// Start with MakeFolder and Start; Wire is an agent's connection. What is started
// ends with Stop or with its context.
//
// Dependencies: nats.go and nats-server, for the channel that begins the rounds and
// for reading a book that no engine holds; go-json-experiment/json, the JSON of the
// project.
package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startTime = 60 * time.Second
	stopTime  = 60 * time.Second
)

// AnswerTime is how long an answer may take before a script gives up.
const AnswerTime = 20 * time.Second

// Build builds gatebook; the working folder is in the repository.
func Build(ctx context.Context, to string) error {
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", to, "gatebook/cmd/gatebook")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build gatebook, from the repository: %w: %s", err, said)
	}
	return nil
}

// Engine is a gatebook engine in a process of its own.
type Engine struct {
	Folder string
	Addr   string
	log    string // what it wrote to standard error
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process is gone
	err    error         // of the process; read after ended
}

// Start starts an engine by the command, such as "serve" and flags of it, and waits
// until it is ready. It ends with Stop, or with ctx.
func Start(ctx context.Context, binary, folder string, command ...string) (*Engine, error) {
	return StartWithin(ctx, startTime, binary, folder, command...)
}

// StartWithin is Start that waits that long.
func StartWithin(ctx context.Context, most time.Duration, binary, folder string, command ...string) (*Engine, error) {
	e := &Engine{Folder: folder, log: folder + ".log", ended: make(chan struct{})}
	log, err := os.Create(e.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	e.cmd = exec.CommandContext(ctx, binary, append(command[:len(command):len(command)], "--dir", folder)...)
	e.cmd.Stderr = log
	e.cmd.Cancel = func() error { return e.cmd.Process.Signal(syscall.SIGTERM) }
	e.cmd.WaitDelay = stopTime
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := e.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	ready := make(chan string, 1)
	go func() { // ends with the process
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), "gatebook is ready on "); ok {
				ready <- strings.SplitN(rest, ",", 2)[0]
				break
			}
		}
		for lines.Scan() { // it may say more
		}
		e.err = e.cmd.Wait()
		close(e.ended)
	}()
	ctx, stop := context.WithTimeout(ctx, most)
	defer stop()
	select {
	case e.Addr = <-ready:
		return e, nil
	case <-e.ended:
		return nil, fmt.Errorf("the engine did not start: %w: %s", errors.Join(e.err, errors.New("it ended")), e.Said())
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("the engine is not ready: %w: %s", ctx.Err(), e.Said()), e.Stop())
	}
}

// Log is the file with what the engine wrote to standard error.
func (e *Engine) Log() string { return e.log }

// Said is the end of what the engine wrote to standard error.
func (e *Engine) Said() string {
	raw, err := os.ReadFile(e.log)
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-2000):])
}

// Stop ends the process and waits for it.
func (e *Engine) Stop() error {
	if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	late := time.NewTimer(stopTime)
	defer late.Stop()
	select {
	case <-e.ended:
	case <-late.C:
		return errors.Join(fmt.Errorf("the engine did not stop within %s", stopTime), e.cmd.Process.Kill())
	}
	if e.err != nil {
		return fmt.Errorf("the engine ended badly: %w: %s", e.err, e.Said())
	}
	return nil
}

// Ended is closed when the process is gone.
func (e *Engine) Ended() <-chan struct{} { return e.ended }

// Resident gives the memory of the process now and at most, in KiB.
func (e *Engine) Resident() (now, most int64, err error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(e.cmd.Process.Pid), "status"))
	if err != nil {
		return 0, 0, fmt.Errorf("only where /proc is: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(f[1], 10, 64) // no number: not one of these lines
		switch f[0] {
		case "VmRSS:":
			now = n
		case "VmHWM:":
			most = n
		}
	}
	return now, most, nil
}

// Descriptors is how many files and sockets the process has open.
func (e *Engine) Descriptors() (int64, error) {
	open, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(e.cmd.Process.Pid), "fd"))
	if err != nil {
		return 0, fmt.Errorf("only where /proc is: %w", err)
	}
	return int64(len(open)), nil
}

// ticks is how many clock ticks of processor time are in a second, on every
// Linux that Go runs on.
const ticks = 100

// Processor is the processor time that the process has used; 0 where it is not
// known.
func (e *Engine) Processor() time.Duration {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(e.cmd.Process.Pid), "stat"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), ") ") // the name may hold spaces
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticks
}
