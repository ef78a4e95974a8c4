package gitrepo

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// trap is a program that a repository would have run. fire shows that it is live:
// what a person does who falls into it.
type trap struct {
	name string
	// set plants it in the repository dir; program leaves a mark when it runs.
	set  func(t *testing.T, dir, program string)
	fire [][]string
}

func config(key, value string) func(*testing.T, string, string) {
	return func(t *testing.T, dir, program string) {
		git(t, dir, "config", key, strings.ReplaceAll(value, "PROGRAM", program))
	}
}

func hook(name string) func(*testing.T, string, string) {
	return func(t *testing.T, dir, program string) {
		must(t, os.MkdirAll(filepath.Join(dir, ".git", "hooks"), 0o700))
		must(t, os.Symlink(program, filepath.Join(dir, ".git", "hooks", name)))
	}
}

func hooksElsewhere(t *testing.T, dir, program string) string {
	hooks := filepath.Join(filepath.Dir(program), "hooks")
	must(t, os.MkdirAll(hooks, 0o700))
	for _, name := range strings.Fields("pre-commit prepare-commit-msg commit-msg post-commit reference-transaction post-index-change pre-auto-gc") {
		_ = os.Symlink(program, filepath.Join(hooks, name))
	}
	return hooks
}

func included(key string) func(*testing.T, string, string) {
	return func(t *testing.T, dir, program string) {
		file := filepath.Join(filepath.Dir(program), "included")
		write(t, fmt.Sprintf("[core]\n\thooksPath = %s\n\tfsmonitor = %s\n[filter \"x\"]\n\tclean = %s\n", hooksElsewhere(t, dir, program), program, program), file)
		git(t, dir, "config", key, file)
	}
}

func both(all ...func(*testing.T, string, string)) func(*testing.T, string, string) {
	return func(t *testing.T, dir, program string) {
		for _, set := range all {
			set(t, dir, program)
		}
	}
}

func attributes(line string, name ...string) func(*testing.T, string, string) {
	return func(t *testing.T, dir, _ string) {
		write(t, line+"\n", filepath.Join(append([]string{dir}, name...)...))
	}
}

var (
	commitNow = []string{"commit", "--allow-empty", "-m", "x"}
	refNow    = []string{"update-ref", "refs/heads/fired", "HEAD"}
	cleanNow  = []string{"hash-object", "-w", "--path", "assets/plugin.js", "README.md"}
	appendNow = []string{"rm", "-q", "--cached", "run.sh"}
	diffNow   = []string{"diff", "HEAD", "--", "README.md"}
)

var traps = []trap{
	{"fwdai/fletch#564: pre-commit hook", hook("pre-commit"), [][]string{commitNow}},
	{"fwdai/fletch#564 (var.): post-commit hook", hook("post-commit"), [][]string{commitNow}},
	{"fwdai/fletch#564 (var.): reference-transaction hook", hook("reference-transaction"), [][]string{refNow}},
	{"fwdai/fletch#564 (var.): post-index-change hook", hook("post-index-change"), [][]string{appendNow}},
	{"fwdai/fletch#564: core.hooksPath", func(t *testing.T, dir, program string) {
		git(t, dir, "config", "core.hooksPath", hooksElsewhere(t, dir, program))
	}, [][]string{refNow}},
	{"fwdai/fletch#564: core.fsmonitor", config("core.fsmonitor", "PROGRAM"), [][]string{{"status"}}},
	{"atlassian/atlascode#1918: filter.x.clean", both(config("filter.x.clean", "PROGRAM"), attributes("* filter=x", ".gitattributes")), [][]string{cleanNow}},
	{"atlassian/atlascode#1918 (var.): info/attributes", both(config("filter.x.clean", "PROGRAM"), attributes("* filter=x", ".git", "info", "attributes")), [][]string{cleanNow}},
	{"atlassian/atlascode#1918 (var.): filter.x.process", both(config("filter.x.process", "PROGRAM"), attributes("* filter=x", ".gitattributes")), [][]string{cleanNow}},
	{"atlassian/atlascode#1918 (var.): core.attributesFile", func(t *testing.T, dir, program string) {
		write(t, "* filter=x\n", filepath.Dir(program), "attributes")
		git(t, dir, "config", "core.attributesFile", filepath.Join(filepath.Dir(program), "attributes"))
		git(t, dir, "config", "filter.x.clean", program)
	}, [][]string{cleanNow}},
	{"fwdai/fletch#564: include.path", included("include.path"), [][]string{refNow}},
	{"fwdai/fletch#564 (var.): includeIf", included("includeIf.gitdir:**.path"), [][]string{refNow}},
	{"fwdai/fletch#564: gpg.program with commit signing", both(config("gpg.program", "PROGRAM"), config("commit.gpgSign", "true"), config("user.signingKey", "x")), [][]string{commitNow}},
	{"fwdai/fletch#564 (var.): core.sshCommand", config("core.sshCommand", "PROGRAM"), [][]string{{"ls-remote", "ssh://127.0.0.1:1/x"}}},
	{"fwdai/fletch#564 (var.): core.editor", config("core.editor", "PROGRAM"), [][]string{{"commit", "--allow-empty"}}},
	{"fwdai/fletch#564 (var.): core.pager", both(config("core.pager", "PROGRAM"), config("pager.hash-object", "PROGRAM")), nil}, // needs a terminal
	{"fwdai/fletch#564 (var.): diff.external", config("diff.external", "PROGRAM"), [][]string{diffNow}},
	{"fwdai/fletch#564 (var.): textconv", both(config("diff.x.textconv", "PROGRAM"), attributes("* diff=x", ".gitattributes")), [][]string{diffNow}},
	{"fwdai/fletch#564 (var.): aliases", both(config("alias.update-ref", "!PROGRAM"), config("alias.other", "!PROGRAM")), [][]string{{"other"}}},
	{"fwdai/fletch#564 (var.): credential.helper", config("credential.helper", "!PROGRAM"), [][]string{{"credential", "fill"}}},
	{"fwdai/fletch#564 (var.): trace2", config("trace2.eventTarget", "PROGRAM.mark"), nil}, // git reads it from no repository
	{"fwdai/fletch#564 (var.): core.gitProxy", config("core.gitProxy", "PROGRAM"), [][]string{{"ls-remote", "git://127.0.0.1:1/x"}}},
	{"fwdai/fletch#564 (var.): core.alternateRefsCommand", config("core.alternateRefsCommand", "PROGRAM"), nil}, // needs alternates, which are refused
	{"fwdai/fletch#564 (var.): core.worktree", config("core.worktree", "/"), nil},
}

// marker makes the program of a trap, and says whether it has run.
func marker(t *testing.T) (program string, ran func() bool) {
	dir, err := os.MkdirTemp("", "trap") // t.TempDir has characters that mean something to a shell
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	program = filepath.Join(dir, "program")
	write(t, "#!/bin/sh\n: >'"+program+".mark'\nexit 1\n", program)
	must(t, os.Chmod(program, 0o700))
	return program, func() bool { _, err := os.Lstat(program + ".mark"); return err == nil }
}

// untouched proposes and reads back, and wants that nothing ran meanwhile.
func untouched(t *testing.T, dir string, ran func() bool) {
	t.Helper()
	_ = os.Remove(filepath.Join(dir, ".git", "index.lock"))
	before, c := files(t, dir), proposal("assets/plugin-1")
	r := opened(t, dir)
	done, err := r.Commit(t.Context(), c)
	must(t, err)
	got, err := r.Blob(t.Context(), done.Hash, c.Files[0].Path)
	if err != nil || !bytes.Equal(got, c.Files[0].Content) {
		t.Errorf("got %q, %v", got, err)
	}
	if ran() {
		t.Error("a program of the repository ran")
	}
	onlyAdded(t, before, files(t, dir), c.Branch)
}

// TestTraps: no program that the repository configures runs, and each would have.
func TestTraps(t *testing.T) {
	for _, trap := range traps {
		t.Run("O-G01 "+trap.name, func(t *testing.T) {
			dir := project(t)
			program, ran := marker(t)
			trap.set(t, dir, program)
			write(t, "changed\n", dir, "README.md")
			_ = os.Remove(program + ".mark") // setting it may have let it run
			untouched(t, dir, ran)
			if t.Failed() || trap.fire == nil {
				return
			}
			for _, args := range trap.fire {
				_, _ = plain(t, dir, "protocol=https\nhost=localhost\n\n", args...)
			}
			if !ran() {
				t.Error("the trap does not fire for a person either: it shows nothing")
			}
		})
	}
}

// TestAllTraps: O-G01 fwdai/fletch#564: all at once.
func TestAllTraps(t *testing.T) {
	dir := project(t)
	program, ran := marker(t)
	for _, trap := range traps {
		trap.set(t, dir, program)
	}
	_ = os.Remove(program + ".mark")
	untouched(t, dir, ran)
}

// TestEnvironment: O-G01 fwdai/fletch#564 (var.): nothing that the engine was started
// with reaches git.
func TestEnvironment(t *testing.T) {
	dir := project(t)
	program, ran := marker(t)
	hooks := hooksElsewhere(t, dir, program)
	home := t.TempDir()
	write(t, "[core]\n\thooksPath = "+hooks+"\n", home, ".gitconfig")
	write(t, "[core]\n\thooksPath = "+hooks+"\n", home, "git", "config")
	other := project(t)
	before := files(t, other)
	for key, value := range map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": home, "GIT_CONFIG_GLOBAL": filepath.Join(home, ".gitconfig"), "GIT_CONFIG_SYSTEM": filepath.Join(home, ".gitconfig"),
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": hooks,
		"GIT_CONFIG_PARAMETERS": "'core.hooksPath'='" + hooks + "'",
		"GIT_DIR":               filepath.Join(other, ".git"), "GIT_WORK_TREE": other, "GIT_INDEX_FILE": filepath.Join(other, "index"),
		"GIT_OBJECT_DIRECTORY": filepath.Join(other, ".git", "objects"), "GIT_COMMON_DIR": filepath.Join(other, ".git"), "GIT_NAMESPACE": "x",
		"GIT_TRACE": program + ".mark", "GIT_TRACE2_EVENT": program + ".mark", "GIT_EXEC_PATH": hooks, "GIT_AUTHOR_DATE": "yesterday",
		"GIT_EDITOR": program, "GIT_PAGER": program, "GIT_EXTERNAL_DIFF": program, "GIT_DEFAULT_HASH": "sha256",
	} {
		t.Setenv(key, value)
	}
	untouched(t, dir, ran)
	if after := files(t, other); len(after) != len(before) {
		t.Error("another repository was written to")
	}
}

// TestContents: O-G06: whatever a file says, it is a regular file of these bytes, and
// nothing else than the files comes to the branch.
func TestContents(t *testing.T) {
	dir := project(t)
	r := opened(t, dir)
	big := bytes.Repeat([]byte{0, 1, '\r', '\n'}, MaxContent/4)
	for i, row := range []struct {
		name    string
		content []byte
	}{
		{"O-G06 atlassian/atlascode#1918: a program", []byte("#!/bin/sh\nexit 0\n")},
		{"O-G06 fwdai/fletch#564: a link target", []byte("../../OUT/secret.txt")},
		{"O-G06 fwdai/fletch#564 (var.): a sub-module", []byte("Subproject commit " + strings.Repeat("a", 40) + "\n")},
		{"O-G06 fwdai/fletch#564 (var.): an object", []byte("blob 3\x00abc")},
		{"O-G06 fwdai/fletch#564 (var.): line ends", []byte("a\r\nb\rc\n")},
		{"O-G06 fwdai/fletch#564 (var.): empty", nil},
		{"O-G06 fwdai/fletch#564 (var.): as large as may be", big},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := proposal(fmt.Sprintf("b%d", i))
			c.Files = []File{{"new/file", row.content}}
			done, err := r.Commit(t.Context(), c)
			must(t, err)
			if got, err := r.Blob(t.Context(), done.Hash, "new/file"); err != nil || !bytes.Equal(got, row.content) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
			if got := git(t, dir, "ls-tree", "-r", done.Hash, "new"); got != "100644 blob "+done.Blobs[0]+"\tnew/file" {
				t.Errorf("the tree has %s", got)
			}
		})
	}
	clean(t, dir)
}

// TestWorkTree: O-G05 CowAgent#3231, CVE-2025-54135: what tools pick up from a work
// tree is not there: not before approval, and not by this package at all.
func TestWorkTree(t *testing.T) {
	dir := project(t)
	r, before := opened(t, dir), files(t, dir)
	c := proposal("assets/1")
	c.Files = nil
	for _, p := range []string{".mcp.json", "plugins/x.js", "policy.yaml", ".vscode/tasks.json", "cron.d/job"} {
		c.Files = append(c.Files, File{p, []byte("run")})
	}
	done, err := r.Commit(t.Context(), c)
	must(t, err)
	onlyAdded(t, before, files(t, dir), c.Branch)
	for _, f := range c.Files {
		if _, err := os.Lstat(filepath.Join(dir, f.Path)); err == nil {
			t.Errorf("%s is in the work tree", f.Path)
		}
		if got, err := r.Blob(t.Context(), done.Hash, f.Path); err != nil || string(got) != "run" {
			t.Errorf("%s: got %q, %v", f.Path, got, err)
		}
	}
}
