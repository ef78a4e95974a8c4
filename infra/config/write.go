package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write replaces the file at path by data, as a whole or not at all: after an
// error the old file stands. When it returns nil the new one is durable, with
// mode 0644: a catalog holds no secret.
func Write(path string, data []byte) error {
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
