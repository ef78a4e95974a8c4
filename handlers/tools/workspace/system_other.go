//go:build !linux && !darwin

package workspace

import (
	"errors"
	"io/fs"

	"gatebook/events"
)

// Here the number of names of a file is not known and a rename may overwrite,
// so files are refused rather than treated with less care.

const openFlags = 0

func changed(info fs.FileInfo) events.Instant { return events.InstantOf(info.ModTime()) }

func linkCount(fs.FileInfo) (uint64, bool) { return 0, false }

func renameFree(int, string, int, string) error { return errors.ErrUnsupported }

func renameSwap(int, string, int, string) error { return errors.ErrUnsupported }
