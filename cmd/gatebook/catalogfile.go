package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gatebook/infra/config"
	"gatebook/infra/datadir"
)

// lockCatalog keeps the commands that change the catalog file apart, from the
// edit to its approval. The file itself is replaced, so the lock is another one.
func lockCatalog(ctx context.Context, dir *datadir.Dir, say io.Writer) (unlock func(), err error) {
	path := filepath.Join(dir.Path(), "gatebook.yaml.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the catalog file: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for said := false; ; said = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock the catalog file: %w", err), f.Close())
		}
		if !said {
			fmt.Fprintln(say, "gatebook: waiting for another command that changes the catalog")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		}
	}
}

// readCatalog is the text of the catalog file; whether it is valid is found when
// it is edited.
func readCatalog(dir *datadir.Dir) ([]byte, error) {
	_, data, err := config.Load(dir.Catalog())
	if data == nil {
		return nil, err
	}
	return data, nil
}
