package pebblekv

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"gatebook/projections"
)

const (
	// loadSize is how many bytes of rows a loader keeps before it writes them.
	loadSize = 48 << 20
	// tableSize is from how many bytes on the rows of a view get tables of their own.
	// Those of most views only grow, and such a table goes right where it stays.
	tableSize = 256 << 10
	// maxTable is how many bytes a table has at most, and one row.
	maxTable = 4 << 20
	// fewBytes are written as a commit is: tables cost some fsyncs each.
	fewBytes = 4 << 20
	// lowest is the level that tables are packed for.
	lowest = 6
	// tablePrefix begins the names of tables that are not part of the database yet.
	tablePrefix = "load-"
)

var _ projections.Loader = (*Store)(nil)

// loader keeps what is committed back, and writes it as sorted tables, all of it at once.
type loader struct {
	*Store
	mu      sync.Mutex // Commit and the writing may run beside Begin
	layers  []*layer   // what is not in the database, newest first
	ended   int        // how many of them are committed: the last ones
	bytes   int        // of those that are committed and not being written
	writing chan error // the end of the writing under way; nil where there is none
	tables  int        // that were ever made
	size    int        // loadSize
	few     int        // fewBytes
}

// Load gives a store that takes many rows for less; see projections.Loader.
func (s *Store) Load() projections.Store { return &loader{Store: s, size: loadSize, few: fewBytes} }

// Load gives l itself.
func (l *loader) Load() projections.Store { return l }

// Begin opens a transaction.
func (l *loader) Begin() projections.Tx {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := 0
	if len(l.layers) > 0 {
		room = len(l.layers[0].writes)
	}
	t := &loaderTx{tx: tx{reader: reader{l.db}, store: l.Store, own: newLayer(room), below: l.layers, unwritten: len(l.layers)}, loader: l}
	l.layers = append([]*layer{t.own}, l.layers...)
	return t
}

// loaderTx is a transaction of a loader.
type loaderTx struct {
	tx
	loader *loader
}

func (t *loaderTx) Commit() error {
	if t.ended {
		return wrap("commit", errEnded)
	}
	t.ended = true
	return t.loader.commit()
}

func (t *loaderTx) Discard() {
	if !t.ended {
		t.ended = true
		t.loader.drop(t.own)
	}
}

// drop takes out a layer and those that stand on it.
func (l *loader) drop(own *layer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := slices.Index(l.layers, own); at >= 0 {
		l.layers = l.layers[at+1:]
	}
}

// commit ends the oldest transaction that has not ended.
func (l *loader) commit() error {
	if err := l.troubles.failure(); err != nil {
		return err
	}
	l.mu.Lock()
	l.ended++
	l.bytes += l.layers[len(l.layers)-l.ended].bytes
	full := l.bytes >= l.size
	l.mu.Unlock()
	if !full {
		return nil
	}
	return l.write()
}

// Sync writes all that is committed, and makes it durable.
func (l *loader) Sync() error {
	err := errors.Join(l.write(), l.wait(), l.Store.Sync())
	l.recent = nil // of before: the next transaction of the store below reads what is here now
	return err
}

// Close writes all that is committed. The store below stays open.
func (l *loader) Close() error { return l.Sync() }

// write begins to bring what is committed into the database, once the writing before
// has ended.
func (l *loader) write() error {
	if err := l.wait(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	whole := l.layers[len(l.layers)-l.ended:]
	l.bytes, l.writing = 0, make(chan error, 1)
	go func() { l.writing <- l.bring(whole) }()
	return nil
}

// wait waits for the writing under way.
func (l *loader) wait() error {
	if l.writing == nil {
		return nil
	}
	err := <-l.writing
	l.writing = nil
	return err
}

// bring brings the oldest layers into the database.
func (l *loader) bring(whole []*layer) (err error) {
	defer l.catch(&err)
	rows, size := rowsOf(whole)
	write := l.writeTables
	if size < l.few {
		write = l.writeBatch
	}
	if err := write(rows); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.layers, l.ended = l.layers[:len(l.layers)-len(whole)], l.ended-len(whole)
	return nil
}

// rowsOf gives the newest rows of layers, newest first, in the order of their keys, and
// how many bytes they are.
func rowsOf(layers []*layer) (rows []write, size int) {
	places := placesOf(layers)
	rows = make([]write, 0, len(places))
	for i, p := range places {
		if i > 0 && p.key == places[i-1].key {
			continue // an older one
		}
		w := layers[p.layer].writes[p.at]
		rows, size = append(rows, w), size+len(w.key)+len(w.value)
	}
	return rows, size
}

// place is where a row is in layers.
type place struct {
	start     uint64 // of the key, behind its first byte: most are told apart by it
	key       string
	layer, at int32
}

// placesOf gives all rows by their keys, and the newest first of those with the same.
func placesOf(layers []*layer) []place {
	var ends [257]int // by the first byte, which is that of a view: each is sorted alone
	for _, l := range layers {
		for i := range l.writes {
			ends[int(l.writes[i].key[0])+1]++
		}
	}
	for i := range 256 {
		ends[i+1] += ends[i]
	}
	next, places := ends, make([]place, ends[256])
	for n, l := range layers {
		for at := range l.writes {
			key := l.writes[at].key
			places[next[key[0]]] = place{startOf(key[1:]), key, int32(n), int32(at)}
			next[key[0]]++
		}
	}
	for i := range 256 {
		slices.SortFunc(places[ends[i]:ends[i+1]], func(a, b place) int {
			if a.start != b.start {
				return cmp.Compare(a.start, b.start)
			}
			return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.layer, b.layer))
		})
	}
	return places
}

// startOf is a number that orders strings like their first bytes.
func startOf(s string) uint64 {
	var start [8]byte
	copy(start[:], s)
	return binary.BigEndian.Uint64(start[:])
}

// writeTables makes tables of the rows, and takes all of them into the database at once.
func (l *loader) writeTables(rows []write) (err error) {
	defer func() {
		if err != nil {
			err = wrap("load", errors.Join(err, l.removeTables()))
		}
	}()
	var paths []string
	for len(rows) > 0 {
		n := tableOf(rows)
		path, err := l.writeTable(rows[:n])
		if err != nil {
			return err
		}
		paths, rows = append(paths, path), rows[n:]
	}
	return l.db.Ingest(context.Background(), paths)
}

// tableOf is how many of the rows the next table has: a part of a view, or several
// small views.
func tableOf(rows []write) (n int) {
	size := 0
	for n < len(rows) {
		more, bytes := viewOf(rows[n:])
		if n > 0 && (bytes >= tableSize || size >= tableSize) {
			return n
		}
		n, size = n+more, size+bytes
		if size >= maxTable {
			return n
		}
	}
	return n
}

// viewOf is how many of the rows are of the first one's view, as many as a table may
// have, and their bytes.
func viewOf(rows []write) (n, size int) {
	for n < len(rows) && rows[n].key[0] == rows[0].key[0] && size < maxTable {
		n, size = n+1, size+len(rows[n].key)+len(rows[n].value)
	}
	return n, size
}

// writeTable makes a table of rows, fsynced.
func (l *loader) writeTable(rows []write) (file string, err error) {
	l.tables++
	file = path.Join(l.dir, fmt.Sprintf("%s%06d.sst", tablePrefix, l.tables))
	f, err := l.opt.FS.Create(file, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", err
	}
	opt := l.opt.MakeWriterOptions(lowest, l.db.TableFormat())
	opt.WritingToLowestLevel = false // it would lose what is deleted: the table may go higher
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), opt)
	var key []byte
	for _, row := range rows {
		key = append(key[:0], row.key...)
		if row.value == nil {
			err = w.Delete(key)
		} else {
			err = w.Set(key, row.value)
		}
		if err != nil {
			break
		}
	}
	return file, errors.Join(err, w.Close())
}

// removeTables removes those that are no part of the database.
func (s *Store) removeTables() error {
	names, err := s.opt.FS.List(s.dir)
	for _, name := range names {
		if strings.HasPrefix(name, tablePrefix) {
			err = errors.Join(err, s.opt.FS.Remove(path.Join(s.dir, name)))
		}
	}
	return err
}
