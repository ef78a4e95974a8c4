package gitrepo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plain is git as a person uses it, with a configuration that is only the
// repository's. It fails where there is no git: a skip would hide that nothing here
// was tested.
func plain(t *testing.T, dir, input string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatalf("these tests need the git program, 2.39 or later: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nowhere", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=p", "GIT_AUTHOR_EMAIL=p@example.org", "GIT_COMMITTER_NAME=p", "GIT_COMMITTER_EMAIL=p@example.org",
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := plain(t, dir, "", args...)
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

func write(t *testing.T, text string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	must(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must(t, os.WriteFile(name, []byte(text), 0o600))
}

// project is a repository with one commit: a file, a folder, a program, a link.
func project(t *testing.T, initArgs ...string) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
	write(t, "hello\n", dir, "README.md")
	write(t, "old\n", dir, "assets", "old.txt")
	write(t, "beside a folder docs, and before it\n", dir, "docs.md")
	write(t, "#!/bin/sh\n", dir, "run.sh")
	must(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o700))
	must(t, os.Symlink("/etc", filepath.Join(dir, "linked")))
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "first")
	return dir
}

func opened(t *testing.T, dir string) *Repo {
	t.Helper()
	r, err := Open(t.Context(), dir)
	must(t, err)
	return r
}

// proposal is an artefact and its document, on the branch given.
func proposal(branch string) Commit {
	return Commit{
		Branch: branch, Message: "propose a plug-in\n", AuthorName: "alice", AuthorEmail: "alice@agents", When: time.Unix(1_700_000_000, 0),
		Files: []File{{"assets/plugin.js", []byte("run()\r\n")}, {"docs/assets/plugin.md", []byte("# What\n")}},
	}
}

// files is all that is in a folder: what it is, and its bytes.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		must(t, err)
		text := info.Mode().String()
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			must(t, err)
			text += to
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			must(t, err)
			text += string(data)
		}
		name, err := filepath.Rel(dir, path)
		must(t, err)
		all[name] = text
		return nil
	}))
	return all
}

// onlyAdded says what else than new objects and the branch's own file differs.
func onlyAdded(t *testing.T, before, after map[string]string, branch string) {
	t.Helper()
	for name, was := range before {
		if after[name] != was {
			t.Errorf("%s has changed", name)
		}
	}
	for name := range after {
		_, was := before[name]
		_, inner, _ := strings.Cut("/"+name, "/.git/")
		if inner == "" {
			inner = name // a bare one
		}
		if !was && !strings.HasPrefix(inner, "objects/") && !strings.HasPrefix(heads+branch+"/", inner+"/") {
			t.Errorf("%s is new", name)
		}
	}
}

// clean is what git itself has to say about the repository.
func clean(t *testing.T, dir string) {
	t.Helper()
	out := git(t, dir, "-c", "core.hooksPath=/dev/null", "fsck", "--strict", "--no-dangling", "--no-progress")
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "notice: ") { // that HEAD names a branch without commits
			t.Errorf("git fsck: %s", line)
		}
	}
}

// TestCommit: one commit, its parent's tree and exactly the files, in every kind of
// repository; and nothing else changes.
func TestCommit(t *testing.T) {
	packed := func(t *testing.T, dir string) {
		git(t, dir, "tag", "-a", "v1", "-m", "one")
		git(t, dir, "branch", "other")
		git(t, dir, "gc", "-q")
		git(t, dir, "worktree", "add", "-q", filepath.Join(t.TempDir(), "tree"), "other")
	}
	rows := []struct {
		name  string
		make  func(t *testing.T) string
		first bool // there is no parent
	}{
		{"with commits", func(t *testing.T) string { return project(t) }, false},
		{"packed, with work trees", func(t *testing.T) string { d := project(t); packed(t, d); return d }, false},
		{"SHA-256", func(t *testing.T) string { return project(t, "--object-format=sha256") }, false},
		{"SHA-256, packed", func(t *testing.T) string {
			d := project(t, "--object-format=sha256")
			packed(t, d)
			return d
		}, false},
		{"HEAD names a commit", func(t *testing.T) string { d := project(t); git(t, d, "checkout", "-q", "--detach"); return d }, false},
		{"a dirty index and work tree", func(t *testing.T) string {
			d := project(t)
			write(t, "staged", d, "staged.txt")
			git(t, d, "add", "staged.txt")
			write(t, "changed", d, "README.md")
			must(t, os.Remove(filepath.Join(d, "assets", "old.txt")))
			return d
		}, false},
		{"bare", func(t *testing.T) string {
			d := t.TempDir()
			git(t, d, "clone", "-q", "--bare", "--no-hardlinks", project(t), ".")
			return d
		}, false},
		{"empty", func(t *testing.T) string { d := t.TempDir(); git(t, d, "init", "-q", "-b", "main"); return d }, true},
		{"empty and bare", func(t *testing.T) string { d := t.TempDir(); git(t, d, "init", "-q", "--bare"); return d }, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			dir := row.make(t)
			before, c := files(t, dir), proposal("assets/plugin-1")
			done, err := opened(t, dir).Commit(t.Context(), c)
			must(t, err)
			onlyAdded(t, before, files(t, dir), c.Branch)
			clean(t, dir)
			if got := git(t, dir, "rev-parse", heads+c.Branch); got != done.Hash {
				t.Errorf("the branch is %s, not %s", got, done.Hash)
			}
			parents, base := "", git(t, dir, "hash-object", "-w", "-t", "tree", "/dev/null")
			if !row.first {
				parents, base = git(t, dir, "rev-parse", "HEAD"), "HEAD"
			}
			if got := git(t, dir, "log", "-1", "--format=%P", done.Hash); got != parents || done.Parent != parents {
				t.Errorf("parents %q and %q, want %q", got, done.Parent, parents)
			}
			zero := strings.Repeat("0", len(done.Hash))
			want := fmt.Sprintf(":000000 100644 %s %s A\tassets/plugin.js\n:000000 100644 %s %s A\tdocs/assets/plugin.md", zero, done.Blobs[0], zero, done.Blobs[1])
			if got := git(t, dir, "diff-tree", "-r", "--no-renames", "--no-commit-id", base, done.Hash); got != want {
				t.Errorf("the commit is\n%s\nnot\n%s", got, want)
			}
			who := "alice <alice@agents> 1700000000 +0000"
			if got := git(t, dir, "log", "-1", "--format=%an <%ae> %ad|%cn <%ce> %cd|%B", "--date=raw", done.Hash); got != who+"|"+who+"|"+c.Message {
				t.Errorf("got %q", got)
			}
			for i, f := range c.Files {
				got, err := opened(t, dir).Blob(t.Context(), done.Hash, f.Path)
				if err != nil || !bytes.Equal(got, f.Content) {
					t.Errorf("%s: got %q, %v", f.Path, got, err)
				}
				if got := git(t, dir, "cat-file", "blob", done.Blobs[i]); got+"\n" != string(f.Content) {
					t.Errorf("%s: git has %q", f.Path, got)
				}
			}
		})
	}
}

// TestBase: a proposal can be built on any commit, and on nothing else.
func TestBase(t *testing.T) {
	dir := project(t)
	r := opened(t, dir)
	first := git(t, dir, "rev-parse", "HEAD")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "second")
	c := proposal("on-first")
	c.Base = first
	done, err := r.Commit(t.Context(), c)
	if err != nil || done.Parent != first {
		t.Fatalf("got %+v, %v", done, err)
	}
	before := files(t, dir)
	for _, row := range []struct {
		base string
		want error
	}{
		{first[:39], ErrBadID},
		{first[:7], ErrBadID},
		{strings.ToUpper(first), ErrBadID},
		{first + "\n", ErrBadID},
		{"main", ErrBadID},
		{"HEAD", ErrBadID},
		{"--help", ErrBadID},
		{strings.Repeat("0", 40), ErrBadID},
		{strings.Repeat("a", 64), ErrBadID},
		{git(t, dir, "rev-parse", "HEAD^{tree}"), ErrBadID},
		{git(t, dir, "rev-parse", "HEAD:README.md"), ErrBadID},
		{strings.Repeat("a", 40), ErrNotFound},
	} {
		c := proposal("never")
		c.Base = row.base
		if done, err := r.Commit(t.Context(), c); !errors.Is(err, row.want) || done.Hash != "" {
			t.Errorf("%q: got %+v, %v, want %v", row.base, done, err, row.want)
		}
	}
	onlyAdded(t, before, files(t, dir), "on-first")
}

// TestConflict: nothing that is there is replaced, hidden, or confused with another.
func TestConflict(t *testing.T) {
	rows := []struct {
		name string
		want error
		path []string
	}{
		{"a file is there", ErrExists, []string{"assets/old.txt"}},
		{"a folder is there", ErrExists, []string{"assets"}},
		{"a program is there", ErrExists, []string{"run.sh"}},
		{"a file where a folder is needed", ErrConflict, []string{"README.md/x"}},
		{"O-G04 CVE-2026-27735: through a linked folder", ErrConflict, []string{"linked/secret.txt"}},
		{"another case", ErrConflict, []string{"readme.MD"}},
		{"another case of a folder", ErrConflict, []string{"Assets/x"}},
		{"another form", ErrConflict, []string{"ＲＥＡＤＭＥ.md"}},
		{"two cases at once", ErrConflict, []string{"new/a.txt", "new/A.txt"}},
		{"a file and a folder at once", ErrConflict, []string{"new", "new/a.txt"}},
		{"a folder and a file at once", ErrConflict, []string{"new/a.txt", "new"}},
		{"twice", ErrBadCommit, []string{"new", "new"}},
		{"one good, one there", ErrExists, []string{"new", "run.sh"}},
	}
	dir := project(t)
	r := opened(t, dir)
	before := files(t, dir)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := proposal("never")
			c.Files = nil
			for _, p := range row.path {
				c.Files = append(c.Files, File{p, []byte("x")})
			}
			if done, err := r.Commit(t.Context(), c); !errors.Is(err, row.want) || done.Hash != "" {
				t.Errorf("got %+v, %v, want %v", done, err, row.want)
			}
		})
	}
	if after := files(t, dir); !slices.Equal(sortedKeys(before), sortedKeys(after)) {
		t.Error("what was refused has left something behind")
	}
}

// TestReplace: only a regular file gives its place, and only to who asked for that.
func TestReplace(t *testing.T) {
	dir := project(t)
	r := opened(t, dir)
	for i, row := range []struct {
		name, path string
		want       error
	}{
		{"a file", "assets/old.txt", nil},
		{"a new file", "assets/new.txt", nil},
		{"a program", "run.sh", ErrExists},
		{"a link", "linked", ErrExists},
		{"a folder", "assets", ErrExists},
		{"a file where a folder is needed", "README.md/x", ErrConflict},
		{"another case", "readme.MD", ErrConflict},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := proposal(fmt.Sprint("replaces-", i))
			c.Files, c.Replace = []File{{row.path, []byte("instead\n")}}, true
			done, err := r.Commit(t.Context(), c)
			if !errors.Is(err, row.want) {
				t.Fatalf("got %+v, %v, want %v", done, err, row.want)
			}
			if err != nil {
				return
			}
			got, err := r.Blob(t.Context(), done.Hash, row.path)
			if err != nil || string(got) != "instead\n" {
				t.Errorf("the commit holds %q, %v", got, err)
			}
			if changed := strings.Fields(git(t, dir, "diff-tree", "-r", "--name-only", "--no-commit-id", done.Hash)); !slices.Equal(changed, []string{row.path}) {
				t.Errorf("the commit changes %q", changed)
			}
		})
	}
}

func sortedKeys(m map[string]string) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// TestBranchThere: a branch is made once, and takes no other's place.
func TestBranchThere(t *testing.T) {
	for _, kind := range []string{"loose", "packed"} {
		dir := project(t)
		git(t, dir, "branch", "there")
		git(t, dir, "branch", "in/folder")
		if kind == "packed" {
			git(t, dir, "pack-refs", "--all")
		}
		git(t, dir, "symbolic-ref", heads+"points", heads+"nowhere")
		write(t, "", dir, ".git", "refs", "heads", "held.lock")
		must(t, os.Symlink(t.TempDir(), filepath.Join(dir, ".git", "refs", "heads", "out")))
		r, before := opened(t, dir), files(t, dir)
		for branch, want := range map[string]error{
			"there": ErrExists, "main": ErrExists, "points": ErrExists, "out": ErrExists,
			"in": ErrConflict, "there/below": ErrConflict, "there/far/below": ErrConflict,
			"out/x": ErrElsewhere, "held": ErrBusy,
		} {
			if _, err := r.Commit(t.Context(), proposal(branch)); !errors.Is(err, want) {
				t.Errorf("%s, %s: got %v, want %v", kind, branch, err, want)
			}
		}
		onlyAdded(t, before, files(t, dir), "none")
	}
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	if _, err := opened(t, dir).Commit(t.Context(), proposal("main")); !errors.Is(err, ErrExists) {
		t.Errorf("the branch that HEAD will have: %v", err)
	}
}

// TestBranchPoints: a ref that came to be between the look and the deed, and points
// elsewhere, leads no commit there.
func TestBranchPoints(t *testing.T) {
	dir := project(t)
	git(t, dir, "symbolic-ref", heads+"points", heads+"nowhere")
	s, err := opened(t, dir).standIn()
	must(t, err)
	_ = s.create(t.Context(), "points", git(t, dir, "rev-parse", "HEAD"))
	must(t, s.remove())
	if out, err := plain(t, dir, "", "rev-parse", "--verify", "-q", heads+"nowhere"); err == nil {
		t.Errorf("the branch that it pointed to is %s", out)
	}
}

// TestAtOnce: O-G07 fwdai/fletch#564: two proposals at once: none is lost, and a name
// is given once.
func TestAtOnce(t *testing.T) {
	const n = 6
	dir := project(t)
	r := opened(t, dir)
	var got, same [n]Committed
	var errs, sameErrs [n]error
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			c := proposal(fmt.Sprintf("assets/%d", i))
			c.Files[0].Content = []byte(c.Branch)
			got[i], errs[i] = r.Commit(t.Context(), c)
		})
		all.Go(func() { same[i], sameErrs[i] = r.Commit(t.Context(), proposal("same")) })
	}
	all.Wait()
	made := 0
	for i := range n {
		if errs[i] != nil || git(t, dir, "rev-parse", fmt.Sprintf("%sassets/%d", heads, i)) != got[i].Hash {
			t.Errorf("proposal %d: %v", i, errs[i])
		}
		if data, err := r.Blob(t.Context(), got[i].Hash, "assets/plugin.js"); err != nil || string(data) != fmt.Sprintf("assets/%d", i) {
			t.Errorf("proposal %d holds %q, %v", i, data, err)
		}
		if sameErrs[i] == nil {
			made++
		} else if !errors.Is(sameErrs[i], ErrExists) {
			t.Errorf("one branch: %v", sameErrs[i])
		}
	}
	if made != 1 {
		t.Errorf("one branch was made %d times", made)
	}
	clean(t, dir)
}
