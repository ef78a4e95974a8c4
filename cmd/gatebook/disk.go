package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gatebook/infra/datadir"
)

// watermark is how much of a volume the engine leaves free: 512 MiB or a tenth,
// whichever is less.
func watermark(total uint64) uint64 { return min(512<<20, total/10) }

// room says what is missing where the volume is too full to go on.
func room(dir *datadir.Dir) error {
	free, total, err := dir.Free()
	if err != nil {
		return err
	}
	if free < watermark(total) {
		return fmt.Errorf("the volume of the data folder has %d MiB free and %d MiB must stay: free some space (deleting %s gives a little at once)",
			free>>20, watermark(total)>>20, dir.Ballast())
	}
	return nil
}

// maxStore is what the book may use: the whole volume, less the watermark. What
// is free at a start must not count: the bound stays while others come and go.
func maxStore(dir *datadir.Dir) (int64, error) {
	_, total, err := dir.Free()
	if err != nil {
		return 0, err
	}
	return max(int64(total-watermark(total)), 1<<20), nil
}

// viewsSpace is how much must be free for the views to try a write again.
const viewsSpace = 1 << 20

// untilSpace waits while the volume is full, so that the views survive it: a
// write of theirs that fails would end the process.
func untilSpace(stop <-chan struct{}, dir *datadir.Dir) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if free, _, err := dir.Free(); err != nil || free >= viewsSpace {
			return
		}
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

// folderSize adds up the files of a folder; a missing one is empty.
func folderSize(path string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return skipMissing(err)
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return skipMissing(err)
	})
	return sum, err
}

func skipMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// giveUpBallast makes an engine able to start where not even its stores could
// open: people can then read, and calls are refused until there is space. It says
// what it did.
func giveUpBallast(dir *datadir.Dir) (string, error) {
	free, _, err := dir.Free()
	if err != nil || free >= viewsSpace || !exists(dir.Ballast()) {
		return "", err
	}
	if err := os.Remove(dir.Ballast()); err != nil {
		return "", err
	}
	return "the volume of the data folder is full; the ballast file was deleted so that the engine can start", nil
}

// makeBallast keeps half the watermark for an operator on a full disk; without
// room for it there is none.
func makeBallast(dir *datadir.Dir) string {
	_, total, err := dir.Free()
	if err == nil {
		err = dir.MakeBallast(int64(watermark(total) / 2))
	}
	if err != nil {
		return "there is no ballast file: " + err.Error()
	}
	return ""
}

// ownUser warns about what the gate does not contain.
func ownUser() []string {
	if os.Geteuid() == 0 {
		return []string{"the engine runs as root: code that runs as the engine's own user is not contained by the gate"}
	}
	return nil
}
