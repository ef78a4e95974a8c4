package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gatebook/events"
	"gatebook/policy/paths"
)

var (
	// ErrPath marks a path that cannot be a data folder.
	ErrPath = errors.New("not a data folder")
	// ErrNotPrivate marks a folder that others may enter, or its owner may not
	// write.
	ErrNotPrivate = errors.New("the data folder has the wrong mode")
)

const (
	folderMode = 0o700
	fileMode   = 0o600
)

// Dir is an open data folder. Its methods are safe for concurrent use, except
// that one file is written by one goroutine at a time.
type Dir struct {
	path string
	lock lock
}

// Open takes the folder at path. Where create is set, a missing one is made, and
// so are missing folders in it. The error wraps [ErrPath], [ErrNotPrivate], or
// fs.ErrNotExist where there is none and create is not set.
func Open(path string, create bool) (*Dir, error) {
	if path == "" {
		return nil, fmt.Errorf("%w: no folder is named", ErrPath)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrPath, events.Quote(path), err)
	}
	if create {
		if err := os.MkdirAll(abs, folderMode); err != nil {
			return nil, fmt.Errorf("make the data folder: %w", err)
		}
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no data folder %s: %w", events.Quote(abs), err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrPath, events.Quote(abs), err)
	}
	d := &Dir{path: real}
	if err := d.check(); err != nil {
		return nil, err
	}
	if create {
		return d, d.makeFolders()
	}
	return d, nil
}

func (d *Dir) check() error {
	info, err := os.Stat(d.path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPath, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is not a folder", ErrPath, events.Quote(d.path))
	}
	if info.Mode().Perm() != folderMode {
		return fmt.Errorf("%w: %s has mode %04o, want 0700 (only the owner may enter, and may write): chmod 700 %[2]s",
			ErrNotPrivate, events.Quote(d.path), info.Mode().Perm())
	}
	return nil
}

func (d *Dir) makeFolders() error {
	for _, folder := range []string{d.Keys(), d.Nats(), d.Views(), d.Blobs(), d.Agents()} {
		if err := os.Mkdir(folder, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make the data folder: %w", err)
		}
	}
	return syncFolder(d.path)
}

// Path is the folder, absolute.
func (d *Dir) Path() string { return d.path }

// Catalog is the file of the catalog, for people to edit.
func (d *Dir) Catalog() string { return d.in("gatebook.yaml") }

// Keys is the folder of the keys of agents and channels and of the MAC key.
func (d *Dir) Keys() string { return d.in("keys") }

// Nats is the folder of the book's store.
func (d *Dir) Nats() string { return d.in("nats") }

// Views is the folder of the view databases.
func (d *Dir) Views() string { return d.in("views") }

// Blobs is the folder of large arguments and results.
func (d *Dir) Blobs() string { return d.in("blobs") }

// Agents is the folder of the agents' workspaces.
func (d *Dir) Agents() string { return d.in(paths.Agents) }

// Address is the file that says where the engine listens; see [Dir.ReadAddress].
func (d *Dir) Address() string { return d.in("address") }

// Head is the file of the last known tree; see [Dir.ReadHead].
func (d *Dir) Head() string { return d.in("head") }

// Incarnation is the file of the folder's ULID; see [Dir.ReadIncarnation].
func (d *Dir) Incarnation() string { return d.in("incarnation") }

// Ballast is the file that an operator may delete when the disk is full.
func (d *Dir) Ballast() string { return d.in("ballast") }

func (d *Dir) in(name string) string { return filepath.Join(d.path, name) }

// Free is the space of the folder's volume in bytes: what the process may still
// write, and all of it.
func (d *Dir) Free() (free, total uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(d.path, &s); err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", events.Quote(d.path), err)
	}
	return uint64(s.Bavail) * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil
}
