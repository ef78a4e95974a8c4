package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gatebook/events"
)

// heads is where branches are.
const heads = "refs/heads/"

// ValidBranch says whether a branch may get this name. Refused with [ErrBadBranch] is
// what git refuses, what could be read as an option, as another name for a commit or
// as an id, and what [ValidPath] refuses, because a branch is a file too.
func ValidBranch(name string) error {
	why := badRef(name)
	switch {
	case why != "":
	case len(name) > MaxBranch:
		why = "is longer than 200 bytes"
	case isHex(name):
		why = "looks like an id"
	case strings.EqualFold(name, "HEAD"):
		why = "is the name of something else"
	default:
		why = badPath(name)
	}
	if why == "" {
		for part := range strings.SplitSeq(fold(name), "/") {
			if strings.HasSuffix(part, ".lock") {
				why = "has a component that ends in .lock"
			}
		}
	}
	if why != "" {
		return fmt.Errorf("%w: %s %s", ErrBadBranch, events.Quote(name), why)
	}
	return nil
}

// badRef holds the rules of git check-ref-format for the part behind refs/heads/.
func badRef(name string) string {
	switch {
	case name == "" || name == "@":
		return "is no name"
	case strings.HasPrefix(name, "-"):
		return "begins with a dash, like an option"
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }):
		return `holds a space, a control character, or one of ~^:?*[\`
	case strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, "."):
		return "holds .. or @{ or ends in a dot"
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return "has a component that is empty, begins with a dot or ends in .lock"
		}
	}
	return ""
}

// isHex says that a name could be the whole of an id, of SHA-1 or SHA-256.
func isHex(name string) bool {
	return (len(name) == 40 || len(name) == 64) && strings.Trim(strings.ToLower(name), "0123456789abcdef") == ""
}

// branch is the commit that a branch names, "" where there is none.
func (s *standIn) branch(ctx context.Context, name string) (string, error) {
	refs, err := s.refs(ctx, name)
	return refs[heads+name], err
}

// refs are those at refs/heads/name and, in part, below it.
func (s *standIn) refs(ctx context.Context, name string) (map[string]string, error) {
	out, err := s.git(ctx, nil, maxAnswer, "for-each-ref", "--count=2", "--format=%(objectname) %(refname)", "--end-of-options", heads+name)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(string(out)) {
		id, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !s.isID(id) {
			return nil, fmt.Errorf("%w: %s names %s", ErrDamaged, events.Quote(ref), events.Quote(id))
		}
		all[ref] = id
	}
	return all, nil
}

// create makes the branch, which must not be there, in one step. It is not undone by
// the end of ctx: who ended it halfway would not know what became of it.
func (s *standIn) create(ctx context.Context, name, commit string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	// --no-deref: a ref that only points to another is a ref, and there.
	order := "create " + heads + name + "\x00" + commit + "\x00"
	_, err := s.git(ctx, []byte(order), maxAnswer, "update-ref", "--no-deref", "--stdin", "-z")
	if err == nil {
		return nil
	}
	return s.whyNot(ctx, name, commit, err)
}

// whyNot looks for the reason why a branch was not made, or may not have been.
func (s *standIn) whyNot(ctx context.Context, name, commit string, err error) error {
	if id, look := s.branch(ctx, name); look == nil && id == commit && !refused(err) {
		return nil // git was ended after the deed
	}
	if why := s.taken(ctx, name); why != nil {
		return fmt.Errorf("%w: %w", why, err)
	}
	if _, look := os.Lstat(filepath.Join(s.dir, heads+name+".lock")); look == nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

// taken says that a branch is there, or one that it would be below or above. It knows
// those too that have no file of their own.
func (s *standIn) taken(ctx context.Context, name string) error {
	refs, err := s.refs(ctx, name)
	switch {
	case err != nil:
		return err
	case refs[heads+name] != "":
		return fmt.Errorf("%w: branch %s", ErrExists, events.Quote(name))
	case len(refs) > 0:
		return fmt.Errorf("%w: there are branches below it", ErrConflict)
	}
	for i, r := range name {
		if r != '/' {
			continue
		}
		if id, err := s.branch(ctx, name[:i]); err != nil || id != "" {
			return errors.Join(err, fmt.Errorf("%w: %s is a branch", ErrConflict, events.Quote(name[:i])))
		}
	}
	return nil
}
