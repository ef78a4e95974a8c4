//go:build linux || darwin

package workspace

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"gatebook/events"
)

// What somebody else puts there while another version is put back is not lost.
func TestPutBackLosesNothing(t *testing.T) {
	p := newPlace(t)
	file := filepath.Join(p.dir, "a.txt")
	p.must(os.WriteFile(file, []byte("else"), 0o600))
	stamp := p.stamp()
	stamp.Was = events.DigestOf([]byte("seen"))
	p.once("moved", func() {
		p.must(os.WriteFile(file+".new", []byte("third"), 0o600))
		p.must(os.Rename(file+".new", file))
	})
	_, err := do(p, func(ws *Workspace) (Written, error) { return ws.Write(stamp, p.path("a.txt"), []byte("ours")) })
	if !refusedAs(err, "stale") {
		t.Errorf("%v", err)
	}
	kept, _ := filepath.Glob(filepath.Join(p.dir, ".trash", "*", contentName))
	all := ""
	for _, name := range append(kept, file) {
		raw, _ := os.ReadFile(name)
		all += string(raw) + " "
	}
	if all != "third else " {
		t.Errorf("there is %q, want both versions that are not ours", all)
	}
}

// A change that may replace these bytes only replaces no others, in whichever moment
// those came.
func TestReplacesOnlyWhatWas(t *testing.T) {
	for name, op := range map[string]func(*place, *Workspace, Stamp) error{
		"write": func(p *place, ws *Workspace, s Stamp) error {
			_, err := ws.Write(s, p.path("a.txt"), []byte("new"))
			return err
		},
		"append": func(p *place, ws *Workspace, s Stamp) error {
			_, err := ws.Append(context.Background(), s, p.path("a.txt"), []byte("new"))
			return err
		},
		"edit": func(p *place, ws *Workspace, s Stamp) error {
			_, err := ws.Edit(s, p.path("a.txt"), "e", "x", true)
			return err
		},
	} {
		for _, step := range []string{"", "written", "described"} {
			t.Run(name+" "+step, func(t *testing.T) {
				p := newPlace(t)
				file := filepath.Join(p.dir, "a.txt")
				p.must(os.WriteFile(file, []byte("seen"), 0o600))
				stamp := p.stamp()
				stamp.Was = events.DigestOf([]byte("seen"))
				if step != "" {
					p.once(step, func() { p.must(os.WriteFile(file, []byte("else"), 0o600)) })
				}
				_, err := do(p, func(ws *Workspace) (Written, error) { return Written{}, op(p, ws, stamp) })
				raw, _ := os.ReadFile(file)
				switch {
				case step == "" && (err != nil || string(raw) == "seen"):
					t.Errorf("what was seen: %v, %q", err, raw)
				case step != "" && (!refusedAs(err, "stale") || string(raw) != "else"):
					t.Errorf("somebody else's version: %v, there is %q", err, raw)
				}
				if trash, err := os.ReadDir(filepath.Join(p.dir, ".trash")); step != "" && err == nil && len(trash) > 0 {
					t.Errorf("the trash has %d entries of what was not done", len(trash))
				}
			})
		}
	}
}
