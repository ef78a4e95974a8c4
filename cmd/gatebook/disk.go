package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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

// maxStore is what the book may use: what is there and free, less the watermark.
func maxStore(dir *datadir.Dir) (int64, error) {
	free, total, err := dir.Free()
	if err != nil {
		return 0, err
	}
	used, err := folderSize(dir.Nats())
	if err != nil {
		return 0, err
	}
	if free < watermark(total) {
		return max(used, 1<<20), nil
	}
	return used + int64(free-watermark(total)), nil
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
