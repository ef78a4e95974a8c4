package blobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"gatebook/events"
)

// Orphans lists the blobs that were last put before olderThan and that named
// does not know. It also removes what a crash left half written before then.
func (s *Store) Orphans(olderThan events.Instant, named func(events.Digest) bool) ([]events.Digest, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("orphan blobs: %w", err)
	}
	var orphans []events.Digest
	for _, e := range entries {
		d, notDigest := events.ParseDigest(e.Name())
		half := strings.HasPrefix(e.Name(), strings.TrimSuffix(temporary, "*"))
		if (notDigest != nil && !half) || !s.before(e.Name(), olderThan) {
			continue
		}
		if half {
			if err := os.Remove(s.path(events.Digest(e.Name()))); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("orphan blobs: %w", err)
			}
		} else if !named(d) {
			orphans = append(orphans, d)
		}
	}
	return orphans, nil
}

// RemoveOrphan deletes a blob unless it was put again since olderThan or somebody
// holds it, and says whether it did.
func (s *Store) RemoveOrphan(d events.Digest, olderThan events.Instant) (bool, error) {
	s.clean.Lock()
	defer s.clean.Unlock()
	if _, err := events.ParseDigest(string(d)); err != nil {
		return false, err
	}
	if s.isHeld(d) || !s.before(string(d), olderThan) {
		return false, nil
	}
	return true, s.Remove(d)
}

// before is false for a file that is gone.
func (s *Store) before(name string, t events.Instant) bool {
	info, err := os.Lstat(s.path(events.Digest(name)))
	return err == nil && info.Mode().IsRegular() && events.InstantOf(info.ModTime()) < t
}
