package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gatebook/events"
)

// File is one that is proposed.
type File struct {
	Path    string // see [ValidPath]
	Content []byte
}

// Commit is what [Repo.Commit] is asked for.
type Commit struct {
	Branch  string // a new one, see [ValidBranch]
	Message string // any text without NUL
	// The author, who is the committer too. Without control characters and <>.
	AuthorName, AuthorEmail string
	When                    time.Time // to the second
	// Base is the whole id of the parent. Empty is the commit that HEAD stands for
	// now; where HEAD names a branch without commits, there is no parent.
	Base  string
	Files []File
	// Replace lets a file take the place of a regular one of mode 100644. Of the others,
	// and of every file without it, nothing may be at its path.
	Replace bool
}

// Committed is what came of it.
type Committed struct {
	Hash   string
	Blobs  []string // of the files, in their order
	Parent string   // empty for a first commit
}

// Commit makes one commit on a branch of its own.
//
// The errors are [ErrBadCommit], [ErrBadBranch], [ErrBadPath], [ErrBadID] and
// [ErrTooLarge] for a request that is refused whatever the repository holds;
// [ErrExists], [ErrConflict], [ErrBusy] and [ErrNotFound] by what it holds; and those
// of [Open]. With any of them there is no branch. Of many at once for one branch, one
// succeeds and the others get ErrExists.
//
// The end of ctx counts until the branch is begun, and not after.
func (r *Repo) Commit(ctx context.Context, c Commit) (Committed, error) {
	done, err := r.commit(ctx, c)
	if err != nil {
		return Committed{}, fmt.Errorf("commit on branch %s: %w", events.Quote(c.Branch), err)
	}
	return done, nil
}

func (r *Repo) commit(ctx context.Context, c Commit) (_ Committed, err error) {
	if err := c.validate(r.format); err != nil {
		return Committed{}, err
	}
	root, err := r.enter()
	if err != nil {
		return Committed{}, err
	}
	defer root.Close()
	if err := branchFree(root, c.Branch); err != nil {
		return Committed{}, err
	}
	s, err := r.standIn()
	if err != nil {
		return Committed{}, err
	}
	defer func() { _ = s.remove() }() // the commit stands, whatever is left in the temporary folder
	if err := s.taken(ctx, c.Branch); err != nil {
		return Committed{}, err
	}
	parent, err := r.parent(ctx, s, root, c)
	if err != nil {
		return Committed{}, err
	}
	return s.commit(ctx, c, parent)
}

// parent is the commit to build on, "" for none.
func (r *Repo) parent(ctx context.Context, s *standIn, root *os.Root, c Commit) (string, error) {
	branch, id, err := r.head(root)
	switch {
	case err != nil:
		return "", err
	case branch == c.Branch:
		return "", fmt.Errorf("%w: HEAD names it", ErrExists)
	case c.Base != "":
		return c.Base, nil
	case branch == "":
		return id, nil
	}
	if id, err = s.branch(ctx, branch); err != nil || id != "" {
		return id, err
	}
	if _, err := root.Lstat(heads + branch); err == nil && !isFolder(root, heads+branch) {
		return "", fmt.Errorf("%w: branch %s cannot be read", ErrDamaged, events.Quote(branch))
	}
	return "", nil
}

func isFolder(root *os.Root, name string) bool {
	info, err := root.Lstat(name)
	return err == nil && info.IsDir()
}

// commit plans all objects before it writes the first.
func (s *standIn) commit(ctx context.Context, c Commit, parent string) (Committed, error) {
	done := Committed{Parent: parent}
	tree := ""
	var err error
	if parent != "" {
		if tree, err = s.treeOf(ctx, parent); err != nil {
			return Committed{}, err
		}
	}
	var blobs, trees []object
	var leaves []leaf
	for _, f := range c.Files {
		blob := s.object(kindBlob, f.Content)
		blobs, leaves = append(blobs, blob), append(leaves, leaf{f.Path, blob.id})
		done.Blobs = append(done.Blobs, blob.id)
	}
	if tree, err = s.grow(ctx, tree, leaves, c.Replace, &trees); err != nil {
		return Committed{}, err
	}
	top := s.object(kindCommit, c.object(tree, parent))
	for _, o := range slices.Concat(blobs, trees, []object{top}) {
		if err := s.write(ctx, o); err != nil {
			return Committed{}, err
		}
	}
	done.Hash = top.id
	return done, s.create(ctx, c.Branch, top.id)
}

// object is the commit as git keeps it. The header is of values that were validated;
// what follows the empty line is text to git, whatever it says.
func (c Commit) object(tree, parent string) []byte {
	by := fmt.Sprintf("%s <%s> %d +0000", c.AuthorName, c.AuthorEmail, c.When.Unix())
	text := "tree " + tree + "\n"
	if parent != "" {
		text += "parent " + parent + "\n"
	}
	text += "author " + by + "\ncommitter " + by + "\n\n" + c.Message
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return []byte(text)
}

// latest is the last second of the year 9999.
const latest = 253402300799

func (c Commit) validate(f format) error {
	if err := ValidBranch(c.Branch); err != nil {
		return err
	}
	switch {
	case c.Base != "" && !f.isID(c.Base):
		return fmt.Errorf("%w: base %s", ErrBadID, events.Quote(c.Base))
	case len(c.Message) > MaxMessage:
		return fmt.Errorf("%w: a message of %d bytes, at most %d", ErrTooLarge, len(c.Message), MaxMessage)
	case strings.Contains(c.Message, "\x00"):
		return fmt.Errorf("%w: the message holds a NUL", ErrBadCommit)
	case badIdent(c.AuthorName) || badIdent(c.AuthorEmail) || strings.Contains(c.AuthorEmail, " "):
		return fmt.Errorf("%w: the author is %s, %s", ErrBadCommit, events.Quote(c.AuthorName), events.Quote(c.AuthorEmail))
	case c.When.Unix() <= 0 || c.When.Unix() > latest:
		return fmt.Errorf("%w: its time is %s", ErrBadCommit, c.When)
	case len(c.Files) == 0 || len(c.Files) > MaxFiles:
		return fmt.Errorf("%w: %d files, 1 to %d are taken", ErrBadCommit, len(c.Files), MaxFiles)
	}
	return validFiles(c.Files)
}

func validFiles(files []File) error {
	var errs []error
	seen := map[string]bool{}
	for _, f := range files {
		errs = append(errs, ValidPath(f.Path))
		if len(f.Content) > MaxContent {
			errs = append(errs, fmt.Errorf("%w: %s has %d bytes, at most %d", ErrTooLarge, events.Quote(f.Path), len(f.Content), MaxContent))
		}
		if seen[f.Path] {
			errs = append(errs, fmt.Errorf("%w: %s is there twice", ErrBadCommit, events.Quote(f.Path)))
		}
		seen[f.Path] = true
	}
	return errors.Join(errs...)
}

// badIdent is for what git would change, or take for the end of a name.
func badIdent(text string) bool {
	return text == "" || len(text) > maxIdent || !utf8.ValidString(text) || strings.TrimSpace(text) != text ||
		strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '<' || r == '>' })
}
