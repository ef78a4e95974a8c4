package datadir

import (
	"os"
	"path/filepath"
	"testing"
)

// A start that ended at any step leaves the store as it was before that start.
func TestBookGuard(t *testing.T) {
	for name, step := range map[string]func(*Dir, *BookGuard) error{
		"refused":                     func(_ *Dir, g *BookGuard) error { return g.Restore() },
		"ended before it was proven":  func(*Dir, *BookGuard) error { return nil },
		"ended while it was put back": func(d *Dir, _ *BookGuard) error { return os.RemoveAll(d.Nats()) },
	} {
		t.Run(name, func(t *testing.T) {
			d := guarded(t)
			g, err := d.GuardBook(0, 1<<40)
			if err != nil {
				t.Fatal(err)
			}
			block := filepath.Join(d.Nats(), "a", "1.blk")
			if err := os.WriteFile(block, []byte("cut"), 0o640); err != nil {
				t.Fatal(err)
			}
			if err := step(d, &g); err != nil {
				t.Fatal(err)
			}
			if g, err = d.GuardBook(0, 1<<40); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(block); err != nil || string(got) != "whole" {
				t.Errorf("%q, %v", got, err)
			}
			if info, err := os.Stat(block); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("%v, %v", info, err)
			}
			onlyStore(t, d, g)
		})
	}
	d := guarded(t)
	if _, err := d.GuardBook(1<<62, 1<<40); err == nil {
		t.Error("a copy without room")
	}
}

// onlyStore drops the copy and looks for what is left.
func onlyStore(t *testing.T, d *Dir, g BookGuard) {
	t.Helper()
	if err := g.Drop(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(d.Path(), "nats*")); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
}

// guarded is a data folder with one file in the book's store, and what copies
// that were not finished leave.
func guarded(t *testing.T) *Dir {
	t.Helper()
	d, err := Open(filepath.Join(t.TempDir(), "data"), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{filepath.Join(d.Nats(), "a"), d.in(guardPart), d.in(guardGone)} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(d.Nats(), "a", "1.blk"), []byte("whole"), 0o640); err != nil {
		t.Fatal(err)
	}
	return d
}
