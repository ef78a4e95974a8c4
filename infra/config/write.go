package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gatebook/events"
)

// ErrLink marks a catalog file that is a link. It can be read, but a new file in
// its place would leave what it leads to as it was, and out of use.
var ErrLink = errors.New("the catalog file is a link, and only the one it leads to can be changed")

// Replaceable says whether [Write] may replace the file at path; the error wraps
// [ErrLink].
func Replaceable(path string) error {
	target, err := os.Readlink(path)
	if err != nil {
		return nil // no link, or nothing there
	}
	return fmt.Errorf("%w: %s leads to %s; edit that file, or put it in the place of the link. Nothing was changed",
		ErrLink, events.Quote(path), events.Quote(target))
}

// Write replaces the file at path by data, as a whole or not at all: after an
// error the old file stands. When it returns nil the new one is durable, with
// mode 0644: a catalog holds no secret. A link is refused, see [Replaceable].
func Write(path string, data []byte) error {
	if err := Replaceable(path); err != nil {
		return err
	}
	folder := filepath.Dir(path)
	temp, err := os.CreateTemp(folder, ".gatebook-*.tmp")
	if err != nil {
		return fmt.Errorf("write the catalog: %w", err)
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the catalog: %w", errors.Join(err, os.Remove(temp.Name())))
	}
	return syncFolder(folder)
}

// syncFolder makes the rename durable.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return fmt.Errorf("write the catalog: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the catalog: %w", err)
	}
	return nil
}
