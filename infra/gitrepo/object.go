package gitrepo

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
)

// The kinds of objects.
const (
	kindBlob   = "blob"
	kindTree   = "tree"
	kindCommit = "commit"
)

// read gives the bytes of an object, which are those of its id. The error is
// [ErrNotFound] where it is not there, [ErrBadID] where it is of another kind,
// [ErrTooLarge], or [ErrDamaged].
func (s *standIn) read(ctx context.Context, kind, id string, most int64) ([]byte, error) {
	const header = 128 // before the object: its id, kind and size
	out, err := s.git(ctx, []byte(id+"\n"), most+header, "cat-file", "--batch")
	if refused(err) {
		return nil, fmt.Errorf("%w: %s %s: %w", ErrDamaged, kind, id, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, id, err)
	}
	first, rest, _ := bytes.Cut(out, []byte("\n"))
	if string(first) == id+" missing" {
		return nil, fmt.Errorf("%w: %s %s", ErrNotFound, kind, id)
	}
	fields := strings.Split(string(first), " ")
	if len(fields) != 3 || fields[0] != id {
		return nil, fmt.Errorf("%w: %s %s is not given", ErrDamaged, kind, id)
	}
	if fields[1] != kind {
		return nil, fmt.Errorf("%w: %s is no %s", ErrBadID, id, kind)
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || int64(len(rest)) != size+1 {
		return nil, fmt.Errorf("%w: %s %s is cut", ErrDamaged, kind, id)
	}
	data := rest[:size]
	switch {
	case size > most:
		return nil, fmt.Errorf("%w: %s %s has %d bytes, at most %d are read", ErrTooLarge, kind, id, size, most)
	case s.id(kind, data) != id:
		return nil, fmt.Errorf("%w: %s %s has other bytes", ErrDamaged, kind, id)
	}
	return data, nil
}

// object is one that is to be written.
type object struct {
	kind string
	data []byte
	id   string
}

func (s *standIn) object(kind string, data []byte) object {
	return object{kind, data, s.id(kind, data)}
}

// write puts an object into the repository, as it is: no filter sees it.
func (s *standIn) write(ctx context.Context, o object) error {
	out, err := s.git(ctx, o.data, maxAnswer, "hash-object", "-t", o.kind, "-w", "--no-filters", "--stdin")
	if err != nil {
		return fmt.Errorf("write %s %s: %w", o.kind, o.id, err)
	}
	if got := strings.TrimSpace(string(out)); got != o.id {
		return fmt.Errorf("write %s %s: %w: git wrote %q", o.kind, o.id, ErrDamaged, got)
	}
	return nil
}

// treeOf is the tree of a commit.
func (s *standIn) treeOf(ctx context.Context, commit string) (string, error) {
	data, err := s.read(ctx, kindCommit, commit, maxCommit)
	if err != nil {
		return "", err
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	tree, ok := strings.CutPrefix(string(line), "tree ")
	if !ok || !s.isID(tree) {
		return "", fmt.Errorf("%w: commit %s names no tree", ErrDamaged, commit)
	}
	return tree, nil
}
