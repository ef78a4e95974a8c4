package blobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gatebook/events"
)

var (
	// ErrDamaged marks a blob whose bytes are not those of its digest.
	ErrDamaged = errors.New("damaged blob")
	// ErrTooLarge marks bytes above [MaxBlob].
	ErrTooLarge = errors.New("blob too large")
)

// MaxBlob is the size of the largest blob, in bytes.
const MaxBlob = 64 << 20

const temporary = ".new-*"

// Store is a folder of blobs. One process has it open for writing; its methods
// are safe for concurrent use.
type Store struct {
	dir string
	now func() events.Instant
	// clean is held for reading while a blob is put and for writing while one is
	// removed as an orphan, so that none goes between "it is there" and its name.
	clean sync.RWMutex

	mu   sync.Mutex // held for moments only, never over the disk
	held map[events.Digest]*hold
}

// Open takes the folder at dir, which is there. now dates the
// files, for [Store.Orphans]: the wall clock, which cleaning compares with too.
func Open(dir string, now func() events.Instant) (*Store, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("blobs: folder %s is not an absolute path", events.Quote(dir))
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("blobs: %s is not a folder", events.Quote(dir))
	}
	return &Store{dir: dir, now: now, held: map[events.Digest]*hold{}}, nil
}

// Put stores data and gives its digest. Where it is stored already it is only
// dated anew.
func (s *Store) Put(data []byte) (events.Digest, error) {
	if len(data) > MaxBlob {
		return "", fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), MaxBlob)
	}
	d := events.DigestOf(data)
	s.clean.RLock()
	defer s.clean.RUnlock()
	if _, err := s.put(d, data); err != nil {
		return "", fmt.Errorf("put blob %s: %w", d, err)
	}
	s.spare(d)
	return d, nil
}

// put says whether the file is new.
func (s *Store) put(d events.Digest, data []byte) (created bool, err error) {
	path, now := s.path(d), s.now().Time()
	info, err := os.Lstat(path)
	if err == nil && info.Mode().IsRegular() && info.Size() == int64(len(data)) {
		if err := os.Chtimes(path, now, now); err != nil {
			return false, err
		}
		return false, s.sync() // whoever renamed it may not have come so far
	}
	return errors.Is(err, fs.ErrNotExist), s.write(path, data, now)
}

func (s *Store) write(path string, data []byte, now time.Time) error {
	f, err := os.CreateTemp(s.dir, temporary) // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = os.Chtimes(f.Name(), now, now)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return s.sync()
}

func (s *Store) sync() error {
	f, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Get reads a blob and compares it with its digest. The error wraps
// fs.ErrNotExist, [ErrDamaged], or events.ErrID where d is no digest.
func (s *Store) Get(d events.Digest) ([]byte, error) {
	if _, err := events.ParseDigest(string(d)); err != nil {
		return nil, err
	}
	info, err := os.Lstat(s.path(d))
	if err != nil {
		return nil, fmt.Errorf("get blob: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > MaxBlob {
		return nil, fmt.Errorf("%w: %s is no file of at most %d bytes", ErrDamaged, d, MaxBlob)
	}
	data, err := os.ReadFile(s.path(d))
	if err != nil {
		return nil, fmt.Errorf("get blob: %w", err)
	}
	if events.DigestOf(data) != d {
		return nil, fmt.Errorf("%w: %s", ErrDamaged, d)
	}
	return data, nil
}

// Remove deletes a blob, whoever else names it; a missing one is no error.
func (s *Store) Remove(d events.Digest) error {
	if _, err := events.ParseDigest(string(d)); err != nil {
		return err
	}
	if err := os.Remove(s.path(d)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove blob: %w", err)
	}
	return nil
}

func (s *Store) path(d events.Digest) string { return filepath.Join(s.dir, string(d)) }
