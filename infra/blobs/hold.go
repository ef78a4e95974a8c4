package blobs

import (
	"fmt"

	"gatebook/events"
)

// hold is the use of one blob by those who do not know yet whether an event will
// name it.
type hold struct {
	count   int
	created bool // by one of them: it was not there before
	spared  bool // somebody keeps it
}

// Hold is [Store.Put] for bytes that an event may or may not come to name, as
// those of a call that is not decided yet. release must be called once when that
// is known; calls after the first do nothing. The blob is removed when nobody
// kept it, nobody else holds it, and it was not there before the holders came.
//
// release(true) is quick. release(false) may wait for the disk; its error says
// that the blob could not be removed, and a clean-up of orphans finds it then.
func (s *Store) Hold(data []byte) (_ events.Digest, release func(keep bool) error, err error) {
	if len(data) > MaxBlob {
		return "", nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), MaxBlob)
	}
	d := events.DigestOf(data)
	s.clean.RLock()
	defer s.clean.RUnlock()
	h := s.hold(d) // before the write: from here on nobody else's release removes it
	created, err := s.put(d, data)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.created = h.created || created
	if err != nil {
		if s.drop(d, h) { // left to a clean-up of orphans
			delete(s.held, d)
		}
		return "", nil, fmt.Errorf("put blob %s: %w", d, err)
	}
	released := false
	return d, func(keep bool) error {
		s.mu.Lock()
		again := released
		released = true
		s.mu.Unlock()
		if again {
			return nil
		}
		return s.release(d, h, keep)
	}, nil
}

func (s *Store) hold(d events.Digest) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[d]
	if h == nil {
		h = &hold{}
		s.held[d] = h
	}
	h.count++
	return h
}

// drop takes one holder away; s.mu is held. It says whether the blob should go:
// its entry then stays until it has gone.
func (s *Store) drop(d events.Digest, h *hold) (goes bool) {
	if h.count--; h.count > 0 {
		return false
	}
	if h.created && !h.spared {
		return true
	}
	delete(s.held, d)
	return false
}

func (s *Store) release(d events.Digest, h *hold, keep bool) error {
	s.mu.Lock()
	h.spared = h.spared || keep
	goes := s.drop(d, h)
	s.mu.Unlock()
	if !goes {
		return nil
	}
	s.clean.Lock() // nobody is between "it is there" and its name
	defer s.clean.Unlock()
	if s.wanted(d, h) {
		return nil
	}
	return s.Remove(d)
}

// wanted says whether somebody came for the blob since its last holder left, or
// has removed it already.
func (s *Store) wanted(d events.Digest, h *hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[d] != h || h.count > 0 {
		return true
	}
	delete(s.held, d)
	return h.spared
}

// spare keeps a blob that was put beside its holders.
func (s *Store) spare(d events.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.held[d]; h != nil {
		h.spared = true
	}
}

func (s *Store) isHeld(d events.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[d] != nil
}
