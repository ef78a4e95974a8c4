package telegram

import (
	"container/list"
	"encoding/base64"
	"fmt"
	"io"
	"sync"

	"gatebook/events"
)

// sight is what a person was shown of a review in a chat: the digest that an approval
// names. It is decided on once. Both words are random; approve is empty where what was
// shown cannot be approved.
type sight struct {
	place
	review          events.ReviewID
	digest          events.Digest
	expires         events.Instant
	message         int // where it was shown; messages of a chat have rising numbers
	approve, refuse string
}

// spot is where a sight stands: of each review, a person has one at most in a chat.
type spot struct {
	place
	review events.ReviewID
}

// sights keeps the last looks, in memory only: a restart forgets them, and who wants to
// approve looks again. Safe for concurrent use.
type sights struct {
	mu    sync.Mutex
	spots map[spot]*list.Element   // of *sight
	words map[string]*list.Element // of *sight
	order *list.List               // the oldest first
}

func newSights() *sights {
	return &sights{spots: map[spot]*list.Element{}, words: map[string]*list.Element{}, order: list.New()}
}

// keep remembers a sight, in place of an older one of the same.
func (s *sights) keep(one *sight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(s.spots[spot{one.place, one.review}])
	for s.order.Len() >= maxSights {
		s.drop(s.order.Front())
	}
	e := s.order.PushBack(one)
	s.spots[spot{one.place, one.review}] = e
	for _, word := range []string{one.approve, one.refuse} {
		if word != "" {
			s.words[word] = e
		}
	}
}

// forget takes back what p was shown of a review.
func (s *sights) forget(p place, review events.ReviewID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(s.spots[spot{p, review}])
}

// take uses up the last look of p at a review, where it can be approved and message was
// written after it was shown. What was written before means something else: Telegram
// may send both again after a restart, and what is shown then was not seen yet.
func (s *sights) take(p place, review events.ReviewID, message int, now events.Instant) (sight, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.use(s.spots[spot{p, review}], p, now, func(one *sight) bool { return one.approve != "" && message > one.message })
}

// press uses up the look that a button's word belongs to, where it is p's.
func (s *sights) press(p place, word string, now events.Instant) (one sight, approve, ok bool) {
	if word == "" || len(word) > maxData {
		return one, false, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok = s.use(s.words[word], p, now, func(*sight) bool { return true })
	return one, ok && word == one.approve, ok
}

func (s *sights) use(e *list.Element, p place, now events.Instant, fit func(*sight) bool) (sight, bool) {
	if e == nil {
		return sight{}, false
	}
	one := e.Value.(*sight)
	if one.place != p || !fit(one) {
		return sight{}, false
	}
	s.drop(e)
	return *one, now < one.expires
}

func (s *sights) drop(e *list.Element) {
	if e == nil {
		return
	}
	one := s.order.Remove(e).(*sight)
	delete(s.spots, spot{one.place, one.review})
	delete(s.words, one.approve)
	delete(s.words, one.refuse)
}

// newWord makes what a button carries.
func newWord(random io.Reader) (string, error) {
	var raw [wordBytes]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", fmt.Errorf("no randomness for a button: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw[:]), nil
}
