//go:build unix

package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOpen: what is no repository, leaves its folder, or is of a kind that is not
// known is refused, with what it is; at Open, and where it becomes so later.
func TestOpen(t *testing.T) {
	move := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			to := filepath.Join(t.TempDir(), "moved")
			must(t, os.Rename(filepath.Join(dir, name), to))
			must(t, os.Symlink(to, filepath.Join(dir, name)))
		}
	}
	set := func(key, value string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { git(t, dir, "config", key, value) }
	}
	put := func(text string, name ...string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { write(t, text, append([]string{dir, ".git"}, name...)...) }
	}
	rows := []struct {
		name   string
		change func(t *testing.T, dir string)
		want   error
		later  bool // an open repository sees it too
	}{
		{"no repository", func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, ".git"))) }, ErrNotRepository, false},
		{"a linked .git", move(".git"), ErrElsewhere, false},
		{"a .git file", func(t *testing.T, dir string) {
			to := filepath.Join(t.TempDir(), "moved")
			must(t, os.Rename(filepath.Join(dir, ".git"), to))
			write(t, "gitdir: "+to+"\n", dir, ".git")
		}, ErrElsewhere, false},
		{"a work tree of another", put(t.TempDir(), "commondir"), ErrElsewhere, true},
		{"linked objects", move(".git/objects"), ErrElsewhere, true},
		{"linked packs", move(".git/objects/pack"), ErrElsewhere, true},
		{"a linked folder of objects", func(t *testing.T, dir string) {
			must(t, os.Symlink(t.TempDir(), filepath.Join(dir, ".git/objects/zz")))
		}, ErrElsewhere, true},
		{"linked refs", move(".git/refs"), ErrElsewhere, true},
		{"linked branches", move(".git/refs/heads"), ErrElsewhere, true},
		{"linked packed refs", func(t *testing.T, dir string) { git(t, dir, "pack-refs", "--all"); move(".git/packed-refs")(t, dir) }, ErrElsewhere, true},
		{"a linked HEAD", move(".git/HEAD"), ErrElsewhere, true},
		{"a linked config", move(".git/config"), ErrElsewhere, true},
		{"alternates", put("/elsewhere/objects\n", "objects", "info", "alternates"), ErrElsewhere, true},
		{"alternates by http", put("http://127.0.0.1:1/\n", "objects", "info", "http-alternates"), ErrElsewhere, true},
		{"a config that is a pipe", func(t *testing.T, dir string) {
			name := filepath.Join(dir, ".git", "config")
			must(t, errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o600)))
		}, ErrNotRepository, true},
		{"a config that is none", put("[core\n", "config"), ErrUnsupported, false},
		{"an endless config", put(strings.Repeat("#\n", maxConfig), "config"), ErrUnsupported, false},
		{"a partial clone", set("extensions.partialClone", "origin"), ErrUnsupported, false},
		{"a promisor", set("remote.origin.promisor", "true"), ErrUnsupported, false},
		{"refs as reftable", set("extensions.refStorage", "reftable"), ErrUnsupported, false},
		{"an extension of tomorrow", set("extensions.tomorrow", "true"), ErrUnsupported, false},
		{"a version of tomorrow", set("core.repositoryFormatVersion", "2"), ErrUnsupported, false},
		{"a hash of tomorrow", set("extensions.objectFormat", "sha3"), ErrUnsupported, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			dir := project(t)
			r := opened(t, dir)
			head := git(t, dir, "rev-parse", "HEAD")
			row.change(t, dir)
			if _, err := Open(t.Context(), dir); !errors.Is(err, row.want) {
				t.Errorf("open: got %v, want %v", err, row.want)
			}
			if !row.later {
				return
			}
			if _, err := r.Commit(t.Context(), proposal("never")); !errors.Is(err, row.want) {
				t.Errorf("commit: got %v, want %v", err, row.want)
			}
			if _, err := r.Blob(t.Context(), head, "README.md"); !errors.Is(err, row.want) {
				t.Errorf("blob: got %v, want %v", err, row.want)
			}
		})
	}
	if _, err := Open(t.Context(), "relative"); !errors.Is(err, ErrNotRepository) {
		t.Errorf("a relative path: %v", err)
	}
}

// TestOpenAnyway: what only looks unusual is taken.
func TestOpenAnyway(t *testing.T) {
	dir := project(t)
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	git(t, dir, "config", "core.repositoryFormatVersion", "1")
	git(t, dir, "config", "extensions.preciousObjects", "true")
	if _, err := opened(t, link).Commit(t.Context(), proposal("a")); err != nil {
		t.Error(err)
	}
	must(t, os.Remove(filepath.Join(dir, ".git", "config")))
	if _, err := opened(t, dir).Commit(t.Context(), proposal("b")); err != nil {
		t.Errorf("without a config: %v", err)
	}
}

// TestGitMissing: without a git, or with an old one, the error says that.
func TestGitMissing(t *testing.T) {
	dir, bin := project(t), t.TempDir()
	t.Setenv("PATH", bin)
	if _, err := Open(t.Context(), dir); !errors.Is(err, ErrNoGit) {
		t.Errorf("no git: %v", err)
	}
	for says, want := range map[string]error{"git version 2.38.9": ErrOldGit, "git version 1.99": ErrOldGit, "something": ErrOldGit, "git version 3.0.0": nil, "git version 2.39": nil} {
		write(t, "#!/bin/sh\necho '"+says+"'\n", bin, "git")
		must(t, os.Chmod(filepath.Join(bin, "git"), 0o700))
		if _, err := findGit(t.Context()); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", says, err, want)
		}
	}
	write(t, "#!/bin/sh\nexit 1\n", bin, "git")
	if _, err := Open(t.Context(), dir); !errors.Is(err, ErrNoGit) {
		t.Errorf("a git that fails: %v", err)
	}
}

// TestBlobByID: O-G07: what is read is what was approved, by its whole id, whatever
// came after.
func TestBlobByID(t *testing.T) {
	dir := project(t)
	r := opened(t, dir)
	first, err := r.Commit(t.Context(), proposal("assets/plugin-1"))
	must(t, err)
	c2 := proposal("assets/plugin-2")
	c2.Files[0].Content = []byte("evil()")
	second, err := r.Commit(t.Context(), c2)
	must(t, err)
	other := git(t, dir, "hash-object", "-w", "run.sh")
	rows := []struct {
		name   string
		change func()
	}{
		{"O-G07 fwdai/fletch#564: another commit with the same name", func() {}},
		{"O-G07 CowAgent#3231: the work tree changed by hand", func() { write(t, "evil()", dir, "assets", "plugin.js") }},
		{"O-G07 fwdai/fletch#564 (var.): the branch moved", func() { git(t, dir, "update-ref", heads+"assets/plugin-1", second.Hash) }},
		{"O-G07 fwdai/fletch#564 (var.): a branch called like the commit", func() { git(t, dir, "update-ref", heads+first.Hash, second.Hash) }},
		{"O-G07 fwdai/fletch#564 (var.): the blob replaced", func() { git(t, dir, "replace", first.Blobs[0], other) }},
		{"O-G07 fwdai/fletch#564 (var.): the commit replaced", func() { git(t, dir, "replace", first.Hash, second.Hash) }},
		{"O-G07 fwdai/fletch#564 (var.): the branch gone", func() { git(t, dir, "update-ref", "-d", heads+"assets/plugin-1") }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			row.change()
			got, err := r.Blob(t.Context(), first.Hash, "assets/plugin.js")
			if err != nil || string(got) != "run()\r\n" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	for _, id := range []string{
		"", first.Hash[:7], first.Hash[:39], strings.ToUpper(first.Hash), first.Hash + "^{commit}", first.Hash + " ", "HEAD", "main",
		"assets/plugin-2", heads + "assets/plugin-2", "-" + first.Hash[1:], first.Hash[:38] + "^0", strings.Repeat("0", 40), strings.Repeat("a", 64),
	} {
		if got, err := r.Blob(t.Context(), id, "assets/plugin.js"); !errors.Is(err, ErrBadID) || got != nil {
			t.Errorf("O-G07 fwdai/fletch#564: id %q: got %q, %v", id, got, err)
		}
	}
}

// TestBlobRefuses: only a regular file is read, of the bytes that its id stands for.
func TestBlobRefuses(t *testing.T) {
	dir := project(t)
	r := opened(t, dir)
	write(t, strings.Repeat("x", MaxContent+1), dir, "large")
	write(t, strings.Repeat("y", 4<<20), dir, "larger")
	git(t, dir, "add", ".")
	git(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+git(t, dir, "rev-parse", "HEAD")+",module")
	git(t, dir, "commit", "-q", "-m", "second")
	id := git(t, dir, "rev-parse", "HEAD")
	for path, want := range map[string]error{
		"run.sh": ErrNotFile, "linked": ErrNotFile, "assets": ErrNotFile, "module": ErrNotFile, "linked/passwd": ErrNotFound, "README.md/x": ErrNotFound,
		"none": ErrNotFound, "assets/none": ErrNotFound, "readme.md": ErrNotFound, "large": ErrTooLarge, "larger": ErrTooLarge,
	} {
		if got, err := r.Blob(t.Context(), id, path); !errors.Is(err, want) || got != nil {
			t.Errorf("%s: got %d bytes, %v, want %v", path, len(got), err, want)
		}
	}
	if _, err := r.Blob(t.Context(), git(t, dir, "rev-parse", "HEAD^{tree}"), "README.md"); !errors.Is(err, ErrBadID) {
		t.Errorf("the id of a tree: %v", err)
	}
	loose := func(id string) string { return filepath.Join(dir, ".git", "objects", id[:2], id[2:]) }
	readme := loose(git(t, dir, "rev-parse", "HEAD:README.md"))
	other, err := os.ReadFile(loose(git(t, dir, "rev-parse", "HEAD:run.sh")))
	must(t, err)
	for name, bytes := range map[string][]byte{"of another object": other, "cut": other[:5], "none": {}, "foreign": []byte("hello")} {
		must(t, os.Remove(readme))
		must(t, os.WriteFile(readme, bytes, 0o400))
		if got, err := r.Blob(t.Context(), id, "README.md"); got != nil || !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotFound) {
			t.Errorf("bytes %s: got %q, %v", name, got, err)
		}
	}
}

// TestBadCommit: what a request may not say, whatever the repository holds.
func TestBadCommit(t *testing.T) {
	dir := project(t)
	r, before := opened(t, dir), files(t, dir)
	for name, row := range map[string]struct {
		change func(*Commit)
		want   error
	}{
		"no file":        {func(c *Commit) { c.Files = nil }, ErrBadCommit},
		"nine files":     {func(c *Commit) { c.Files = make([]File, 9) }, ErrBadCommit},
		"a large file":   {func(c *Commit) { c.Files[1].Content = make([]byte, MaxContent+1) }, ErrTooLarge},
		"a long message": {func(c *Commit) { c.Message = strings.Repeat("x", MaxMessage+1) }, ErrTooLarge},
		"NUL":            {func(c *Commit) { c.Message = "a\x00b" }, ErrBadCommit},
		"no name":        {func(c *Commit) { c.AuthorName = "" }, ErrBadCommit},
		"a second line":  {func(c *Commit) { c.AuthorName = "a\nparent x" }, ErrBadCommit},
		"brackets":       {func(c *Commit) { c.AuthorName = "a <b>" }, ErrBadCommit},
		"no address":     {func(c *Commit) { c.AuthorEmail = "" }, ErrBadCommit},
		"a time after":   {func(c *Commit) { c.AuthorEmail = "a> 1 +0000" }, ErrBadCommit},
		"no time":        {func(c *Commit) { c.When = c.When.AddDate(-100, 0, 0) }, ErrBadCommit},
	} {
		c := proposal("never")
		row.change(&c)
		if _, err := r.Commit(t.Context(), c); !errors.Is(err, row.want) {
			t.Errorf("%s: got %v, want %v", name, err, row.want)
		}
	}
	onlyAdded(t, before, files(t, dir), "none")
}

// TestMessage: a message is text, whatever it looks like.
func TestMessage(t *testing.T) {
	dir := project(t)
	r := opened(t, dir)
	for i, text := range []string{"", "\n\n", "--amend\n", "parent " + strings.Repeat("a", 40) + "\n", "gpgsig -----BEGIN PGP SIGNATURE-----\n", "# a comment\n$(touch x) `y`\n", "\x1b[2J\r\n\u202e", "\xff\n"} {
		c := proposal("m" + string(rune('a'+i)))
		c.Message = text
		done, err := r.Commit(t.Context(), c)
		must(t, err)
		want := "\n\n" + text
		if !strings.HasSuffix(text, "\n") && text != "" {
			want += "\n"
		}
		if got, err := plain(t, dir, "", "cat-file", "commit", done.Hash); err != nil || !strings.HasSuffix(got, "+0000"+want) {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
	clean(t, dir)
}
