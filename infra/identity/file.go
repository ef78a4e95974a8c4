package identity

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gatebook/events"
)

var (
	// ErrNotPrivate marks a key file or folder that others may reach.
	ErrNotPrivate = errors.New("others may read this secret")
	// ErrNotFile marks a link, a folder or a device where a key file should be.
	ErrNotFile = errors.New("not a file of its own")
	// ErrKey marks a file that does not hold the key it should.
	ErrKey = errors.New("not a key of the right kind")
)

const (
	folderMode = 0o700
	fileMode   = 0o600
	// maxFile bounds a file that holds a secret, in bytes.
	maxFile = 16 << 10
)

// readSecret reads a file that only its owner may read.
func readSecret(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%w: %s is a link", ErrNotFile, events.Quote(path))
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s", ErrNotFile, events.Quote(path))
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s has mode %04o: chmod 600 %[2]s", ErrNotPrivate, events.Quote(path), info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		wipe(data)
		return nil, fmt.Errorf("%w: %s is larger than %d bytes", ErrKey, events.Quote(path), maxFile)
	}
	return data, err
}

// createSecret writes a new file, mode 0600, and makes its folder where it is
// missing. A file of that name stays as it is, and the error wraps fs.ErrExist.
// After a crash the file is there as a whole or not at all.
func createSecret(path string, data []byte) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return err
	}
	if err := checkFolder(folder); err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s: %w", events.Quote(path), fs.ErrExist)
	}
	f, err := os.CreateTemp(folder, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Link(f.Name(), path) // unlike a rename, it replaces nothing
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return err
	}
	return syncFolder(folder)
}

func checkFolder(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%w: folder %s has mode %04o: chmod 700 %[2]s", ErrNotPrivate, events.Quote(path), info.Mode().Perm())
	}
	return nil
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func wipe(secret []byte) { clear(secret) }
