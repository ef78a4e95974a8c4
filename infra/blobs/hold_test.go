package blobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
)

// TestHold: a blob goes with its last holder only where nobody kept it and
// nobody but holders put it.
func TestHold(t *testing.T) {
	s, _ := open(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++ // every run has bytes of its own
		data := fmt.Appendf(nil, "equal bytes %d", n)
		d := events.DigestOf(data)
		var open []func(bool) error
		there, kept := false, false // kept: it must stay for ever
		rt.Repeat(map[string]func(*rapid.T){
			"hold": func(rt *rapid.T) {
				got, release, err := s.Hold(data)
				if err != nil || got != d {
					rt.Fatalf("%s, %v", got, err)
				}
				open, there = append(open, release), true
			},
			"put": func(rt *rapid.T) {
				if _, err := s.Put(data); err != nil {
					rt.Fatal(err)
				}
				there, kept = true, true
			},
			"release": func(rt *rapid.T) {
				if len(open) == 0 {
					rt.Skip("no holder")
				}
				n := rapid.IntRange(0, len(open)-1).Draw(rt, "which")
				keep := rapid.Bool().Draw(rt, "keep")
				release := open[n]
				open = append(open[:n:n], open[n+1:]...)
				kept = kept || keep
				for range 2 { // the second time does nothing
					if err := release(keep); err != nil {
						rt.Fatal(err)
					}
				}
				there = kept || len(open) > 0
			},
			"clean up": func(rt *rapid.T) {
				removed, err := s.RemoveOrphan(d, start-1)
				if err != nil || removed {
					rt.Fatalf("removed %v, %v", removed, err)
				}
			},
			"": func(rt *rapid.T) {
				_, err := s.Get(d)
				if there && err != nil || !there && !errors.Is(err, fs.ErrNotExist) {
					rt.Fatalf("there %v, kept %v, %d holders: %v", there, kept, len(open), err)
				}
			},
		})
	})
}

// TestHoldAgainstCleanUp: what is held is no orphan, however old.
func TestHoldAgainstCleanUp(t *testing.T) {
	s, _ := open(t)
	d, release, err := s.Hold([]byte("x"))
	must(t, err)
	if removed, err := s.RemoveOrphan(d, start+1); removed || err != nil {
		t.Fatalf("removed %v, %v", removed, err)
	}
	must(t, release(true))
	if removed, err := s.RemoveOrphan(d, start+1); !removed || err != nil {
		t.Fatalf("(control) removed %v, %v", removed, err)
	}
}

// TestHoldTogether: of calls with equal bytes at the same time some are allowed:
// the blob stays; where all are refused it goes.
func TestHoldTogether(t *testing.T) {
	s, _ := open(t)
	for round := range 15 {
		data := fmt.Appendf(nil, "round %d", round)
		d := events.DigestOf(data)
		allowed := round % 5 // of these four, by number; the last is none
		var all sync.WaitGroup
		for n := range 4 {
			all.Go(func() {
				_, release, err := s.Hold(data)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Get(d); err != nil {
					t.Errorf("while held: %v", err)
				}
				if err := release(n == allowed); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if _, err := s.Get(d); (err == nil) != (allowed < 4) {
			t.Fatalf("round %d, %d allowed: %v", round, allowed, err)
		}
	}
	if len(s.held) > 0 {
		t.Errorf("%d entries are left", len(s.held))
	}
}

// TestHoldFails: a hold that failed leaves nothing behind.
func TestHoldFails(t *testing.T) {
	s, _ := open(t)
	if _, _, err := s.Hold(make([]byte, MaxBlob+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	must(t, os.RemoveAll(s.dir))
	if _, _, err := s.Hold([]byte("x")); !errors.Is(err, fs.ErrNotExist) || len(s.held) > 0 {
		t.Errorf("got %v, %d entries", err, len(s.held))
	}
}
