//go:build linux || darwin

package workspace

import (
	"io/fs"
	"syscall"
)

// openFlags: a named pipe must not make an open wait, a last link must not be
// followed.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// linkCount is how many names a file has; false where that cannot be known.
func linkCount(info fs.FileInfo) (uint64, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(stat.Nlink), true
}
