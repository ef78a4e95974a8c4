package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"gatebook/events"
	"gatebook/handlers/integrity"
	"gatebook/infra/datadir"
	"gatebook/infra/pebblekv"
	"gatebook/projections"
)

// aged is a stopped folder with some events, and its book as it was before the
// last few of them.
type aged struct {
	whole        *testFolder
	former       string // a nats folder
	formerHead   datadir.Head
	head         datadir.Head
	anotherStore string // the nats folder of another data folder
}

func age(t *testing.T, calls int) aged {
	t.Helper()
	h := newFolder(t)
	e := startEngine(t, h)
	alice := connectAgent(t, h, "alice")
	alice.beginRound(h, "grow old")
	alice.calls(calls)
	stopped(t, e)
	a := aged{whole: h, former: filepath.Join(t.TempDir(), "nats"), formerHead: headIn(t, h)}
	copyFolder(t, h.folder().Nats(), a.former)
	e = startEngine(t, h)
	alice = reconnectAgent(t, h, "alice")
	alice.beginRound(h, "the last words")
	alice.calls(2)
	stopped(t, e)
	a.head = headIn(t, h)
	other := newFolder(t)
	stopped(t, startEngine(t, other))
	a.anotherStore = other.folder().Nats()
	return a
}

func stopped(t *testing.T, e *runningEngine) {
	t.Helper()
	if err := e.stop(); err != nil {
		t.Fatal(err)
	}
}

func headIn(t *testing.T, h *testFolder) datadir.Head {
	t.Helper()
	head, err := h.folder().ReadHead()
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
		t.Fatal(err)
	}
}

// block is the newest block file of the book.
func (h *testFolder) block() string {
	h.t.Helper()
	all, err := filepath.Glob(filepath.Join(h.dir, "nats", "jetstream", "ENGINE", "streams", "BOOK_main", "msgs", "*.blk"))
	if err != nil || len(all) == 0 {
		h.t.Fatalf("no block file: %v", err)
	}
	return all[len(all)-1]
}

// edit changes a file's bytes.
func (h *testFolder) edit(path string, change func([]byte) []byte) {
	h.t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(raw), 0o600)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *testFolder) remove(path string) {
	h.t.Helper()
	if err := os.RemoveAll(path); err != nil {
		h.t.Fatal(err)
	}
}

// flip flips one bit at so many thousandths of a file.
func flip(thousandths int) func([]byte) []byte {
	return func(raw []byte) []byte {
		raw[len(raw)*thousandths/1000] ^= 1
		return raw
	}
}

// withoutFirstTwo takes the first two messages out of a block of the store. Each
// begins with its length, of which the highest bit is a flag.
func withoutFirstTwo(raw []byte) []byte {
	for range 2 {
		raw = raw[binary.LittleEndian.Uint32(raw)&^(1<<31):]
	}
	return raw
}

// views is the folder of the views in use.
func (h *testFolder) views() string {
	h.t.Helper()
	folder, err := viewsFolder(h.folder())
	if err != nil {
		h.t.Fatal(err)
	}
	return folder
}

// damageCase is a way to damage a stopped folder. From and to bound the first
// sequence in doubt; both 0 where the whole store is.
type damageCase struct {
	name     string
	damage   func(*testFolder)
	from, to events.Seq
	old      bool // found by verify and by the scrub, not by a start
}

func damages(t *testing.T, a aged) []damageCase {
	nats := func(h *testFolder) string { return h.folder().Nats() }
	last, next := a.head.Size, a.formerHead.Size+1
	rollBack := func(h *testFolder) { copyFolder(t, a.former, nats(h)) }
	return []damageCase{
		{"O-L08 agent-bom#3697 the newest events are cut off", rollBack, next, next, false},
		{"O-L08 ai-memory-mcp#1850 the first two events are cut off", func(h *testFolder) {
			h.edit(h.block(), withoutFirstTwo)
			h.remove(filepath.Join(filepath.Dir(h.block()), "index.db"))
		}, 1, 1, false},
		{"O-L08 the whole log is gone", func(h *testFolder) { h.remove(nats(h)) }, 1, 1, false},
		{"O-L08 the stream is deleted", func(h *testFolder) { h.remove(filepath.Join(nats(h), "jetstream", "ENGINE", "streams", "BOOK_main")) }, 1, 1, false},
		{"O-L08 rolled back, and the head reset", func(h *testFolder) { rollBack(h); h.remove(h.folder().Head()) }, next, next, false},
		{"O-L08 rolled back, and the views gone", func(h *testFolder) { rollBack(h); h.remove(h.folder().Views()) }, next, next, false},
		{"O-E08 nats-server#5412 the views are ahead of book and head", func(h *testFolder) {
			rollBack(h)
			if err := h.folder().WriteHead(a.formerHead); err != nil {
				t.Fatal(err)
			}
		}, next, next, false},
		{"the book is of another folder", func(h *testFolder) { copyFolder(t, a.anotherStore, nats(h)) }, 0, 0, false},
		{"the head knows another tree", func(h *testFolder) {
			head := a.head
			head.Root[0] ^= 1
			if err := h.folder().WriteHead(head); err != nil {
				t.Fatal(err)
			}
		}, 1, 1, false},
		{"O-E09 nats-server#7549 one bit in the newest thousand", func(h *testFolder) { h.edit(h.block(), flip(700)) }, last / 2, last, false},
		{"O-E09 one bit in an old event", func(h *testFolder) { h.edit(h.block(), flip(40)) }, 1, last - integrity.Newest, true},
		{"O-E09 one bit in an old event, after a crash", func(h *testFolder) {
			h.edit(h.block(), flip(40))
			h.remove(filepath.Join(filepath.Dir(h.block()), "index.db"))
		}, 1, last - integrity.Newest, false},
		{"O-E09 a block is truncated", func(h *testFolder) {
			h.edit(h.block(), func(raw []byte) []byte { return raw[:len(raw)*3/4] })
		}, last / 2, last, false},
	}
}

// Damage is reported with exit code 4 and the first sequence in doubt, by verify
// and by a start, and neither changes what is there.
func TestDamage(t *testing.T) {
	a := age(t, integrity.Newest+150)
	for _, c := range damages(t, a) {
		t.Run(c.name, func(t *testing.T) {
			h := copyOf(t, a.whole)
			c.damage(h)
			again := copyOf(t, h)
			before, sum := h.hashes(), h.rows()
			code, out, errs := h.run("verify", "--json")
			v := decodeAs[verified](t, out)
			if code != exitDamage || v.OK || v.InDoubt < c.from || v.InDoubt > c.to {
				t.Errorf("verify: exit code %d, %+v, %s\nwant a sequence in %d to %d", code, v, errs, c.from, c.to)
			}
			if !strings.Contains(errs, "copy "+shellWord(h.dir)+" before you do anything else; gatebook --dir "+shellWord(h.dir)+" doctor says") {
				t.Errorf("no next step: %s", errs)
			}
			h.wantSame(t, before, sum)
			if c.old {
				scrubbed(t, again)
				return
			}
			_, err := tryEngine(t, again, serveOptions{})
			var d *integrity.Damage
			if !errors.As(err, &d) || d.Seq < c.from || d.Seq > c.to || exitCode(err) != exitDamage {
				t.Errorf("start: %v", err)
			}
			again.wantSame(t, before, sum)
		})
	}
}

func TestRecovery(t *testing.T) {
	a := age(t, 30)
	t.Run("an operator's rebuild after O-E08", func(t *testing.T) { rebuiltAfterLoss(t, a) })
	t.Run("torn tail", func(t *testing.T) { tornTail(t, a) })
	t.Run("rebuild", func(t *testing.T) { rebuiltEqual(t, a) })
	t.Run("damaged views", func(t *testing.T) { damagedViews(t, a) })
	t.Run("views of another shape", func(t *testing.T) { foreignViews(t, a) })
}

// wantSame compares with hashes of before: all files but the lock, and of the views
// which folders there are. Their files change with every opening; the rows are
// compared by sum.
func (h *testFolder) wantSame(t *testing.T, before map[string]string, sum string) {
	t.Helper()
	after := h.hashes()
	for _, name := range slices.Sorted(maps.Keys(mapsUnion(before, after))) {
		if name != "lock" && !strings.HasPrefix(name, "views/db-") && before[name] != after[name] {
			t.Errorf("%s: %s, want %s", name, after[name], before[name])
		}
	}
	if now := h.rows(); now != sum {
		t.Errorf("views: %s, want %s", now, sum)
	}
}

// rows names the folders of views, and sums up the rows of those in use, if they
// open.
func (h *testFolder) rows() string {
	h.t.Helper()
	folders, _ := filepath.Glob(filepath.Join(h.dir, "views", "db-*"))
	all := fmt.Sprint(len(folders))
	for _, f := range folders {
		all += " " + filepath.Base(f)
	}
	used, err := viewsFolder(h.folder())
	if err != nil || !exists(used) {
		return all
	}
	views, err := pebblekv.Open(used, pebblekv.Options{})
	if err != nil {
		return all + " damaged"
	}
	sum, n, err := fingerprint(views)
	if err := errors.Join(err, views.Close()); err != nil {
		h.t.Fatal(err)
	}
	return fmt.Sprintf("%s, %d rows, %s", all, n, sum)
}

func mapsUnion(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// scrubbed starts an engine that finds the damage in the background, and then
// decides nothing.
func scrubbed(t *testing.T, h *testFolder) {
	e := startEngine(t, h)
	alice := reconnectAgent(t, h, "alice")
	e.errs.wait(t, "evidence of damage")
	code, out, _ := h.run("doctor", "--json")
	if d := decodeAs[diagnosis](t, out); code != exitDamage || len(d.Damage) != 1 || !strings.Contains(d.Damage[0], "first sequence in doubt") {
		t.Errorf("doctor: exit code %d, %+v", code, d)
	}
	if got, err := alice.call("file.list", `{"path":"."}`, ""); err != nil || got.Status != events.StatusDenied || got.Layer != events.LayerEngine {
		t.Errorf("a call after the damage was found: %+v, %v", got, err)
	}
}

// rebuiltAfterLoss: the views saw events that the book has lost.
func rebuiltAfterLoss(t *testing.T, a aged) {
	h := copyOf(t, a.whole)
	copyFolder(t, a.former, h.folder().Nats())
	if code, _, errs := h.run("rebuild"); code != exitDamage || !strings.Contains(errs, fmt.Sprint(a.formerHead.Size+1)) {
		t.Errorf("a book that does not extend the head: exit code %d, %s", code, errs)
	}
	if err := h.folder().WriteHead(a.formerHead); err != nil {
		t.Fatal(err)
	}
	was := h.views()
	code, out, errs := h.run("rebuild", "--json")
	r := decodeAs[rebuilt](t, out)
	if code != exitDamage || r.Equal || !r.Compared || r.Kept != was || !exists(was) || r.Events != a.formerHead.Size {
		t.Errorf("exit code %d, %+v, %s", code, r, errs)
	}
	stopped(t, startEngine(t, h))
}

// tornTail: half a record at the end, never acknowledged, is normal after a crash.
func tornTail(t *testing.T, a aged) {
	for _, indexed := range []bool{true, false} {
		h := copyOf(t, a.whole)
		h.edit(h.block(), func(raw []byte) []byte { return append(raw, raw[:100]...) })
		if !indexed {
			h.remove(filepath.Join(filepath.Dir(h.block()), "index.db"))
		}
		e, err := tryEngine(t, h, serveOptions{verify: true})
		if err != nil {
			t.Errorf("index %t: %v", indexed, err)
			continue
		}
		stopped(t, e)
		if head := headIn(t, h); head.Size <= a.head.Size {
			t.Errorf("index %t: the book ends at %d", indexed, head.Size)
		}
	}
}

func rebuiltEqual(t *testing.T, a aged) {
	h := copyOf(t, a.whole)
	was := h.views()
	r := decodeAs[rebuilt](t, h.must("rebuild", "--json"))
	if !r.Equal || r.Events != a.head.Size || r.Root != a.head.Root.String() || r.PerSecond == 0 || exists(was) || filepath.Base(h.views()) != r.Views {
		t.Errorf("%+v", r)
	}
	if out := h.must("rebuild"); !strings.Contains(out, "were equal and are deleted") {
		t.Error(out)
	}
	if v := decodeAs[verified](t, h.must("verify", "--json")); !v.OK || v.Events != a.head.Size || v.Root != a.head.Root.String() {
		t.Errorf("%+v", v)
	}
	if code, out, _ := h.run("doctor", "--json"); code != exitUnreachable || decodeAs[diagnosis](t, out).Folder.Head.Size != a.head.Size ||
		!strings.Contains(out, "whether the book is whole: gatebook --dir "+h.dir+" verify") {
		t.Errorf("doctor of a stopped folder: exit code %d, %s", code, out)
	}
	h.remove(h.folder().Nats())
	if code, _, errs := h.run("verify"); code != exitDamage { // which leaves empty folders
		t.Errorf("verify without a book: exit code %d, %s", code, errs)
	}
	if code, out, _ := h.run("doctor"); code != exitDamage || !strings.Contains(out, "the book is gone") ||
		!strings.Contains(out, "before you do anything else") || strings.Contains(out, "whether the book is whole") {
		t.Errorf("doctor without a book: exit code %d, %s", code, out)
	}
	// One row of the old views changed: not equal, kept, exit code 4.
	h = copyOf(t, a.whole)
	h.changeRow()
	if code, out, errs := h.run("rebuild", "--json"); code != exitDamage || decodeAs[rebuilt](t, out).Equal || !strings.Contains(errs, "kept in") {
		t.Errorf("changed views: exit code %d, %s%s", code, out, errs)
	}
	stopped(t, startEngine(t, h))
}

// changeRow changes one row of the views in use.
func (h *testFolder) changeRow() {
	h.changeViews(func(tx projections.Tx) error { return tx.Set([]byte{0xfe}, []byte{1}) })
}

// changeViews changes the views in use.
func (h *testFolder) changeViews(change func(projections.Tx) error) {
	h.t.Helper()
	s := &stores{dir: h.folder()}
	if err := s.openViews(nodeConfig{dir: h.folder(), log: func(string, string) {}}); err != nil {
		h.t.Fatal(err)
	}
	tx := s.views.Begin()
	err := errors.Join(change(tx), tx.Commit(), s.close())
	if err != nil {
		h.t.Fatal(err)
	}
}

// A view database that does not open is set aside and built anew, the book says
// so; but only where the book extends the head.
func damagedViews(t *testing.T, a aged) {
	newest := func(h *testFolder, pattern string) string {
		all, _ := filepath.Glob(filepath.Join(h.views(), pattern))
		if len(all) == 0 {
			t.Fatal("no " + pattern)
		}
		return all[len(all)-1]
	}
	half := func(raw []byte) []byte { return raw[:len(raw)/2+1] }
	for name, damage := range map[string]func(*testFolder){
		"O-B03 pebble#1212 the manifest is truncated": func(h *testFolder) { h.edit(newest(h, "MANIFEST-*"), half) },
		"O-B03 the manifest is gone":                  func(h *testFolder) { h.remove(newest(h, "MANIFEST-*")) },
		"the pointer names nothing":                   func(h *testFolder) { h.edit(viewsPointer(h.folder()), half) },
		"the folder is gone":                          func(h *testFolder) { h.remove(h.views()) },
	} {
		t.Run(name, func(t *testing.T) {
			h := copyOf(t, a.whole)
			damage(h)
			broken := copyOf(t, h)
			stopped(t, startEngine(t, h))
			aside, _ := filepath.Glob(filepath.Join(h.dir, "views", "db-*.damaged-*"))
			if strings.HasPrefix(name, "O-B03") && len(aside) != 1 {
				t.Errorf("set aside: %q", aside)
			}
			if n := h.alerts("views_rebuilt"); n != 1 {
				t.Errorf("%d alerts", n)
			}
			copyFolder(t, a.former, broken.folder().Nats())
			before, sum := broken.hashes(), broken.rows()
			if _, err := tryEngine(t, broken, serveOptions{}); exitCode(err) != exitDamage {
				t.Errorf("a book that does not extend the head: %v", err)
			}
			broken.wantSame(t, before, sum)
		})
	}
}

// foreignViews: the views of a program of before or of later are no damage. A start
// sets them aside, makes them anew from the book, and says so.
func foreignViews(t *testing.T, a aged) {
	for name, foreign := range map[string]func(projections.State) any{
		"without a number": func(s projections.State) any { s.Shape = 0; return s },
		"a later one":      func(s projections.State) any { s.Shape = 1_000; return s },
		"of fewer fields":  func(projections.State) any { return []any{1, 2} },
	} {
		t.Run(name, func(t *testing.T) {
			h := copyOf(t, a.whole)
			rows, was := h.rows(), filepath.Base(h.views())
			h.changeViews(func(tx projections.Tx) error {
				state, err := projections.LoadState(tx)
				raw, encodeErr := cbor.Marshal(foreign(state))
				return errors.Join(err, encodeErr, tx.Set([]byte{1}, raw))
			})
			if v := decodeAs[verified](t, h.must("verify", "--json")); !v.OK {
				t.Errorf("verify: %+v", v)
			}
			again := copyOf(t, h)
			if code, out, errs := again.run("rebuild", "--json"); code != exitYes || decodeAs[rebuilt](t, out).Compared || !strings.Contains(errs, "of another shape") {
				t.Errorf("rebuild: exit code %d, %s%s", code, out, errs)
			}
			e := startEngine(t, h)
			e.errs.wait(t, "the views are those of another version of the program; they were built anew from the book")
			alice := reconnectAgent(t, h, "alice")
			alice.beginRound(h, "go on")
			alice.calls(1)
			stopped(t, e)
			aside, _ := filepath.Glob(filepath.Join(h.dir, "views", was+".damaged-*"))
			if len(aside) != 1 || filepath.Base(h.views()) == was || h.rows() == rows {
				t.Errorf("set aside: %q; in use: %s", aside, h.views())
			}
			if n := h.alerts("views_rebuilt"); n != 1 {
				t.Errorf("%d alerts", n)
			}
		})
	}
}

// What a killed rebuild left is removed, and nothing else is.
func TestUnfinishedViews(t *testing.T) {
	h := copyOf(t, age(t, 3).whole)
	inUse, err := viewsFolder(h.folder())
	check(t, err)
	left, kept := filepath.Join(h.dir, "views", "db-left"), filepath.Join(h.dir, "views", "db-kept")
	for _, folder := range []string{left, kept} {
		check(t, os.Mkdir(folder, 0o700))
	}
	for _, folder := range []string{left, inUse} {
		check(t, os.WriteFile(unfinished(folder), nil, 0o600))
	}
	pointer := viewsPointer(h.folder())
	text, err := os.ReadFile(pointer)
	check(t, err)
	for name, spoil := range map[string]func() error{
		"damaged":    func() error { return os.WriteFile(pointer, []byte("../x\n"), 0o600) },
		"unreadable": func() error { return errors.Join(os.Remove(pointer), os.Mkdir(pointer, 0o700)) },
	} {
		check(t, spoil())
		if err := removeUnfinished(h.folder()); (err == nil) != (name == "damaged") || !exists(inUse) || !exists(left) {
			t.Errorf("with a pointer that is %s: %v; in use %t, left %t", name, err, exists(inUse), exists(left))
		}
		check(t, errors.Join(os.RemoveAll(pointer), os.WriteFile(pointer, text, 0o600)))
	}
	stopped(t, startEngine(t, h))
	if exists(left) || exists(unfinished(left)) || !exists(kept) || exists(unfinished(inUse)) {
		names, _ := filepath.Glob(filepath.Join(h.dir, "views", "*"))
		t.Errorf("the folder holds %q", names)
	}
	if now, err := viewsFolder(h.folder()); err != nil || now != inUse {
		t.Errorf("in use: %s, %v", now, err)
	}
}

// alerts counts the alerts of a name in the book of a stopped folder.
func (h *testFolder) alerts(name string) (n int) {
	h.t.Helper()
	err := h.app(new(printed), new(printed)).stopped(func(node *node) error {
		var err error
		if node.stores, err = openStores(context.Background(), node.cfg, node.bus); err != nil {
			return err
		}
		for r, err := range node.stores.book().Read(context.Background(), 1) {
			if err != nil {
				return err
			}
			e, err := events.Decode(r)
			if err != nil {
				return err
			}
			if alert, ok := e.Event.(events.AlertRaised); ok && alert.Alert == name {
				n++
			}
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}
