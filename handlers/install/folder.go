package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"gatebook/events"
)

// temp is what a file is called while it is written; no asset's path begins so, because
// no agent's id does.
const (
	tempPrefix = ".gatebook-"
	temp       = tempPrefix + "new"
)

// folder is one folder that is kept. Paths in it have slashes and are clean.
type folder struct {
	root *os.Root
	blob func(events.Digest) ([]byte, error)
}

func at(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", events.Quote(name), reason(err))
}

// clear takes away what a look that was ended has left.
func (f folder) clear() { _ = f.root.Remove(temp) }

// put makes the file at name the version, if it is not.
func (f folder) put(name string, version events.Digest) error {
	want, err := f.blob(version)
	if err == nil && events.DigestOf(want) != version {
		err = errors.New("what is kept has another digest")
	}
	if err != nil {
		err = fmt.Errorf("version %.12s cannot be read as it was approved: %w", version, err)
		return at(name, errors.Join(err, f.remove(name))) // what is there may be anything
	}
	if err := f.parents(name); err != nil {
		return at(name, err)
	}
	info, err := f.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return at(name, err)
	case info.IsDir():
		if f.root.Remove(name) != nil {
			return at(name, errors.New("a folder is in the way, with something in it"))
		}
	case info.Mode().IsRegular() && info.Size() == int64(len(want)) && f.holds(name, want):
		return nil
	}
	return at(name, f.write(name, want))
}

// holds says whether the file at name is a regular one with these bytes.
func (f folder) holds(name string, want []byte) bool {
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	got, err := io.ReadAll(io.LimitReader(file, int64(len(want))+1))
	return err == nil && bytes.Equal(got, want)
}

// write puts a file in the place of whatever is at name but a folder, in one step.
func (f folder) write(name string, data []byte) error {
	_ = f.root.Remove(temp)
	file, err := f.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = f.root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, f.root.Remove(temp))
	}
	return f.syncFolder(path.Dir(name))
}

func (f folder) syncFolder(name string) error {
	dir, err := f.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// parents makes the folders above name. A link there is taken away: it could lead to
// where another's files are.
func (f folder) parents(name string) error {
	for _, dir := range above(name) {
		info, err := f.root.Lstat(dir)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if err = f.root.Remove(dir); err == nil {
				err = fs.ErrNotExist
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := errors.Join(f.root.Mkdir(dir, 0o755), f.syncFolder(path.Dir(dir))); err != nil {
				return err
			}
		case err != nil:
			return err
		case !info.IsDir():
			return errors.New("a file is where a folder is needed")
		}
	}
	return nil
}

// above are the folders above name, the outer ones first.
func above(name string) (out []string) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		out = append(out, dir)
	}
	slices.Reverse(out)
	return out
}

// remove takes away what is at name, and the folders that are empty by that.
func (f folder) remove(name string) error {
	dirs := above(name)
	for _, dir := range dirs {
		info, err := f.root.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return at(dir, err)
		case info.Mode()&fs.ModeSymlink != 0: // by which the name would still be there
			return at(dir, f.root.Remove(dir))
		case !info.IsDir():
			return nil
		}
	}
	info, err := f.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return at(name, err)
	case info.IsDir() && f.root.Remove(name) != nil:
		return nil // it holds others', or what is not ours
	case !info.IsDir():
		err = f.root.Remove(name)
	}
	if err == nil {
		err = f.syncFolder(path.Dir(name))
	}
	slices.Reverse(dirs)
	for _, dir := range dirs {
		if f.root.Remove(dir) != nil {
			break // it is not empty
		}
	}
	return at(name, err)
}

// foreign notes the files that are on no record.
func (f folder) foreign(want map[string]events.Digest, s *Status) error {
	err := fs.WalkDir(f.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if _, ours := want[name]; ours || d.IsDir() || strings.HasPrefix(name, tempPrefix) {
			return nil
		}
		if s.Strangers++; len(s.Foreign) < maxForeign {
			s.Foreign = append(s.Foreign, name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the folder cannot be searched: %w", reason(err))
	}
	return nil
}
