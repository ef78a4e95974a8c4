package workspace

import (
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gatebook/events"
)

// changed is when a name was last given, or what has it changed: it is the system's,
// and nobody can set it back.
func changed(info fs.FileInfo) events.Instant {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return events.InstantOf(time.Unix(stat.Ctimespec.Unix()))
	}
	return events.InstantOf(info.ModTime())
}

func renameFree(from int, name string, into int, newName string) error {
	return unix.RenameatxNp(from, name, into, newName, unix.RENAME_EXCL)
}

func renameSwap(from int, name string, into int, otherName string) error {
	return unix.RenameatxNp(from, name, into, otherName, unix.RENAME_SWAP)
}
