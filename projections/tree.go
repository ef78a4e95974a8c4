package projections

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"gatebook/events"
)

// The tree is RFC 6962's over [events.Leaf] of every event; its size is the
// checkpoint. One row per event holds the hashes that the event completes, the
// leaf's first and each next one level up: 64 bytes on average.

// TreeRoot is the root over the first size events.
func TreeRoot(r Reader, size events.Seq) (tlog.Hash, error) {
	if err := checkTree(r, size, size); err != nil {
		return tlog.Hash{}, err
	}
	return tlog.TreeHash(int64(size), TreeReader(r))
}

// LeafHash is the hash of the leaf of one event.
func LeafHash(r Reader, seq events.Seq) (tlog.Hash, error) {
	if err := checkTree(r, seq, seq); err != nil || seq == 0 {
		return tlog.Hash{}, fmt.Errorf("%w: no leaf %d", ErrTreeSize, seq)
	}
	hashes, err := TreeReader(r).ReadHashes([]int64{tlog.StoredHashIndex(0, int64(seq)-1)})
	if err != nil {
		return tlog.Hash{}, err
	}
	return hashes[0], nil
}

// Prove proves that event seq is in the tree of the first size events; see
// [CheckProof].
func Prove(r Reader, seq, size events.Seq) (tlog.RecordProof, error) {
	if err := checkTree(r, seq, size); err != nil {
		return nil, err
	}
	return tlog.ProveRecord(int64(size), int64(seq)-1, TreeReader(r))
}

// CheckProof says whether p proves that record is in the tree of that size and
// root. It needs no store. The error is nil for yes.
func CheckProof(p tlog.RecordProof, inc events.Incarnation, record events.Record, size events.Seq, root tlog.Hash) error {
	leaf := tlog.RecordHash(events.Leaf(inc, record))
	return tlog.CheckRecord(p, int64(size), root, int64(record.Seq)-1, leaf)
}

// checkTree is the law 1 <= seq <= size <= checkpoint; the empty tree is one too.
func checkTree(r Reader, seq, size events.Seq) error {
	state, err := LoadState(r)
	if err != nil {
		return err
	}
	if size > state.Seq || seq > size || seq == 0 && size > 0 {
		return fmt.Errorf("%w: it has %d leaves, asked for leaf %d of %d", ErrTreeSize, state.Seq, seq, size)
	}
	return nil
}

// TreeReader reads stored hashes by their index, for the proofs of
// golang.org/x/mod/sumdb/tlog.
func TreeReader(r Reader) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			if err := readHash(r, index, &hashes[i]); err != nil {
				return nil, err
			}
		}
		return hashes, nil
	})
}

func readHash(r Reader, index int64, hash *tlog.Hash) error {
	level, n := tlog.SplitStoredHashIndex(index)
	seq := events.Seq((n + 1) << level) // the event that completed it
	row, err := r.Get(seqKey(viewTree, seq))
	if err != nil {
		return err
	}
	at := level * tlog.HashSize
	if len(row) < at+tlog.HashSize {
		return fmt.Errorf("%w: the tree row of event %d lacks level %d", ErrStore, seq, level)
	}
	copy(hash[:], row[at:])
	return nil
}

func (f *fold) leaf(record events.Record) error {
	leaf := events.Leaf(f.state.Incarnation, record)
	hashes, err := tlog.StoredHashes(int64(f.rec.Seq)-1, leaf, TreeReader(f.tx))
	if err != nil {
		return err
	}
	row := make([]byte, 0, len(hashes)*tlog.HashSize)
	for _, h := range hashes {
		row = append(row, h[:]...)
	}
	f.put(seqKey(viewTree, f.rec.Seq), row)
	return nil
}
