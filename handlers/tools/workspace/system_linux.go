package workspace

import "golang.org/x/sys/unix"

func renameFree(from int, name string, into int, newName string) error {
	return unix.Renameat2(from, name, into, newName, unix.RENAME_NOREPLACE)
}

func renameSwap(from int, name string, into int, otherName string) error {
	return unix.Renameat2(from, name, into, otherName, unix.RENAME_EXCHANGE)
}
