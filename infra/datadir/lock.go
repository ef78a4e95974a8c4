package datadir

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"gatebook/events"
)

// ErrLocked says that an engine runs on the folder already.
var ErrLocked = errors.New("another engine runs on this data folder")

type lock struct {
	mu   sync.Mutex
	file *os.File
}

// Lock makes this process the engine of the folder until [Dir.Unlock] or its
// end. It does not wait: the error wraps [ErrLocked] and names the process where
// another one (or this one) has the lock. Children do not inherit it.
func (d *Dir) Lock() error {
	d.lock.mu.Lock()
	defer d.lock.mu.Unlock()
	if d.lock.file != nil {
		return d.locked(os.Getpid())
	}
	f, err := os.OpenFile(d.in("lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, fileMode)
	if err != nil {
		return fmt.Errorf("lock the data folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return d.locked(readPID(f))
		}
		return fmt.Errorf("lock the data folder %s: %w", events.Quote(d.path), err)
	}
	// The lock holds without a name in it, which a full disk does not take.
	if err := writePID(f, os.Getpid()); err != nil && !errors.Is(err, unix.ENOSPC) {
		return errors.Join(fmt.Errorf("lock the data folder: %w", err), f.Close())
	}
	d.lock.file = f
	return nil
}

func (d *Dir) locked(pid int) error {
	if pid == 0 { // the other one has not written it yet
		return fmt.Errorf("%w: %s", ErrLocked, events.Quote(d.path))
	}
	return fmt.Errorf("%w: %s, process %d; stop it first", ErrLocked, events.Quote(d.path), pid)
}

// Unlock gives the lock back; without a lock it does nothing. The lock file
// stays, since removing it would let two engines lock two files of one name.
func (d *Dir) Unlock() error {
	d.lock.mu.Lock()
	defer d.lock.mu.Unlock()
	f := d.lock.file
	if f == nil {
		return nil
	}
	d.lock.file = nil
	return errors.Join(f.Truncate(0), f.Close())
}

func writePID(f *os.File, pid int) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	return err
}

// readPID is 0 where the file does not name a process.
func readPID(f *os.File) int {
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
