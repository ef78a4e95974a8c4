//go:build linux || darwin

package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func (p *place) create(path, content string) (Written, error) {
	return do(p, func(ws *Workspace) (Written, error) { return ws.Create(p.stamp(), p.path(path), []byte(content)) })
}

func TestCreateMakesNewFiles(t *testing.T) {
	p := newPlace(t)
	for _, path := range []string{"new.txt", "x/new.txt", "deep/er/new.txt"} {
		if got, err := p.create(path, "one"); err != nil || got != (Written{}) {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
		raw, err := os.ReadFile(filepath.Join(p.dir, path))
		if string(raw) != "one" {
			t.Errorf("%s: %q, %v", path, raw, err)
		}
	}
}

// Where anything has the name, Create refuses and leaves all as it was, also what a
// link leads to.
func TestCreateReplacesNothing(t *testing.T) {
	for name, make := range map[string]func(p *place, name string) error{
		"file":           func(_ *place, name string) error { return os.WriteFile(name, []byte("mine"), 0o600) },
		"empty file":     func(_ *place, name string) error { return os.WriteFile(name, nil, 0o600) },
		"folder":         func(_ *place, name string) error { return os.Mkdir(name, 0o700) },
		"link":           func(p *place, name string) error { return os.Symlink(p.out+"/secret.txt", name) },
		"dangling link":  func(p *place, name string) error { return os.Symlink(p.out+"/gone", name) },
		"link inside":    func(_ *place, name string) error { return os.Symlink("x/secret.txt", name) },
		"second name":    func(p *place, name string) error { return os.Link(p.out+"/secret.txt", name) },
		"link to itself": func(_ *place, name string) error { return os.Symlink(filepath.Base(name), name) },
	} {
		for when, step := range map[string]string{"before": "", "after the check": "checked", "before the move": "written"} {
			t.Run(name+" "+when, func(t *testing.T) {
				p := newPlace(t)
				made := filepath.Join(p.dir, "new.txt")
				appear := func() {
					p.must(make(p, made))
				}
				if step == "" {
					appear()
				} else {
					p.once(step, appear)
				}
				_, err := p.create("new.txt", "OWNED")
				if !refusedAs(err, "create_only") {
					t.Errorf("%v", err)
				}
				want := newPlace(t)
				want.out = p.out // links lead to where p's do
				want.must(make(want, filepath.Join(want.dir, "new.txt")))
				before := want.holds()
				if got := p.holds(); got != before || strings.Contains(got, "OWNED") {
					t.Errorf("the workspace holds\n%swant\n%s", got, before)
				}
				p.secretUnchanged()
			})
		}
	}
}
