package workspace

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestP07MetadataFromTheListedFolder(t *testing.T) {
	for name, remove := range map[string]bool{"moved away": false, "and removed": true} {
		t.Run("O-P07 CVE-2026-27139 folder "+name, func(t *testing.T) {
			p := newPlace(t)
			p.once("listed", func() {
				p.must(os.Rename(p.dir+"/x", p.dir+"/y"))
				if remove {
					p.must(os.Remove(p.dir + "/y/secret.txt"))
				}
				p.must(os.Symlink(p.out, p.dir+"/x"))
			})
			got, err := do(p, func(ws *Workspace) (Listing, error) { return ws.List(context.Background(), p.path("x"), "") })
			p.must(err)
			if len(got.Entries) != 1 {
				t.Fatalf("%+v", got)
			}
			e := got.Entries[0]
			if remove && (e != Entry{Name: "secret.txt", Type: "vanished"}) || !remove && (e.Type != "file" || e.Size != int64(len("mine"))) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestSwapBetweenCheckAndOpen puts something else at the name after it was
// looked at; what is opened is tested again.
func TestSwapBetweenCheckAndOpen(t *testing.T) {
	for _, row := range []struct {
		name, rule string
		make       func(p *place, name string) error
	}{
		{"O-P02 (var.) link to the outside", "link", func(p *place, name string) error { return os.Symlink(p.out+"/secret.txt", name) }},
		{"O-P08 (var.) hard link", "hard_link", func(p *place, name string) error { return os.Link(p.out+"/secret.txt", name) }},
		{"O-P18 wayland#644 named pipe", "special_file", func(_ *place, name string) error { return syscall.Mkfifo(name, 0o600) }},
		{"link that stays inside", "", func(p *place, name string) error {
			p.put(p.dir+"/x/other", "other")
			return os.Symlink("other", name)
		}},
		{"another file", "", func(p *place, name string) error { return os.WriteFile(name, []byte("other"), 0o600) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPlace(t)
			name := p.dir + "/x/secret.txt"
			p.once("checked", func() {
				p.must(os.Rename(name, p.dir+"/aside"))
				p.must(row.make(p, name))
			})
			start := time.Now()
			got, err := p.read("x/secret.txt")
			if err == nil || row.rule != "" && !refusedAs(err, row.rule) || time.Since(start) > time.Second {
				t.Errorf("%q %v", got.Data, err)
			}
			p.secretUnchanged()
		})
	}
}

// TestSwapBeforeTheMove: a write whose place is taken by something else in the
// last moment moves that aside, and never writes through it.
func TestSwapBeforeTheMove(t *testing.T) {
	for name, make := range map[string]func(p *place, name string) error{
		"O-P04 (var.) link":      func(p *place, name string) error { return os.Symlink(p.out+"/secret.txt", name) },
		"O-P08 (var.) hard link": func(p *place, name string) error { return os.Link(p.out+"/secret.txt", name) },
		"folder":                 func(_ *place, name string) error { return os.Mkdir(name, 0o700) },
	} {
		for _, target := range []string{"x/secret.txt", "x/new.txt"} {
			t.Run(name+" "+target, func(t *testing.T) {
				p := newPlace(t)
				p.once("written", func() {
					_ = os.Remove(filepath.Join(p.dir, target))
					p.must(make(p, filepath.Join(p.dir, target)))
				})
				_, err := p.write(target, "OWNED")
				if fresh := target == "x/new.txt"; fresh != errors.Is(err, fs.ErrExist) {
					t.Errorf("%v", err)
				}
				p.secretUnchanged()
			})
		}
	}
}

// noSys is a file whose link count cannot be known.
type noSys struct{ fs.FileInfo }

func (noSys) Sys() any { return nil }

func TestP08UnknownLinkCount(t *testing.T) {
	p := newPlace(t)
	info, err := os.Lstat(p.dir + "/x/secret.txt")
	p.must(err)
	if err := checkFile(info); err != nil {
		t.Errorf("one name: %v", err)
	}
	if err := fault("x", checkFile(noSys{info})); !refusedAs(err, "hard_link") {
		t.Errorf("O-P08 Codewhale#5569 unknown count: %v", err)
	}
}

// TestP21Flips: while x flips 10,000 times between a folder and a link to OUT,
// no read gives the outside and no write reaches it.
func TestP21Flips(t *testing.T) {
	t.Run("O-P21 picoclaw#482", func(t *testing.T) {
		p := newPlace(t)
		p.must(os.Symlink(p.out, p.dir+"/y"))
		p.flips(10_000, map[string]*flipped{
			"read": {op: func() error {
				got, err := p.read("x/secret.txt")
				if err == nil && string(got.Data) != "mine" {
					t.Errorf("read %q", got.Data)
				}
				return err
			}},
			"write": {op: func() error {
				_, err := p.write("x/new.txt", "OWNED")
				return err
			}},
		})
	})
}

// TestSwapBeforeEnteringAFolder is one flip at the worst moment.
func TestSwapBeforeEnteringAFolder(t *testing.T) {
	for name, make := range map[string]func(p *place, name string) error{
		"O-P21 picoclaw#482 link to the outside": func(p *place, name string) error { return os.Symlink(p.out, name) },
		"O-P21 (var.) link that stays inside":    func(_ *place, name string) error { return os.Symlink("aside", name) },
		"O-P21 (var.) another folder":            func(p *place, name string) error { p.put(name+"/secret.txt", "other"); return nil },
		"O-P18 (var.) named pipe":                func(_ *place, name string) error { return syscall.Mkfifo(name, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.put(p.dir+"/aside/secret.txt", "other")
			entered := 0
			p.ws.step = func(step string) {
				if step == "entering" {
					entered++
				}
				if step == "entering" && entered == 4 { // agents, alice, Workspace, x
					p.must(os.Rename(p.dir+"/x", p.dir+"/away"))
					p.must(make(p, p.dir+"/x"))
				}
			}
			got, err := p.read("x/secret.txt")
			if entered != 4 || !refusedAs(err, "link") {
				t.Errorf("entered %d: %q %v", entered, got.Data, err)
			}
			p.secretUnchanged()
		})
	}
}

// flipped is an operation during flips, and what it came to.
type flipped struct {
	op               func() error
	through, refused int
}

// flips exchanges x and y n times while the operations run; what does not go through
// must be refused as a link.
func (p *place) flips(n int, ops map[string]*flipped) {
	ctx, done := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		defer done()
		for range n {
			if err := unix.Renameat2(unix.AT_FDCWD, p.dir+"/x", unix.AT_FDCWD, p.dir+"/y", unix.RENAME_EXCHANGE); err != nil {
				p.t.Error(err)
			}
			for range rand.IntN(500) { // so that flips meet every moment of an operation
				runtime.Gosched()
			}
		}
	})
	for name, f := range ops {
		all.Go(func() {
			for ctx.Err() == nil {
				switch err := f.op(); {
				case err == nil:
					f.through++
				case refusedAs(err, "link"):
					f.refused++
				default:
					p.t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	all.Wait()
	p.secretUnchanged()
	for name, f := range ops {
		if min(f.through, f.refused) == 0 {
			p.t.Errorf("the flips met nothing: %s went through %d times and was refused %d times", name, f.through, f.refused)
		}
		p.t.Logf("%s: %d times, refused %d times", name, f.through, f.refused)
	}
}
