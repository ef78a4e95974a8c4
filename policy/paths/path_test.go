package paths

import (
	"errors"
	"strings"
	"testing"
	"unicode"
)

func TestParse(t *testing.T) {
	const rejected, leaves = "\x00rejected", "\x00leaves"
	long := strings.Repeat("a", 255)
	for _, tc := range []struct{ name, raw, want string }{
		{"control", "notes/a.txt", "notes/a.txt"},
		{"control: the workspace", ".", "."},
		{"control: steps inside", "./a/./b/../c", "a/c"},
		{"control: back to the workspace", "a/..", "."},
		{"control: hidden file", ".profile", ".profile"},
		{"control: longest component", long, long},
		{"control: name beginning with a device", "console.txt", "console.txt"},
		{"control: COM0 and COM10 are names", "com0/com10", "com0/com10"},
		{"O-P01 CVE-2025-53110 sibling folder with the same prefix", "../Workspace-Backup/secret.txt", leaves},
		{"O-P05 CVE-2026-39822 trailing slash", "lnk/", rejected},
		{"O-P05 CVE-2026-39822 double slash", "lnk//", rejected},
		{"O-P05 CVE-2026-39822 dot step is the link itself", "lnk/.", "lnk"},
		{"O-P06 CVE-2025-22873 parent", "..", leaves},
		{"O-P06 CVE-2025-22873 parent slash", "../", rejected},
		{"O-P06 CVE-2025-22873 out through a folder, slash", "sub/../../", rejected},
		{"O-P06 CVE-2025-22873 dot parent", "./..", leaves},
		{"O-P06 CVE-2025-22873 stays inside", "sub/../x/..", "."},
		{"O-P06 CVE-2025-22873 out at any point", "sub/../../Workspace/a", leaves},
		{"O-P09 CVE-2023-45283 backslashes", `..\..\AgentSettings.json`, rejected},
		{"O-P09 CVE-2023-45283 drive", `C:\x`, rejected},
		{"O-P09 CVE-2023-45284 drive relative", `C:x`, rejected},
		{"O-P09 share", `\\srv\share\x`, rejected},
		{"O-P09 share by slashes", `//srv/share/x`, rejected},
		{"O-P09 verbatim", `\\?\C:\x`, rejected},
		{"O-P09 NT object", `\??\C:\x`, rejected},
		{"O-P09 device path", `\\.\COM1`, rejected},
		{"O-P10 servers#4523 stream", "notes.md:hidden", rejected},
		{"O-P10 stream type", "Identity.md::$DATA", rejected},
		{"O-P10 in a folder", "a:b/c.txt", rejected},
		{"O-P11 cadis#1166 space", "AgentSettings.json ", rejected},
		{"O-P11 dot", "AgentSettings.json.", rejected},
		{"O-P11 dot space dot", "Identity.md. .", rejected},
		{"O-P11 folder", "sub /x.txt", rejected},
		{"O-P11 three dots", "...", rejected},
		{"O-P12 CVE-2022-41720 device", "COM1", rejected},
		{"O-P12 lower case", "nul", rejected},
		{"O-P12 extension", "aux.txt", rejected},
		{"O-P12 in a folder", "sub/CON", rejected},
		{"O-P12 as a folder", "con/x", rejected},
		{"O-P12 trailing space", "COM1 ", rejected},
		{"O-P12 space before the extension", "COM1 .txt", rejected},
		{"O-P12 superscript digit", "COM¹", rejected},
		{"O-P12 printer", "LPT1.log", rejected},
		{"O-P12 console", "ConIn$", rejected},
		{"O-P12 clock", "clock$.x", rejected},
		{"O-P13 finbot-ctf#358 NUL", "a.txt\x00.png", rejected},
		{"O-P13 line feed", "a\nb", rejected},
		{"O-P13 escape", "a\x1b[2J", rejected},
		{"O-P13 delete", "a\x7f", rejected},
		{"O-P13 next line (C1)", "a\u0085b", rejected},
		{"O-P15 Gitlawb/node#101 composed", "s\u00e9cret/x.txt", "s\u00e9cret/x.txt"},
		{"O-P15 decomposed", "se\u0301cret/x.txt", rejected},
		{"O-P16 DenchClaw#14 fullwidth slash", "..\uff0fAgentSettings.json", "..\uff0fAgentSettings.json"},
		{"O-P16 fullwidth dots", "\uff0e\uff0e/x", "\uff0e\uff0e/x"},
		{"O-P16 division slash", "Workspace\u2215..\u2215AgentSettings.json", "Workspace\u2215..\u2215AgentSettings.json"},
		{"O-P17 absolute", "/proc/self/environ", rejected},
		{"O-P23 CVE-2026-25722 no folder state", "Identity.md", "Identity.md"},
		{"O-P26 control after denial", "../x", leaves},
		{"empty", "", rejected},
		{"empty component", "a//b", rejected},
		{"not UTF-8", "a\xff", rejected},
		{"component too long", long + "a", rejected},
		{"path too long", strings.Repeat("aa/", 1400) + "a", rejected},
		{"64 components", strings.Repeat("a/", 63) + "a", strings.Repeat("a/", 63) + "a"},
		{"65 components", strings.Repeat("a/", 64) + "a", rejected},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := Parse(tc.raw)
			got := p.String()
			var bad *Error
			if errors.As(err, &bad) {
				got = rejected
				if strings.ContainsFunc(bad.Error(), unicode.IsControl) {
					t.Errorf("the error is not safe to show: %q", bad)
				}
			} else if p.Leaves() {
				got = leaves
			}
			if got != tc.want {
				t.Errorf("Parse(%q) = %q (%v), want %q", tc.raw, got, err, tc.want)
			}
		})
	}
}

func TestTrashIsReserved(t *testing.T) {
	for raw, want := range map[string]bool{
		".trash": true, ".TRASH/x": true, "a/../.Trash/x": true, ".tra\u017fh": true, ".tr\u200dash/y": true,
		"a/.trash": false, ".trashes": false, "trash": false,
	} {
		if p, err := Parse(raw); err != nil || p.Reserved() != want {
			t.Errorf("%q: reserved %t, %v", raw, p.Reserved(), err)
		}
	}
}

func TestZeroPathLeaves(t *testing.T) {
	if p := (Path{}); !p.Leaves() || p.String() != "" {
		t.Error("a path that nobody parsed is inside")
	}
}

func TestWithin(t *testing.T) {
	for _, tc := range []struct {
		name, root, path string
		want             bool
	}{
		{"O-P01 CVE-2025-53110 sibling folder with the same prefix", "R/Workspace", "R/Workspace-Backup/secret.txt", false},
		{"O-P01 itself", "R/Workspace", "R/Workspace", true},
		{"O-P01 child", "R/Workspace", "R/Workspace/a", true},
		{"O-P01 other case", "R/Workspace", "R/workspaceX", false},
		{"steps out", "R/Workspace", "R/Workspace/../x", false},
		{"file system root", "/", "/a", true},
		{"workspace", ".", "a/b", true},
		{"workspace left", ".", "../a", false},
		{"workspace and an absolute path", ".", "/a", false},
	} {
		if got := Within(tc.root, tc.path); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a/b", "../a", "a/../..", "COM¹", "x:y", "\uff0e\uff0e/x", ".trash", "a\u0301"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := Parse(raw)
		var bad *Error
		if err != nil {
			if !errors.As(err, &bad) || p != (Path{}) {
				t.Fatalf("%q: %v with %+v", raw, err, p)
			}
			return
		}
		if p.Leaves() {
			return
		}
		for part := range strings.SplitSeq(p.String(), "/") {
			if part == ".." || part == "" || part == "." && p.String() != "." {
				t.Fatalf("%q gives %q", raw, p)
			}
		}
		again, err := Parse(p.String())
		if err != nil || again.String() != p.String() || again.Reserved() != p.Reserved() {
			t.Fatalf("%q gives %q, which gives %q (%v)", raw, p, again, err)
		}
	})
}
