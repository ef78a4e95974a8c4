package projections_test

import (
	"errors"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/projections"
	"gatebook/projections/projectionstest"
)

// The tree in the rows equals one made from the list of records alone.
func TestTreeEqualsTheList(t *testing.T) {
	histories(t, func(rt *rapid.T, drafts []events.Draft, book projectionstest.Book) {
		s := newMapStore()
		live(rt, s, drafts, book)
		r := s.Snapshot()
		defer r.Close()
		size := rapid.IntRange(0, len(book)).Draw(rt, "size")
		root, err := projections.TreeRoot(r, events.Seq(size))
		ok(rt, err)
		same(rt, "root", root, plainRoot(book[:size]))
		if size == 0 {
			return
		}
		seq := rapid.IntRange(1, size).Draw(rt, "seq")
		checkProofs(rt, r, book, events.Seq(seq), events.Seq(size), root)
	})
}

func checkProofs(t *rapid.T, r projections.Reader, book projectionstest.Book, seq, size events.Seq, root tlog.Hash) {
	inc := eventstest.ID[events.Incarnation](0)
	leaf, err := projections.LeafHash(r, seq)
	ok(t, err)
	same(t, "leaf", leaf, tlog.RecordHash(events.Leaf(inc, book[seq-1])))
	proof, err := projections.Prove(r, seq, size)
	ok(t, err)
	ok(t, projections.CheckProof(proof, inc, book[seq-1], size, root))
	forged := book[seq-1]
	forged.Body = append(append([]byte{}, forged.Body...), ' ')
	if projections.CheckProof(proof, inc, forged, size, root) == nil {
		t.Fatal("a forged record is proved")
	}
	if projections.CheckProof(proof, "OTHER", book[seq-1], size, root) == nil {
		t.Fatal("a record of another incarnation is proved")
	}
}

// plainRoot is RFC 6962's root by its definition.
func plainRoot(records []events.Record) tlog.Hash {
	switch n := len(records); n {
	case 0:
		root, _ := tlog.TreeHash(0, nil)
		return root
	case 1:
		return tlog.RecordHash(events.Leaf(eventstest.ID[events.Incarnation](0), records[0]))
	default:
		half := 1
		for half*2 < n {
			half *= 2
		}
		return tlog.NodeHash(plainRoot(records[:half]), plainRoot(records[half:]))
	}
}

func TestTreeKnowsItsSize(t *testing.T) {
	s := newScript(t)
	r := s.read()
	for name, ask := range map[string]func() error{
		"root above the checkpoint": func() error { _, err := projections.TreeRoot(r, s.seq+1); return err },
		"leaf above the checkpoint": func() error { _, err := projections.LeafHash(r, s.seq+1); return err },
		"leaf 0":                    func() error { _, err := projections.LeafHash(r, 0); return err },
		"proof of leaf 0":           func() error { _, err := projections.Prove(r, 0, s.seq); return err },
		"proof outside the tree":    func() error { _, err := projections.Prove(r, 3, 2); return err },
	} {
		if err := ask(); !errors.Is(err, projections.ErrTreeSize) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
