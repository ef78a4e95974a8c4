package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"gatebook/events"
)

// killed ends an operation between two steps, as a kill of the process would:
// nothing after the step runs but the closing of handles.
type killed struct{}

// killAt runs op and ends it at its n-th step. It says whether there was one.
func (p *place) killAt(n int, op func(*Workspace) error) (was bool) {
	return p.killRun(n, func() error {
		_, err := do(p, func(ws *Workspace) (any, error) { return nil, op(ws) })
		return err
	})
}

// killRun is killAt for what is no call.
func (p *place) killRun(n int, op func() error) (was bool) {
	p.ws.step = func(string) {
		if n--; n < 0 {
			panic(killed{})
		}
	}
	defer func() {
		p.ws = New(p.host) // a turn that was held is gone with the process
		if r := recover(); r != nil {
			if _, is := r.(killed); !is {
				panic(r)
			}
			was = true
		}
	}()
	p.must(op())
	return false
}

// contents are all files in place, after everything in the trash was restored.
func (p *place) contents() (all []string, nameless int) {
	page, err := do(p, func(ws *Workspace) (TrashPage, error) { return ws.Trash(context.Background(), "") })
	p.must(err)
	for i, e := range page.Entries {
		if e.Path == "" {
			nameless++
		}
		to := p.path(fmt.Sprintf("back/%d", i))
		_, err := do(p, func(ws *Workspace) (Restored, error) { return ws.Restore(context.Background(), e.ID, &to, anywhere) })
		p.must(err)
	}
	p.must(fs.WalkDir(os.DirFS(p.dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, trashName) {
			return err
		}
		raw, err := os.ReadFile(p.dir + "/" + name)
		all = append(all, string(raw))
		return err
	}))
	return all, nameless
}

func TestKillLosesNothing(t *testing.T) {
	for name, op := range map[string]func(*place, *Workspace) error{
		"create": func(p *place, ws *Workspace) error {
			_, err := ws.Write(p.stamp(), p.path("new/n"), []byte("new"))
			return err
		},
		"replace": func(p *place, ws *Workspace) error {
			_, err := ws.Write(p.stamp(), p.path("x/secret.txt"), []byte("new"))
			return err
		},
		"edit": func(p *place, ws *Workspace) error {
			_, err := ws.Edit(p.stamp(), p.path("x/secret.txt"), "mine", "new", false)
			return err
		},
		"move": func(p *place, ws *Workspace) error {
			_, err := ws.Move(context.Background(), p.path("x/secret.txt"), p.path("new/place"))
			return err
		},
		"move a folder": func(p *place, ws *Workspace) error {
			_, err := ws.Move(context.Background(), p.path("x"), p.path("new/place"))
			return err
		},
		"delete": func(p *place, ws *Workspace) error {
			_, err := ws.Delete(p.stamp(), p.path("x/secret.txt"))
			return err
		},
		"delete a folder": func(p *place, ws *Workspace) error { _, err := ws.Delete(p.stamp(), p.path("x")); return err },
		"restore": func(_ *place, ws *Workspace) error {
			_, err := ws.Restore(context.Background(), fmtID(1), nil, anywhere)
			return err
		},
	} {
		for n, was := 0, true; was; n++ {
			p := newPlace(t)
			p.put(p.dir+"/gone", "trashed")
			_, err := do(p, func(ws *Workspace) (Deleted, error) { return ws.Delete(p.stamp(), p.path("gone")) })
			p.must(err)
			was = p.killAt(n, func(ws *Workspace) error { return op(p, ws) })
			all, nameless := p.contents()
			if nameless > 0 && !slices.Contains(all, "new") {
				t.Errorf("%s killed at step %d: the path of what was deleted is lost", name, n)
			}
			for _, want := range []string{"mine", "trashed"} {
				if count := len(all) - len(slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == want })); count != 1 {
					t.Errorf("%s killed at step %d: %q is there %d times in %q", name, n, want, count, all)
				}
			}
			if !was && n < 2 {
				t.Errorf("%s has only %d steps", name, n)
			}
		}
	}
}

// inPlace is every file in place with its content, by path.
func (p *place) inPlace() string {
	var all strings.Builder
	for line := range strings.Lines(p.holds()) {
		if !strings.HasPrefix(line, "/"+trashName) {
			all.WriteString(line)
		}
	}
	return all.String()
}

// TestKillInTheMiddle: wherever an operation ends, in place is what was there before
// or what should be there after, nothing between; what was begun is not shown as
// deleted; and the operation can be done again.
func TestKillInTheMiddle(t *testing.T) {
	ctx := context.Background()
	for name, row := range map[string]struct {
		least int // steps
		op    func(*place, *Workspace) error
	}{
		"append": {7, func(p *place, ws *Workspace) error {
			_, err := ws.Append(ctx, p.stamp(), p.path("x/secret.txt"), []byte(" and more"))
			return err
		}},
		"edit": {6, func(p *place, ws *Workspace) error {
			_, err := ws.Edit(p.stamp(), p.path("x/secret.txt"), "mine", "new", false)
			return err
		}},
		"copy": {7, func(p *place, ws *Workspace) error {
			_, err := ws.Copy(ctx, p.stamp(), p.path("x/secret.txt"), p.path("new/place"))
			return err
		}},
		"copy a folder": {12, func(p *place, ws *Workspace) error {
			_, err := ws.Copy(ctx, p.stamp(), p.path("x"), p.path("new/place"))
			return err
		}},
		"move": {5, func(p *place, ws *Workspace) error {
			_, err := ws.Move(context.Background(), p.path("x/secret.txt"), p.path("new/place"))
			return err
		}},
		"move a folder": {5, func(p *place, ws *Workspace) error {
			_, err := ws.Move(context.Background(), p.path("x"), p.path("new/place"))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			start := func() *place {
				p := newPlace(t)
				p.put(p.dir+"/x/deep/other.txt", "other")
				return p
			}
			done := start()
			_, err := do(done, func(ws *Workspace) (any, error) { return nil, row.op(done, ws) })
			done.must(err)
			before, after := start().inPlace(), done.inPlace()
			steps := 0
			for was := true; was; steps++ {
				p := start()
				was = p.killAt(steps, func(ws *Workspace) error { return row.op(p, ws) })
				got := p.inPlace()
				if got != before && got != after || !was && got != after {
					t.Fatalf("killed at step %d: in place is\n%s", steps, got)
				}
				page, err := do(p, func(ws *Workspace) (TrashPage, error) { return ws.Trash(ctx, "") })
				p.must(err)
				for _, e := range page.Entries {
					if e.Path != "x/secret.txt" && e.Path != "" || strings.HasPrefix(name, "copy") {
						t.Errorf("killed at step %d: the trash shows %+v", steps, e)
					}
				}
				if got == before {
					_, err := do(p, func(ws *Workspace) (any, error) { return nil, row.op(p, ws) })
					if p.must(err); p.inPlace() != after {
						t.Errorf("killed at step %d and done again: in place is\n%s", steps, p.inPlace())
					}
				}
			}
			if steps <= row.least {
				t.Errorf("only %d steps", steps)
			}
		})
	}
}

func fmtID(n int) events.CallID { return events.CallID(fmt.Sprintf("01J%023d", n)) }

// TestCallsOfOneAgentTakeTurns: many writes of one path at once lose no version.
func TestCallsOfOneAgentTakeTurns(t *testing.T) {
	const writers = 30
	p := newPlace(t)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			if _, err := p.write("same", fmt.Sprint("version ", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if found, _ := p.contents(); len(found) != writers+1 || len(slices.Compact(slices.Sorted(slices.Values(found)))) != writers+1 {
		t.Errorf("%d contents: %q", len(found), found)
	}
}

// TestTurnEndsWithTheContext: who waits for the turn does not wait for ever, and
// another agent does not wait at all.
func TestTurnEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		held, err := p.ws.Open(context.Background(), "alice")
		p.must(err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() {
			_, err := p.ws.Open(ctx, "alice")
			ended <- err
		}()
		synctest.Wait() // it waits for the turn now
		other, err := p.ws.Open(context.Background(), "bob")
		p.must(err)
		p.must(other.Close())
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		p.must(held.Close())
		again, err := p.ws.Open(context.Background(), "alice")
		p.must(err)
		p.must(again.Close())
	})
}

// TestOneIDIsUsedOnce: a second change under one call id touches nothing.
func TestOneIDIsUsedOnce(t *testing.T) {
	p := newPlace(t)
	s := p.stamp()
	p.put(p.dir+"/a", "a")
	_, err := do(p, func(ws *Workspace) (Deleted, error) { return ws.Delete(s, p.path("a")) })
	p.must(err)
	if _, err := do(p, func(ws *Workspace) (Deleted, error) { return ws.Delete(s, p.path("x")) }); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	if found, _ := p.contents(); len(found) != 2 {
		t.Errorf("%q", found)
	}
}

// TestErrorsShowNoHostPath: whatever the system says.
func TestErrorsShowNoHostPath(t *testing.T) {
	p := newPlace(t)
	p.must(os.WriteFile(p.dir+"/agents", nil, 0o600))
	_, err := New(p.dir).Open(context.Background(), "alice")
	if err == nil || strings.Contains(err.Error(), p.dir) {
		t.Errorf("%v", err)
	}
	_, err = New(p.dir+"/none").Open(context.Background(), "alice")
	if err == nil || strings.Contains(err.Error(), p.dir) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := fault("a", &fs.PathError{Op: "open", Path: p.dir, Err: errors.New(p.dir)}); strings.Contains(err.Error(), p.dir) {
		t.Errorf("%v", err)
	}
}
