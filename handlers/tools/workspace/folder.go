package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gatebook/policy/paths"
)

// folder is the opened handle of one folder. Its methods take the name of one
// entry, never a path.
type folder struct {
	*os.Root
	step func(name string) // see [Workspaces]
}

func components(path paths.Path) []string {
	if path.String() == "." {
		return nil
	}
	return strings.Split(path.String(), "/")
}

// descend goes down from f, which it closes, and makes missing folders where
// create is set.
func (f folder) descend(names []string, create bool) (folder, error) {
	for _, name := range names {
		next, err := f.enter(name, create)
		f.Close()
		if err != nil {
			return folder{}, err
		}
		f = next
	}
	return f, nil
}

// enter opens the folder name in f. What is opened is what was looked at, so a
// link that takes its place in between is not followed.
func (f folder) enter(name string, create bool) (folder, error) {
	before, err := f.Lstat(name)
	if create && errors.Is(err, fs.ErrNotExist) {
		before, err = f.make(name)
	}
	if err != nil {
		return folder{}, err
	}
	switch before.Mode().Type() {
	case fs.ModeDir:
	case fs.ModeSymlink:
		return folder{}, errLink
	default:
		return folder{}, errNotFolder
	}
	f.step("entering")
	// With "/." the system opens name only if it is a folder: a named pipe that
	// takes its place cannot make the open wait.
	root, err := f.OpenRoot(name + "/.")
	if err != nil {
		return folder{}, escaped(err)
	}
	after, err := root.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = errLink
	}
	if err != nil {
		root.Close()
		return folder{}, err
	}
	return folder{root, f.step}, nil
}

func (f folder) make(name string) (fs.FileInfo, error) {
	if err := f.Mkdir(name, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := f.sync(); err != nil {
		return nil, err
	}
	return f.Lstat(name)
}

var errLink = refuse("link", "is a link or leads through one; links are not followed")

// escaped tells what happens when a link takes the place of what was looked at
// (either [os.Root] itself refuses it, which has no number of the system, or the
// system finds no folder) from other errors of the system.
func escaped(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) || errno == syscall.ENOTDIR || errno == syscall.ELOOP {
		return errLink
	}
	return err
}

// checkFile refuses all but a regular file that has exactly one name: through a
// second one, content from outside would be read or changed.
func checkFile(info fs.FileInfo) error {
	switch info.Mode().Type() {
	case 0:
	case fs.ModeDir:
		return errFolder
	case fs.ModeSymlink:
		return errLink
	default:
		return refuse("special_file", "is not a regular file")
	}
	count, known := linkCount(info)
	if !known {
		return refuse("hard_link", "may have other names (hard links): their number is not known here")
	}
	if count != 1 {
		return refuse("hard_link", "must have exactly one name (hard link), it has "+strconv.FormatUint(count, 10))
	}
	return nil
}

// checkMovable lets a folder through besides what checkFile does.
func checkMovable(info fs.FileInfo) error {
	if info.IsDir() {
		return nil
	}
	return checkFile(info)
}

// openFile opens a file for reading. What it promises it has tested on the
// handle that it returns.
func (f folder) openFile(name string) (*os.File, fs.FileInfo, error) {
	before, err := f.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if err := checkFile(before); err != nil {
		return nil, nil, err
	}
	f.step("checked")
	file, err := f.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, nil, escaped(err)
	}
	after, err := file.Stat()
	if err == nil {
		err = checkFile(after)
	}
	if err == nil && !os.SameFile(before, after) {
		err = errChanged
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, after, nil
}

// create makes the file name, which must not exist, and fsyncs its content.
func (f folder) create(name string, content []byte) error {
	file, err := f.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, fileMode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// chunk is how much is copied or hashed between two looks at the context.
const chunk = 1 << 20

// createFrom is create with what file holds, as info says it, and more after it. A
// file that is changed meanwhile is errChanged.
func (f folder) createFrom(ctx context.Context, name string, file *os.File, info fs.FileInfo, more []byte) error {
	made, err := f.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, fileMode)
	if err != nil {
		return err
	}
	f.step("made")
	err = pour(ctx, made, file, info)
	f.step("poured")
	if err == nil {
		_, err = made.Write(more)
	}
	if err == nil {
		err = made.Sync()
	}
	return errors.Join(err, made.Close())
}

// pour gives all of file, which is at its beginning, to w.
func pour(ctx context.Context, w io.Writer, file *os.File, info fs.FileInfo) error {
	for left := info.Size(); left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(w, file, min(left, chunk))
		if errors.Is(err, io.EOF) {
			return errChanged
		}
		if err != nil {
			return err
		}
		left -= n
	}
	return unchanged(file, info)
}

// unchanged is errChanged where file is not any more what info says.
func unchanged(file *os.File, info fs.FileInfo) error {
	now, err := file.Stat()
	if err == nil && (now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime())) {
		err = errChanged
	}
	return err
}

// sync makes the names in f durable.
func (f folder) sync() error {
	dir, err := f.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// move renames; it never overwrites: fs.ErrExist where the new name is taken.
func (f folder) move(name string, to folder, newName string) error {
	return between(f, to, func(from, into int) error { return renameFree(from, name, into, newName) })
}

// swap exchanges two entries in one step, so that neither name is ever absent.
func (f folder) swap(name string, other folder, otherName string) error {
	return between(f, other, func(from, into int) error { return renameSwap(from, name, into, otherName) })
}

func between(a, b folder, do func(a, b int) error) error {
	from, err := a.Open(".")
	if err != nil {
		return err
	}
	defer from.Close()
	into, err := b.Open(".")
	if err != nil {
		return err
	}
	defer into.Close()
	return do(int(from.Fd()), int(into.Fd()))
}

// names gives the first most names that keep accepts, in the order of compare.
// However many a folder holds, the memory used is bounded.
func (f folder) names(ctx context.Context, most int, keep func(string) bool, compare func(a, b string) int) ([]string, error) {
	dir, err := f.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var kept []string
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		batch, err := dir.Readdirnames(most)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		for _, name := range batch {
			if keep(name) {
				kept = append(kept, name)
			}
		}
		slices.SortFunc(kept, compare)
		kept = kept[:min(len(kept), most)]
		if err != nil || len(batch) == 0 {
			return kept, nil
		}
	}
}
