package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// refusedPaths are names that no proposal may have.
var refusedPaths = []struct{ name, path string }{
	{"O-G02 git-mcp-server#53: an option with a value", "--output=pwn.txt"},
	{"O-G02 gogs/gogs#8390: a short option", "-f"},
	{"O-G02 CVE-2025-68144: in a folder", "assets/--upload-pack=x"},
	{"O-G02 CVE-2025-68144 (var.): a folder", "-c/x"},
	{"O-G02 gogs/gogs#8390 (var.): a wide dash", "－f"},

	{"O-G03 oh-my-pi#11375: a hook", ".git/hooks/pre-commit"},
	{"O-G03 mcpvault#115: upper case", ".GIT/config"},
	{"O-G03 dulwich#2298: short name", "git~1/config"},
	{"O-G03 dulwich#2298 (var.): short name, upper case", "GIT~2"},
	{"O-G03 dulwich#2298 (var.): short name of .gitmodules", "gi7eba~1"},
	{"O-G03 dulwich#2298 (var.): another short name", "a~b/GITMOD~1.TXT"},
	{"O-G03 CVE-2019-1352: trailing dot", ".git./config"},
	{"O-G03 CVE-2019-1352: trailing space", ".git /config"},
	{"O-G03 CVE-2019-1352: stream", ".git::$INDEX_ALLOCATION/config"},
	{"O-G03 CVE-2019-1352 (var.): trailing dots and spaces", ".git. . ./config"},
	{"O-G03 dulwich#2298: a joiner", ".g\u200cit/config"},
	{"O-G03 dulwich#2298 (var.): a byte order mark", "\ufeff.git/config"},
	{"O-G03 dulwich#2298 (var.): a variation selector", ".gi\ufe0ft"},
	{"O-G03 dulwich#2298 (var.): a soft hyphen", ".gi\u00adt"},
	{"O-G03 dulwich#2298 (var.): a filler", ".gi\u115ft"},
	{"O-G03 dulwich#2298 (var.): a tag", ".gi\U000e0041t"},
	{"O-G03 mcpvault#115 (var.): wide letters", "．ｇｉｔ/config"},
	{"O-G03 mcpvault#115 (var.): a dotted capital", ".Gİt/config"},
	{"O-G03 mcpvault#115 (var.): no dot on the i", ".gıt/config"},
	{"O-G03 oh-my-pi#11375: in a folder", "sub/.git/config"},
	{"O-G03 oh-my-pi#11375 (var.): the folder itself", "sub/.git"},
	{"O-G03 oh-my-pi#11375 (var.): leading space", " .git/config"},

	{"O-G04 CVE-2026-27735: out", "../../OUT/secret.txt"},
	{"O-G04 CVE-2026-27735 (var.): out and in", "../x"},
	{"O-G04 CVE-2026-27735 (var.): in and out", "a/../../x"},
	{"O-G04 CVE-2026-27735 (var.): steps that stay", "a/../x"},
	{"O-G04 CVE-2026-27735 (var.): this folder", "./x"},
	{"O-G04 CVE-2026-27735 (var.): nothing but this folder", "."},
	{"O-G04 CVE-2026-27735: absolute", "/etc/passwd"},
	{"O-G04 CVE-2026-27735 (var.): empty", ""},
	{"O-G04 CVE-2026-27735 (var.): empty component", "a//b"},
	{"O-G04 CVE-2026-27735 (var.): a folder", "a/"},
	{"O-G04 CVE-2026-27735 (var.): backslash", `..\OUT`},
	{"O-G04 CVE-2026-27735 (var.): wide backslash", "a＼b"},
	{"O-G04 CVE-2026-27735 (var.): wide slash", "a／b"},
	{"O-G04 CVE-2026-27735 (var.): drive", "C:/x"},
	{"O-G04 CVE-2026-27735 (var.): drive without slash", "c:x"},
	{"O-G04 CVE-2026-27735 (var.): a leader of two dots", "‥/x"},
	{"O-G04 CVE-2026-27735 (var.): NUL", "a\x00b"},
	{"O-G04 CVE-2026-27735 (var.): line feed", "a\nb"},
	{"O-G04 CVE-2026-27735 (var.): delete", "a\x7fb"},
	{"O-G04 CVE-2026-27735 (var.): no UTF-8", "a\xffb"},
	{"O-G04 CVE-2026-27735 (var.): decomposed", "a\u0301"},
	{"O-G04 CVE-2026-27735 (var.): turned around", "a\u202etxt.sj"},
	{"O-G04 CVE-2026-27735 (var.): a device", "assets/con.txt"},
	{"O-G04 CVE-2026-27735 (var.): a port", "LPT1"},
	{"O-G04 CVE-2026-27735 (var.): a wide device", "ＮＵＬ"},
	{"O-G04 CVE-2026-27735 (var.): a star", "a*"},
	{"O-G04 CVE-2026-27735 (var.): 256 bytes", strings.Repeat("a/", 127) + "aa"},
	{"O-G04 CVE-2026-27735 (var.): a component of 256 bytes", strings.Repeat("a", 256)},
	{"O-G04 CVE-2026-27735 (var.): 17 components", strings.Repeat("a/", 16) + "a"},

	{"O-G06 atlassian/atlascode#1918: attributes", ".gitattributes"},
	{"O-G06 atlassian/atlascode#1918: attributes in a folder", "sub/.gitattributes"},
	{"O-G06 fwdai/fletch#564: sub-modules", ".gitmodules"},
	{"O-G06 fwdai/fletch#564: ignored files", ".gitignore"},
	{"O-G06 fwdai/fletch#564: large files", ".lfsconfig"},
	{"O-G06 fwdai/fletch#564: names", ".mailmap"},
	{"O-G06 fwdai/fletch#564 (var.): upper case", ".GitAttributes"},
	{"O-G06 fwdai/fletch#564 (var.): large files, upper case", "x/.LfsConfig"},
	{"O-G06 fwdai/fletch#564 (var.): names with a long s", ".mailmap."},
	{"O-G06 fwdai/fletch#564 (var.): keep", "x/.gitkeep"},
	{"O-G06 fwdai/fletch#564 (var.): what runs at a forge", ".github/workflows/x.yml"},
}

// TestRefusedPaths: each is refused by name, alone and in a commit, and leaves
// nothing behind.
func TestRefusedPaths(t *testing.T) {
	dir := project(t)
	r, before, outside := opened(t, dir), files(t, dir), files(t, filepath.Dir(dir))
	for _, row := range refusedPaths {
		t.Run(row.name, func(t *testing.T) {
			if err := ValidPath(row.path); !errors.Is(err, ErrBadPath) {
				t.Errorf("%q: got %v", row.path, err)
			}
			c := proposal("never")
			c.Files[1].Path = row.path
			if done, err := r.Commit(t.Context(), c); !errors.Is(err, ErrBadPath) || done.Hash != "" {
				t.Errorf("%q: got %+v, %v", row.path, done, err)
			}
			if _, err := r.Blob(t.Context(), git(t, dir, "rev-parse", "HEAD"), row.path); !errors.Is(err, ErrBadPath) {
				t.Errorf("%q: got %v", row.path, err)
			}
		})
	}
	onlyAdded(t, before, files(t, dir), "none")
	onlyAdded(t, outside, files(t, filepath.Dir(dir)), "none")
	if _, err := os.Lstat("pwn.txt"); err == nil {
		t.Error("pwn.txt is there")
	}
}

func TestGoodPaths(t *testing.T) {
	for _, p := range []string{
		"a", "assets/mcp/server.json", "a-b/c_d.e", "git", "git/x", "gitattributes", "x.git", "a.gitignore", "a~", "~a", "a b/c",
		"über/naïve.md", "日本語.txt", ".mcp.json", "Dockerfile", "com", "com10", "console.txt",
		strings.Repeat("a", 255), strings.Repeat("a/", 15) + "a",
	} {
		if err := ValidPath(p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// TestPathLaws: what is taken has one spelling, and stays taken and refused whatever
// the case.
func TestPathLaws(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "B", ".", "..", "/", "-", ".git", ".GIT", "git", "~", "1", " ", "\\", ":", "é", "e\u0301", "\u200d", "ſ", "K", "İ", "．", "con", ".x"})
	rapid.Check(t, func(t *rapid.T) {
		p := strings.Join(rapid.SliceOfN(piece, 1, 6).Draw(t, "pieces"), "")
		err := ValidPath(p)
		if err == nil && (!utf8.ValidString(p) || !norm.NFC.IsNormalString(p) || filepath.ToSlash(filepath.Clean(p)) != p || !filepath.IsLocal(p)) {
			t.Fatalf("%q is taken", p)
		}
		for part := range strings.SplitSeq(p, "/") {
			if err == nil && (strings.HasPrefix(strings.ToLower(part), ".git") || strings.HasPrefix(part, "-")) {
				t.Fatalf("%q is taken", p)
			}
		}
		if other := norm.NFC.String(strings.ToUpper(p)); (err == nil) != (ValidPath(other) == nil) && len(other) == len(p) {
			t.Fatalf("%q: %v, %q: %v", p, err, other, ValidPath(other))
		}
	})
}

func TestBranchNames(t *testing.T) {
	dir := project(t)
	r, before := opened(t, dir), files(t, dir)
	for _, row := range []struct{ name, branch string }{
		{"O-G02 git-mcp-server#53: an option", "--upload-pack=x"},
		{"O-G02 gogs/gogs#8390: a short option", "-f"},
		{"O-G02 gogs/gogs#8390 (var.): in a folder", "assets/-f"},
		{"empty", ""}, {"at", "@"}, {"at of", "a@{1}"}, {"dots", "a..b"}, {"dot", "a."}, {"hidden", ".a"}, {"hidden below", "a/.b"},
		{"lock", "a.lock"}, {"lock above", "a.lock/b"}, {"LOCK", "a.LOCK"}, {"space", "a b"}, {"tilde", "a~1"}, {"caret", "a^"},
		{"colon", "a:b"}, {"question", "a?"}, {"star", "a*"}, {"bracket", "a[b"}, {"backslash", `a\b`}, {"control", "a\x01"},
		{"delete", "a\x7f"}, {"line", "a\nb"}, {"NUL", "a\x00b"}, {"slash first", "/a"}, {"slash last", "a/"}, {"slashes", "a//b"},
		{"HEAD", "HEAD"}, {"head", "head"}, {"an id", strings.Repeat("a1", 20)}, {"a long id", strings.Repeat("B1", 32)},
		{"up", "../x"}, {"out", "a/../../../x"}, {"device", "assets/nul"}, {"unseen", "a\u200b"}, {"too long", strings.Repeat("a", 201)}, {"no UTF-8", "a\xff"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := ValidBranch(row.branch); !errors.Is(err, ErrBadBranch) {
				t.Errorf("%q: got %v", row.branch, err)
			}
			if _, err := r.Commit(t.Context(), proposal(row.branch)); !errors.Is(err, ErrBadBranch) {
				t.Errorf("%q: got %v", row.branch, err)
			}
		})
	}
	onlyAdded(t, before, files(t, dir), "none")
	for _, good := range []string{"a", "assets/01J/plugin-1", "über", strings.Repeat("a", 200), "a@b", "x-y_z.1"} {
		if err := ValidBranch(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
		git(t, dir, "check-ref-format", heads+good)
	}
}

// TestBranchLaw: what is taken is a branch to git too.
func TestBranchLaw(t *testing.T) {
	dir := project(t)
	piece := rapid.SampledFrom([]string{"a", "B", ".", "/", "-", "@", "{", "lock", ".lock", "~", "^", ":", "?", "*", "[", "\\", " ", "\x7f", "é"})
	for range 40 {
		name := strings.Join(rapid.SliceOfN(piece, 1, 6).Example(), "")
		_, err := plain(t, dir, "", "check-ref-format", heads+name)
		if ValidBranch(name) == nil && err != nil {
			t.Errorf("git refuses %q", name)
		}
	}
}
