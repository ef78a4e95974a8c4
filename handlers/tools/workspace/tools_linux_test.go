package workspace

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestP21FlipsOfWhatChanges is TestP21Flips for what changes a file that is there or
// takes two paths; TestP21FlipsOfWhatLooks is it for what looks.
func TestP21FlipsOfWhatChanges(t *testing.T) {
	t.Run("O-P21 picoclaw#482", func(t *testing.T) {
		ctx := context.Background()
		p := newPlace(t)
		p.must(os.Symlink(p.out, p.dir+"/y"))
		p.put(p.dir+"/x/log.txt", "")
		p.put(p.dir+"/x/toggle.txt", "one")
		p.put(p.dir+"/apart.txt", "OWNED")
		at, to, copies := "apart.txt", "x/secret-2.txt", 0
		p.flips(10_000, map[string]*flipped{
			"append": {op: func() error {
				_, err := do(p, func(ws *Workspace) (Appended, error) {
					return ws.Append(ctx, p.stamp(), p.path("x/log.txt"), []byte("+"))
				})
				return err
			}},
			"edit": {op: func() error {
				_, err := do(p, func(ws *Workspace) (Edited, error) {
					return ws.Edit(p.stamp(), p.path("x/toggle.txt"), "one", "one", false)
				})
				return err
			}},
			"move": {op: func() error {
				_, err := do(p, func(ws *Workspace) (Moved, error) { return ws.Move(context.Background(), p.path(at), p.path(to)) })
				if err == nil {
					at, to = to, at
				}
				return err
			}},
			"copy": {op: func() error {
				copies++
				from := []string{"x/secret.txt", "x"}[copies%2]
				_, err := do(p, func(ws *Workspace) (Copied, error) {
					return ws.Copy(ctx, p.stamp(), p.path(from), p.path(fmt.Sprint("copies/", copies)))
				})
				return err
			}},
		})
		if all := p.holds(); strings.Contains(all, canary) {
			t.Errorf("the workspace holds\n%s", all)
		}
	})
}

func TestP21FlipsOfWhatLooks(t *testing.T) {
	t.Run("O-P21 picoclaw#482", func(t *testing.T) {
		ctx := context.Background()
		p := newPlace(t)
		p.must(os.Symlink(p.out, p.dir+"/y"))
		p.flips(10_000, map[string]*flipped{
			"stat": {op: func() error {
				got, err := do(p, func(ws *Workspace) (Status, error) { return ws.Stat(ctx, p.path("x/secret.txt")) })
				if err == nil && got.Size != int64(len("mine")) {
					t.Errorf("%+v", got)
				}
				return err
			}},
			"search": {op: func() error {
				got, err := do(p, func(ws *Workspace) (Found, error) { return ws.Search(ctx, p.path("x"), anything) })
				if err == nil && (len(got.Matches) != 1 || got.Matches[0].Text != "mine") {
					t.Errorf("%+v", got)
				}
				return err
			}},
			// A link below the folder is skipped, and never an error.
			"search above": {refused: 1, op: func() error {
				got, err := do(p, func(ws *Workspace) (Found, error) { return ws.Search(ctx, p.path("."), anything) })
				for _, m := range got.Matches {
					if m.Text != "mine" {
						t.Errorf("O-P22 kimi-code#1934 (var.): %+v", got)
					}
				}
				return err
			}},
		})
	})
}

// swaps are what takes the place of a file.
var swaps = map[string]func(p *place, name string) error{
	"O-P04 (var.) link":           func(p *place, name string) error { return os.Symlink(p.out+"/secret.txt", name) },
	"O-P21 (var.) link to folder": func(p *place, name string) error { return os.Symlink(p.out, name) },
	"O-P08 (var.) hard link":      func(p *place, name string) error { return os.Link(p.out+"/secret.txt", name) },
	"O-P18 (var.) named pipe":     func(_ *place, name string) error { return syscall.Mkfifo(name, 0o600) },
	"O-P21 (var.) another file":   func(_ *place, name string) error { return os.WriteFile(name, []byte("other"), 0o600) },
}

// TestSwapAtEveryStep puts something else in the place of a file at each step of
// each operation in turn: nothing of the outside is shown, copied or changed, whatever
// the operation comes to, and the file is never lost.
func TestSwapAtEveryStep(t *testing.T) {
	ctx := context.Background()
	const victim = "x/secret.txt"
	for name, op := range map[string]func(*place, *Workspace) (any, error){
		"stat":   func(p *place, ws *Workspace) (any, error) { return ws.Stat(ctx, p.path(victim)) },
		"search": func(p *place, ws *Workspace) (any, error) { return ws.Search(ctx, p.path("x"), anything) },
		"append": func(p *place, ws *Workspace) (any, error) {
			return ws.Append(ctx, p.stamp(), p.path(victim), []byte("+"))
		},
		"edit": func(p *place, ws *Workspace) (any, error) {
			return ws.Edit(p.stamp(), p.path(victim), "mine", "+", true)
		},
		"copy": func(p *place, ws *Workspace) (any, error) {
			return ws.Copy(ctx, p.stamp(), p.path(victim), p.path("z"))
		},
		"copy a folder": func(p *place, ws *Workspace) (any, error) { return ws.Copy(ctx, p.stamp(), p.path("x"), p.path("z")) },
		"move": func(p *place, ws *Workspace) (any, error) {
			return ws.Move(context.Background(), p.path(victim), p.path("z"))
		},
	} {
		for kind, swap := range swaps {
			t.Run(name+" "+kind, func(t *testing.T) {
				for n, was := 0, true; was; n++ {
					p, left := newPlace(t), n
					was = false
					p.ws.step = func(string) {
						if left--; left != -1 {
							return
						}
						was = true
						if os.Rename(p.dir+"/"+victim, p.dir+"/aside") == nil { // else it was moved already
							p.must(swap(p, p.dir+"/"+victim))
						}
					}
					got, err := do(p, func(ws *Workspace) (any, error) { return op(p, ws) })
					if shown := fmt.Sprint(got, err); strings.Contains(shown, canary) || strings.Contains(shown, p.host) {
						t.Errorf("at step %d: shows %s", n, shown)
					}
					p.secretUnchanged()
					if all := p.regular(); strings.Contains(all, canary) || !strings.Contains(all, "mine") {
						t.Errorf("at step %d: the workspace holds\n%s", n, all)
					}
				}
			})
		}
	}
}

// regular is every regular file in the workspace that has one name.
func (p *place) regular() string {
	p.t.Helper()
	var all strings.Builder
	p.must(filepath.WalkDir(p.dir, func(name string, d fs.DirEntry, err error) error {
		p.must(err)
		info, err := d.Info()
		if p.must(err); checkFile(info) != nil {
			return nil
		}
		raw, err := os.ReadFile(name)
		all.WriteString(name + " " + string(raw) + "\n")
		return err
	}))
	return all.String()
}
