package pebblekv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var (
	// ErrDamaged marks a folder whose store does not open: [SetAside] it and fold
	// again from the book.
	ErrDamaged = errors.New("the view store is damaged")
	// ErrLocked marks a folder that another store has open, or whose lock cannot
	// be taken.
	ErrLocked = errors.New("the view store is in use")
	// ErrStamp marks a stamp that is no part of a folder's name.
	ErrStamp = errors.New("malformed stamp")
)

// transient says that err tells of the disk or the process and not of the
// store's files, so that setting them aside would help nobody.
func transient(err error) bool {
	for _, no := range []error{fs.ErrPermission, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.EDQUOT} {
		if errors.Is(err, no) {
			return true
		}
	}
	return vfs.IsNoSpaceError(err)
}

// SetAside renames the folder of a store that is not open to
// "<dir>.damaged-<stamp>" beside itself and makes that durable. It deletes
// nothing; a name that is taken is an error.
func SetAside(dir, stamp string) error {
	if stamp == "" || strings.ContainsAny(stamp, `/\`) {
		return fmt.Errorf("%w: %q", ErrStamp, stamp)
	}
	dir = filepath.Clean(dir)
	aside := dir + ".damaged-" + stamp
	if _, err := os.Lstat(aside); !errors.Is(err, fs.ErrNotExist) {
		return wrap("set aside", errors.Join(fmt.Errorf("%s: %w", aside, fs.ErrExist), err))
	}
	if err := os.Rename(dir, aside); err != nil {
		return wrap("set aside", err)
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return wrap("set aside", err)
	}
	return wrap("set aside", errors.Join(parent.Sync(), parent.Close()))
}
