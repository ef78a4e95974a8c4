package projections_test

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"

	"gatebook/projections"
	"gatebook/projections/projectionstest"
)

func TestMapStore(t *testing.T) {
	projectionstest.TestStore(t, func(*testing.T) projections.Store { return newMapStore() })
}

// rows is one state of the store; it is a Reader.
type rows map[string][]byte

func (r rows) Get(key []byte) ([]byte, error) { return r[string(key)], nil }

func (r rows) Scan(lower, upper []byte) iter.Seq2[projections.Row, error] {
	return r.scan(slices.Sorted(maps.Keys(r)), lower, upper)
}

func (r rows) ScanBack(lower, upper []byte) iter.Seq2[projections.Row, error] {
	keys := slices.Sorted(maps.Keys(r))
	slices.Reverse(keys)
	return r.scan(keys, lower, upper)
}

func (r rows) scan(keys []string, lower, upper []byte) iter.Seq2[projections.Row, error] {
	return func(yield func(projections.Row, error) bool) {
		for _, k := range keys {
			if k >= string(lower) && k < string(upper) && !yield(projections.Row{Key: []byte(k), Value: r[k]}, nil) {
				return
			}
		}
	}
}

// mapStore keeps all rows in one map and copies it for snapshots. A transaction
// keeps its writes in a map of its own.
type mapStore struct {
	mu     sync.Mutex
	rows   rows
	newest *mapTx
}

func newMapStore() *mapStore { return &mapStore{rows: rows{}} }

func (s *mapStore) Begin() projections.Tx {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &mapTx{store: s, own: map[string][]byte{}}
	if below := s.newest; below != nil && !below.ended {
		t.below = below
	}
	s.newest = t
	return t
}

func (s *mapStore) Snapshot() projections.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return mapSnapshot{maps.Clone(s.rows)}
}

func (s *mapStore) Sync() error  { return nil }
func (s *mapStore) Close() error { return nil }

type mapSnapshot struct{ rows }

func (mapSnapshot) Close() error { return nil }

type mapTx struct {
	store *mapStore
	below *mapTx            // begun before, and not ended then
	own   map[string][]byte // nil: deleted
	ended bool
}

func (t *mapTx) Get(key []byte) ([]byte, error) {
	if value, ok := t.own[string(key)]; ok {
		return value, nil
	}
	if t.below != nil {
		if value, ok := t.below.own[string(key)]; ok {
			return value, nil
		}
	}
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	return t.store.rows[string(key)], nil
}

func (t *mapTx) merged() rows {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	all := maps.Clone(t.store.rows)
	if t.below != nil {
		t.below.write(all)
	}
	t.write(all)
	return all
}

func (t *mapTx) write(to rows) {
	for k, v := range t.own {
		if v == nil {
			delete(to, k)
		} else {
			to[k] = v
		}
	}
}

func (t *mapTx) Scan(lower, upper []byte) iter.Seq2[projections.Row, error] {
	return t.merged().Scan(lower, upper)
}

func (t *mapTx) ScanBack(lower, upper []byte) iter.Seq2[projections.Row, error] {
	return t.merged().ScanBack(lower, upper)
}

func (t *mapTx) Set(key, value []byte) error {
	t.own[string(key)] = value
	return nil
}

func (t *mapTx) Delete(key []byte) error {
	t.own[string(key)] = nil
	return nil
}

func (t *mapTx) Commit() error {
	if t.ended {
		return errors.Join(projections.ErrStore, errors.New("ended"))
	}
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	t.write(t.store.rows)
	t.ended = true
	return nil
}

func (t *mapTx) Discard() {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if t.store.newest == t {
		t.store.newest = t.below
	}
	t.ended = true
}
