package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gatebook/events"
)

// ErrNoRoom says that the volume has no room for a copy of the book's store.
var ErrNoRoom = errors.New("no room for a copy of the book's store")

// BookGuard is a copy of the book's store as it was before a server opened it.
// At a record that it cannot read the server cuts the rest of the block off, a
// thousand good events or not, and says so only in its log. So a start that is
// refused puts the copy back: evidence stays as it was found.
//
// The copy is whole and durable once it has its name. Nothing is appended to the
// book while it is there, so a start that finds one takes it for the store. The
// zero value guards nothing. Not safe for concurrent use.
type BookGuard struct {
	dir  *Dir
	kept bool
}

const (
	guardWhole = "nats.before"
	guardPart  = "nats.before.part" // being copied
	guardGone  = "nats.before.gone" // being deleted
)

// GuardBook copies the book's store; the caller has the lock and no server runs.
// What a start left that ended in the middle is put back first. A store of more
// than most bytes is not copied: the guard then guards nothing. The error wraps
// [ErrNoRoom], with such a guard, where less than reserve bytes of the volume
// would be left.
func (d *Dir) GuardBook(reserve, most uint64) (g BookGuard, err error) {
	g = BookGuard{dir: d}
	if _, err := os.Lstat(d.in(guardWhole)); err == nil {
		g.kept = true
	}
	if err := g.Restore(); err != nil {
		return g, err
	}
	if err := errors.Join(os.RemoveAll(d.in(guardPart)), os.RemoveAll(d.in(guardGone))); err != nil {
		return g, fmt.Errorf("guard the book: %w", err)
	}
	size, err := storeSize(d.Nats())
	if err != nil || size == 0 || size > most {
		return g, err
	}
	free, _, err := d.Free()
	if err != nil {
		return g, err
	}
	if free < size+reserve {
		return g, fmt.Errorf("%w: %d bytes, %d are free", ErrNoRoom, size, free)
	}
	err = copyStore(d.Nats(), d.in(guardPart))
	if err == nil {
		err = errors.Join(os.Rename(d.in(guardPart), d.in(guardWhole)), syncFolder(d.path))
	}
	if err != nil {
		return g, fmt.Errorf("guard the book: copy %s: %w", events.Quote(d.Nats()), err)
	}
	g.kept = true
	return g, nil
}

// Restore puts the copy back; without one it does nothing. No server runs.
func (g *BookGuard) Restore() error {
	if !g.kept {
		return nil
	}
	g.kept = false
	d := g.dir
	err := errors.Join(os.RemoveAll(d.Nats()), os.Rename(d.in(guardWhole), d.Nats()), syncFolder(d.path))
	if err != nil {
		return fmt.Errorf("put the book's store back: %w", err)
	}
	return nil
}

// Drop deletes the copy: the store is whole.
func (g *BookGuard) Drop() error {
	if !g.kept {
		return nil
	}
	g.kept = false
	d := g.dir
	err := errors.Join(os.Rename(d.in(guardWhole), d.in(guardGone)), syncFolder(d.path), os.RemoveAll(d.in(guardGone)))
	if err != nil {
		return fmt.Errorf("delete the copy of the book's store: %w", err)
	}
	return nil
}

// storeSize adds up the files of the store; a missing folder is empty.
func storeSize(path string) (sum uint64, err error) {
	err = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += uint64(info.Size())
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return sum, err
}

// copyStore copies a folder, durably. Where the file system can share blocks
// between files, that costs no room.
func copyStore(from, to string) error {
	var folders []string
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			folders = append(folders, target)
			return os.Mkdir(target, info.Mode().Perm())
		case d.Type().IsRegular():
			return copyFile(path, target, info.Mode().Perm())
		}
		return nil
	})
	for _, f := range folders {
		err = errors.Join(err, syncFolder(f))
	}
	return err
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
