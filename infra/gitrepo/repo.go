package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gatebook/events"
)

// Repo is one repository.
type Repo struct {
	program
	format
	dir string // where objects and refs are, without links in it
}

// Open looks at the repository in the folder path, which is absolute: one with a
// .git folder in it, or a bare one. Links that lead to the folder are followed; links
// in the repository are not.
//
// Its errors are [ErrNoGit], [ErrOldGit], [ErrNotRepository], [ErrElsewhere] and
// [ErrUnsupported], or what the file system says.
func Open(ctx context.Context, path string) (*Repo, error) {
	r, err := open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("git repository %s: %w", events.Quote(path), err)
	}
	return r, nil
}

func open(ctx context.Context, path string) (*Repo, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%w: the path is not absolute", ErrNotRepository)
	}
	p, err := findGit(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	if dir, err = findGitDir(dir); err != nil {
		return nil, err
	}
	r := &Repo{program: p, dir: dir}
	root, err := r.enter()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	r.format, err = readFormat(ctx, p, root)
	return r, err
}

func findGitDir(dir string) (string, error) {
	inside := filepath.Join(dir, ".git")
	info, err := os.Lstat(inside)
	switch {
	case err == nil && info.IsDir():
		return inside, nil
	case err == nil:
		return "", fmt.Errorf("%w: its .git is a file or a link; name the repository that it stands for", ErrElsewhere)
	case errors.Is(err, fs.ErrNotExist):
		return dir, nil
	}
	return "", err
}

// enter opens the repository's folder after a look at what lies where. Every
// operation begins with it: what was a folder at Open may be a link by now.
func (r *Repo) enter() (_ *os.Root, err error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Close())
		}
	}()
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: there is no %s", ErrNotRepository, name)
		}
	}
	for _, name := range []string{"objects", "objects/info", "objects/pack", "refs", "refs/heads"} {
		if err := mustStay(root, name, true); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"HEAD", "config", "packed-refs"} {
		if err := mustStay(root, name, false); err != nil {
			return nil, err
		}
	}
	if _, err := root.Lstat("commondir"); err == nil {
		return nil, fmt.Errorf("%w: it is a work tree of another one; name that one", ErrElsewhere)
	}
	return root, objectsStay(root)
}

// objectsStay refuses objects that lie elsewhere: linked ones, and borrowed ones.
func objectsStay(root *os.Root) error {
	for _, name := range []string{"objects", "objects/info", "objects/pack"} {
		entries, err := fs.ReadDir(root.FS(), name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if e.Type()&fs.ModeSymlink != 0 {
				return fmt.Errorf("%w: %s is a link", ErrElsewhere, events.Quote(name+"/"+e.Name()))
			}
			if strings.HasSuffix(e.Name(), "alternates") {
				return fmt.Errorf("%w: it borrows objects by %s", ErrElsewhere, events.Quote(name+"/"+e.Name()))
			}
		}
	}
	return nil
}

// branchFree says that nothing is at refs/heads/branch, and that the folders around
// it are folders or not there.
func branchFree(root *os.Root, branch string) error {
	parts := strings.Split(heads+branch, "/")
	for n := 3; n < len(parts); n++ {
		name := strings.Join(parts[:n], "/")
		info, err := root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%w: %s is a link", ErrElsewhere, events.Quote(name))
		case !info.IsDir():
			return fmt.Errorf("%w: %s is a branch", ErrConflict, events.Quote(name))
		}
	}
	// A folder may hold branches, or be left of some that went: git finds out.
	if info, err := root.Lstat(heads + branch); err == nil && !info.IsDir() {
		return fmt.Errorf("%w: branch %s", ErrExists, events.Quote(branch))
	}
	return nil
}

// head is the branch that HEAD names, or the commit where it names none.
func (r *Repo) head(root *os.Root) (branch, commit string, err error) {
	text, err := readPart(root, "HEAD", maxHead)
	if err != nil {
		return "", "", err
	}
	line := strings.TrimRight(string(text), "\n")
	if r.isID(line) {
		return "", line, nil
	}
	ref, symbolic := strings.CutPrefix(line, "ref:")
	branch, ok := strings.CutPrefix(strings.TrimLeft(ref, " \t"), heads)
	if !symbolic || !ok || badRef(branch) != "" {
		return "", "", fmt.Errorf("%w: its HEAD is %s", ErrUnsupported, events.Quote(line))
	}
	return branch, "", nil
}
