package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gatebook/events"
)

// MakeBallast makes the ballast file of size bytes, in real blocks of the disk.
// A file of that size is kept. Where there is no room it leaves nothing behind.
func (d *Dir) MakeBallast(size int64) error {
	if size <= 0 {
		return fmt.Errorf("ballast of %d bytes", size)
	}
	info, err := os.Lstat(d.Ballast())
	if err == nil && info.Mode().IsRegular() && info.Size() == size {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ballast: %w", err)
	}
	temporary := d.in(".new-ballast")
	if err := writeBallast(temporary, size); err != nil {
		return fmt.Errorf("ballast of %d bytes in %s: %w", size, events.Quote(d.path), errors.Join(err, os.Remove(temporary)))
	}
	if err := os.Rename(temporary, d.Ballast()); err != nil {
		return fmt.Errorf("ballast: %w", err)
	}
	return syncFolder(d.path)
}

func writeBallast(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	err = allocate(f, size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// fill writes size bytes, for file systems that cannot set blocks aside.
func fill(f *os.File, size int64) error {
	block := make([]byte, 1<<20)
	for left := size; left > 0; {
		n, err := f.Write(block[:min(left, int64(len(block)))])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}
