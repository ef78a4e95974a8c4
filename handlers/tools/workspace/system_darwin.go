package workspace

import "golang.org/x/sys/unix"

func renameFree(from int, name string, into int, newName string) error {
	return unix.RenameatxNp(from, name, into, newName, unix.RENAME_EXCL)
}

func renameSwap(from int, name string, into int, otherName string) error {
	return unix.RenameatxNp(from, name, into, otherName, unix.RENAME_SWAP)
}
