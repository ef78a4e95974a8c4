package telegram

// seen knows the last updates again. Telegram sends one more than once where it does not
// know that it arrived. Used by the library's one worker only.
type seen struct {
	ids  map[int64]bool
	ring [maxSeen]int64
	next int
}

func newSeen() *seen { return &seen{ids: map[int64]bool{}} }

// first says that an update is new, and remembers it.
func (s *seen) first(id int64) bool {
	if s.ids[id] {
		return false
	}
	delete(s.ids, s.ring[s.next])
	s.ids[id] = true
	s.ring[s.next] = id
	s.next = (s.next + 1) % maxSeen
	return true
}
