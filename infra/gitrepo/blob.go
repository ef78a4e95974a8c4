package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gatebook/events"
)

// Blob reads a file out of a commit, which is named by its whole id in lower case:
// no branch, no HEAD, no short id, no expression. The file is a regular one of mode
// 100644, and has at most [MaxContent] bytes. Neither the work tree nor a branch is
// looked at, and every object on the way has the bytes of its id.
//
// The errors are [ErrBadID], [ErrBadPath], [ErrNotFound], [ErrNotFile],
// [ErrTooLarge], [ErrDamaged], and those of [Open].
func (r *Repo) Blob(ctx context.Context, commit, path string) ([]byte, error) {
	data, err := r.blob(ctx, commit, path)
	if err != nil {
		return nil, fmt.Errorf("%s of commit %s: %w", events.Quote(path), events.Quote(commit), err)
	}
	return data, nil
}

func (r *Repo) blob(ctx context.Context, commit, path string) (_ []byte, err error) {
	if !r.isID(commit) {
		return nil, ErrBadID
	}
	if err := ValidPath(path); err != nil {
		return nil, err
	}
	root, err := r.enter()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s, err := r.standIn()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	tree, err := s.treeOf(ctx, commit)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(path, "/")
	for _, name := range parts[:len(parts)-1] {
		e, err := s.lookUp(ctx, tree, name)
		if err != nil {
			return nil, err
		}
		if !e.isFolder() {
			return nil, fmt.Errorf("%w: %s is no folder", ErrNotFound, events.Quote(name))
		}
		tree = e.id
	}
	e, err := s.lookUp(ctx, tree, parts[len(parts)-1])
	if err != nil {
		return nil, err
	}
	if e.mode != modeFile {
		return nil, fmt.Errorf("%w: its mode is %s", ErrNotFile, events.Quote(e.mode))
	}
	return s.read(ctx, kindBlob, e.id, MaxContent)
}

// lookUp finds the only entry of a tree that is called name.
func (s *standIn) lookUp(ctx context.Context, tree, name string) (entry, error) {
	entries, err := s.readTree(ctx, tree)
	if err != nil {
		return entry{}, err
	}
	called := func(e entry) bool { return e.name == name }
	at := slices.IndexFunc(entries, called)
	if at < 0 {
		return entry{}, fmt.Errorf("%w: there is no %s", ErrNotFound, events.Quote(name))
	}
	if slices.ContainsFunc(entries[at+1:], called) {
		return entry{}, fmt.Errorf("%w: %s is there twice", ErrDamaged, events.Quote(name))
	}
	return entries[at], nil
}
