package pebblekv

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"gatebook/projections"
)

// Options change where a store lives and who hears of its troubles.
type Options struct {
	FS vfs.FS // nil: the disk
	// Full, where not nil, is called where a write finds no space on the disk, and
	// all writes wait for it. It returns when the write may be tried again, once;
	// a second failure ends the process.
	Full func()
	// Room, where not nil, says whether the disk has room for what Close would like to
	// write: on a full one Pebble ends the process.
	Room func() bool
	// Log, where not nil, takes one line about a trouble of the database. It is
	// called from goroutines of Pebble that hold its lock: it MUST be quick, safe
	// for concurrent use, and not call the store.
	Log func(string)
}

// Sizes of the database, in bytes.
const (
	cacheSize    = 64 << 20
	memTableSize = 32 << 20
	// blockSize is what is packed together. Rows are like their neighbours, so that a
	// larger one takes less room; most reads are of rows in a run.
	blockSize = 16 << 10
)

// keptLayers is how many transactions' writes stay at hand.
const keptLayers = 4

// Store is a projections.Store on Pebble. One process at a time opens a folder.
type Store struct {
	dir      string
	opt      *pebble.Options
	db       *pebble.DB
	lock     *pebble.Lock
	troubles *troubles
	room     func() bool // nil: there is none
	// recent is what the last transactions wrote, newest first, which the next one
	// reads before it reads the database: the newest may not be there yet, and of
	// the others a look here is cheaper than one there.
	recent []*layer
}

var _ projections.Store = (*Store)(nil)

// Open opens the store in dir, or makes one, mode 0700. Every error wraps
// projections.ErrStore; [ErrDamaged] too where the folder is there and readable
// and holds no sound store, [ErrLocked] where another store has it open.
func Open(dir string, opt Options) (*Store, error) {
	fs := opt.FS
	if fs == nil {
		fs = vfs.Default
	}
	if opt.Full != nil {
		fs = vfs.OnDiskFull(fs, opt.Full)
	}
	if err := makeFolder(fs, dir, opt.FS == nil); err != nil {
		return nil, wrap("make "+dir, err)
	}
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		return nil, wrap("lock "+dir, errors.Join(ErrLocked, err))
	}
	troubles := newTroubles(opt.Log)
	pebbles := options(fs, lock, troubles)
	db, err := openDB(dir, pebbles)
	if err != nil {
		return nil, errors.Join(wrap("open "+dir, err), lock.Close())
	}
	s := &Store{dir: dir, opt: pebbles, db: db, lock: lock, troubles: troubles, room: opt.Room}
	if err := errors.Join(s.removeTables(), s.check()); err != nil {
		return nil, errors.Join(wrap("read "+dir, errors.Join(ErrDamaged, err)), s.Close())
	}
	return s, nil
}

func makeFolder(fs vfs.FS, dir string, onDisk bool) error {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if !onDisk {
		return nil
	}
	return os.Chmod(dir, 0o700) // it may be older than us
}

// openDB tells damage from a disk that has its own troubles. In the middle of an
// Open, Pebble also shows either by a Fatalf or by a panic of an error.
func openDB(dir string, opt *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			db, err = nil, p
		default:
			panic(p)
		}
		if err != nil && !transient(err) {
			err = errors.Join(ErrDamaged, err)
		}
	}()
	return pebble.Open(dir, opt)
}

func options(fs vfs.FS, lock *pebble.Lock, t *troubles) *pebble.Options {
	o := &pebble.Options{
		FS:   fs,
		Lock: lock,
		// Named, because the default is the oldest and tells no damage in the log
		// from its end. A newer one is a step without return.
		FormatMajorVersion:          pebble.FormatValueSeparation,
		CacheSize:                   cacheSize,
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: 4,
		MaxOpenFiles:                512,
		Logger:                      t,
		EventListener:               t.listener(),
	}
	// The two lowest levels, where most rows are, are packed harder: they are seldom
	// written.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
		all := pebble.DBCompressionBalanced
		all.Levels[len(all.Levels)-2] = block.BalancedCompression
		return all
	})
	for i := range o.Levels {
		// A call often asks for what is not there, its key for one; without filters
		// each such look reads blocks of every level, more as the book grows.
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].BlockSize = blockSize
	}
	return o
}

// check reads the checkpoint: a store without a readable one is of no use.
func (s *Store) check() error {
	_, err := projections.LoadState(reader{s.db})
	return err
}

// Begin opens a transaction.
func (s *Store) Begin() projections.Tx {
	room := 0
	if len(s.recent) > 0 {
		room = len(s.recent[0].writes)
	}
	t := &tx{reader: reader{s.db}, store: s, own: newLayer(room), below: s.recent, unwritten: min(1, len(s.recent))}
	keep := s.recent[:min(len(s.recent), keptLayers-1)]
	s.recent = append([]*layer{t.own}, keep...)
	return t
}

// forget drops the writes of a discarded transaction, and with them what stands
// on them.
func (s *Store) forget(own *layer) { s.recent = s.recent[slices.Index(s.recent, own)+1:] }

// Snapshot opens the state of the last commit.
func (s *Store) Snapshot() projections.Snapshot {
	db := s.db.NewSnapshot()
	return snapshot{reader: reader{db}, db: db}
}

// Sync makes every commit so far durable with one fsync of Pebble's log. After a
// failure nothing can be written any more.
func (s *Store) Sync() (err error) {
	defer s.catch(&err)
	if err := s.troubles.failure(); err != nil {
		return err
	}
	return wrap("sync", s.db.LogData(nil, pebble.Sync))
}

// catch makes a *[Fatal] that Pebble panics with an error, after which nothing can be
// written any more. It is to be deferred.
func (s *Store) catch(err *error) {
	switch p := recover().(type) {
	case nil:
	case *Fatal:
		s.troubles.stop(p)
		*err = wrap("write", p)
	default:
		panic(p)
	}
}

// Close makes every commit durable and lets go of the folder. Where there is room, it
// writes what is only in Pebble's log as tables, so that the next Open has no log to read.
func (s *Store) Close() error {
	if s.troubles.failure() == nil && s.room != nil && s.room() {
		s.flush()
	}
	return wrap("close", errors.Join(s.db.Close(), s.lock.Close()))
}

// flushTime is how long a Close waits for that.
const flushTime = 10 * time.Second

// flush does what it can: what it does not write, the log has.
func (s *Store) flush() {
	flushed, err := s.db.AsyncFlush()
	if err != nil {
		return
	}
	late := time.NewTimer(flushTime)
	defer late.Stop()
	select {
	case <-flushed:
	case <-s.troubles.failed:
	case <-late.C:
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", projections.ErrStore, what, err)
}
