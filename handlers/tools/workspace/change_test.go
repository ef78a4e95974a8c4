//go:build linux || darwin

package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatebook/policy/paths"
)

// TestAppendKeepsWhatItDoesNotHold: where somebody else writes to the file in the
// same moment, their version is in the trash and not gone.
func TestAppendKeepsWhatItDoesNotHold(t *testing.T) {
	for name, change := range map[string]func(p *place) error{
		"the file is written to": func(p *place) error {
			return os.WriteFile(p.dir+"/x/secret.txt", []byte("theirs"), 0o600)
		},
		"another file has its name": func(p *place) error {
			p.put(p.dir+"/other", "theirs")
			return os.Rename(p.dir+"/other", p.dir+"/x/secret.txt")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.once("described", func() { p.must(change(p)) })
			got, err := do(p, func(ws *Workspace) (Appended, error) {
				return ws.Append(context.Background(), fixed(7), p.path("x/secret.txt"), []byte("+"))
			})
			if err != nil || got != (Appended{Before: 4, After: 5, Kept: fmtID(7)}) {
				t.Errorf("%+v %v", got, err)
			}
			_, err = do(p, func(ws *Workspace) (Restored, error) {
				to := p.path("back")
				return ws.Restore(context.Background(), fmtID(7), &to, anywhere)
			})
			p.must(err)
			for path, want := range map[string]string{"/x/secret.txt": "mine+", "/back": "theirs"} {
				if raw, err := os.ReadFile(p.dir + path); string(raw) != want {
					t.Errorf("%s holds %q (%v)", path, raw, err)
				}
			}
		})
	}
}

func fixed(n int) Stamp { return Stamp{Call: fmtID(n), Now: 1} }

// TestChangedWhileItIsRead: what changes while it is copied or hashed is no version
// of the file, and nothing is made of it.
func TestChangedWhileItIsRead(t *testing.T) {
	ctx := context.Background()
	for name, op := range map[string]func(*place, *Workspace) (any, error){
		"append": func(p *place, ws *Workspace) (any, error) {
			return ws.Append(ctx, p.stamp(), p.path("x/secret.txt"), []byte("+"))
		},
		"copy": func(p *place, ws *Workspace) (any, error) {
			return ws.Copy(ctx, p.stamp(), p.path("x/secret.txt"), p.path("z"))
		},
	} {
		for change, content := range map[string]string{"longer": "mine and theirs", "shorter": "m"} {
			t.Run(name+" "+change, func(t *testing.T) {
				p := newPlace(t)
				p.once("made", func() { p.put(p.dir+"/x/secret.txt", content) })
				_, err := do(p, func(ws *Workspace) (any, error) { return op(p, ws) })
				if err == nil || err.Error() != `"x/secret.txt": `+errChanged.Error() {
					t.Errorf("%v", err)
				}
				if got, want := p.holds(), "/x/secret.txt ---------- "+content+"\n"; got != want {
					t.Errorf("the workspace holds\n%s", got)
				}
			})
		}
	}
}

// TestTransferOverwritesNothing: what takes the target in any moment before the rename
// stays, and so does the source.
func TestTransferOverwritesNothing(t *testing.T) {
	for name, op := range map[string]func(*place, *Workspace) (any, error){
		"copy": func(p *place, ws *Workspace) (any, error) {
			return ws.Copy(context.Background(), p.stamp(), p.path("x"), p.path("z"))
		},
		"move": func(p *place, ws *Workspace) (any, error) {
			return ws.Move(context.Background(), p.path("x"), p.path("z"))
		},
	} {
		for kind, take := range map[string]func(p *place, name string) error{
			"file":         func(_ *place, name string) error { return os.WriteFile(name, []byte("theirs"), 0o600) },
			"empty folder": func(_ *place, name string) error { return os.Mkdir(name, 0o700) },
			"link":         func(p *place, name string) error { return os.Symlink(p.out, name) },
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				for n := 0; ; n++ {
					p, left, moved, taken := newPlace(t), n, false, false
					p.ws.step = func(step string) {
						moved = moved || step == "moved"
						if left--; left == -1 && !moved {
							taken = true
							p.must(take(p, p.dir+"/z"))
						}
					}
					_, err := do(p, func(ws *Workspace) (any, error) { return op(p, ws) })
					if !taken {
						if n < 3 {
							t.Errorf("only %d steps", n)
						}
						break
					}
					want := newPlace(t)
					want.out = p.out
					want.must(take(want, want.dir+"/z"))
					if !errors.Is(err, os.ErrExist) || p.holds() != want.holds() {
						t.Errorf("at step %d: %v, the workspace holds\n%s", n, err, p.holds())
					}
					if info, err := os.Lstat(p.dir + "/z"); err != nil || info.IsDir() != (kind == "empty folder") {
						t.Errorf("at step %d: %v %v", n, info, err)
					}
				}
			})
		}
	}
}

// TestEndsWithTheContext: what takes long ends in its middle, and leaves nothing.
func TestEndsWithTheContext(t *testing.T) {
	for name, op := range map[string]func(context.Context, *place, *Workspace) (any, error){
		"append": func(ctx context.Context, p *place, ws *Workspace) (any, error) {
			return ws.Append(ctx, p.stamp(), p.path("x/secret.txt"), []byte("+"))
		},
		"copy": func(ctx context.Context, p *place, ws *Workspace) (any, error) {
			return ws.Copy(ctx, p.stamp(), p.path("x"), p.path("z"))
		},
		"search": func(ctx context.Context, p *place, ws *Workspace) (any, error) {
			return ws.Search(ctx, p.path("x"), anything)
		},
		"stat": func(ctx context.Context, p *place, ws *Workspace) (any, error) {
			return ws.Stat(ctx, p.path("x/secret.txt"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			ctx, end := context.WithCancel(context.Background())
			defer end()
			p.once("checked", end)
			_, err := do(p, func(ws *Workspace) (any, error) { return op(ctx, p, ws) })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			if got := p.holds(); got != newPlace(t).holds() {
				t.Errorf("the workspace holds\n%s", got)
			}
		})
	}
}

// TestSearchEndsByItself: after its time a search gives what it has and says that it
// is not all.
func TestSearchEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		p.put(p.dir+"/x/a", "first")
		p.put(p.dir+"/x/b", "second")
		checked := 0
		p.ws.step = func(step string) {
			if step == "checked" {
				if checked++; checked == 2 {
					<-time.After(MaxSearchTime + time.Second) // the time of the bubble
				}
			}
		}
		got, err := do(p, func(ws *Workspace) (Found, error) { return ws.Search(context.Background(), p.path("x"), anything) })
		if err != nil || !got.Truncated || len(got.Matches) != 1 || got.Matches[0] != (Match{"x/a", 1, "first"}) {
			t.Errorf("%+v %v", got, err)
		}
	})
}

// TestNothingGetsTooDeep: a folder goes no further down than what is below it can be
// named, by none of the ways that bring a whole folder somewhere.
func TestNothingGetsTooDeep(t *testing.T) {
	down := func(n int) string { return strings.TrimPrefix(strings.Repeat("/d", n), "/") }
	for name, row := range map[string]struct {
		height, at int // of what is in the folder, and of where it goes
		refused    bool
	}{
		"as deep as a path":             {height: 33, at: 31},
		"one deeper":                    {height: 34, at: 31, refused: true},
		"as deep, and not further down": {height: 63, at: 1},
		"empty, to the deepest place":   {height: 0, at: paths.MaxComponents},
		"one file, to there":            {height: 1, at: paths.MaxComponents, refused: true},
	} {
		ctx := context.Background()
		for way, bring := range map[string]func(p *place, ws *Workspace, to paths.Path) error{
			"move": func(p *place, ws *Workspace, to paths.Path) error {
				_, err := ws.Move(ctx, p.path("from"), to)
				return err
			},
			"restore": func(p *place, ws *Workspace, to paths.Path) error {
				stamp := p.stamp()
				_, err := ws.Delete(stamp, p.path("from"))
				p.must(err)
				_, err = ws.Restore(ctx, stamp.Call, &to, anywhere)
				return err
			},
			"copy": func(p *place, ws *Workspace, to paths.Path) error {
				_, err := ws.Copy(ctx, p.stamp(), p.path("from"), to)
				return err
			},
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				p := newPlace(t)
				p.must(os.Mkdir(p.dir+"/from", 0o700))
				if row.height > 0 {
					p.put(filepath.Join(p.dir, "from", down(row.height-1), "file"), "")
				}
				to := "to"
				if row.at > 1 {
					to = down(row.at-1) + "/to"
				}
				_, err := do(p, func(ws *Workspace) (struct{}, error) { return struct{}{}, bring(p, ws, p.path(to)) })
				var deep *Error
				if row.refused != errors.As(err, &deep) || !row.refused && err != nil {
					t.Errorf("%v", err)
				}
				if _, there := os.Lstat(filepath.Join(p.dir, to)); (there == nil) == row.refused {
					t.Errorf("at %s: %v", to, there)
				}
			})
		}
	}
}
