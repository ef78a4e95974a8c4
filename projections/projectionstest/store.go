package projectionstest

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"gatebook/projections"
)

// TestStore is the contract of projections.Store. open makes an empty store; the
// suite closes it.
func TestStore(t *testing.T, open func(t *testing.T) projections.Store) {
	for name, test := range map[string]func(*testing.T, projections.Store){
		"reads its own writes":                 testOwnWrites,
		"commit shows all, discard nothing":    testCommitDiscard,
		"an empty value is not none":           testEmptyValue,
		"a snapshot stays as it was":           testSnapshot,
		"a scan may stop at any row":           testStop,
		"snapshots serve many readers":         testReaders,
		"key is copied, the value taken over":  testOwnership,
		"any writes and scans equal a map's":   testModel,
		"sync and an empty transaction are ok": testSync,
		"a second transaction sees the first":  testTwo,
		"two transactions equal two maps":      testTwoModel,
		"the second transaction is discarded":  testSecondDiscarded,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			test(t, s)
			if err := s.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
		})
	}
}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// rows reads a scan to its end as "key=value".
func rows(t *testing.T, scan iter.Seq2[projections.Row, error]) []string {
	t.Helper()
	var out []string
	for row, err := range scan {
		ok(t, err)
		out = append(out, string(row.Key)+"="+string(row.Value))
	}
	return out
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("rows %q, want %q", got, want)
	}
}

func testOwnWrites(t *testing.T, s projections.Store) {
	tx := s.Begin()
	ok(t, tx.Set([]byte("a"), []byte("1")), tx.Set([]byte("b"), []byte("2")), tx.Set([]byte("c"), []byte("3")), tx.Commit())
	tx = s.Begin()
	defer tx.Discard()
	ok(t, tx.Delete([]byte("b")), tx.Set([]byte("bb"), []byte("4")), tx.Set([]byte("c"), []byte("5")), tx.Delete([]byte("no")))
	want(t, rows(t, tx.Scan([]byte("a"), []byte("z"))), "a=1", "bb=4", "c=5")
	want(t, rows(t, tx.ScanBack([]byte("a"), []byte("z"))), "c=5", "bb=4", "a=1")
	want(t, rows(t, tx.Scan([]byte("b"), []byte("c"))), "bb=4")
	want(t, rows(t, tx.Scan([]byte{}, []byte("b"))), "a=1")
	want(t, rows(t, tx.ScanBack(nil, []byte("b"))), "a=1")
	for key, value := range map[string]string{"a": "1", "b": "", "bb": "4", "c": "5"} {
		got, err := tx.Get([]byte(key))
		ok(t, err)
		if string(got) != value || (got == nil) != (value == "") {
			t.Fatalf("%s is %q, want %q", key, got, value)
		}
	}
}

func testCommitDiscard(t *testing.T, s projections.Store) {
	tx := s.Begin()
	ok(t, tx.Set([]byte("a"), []byte("1")))
	tx.Discard()
	tx.Discard()
	tx = s.Begin()
	ok(t, tx.Set([]byte("b"), []byte("2")), tx.Commit())
	tx.Discard()
	if err := tx.Commit(); err == nil {
		t.Fatal("committed twice")
	}
	snap := s.Snapshot()
	want(t, rows(t, snap.Scan([]byte("a"), []byte("z"))), "b=2")
	ok(t, snap.Close())
}

func testEmptyValue(t *testing.T, s projections.Store) {
	tx := s.Begin()
	ok(t, tx.Set([]byte("a"), []byte{}))
	check := func(r projections.Reader) {
		t.Helper()
		got, err := r.Get([]byte("a"))
		ok(t, err)
		if got == nil {
			t.Fatal("an empty value reads as none")
		}
		if got, err = r.Get([]byte("b")); err != nil || got != nil {
			t.Fatalf("none reads as %q, %v", got, err)
		}
	}
	check(tx)
	ok(t, tx.Commit())
	snap := s.Snapshot()
	check(snap)
	ok(t, snap.Close())
}

func testSnapshot(t *testing.T, s projections.Store) {
	tx := s.Begin()
	ok(t, tx.Set([]byte("a"), []byte("1")), tx.Commit())
	snap := s.Snapshot()
	tx = s.Begin()
	ok(t, tx.Set([]byte("a"), []byte("2")), tx.Set([]byte("b"), []byte("2")))
	want(t, rows(t, snap.Scan([]byte("a"), []byte("z"))), "a=1")
	ok(t, tx.Commit())
	want(t, rows(t, snap.Scan([]byte("a"), []byte("z"))), "a=1")
	ok(t, snap.Close())
}

func testStop(t *testing.T, s projections.Store) {
	tx := s.Begin()
	for i := range 10 {
		ok(t, tx.Set(fmt.Appendf(nil, "k%d", i), []byte("v")))
		if i == 4 {
			ok(t, tx.Commit())
			tx = s.Begin()
		}
	}
	for stop := range 10 {
		for _, scan := range []iter.Seq2[projections.Row, error]{
			tx.Scan([]byte("k"), []byte("l")), tx.ScanBack([]byte("k"), []byte("l")),
		} {
			n := 0
			for range scan {
				if n++; n > stop {
					break
				}
			}
		}
	}
	tx.Discard()
}

func testReaders(t *testing.T, s projections.Store) {
	tx := s.Begin()
	for i := range 100 {
		ok(t, tx.Set(fmt.Appendf(nil, "k%02d", i), []byte("v")))
	}
	ok(t, tx.Commit())
	snap := s.Snapshot()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			n := 0
			for _, err := range snap.Scan([]byte("k"), []byte("l")) {
				if err != nil {
					t.Error(err)
				}
				n++
			}
			if n != 100 {
				t.Errorf("%d rows", n)
			}
		})
	}
	tx = s.Begin()
	ok(t, tx.Delete([]byte("k00")), tx.Commit(), s.Sync())
	wg.Wait()
	ok(t, snap.Close())
}

func testOwnership(t *testing.T, s projections.Store) {
	tx := s.Begin()
	key := []byte("a")
	ok(t, tx.Set(key, []byte("1")))
	key[0] = 'b'
	ok(t, tx.Set(key, []byte("2")), tx.Commit())
	snap := s.Snapshot()
	got, err := snap.Get([]byte("a"))
	ok(t, err)
	other, err := snap.Get([]byte("b"))
	ok(t, err)
	if string(got) != "1" || string(other) != "2" {
		t.Fatalf("a=%q b=%q", got, other)
	}
	ok(t, snap.Close())
}

// testTwo begins a transaction while the one before it is open.
func testTwo(t *testing.T, s projections.Store) {
	tx := s.Begin()
	ok(t, tx.Set([]byte("a"), []byte("1")), tx.Set([]byte("b"), []byte("1")), tx.Commit())
	first := s.Begin()
	ok(t, first.Delete([]byte("a")), first.Set([]byte("c"), []byte("2")))
	second := s.Begin()
	ok(t, second.Set([]byte("b"), []byte("3")))
	want(t, rows(t, second.Scan([]byte("a"), []byte("z"))), "b=3", "c=2")
	committed := make(chan error, 1)
	go func() { committed <- first.Commit() }()
	ok(t, second.Set([]byte("d"), []byte("3")))
	want(t, rows(t, second.ScanBack([]byte("a"), []byte("z"))), "d=3", "c=2", "b=3")
	ok(t, <-committed)
	snap := s.Snapshot()
	want(t, rows(t, snap.Scan([]byte("a"), []byte("z"))), "b=1", "c=2")
	ok(t, snap.Close(), second.Commit())

	first, second = s.Begin(), s.Begin()
	ok(t, first.Set([]byte("lost"), []byte("4")), second.Set([]byte("lost too"), []byte("4")))
	first.Discard()
	second.Discard()
	tx = s.Begin()
	defer tx.Discard()
	want(t, rows(t, tx.Scan([]byte("a"), []byte("z"))), "b=3", "c=2", "d=3")
}

// testSecondDiscarded discards the newer of two transactions and begins another one.
func testSecondDiscarded(t *testing.T, s projections.Store) {
	first := s.Begin()
	ok(t, first.Set([]byte("a"), []byte("1")))
	second := s.Begin()
	ok(t, second.Set([]byte("a"), []byte("2")), second.Set([]byte("b"), []byte("2")))
	second.Discard()
	third := s.Begin()
	want(t, rows(t, third.Scan([]byte("a"), []byte("z"))), "a=1")
	if got, err := third.Get([]byte("a")); err != nil || string(got) != "1" {
		t.Fatalf("a is %q (%v), want what the first transaction wrote", got, err)
	}
	ok(t, third.Set([]byte("c"), []byte("3")), first.Commit(), third.Commit())
	snap := s.Snapshot()
	want(t, rows(t, snap.Scan([]byte("a"), []byte("z"))), "a=1", "c=3")
	ok(t, snap.Close())
}

// testTwoModel drives chains of transactions, each begun before the end of the
// one before it, and maps with the same steps.
func testTwoModel(t *testing.T, s projections.Store) {
	committed := map[string]string{}
	rapid.Check(t, func(rt *rapid.T) {
		key := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 2, 2)
		older, model := projections.Tx(nil), maps.Clone(committed)
		for range rapid.IntRange(1, 5).Draw(rt, "chain") {
			tx, own := s.Begin(), maps.Clone(model)
			for range rapid.IntRange(0, 4).Draw(rt, "writes") {
				k, v := key.Draw(rt, "key"), rapid.StringN(0, 2, 4).Draw(rt, "value")
				if v == "" {
					ok(t, tx.Delete([]byte(k)))
					delete(own, k)
					continue
				}
				ok(t, tx.Set([]byte(k), []byte(v)))
				own[k] = v
			}
			compare(rt, tx, own, "a", "c")
			for k, v := range own {
				if got, err := tx.Get([]byte(k)); err != nil || string(got) != v {
					rt.Fatalf("%q is %q (%v), want %q", k, got, err, v)
				}
			}
			if older != nil {
				ok(t, older.Commit())
				committed = model
			}
			compare(rt, tx, own, "a", "c")
			older, model = tx, own
		}
		older.Discard()
	})
}

func testSync(t *testing.T, s projections.Store) {
	ok(t, s.Sync(), s.Begin().Commit(), s.Sync())
}

// testModel drives store and map with the same steps.
func testModel(t *testing.T, s projections.Store) {
	committed := map[string]string{}
	rapid.Check(t, func(rt *rapid.T) {
		key := rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00")), 1, 3, 3)
		tx, own := s.Begin(), map[string]string{}
		defer tx.Discard()
		for k, v := range committed {
			own[k] = v
		}
		for range rapid.IntRange(0, 12).Draw(rt, "writes") {
			k := key.Draw(rt, "key")
			if rapid.Bool().Draw(rt, "delete") {
				ok(t, tx.Delete([]byte(k)))
				delete(own, k)
				continue
			}
			v := rapid.StringN(0, 3, 9).Draw(rt, "value")
			ok(t, tx.Set([]byte(k), []byte(v)))
			own[k] = v
		}
		lower, upper := key.Draw(rt, "lower"), key.Draw(rt, "upper")
		compare(rt, tx, own, lower, upper)
		if rapid.Bool().Draw(rt, "commit") {
			ok(t, tx.Commit())
			committed = own
		}
		snap := s.Snapshot()
		compare(rt, snap, committed, lower, upper)
		ok(t, snap.Close())
	})
}

func compare(t *rapid.T, r projections.Reader, model map[string]string, lower, upper string) {
	var keys []string
	for k := range model {
		if k >= lower && k < upper {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	compareScan(t, r.Scan([]byte(lower), []byte(upper)), model, keys)
	slices.Reverse(keys)
	compareScan(t, r.ScanBack([]byte(lower), []byte(upper)), model, keys)
}

func compareScan(t *rapid.T, scan iter.Seq2[projections.Row, error], model map[string]string, keys []string) {
	for row, err := range scan {
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 || string(row.Key) != keys[0] || !bytes.Equal(row.Value, []byte(model[keys[0]])) {
			t.Fatalf("row %q=%q, want the next of %q", row.Key, row.Value, keys)
		}
		keys = keys[1:]
	}
	if len(keys) > 0 {
		t.Fatalf("rows missing: %q", keys)
	}
}
