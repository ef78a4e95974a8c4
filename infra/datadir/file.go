package datadir

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"gatebook/events"
)

// ErrDamaged marks a small file that does not hold what it should.
var ErrDamaged = errors.New("damaged file in the data folder")

// maxSmallFile bounds the files that this package reads, in bytes.
const maxSmallFile = 4 << 10

// WriteFile replaces the file at path, or makes it, mode 0600: temporary file,
// fsync, rename, fsync of the folder.
func WriteFile(path string, data []byte) error {
	if err := replaceFile(path, data); err != nil {
		return fmt.Errorf("write %s: %w", events.Quote(path), err)
	}
	return nil
}

func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmallFile+1))
	if err == nil && len(data) > maxSmallFile {
		err = damaged(path, "too large")
	}
	return data, err
}

func damaged(path, what string) error {
	return fmt.Errorf("%w: %s: %s", ErrDamaged, events.Quote(path), what)
}

// WriteAddress says where the engine listens: "127.0.0.1:4222".
func (d *Dir) WriteAddress(addr string) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("address %s: %w", events.Quote(addr), err)
	}
	return WriteFile(d.Address(), []byte(addr+"\n"))
}

// ReadAddress is what the last engine wrote; it may have ended since. The error
// wraps fs.ErrNotExist where none ever ran, and [ErrDamaged].
func (d *Dir) ReadAddress() (string, error) {
	text, err := readSmall(d.Address())
	if err != nil {
		return "", fmt.Errorf("address of the engine: %w", err)
	}
	addr, ok := strings.CutSuffix(string(text), "\n")
	if _, _, err := net.SplitHostPort(addr); err != nil || !ok {
		return "", damaged(d.Address(), "not an address")
	}
	return addr, nil
}

// WriteIncarnation names the folder, once, when it is made.
func (d *Dir) WriteIncarnation(i events.Incarnation) error {
	if _, err := events.ParseULID[events.Incarnation](string(i)); err != nil {
		return err
	}
	return WriteFile(d.Incarnation(), []byte(i+"\n"))
}

// ReadIncarnation is the name of the folder. The error wraps fs.ErrNotExist
// where it has none yet, and [ErrDamaged].
func (d *Dir) ReadIncarnation() (events.Incarnation, error) {
	text, err := readSmall(d.Incarnation())
	if err != nil {
		return "", fmt.Errorf("incarnation: %w", err)
	}
	line, ok := strings.CutSuffix(string(text), "\n")
	i, err := events.ParseULID[events.Incarnation](line)
	if err != nil || !ok {
		return "", damaged(d.Incarnation(), "not a ULID")
	}
	return i, nil
}
