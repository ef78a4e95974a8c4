package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gatebook/events"
)

// standIn is the folder that git is given in place of the repository, for one
// operation: a HEAD and a configuration of our own, beside links to the repository's
// objects, refs and packed refs. There is nothing else in it that git could read.
type standIn struct {
	program
	format
	dir string
}

// links are the parts of a repository that a stand-in shares with it.
var links = []string{"objects", "refs", "packed-refs"}

func (r *Repo) standIn() (_ *standIn, err error) {
	dir, err := os.MkdirTemp("", "gatebook-git-")
	if err != nil {
		return nil, fmt.Errorf("stand-in: %w", err)
	}
	s := &standIn{r.program, r.format, dir}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("stand-in: %w", err), s.remove())
		}
	}()
	// HEAD must name a branch, and none that could come to be.
	if err := os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: "+heads+"-\n"), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(r.config()), 0o600); err != nil {
		return nil, err
	}
	for _, name := range links {
		if err := os.Symlink(filepath.Join(r.dir, name), filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *standIn) remove() error { return os.RemoveAll(s.dir) }

func (s *standIn) git(ctx context.Context, stdin []byte, most int64, args ...string) ([]byte, error) {
	return s.run(ctx, job{dir: s.dir, stdin: stdin, most: most, args: args})
}

// readPart reads a small regular file of the repository, and waits for nothing.
func readPart(root *os.Root, name string, most int64) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: its %s is no regular file", ErrElsewhere, name)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil, errors.Join(err, fmt.Errorf("%w: its %s is no regular file of at most %d bytes", ErrUnsupported, name, most))
	}
	data := make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if n < len(data) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

// mustStay refuses name where it is a link, or no folder although it should be one.
// What is not there is nowhere else.
func mustStay(root *os.Root, name string, folder bool) error {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: %s is a link", ErrElsewhere, events.Quote(name))
	case folder && !info.IsDir():
		return fmt.Errorf("%w: %s is no folder", ErrNotRepository, events.Quote(name))
	case !folder && !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is no regular file", ErrNotRepository, events.Quote(name))
	}
	return nil
}
