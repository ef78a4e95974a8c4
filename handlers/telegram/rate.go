package telegram

import (
	"sync"
	"time"
)

// place is one user in one chat.
type place struct{ chat, user int64 }

// rate lets each place do so much at once, and then one thing each refill. It keeps
// maxPlaces places at most. Safe for concurrent use.
type rate struct {
	ahead  time.Duration // how far free may be ahead of now
	refill time.Duration

	mu sync.Mutex
	// free is when a place has used nothing any more.
	free map[place]time.Time
}

func newRate(burst int, refill time.Duration) *rate {
	return &rate{ahead: time.Duration(burst) * refill, refill: refill, free: map[place]time.Time{}}
}

// take says whether p may do one more thing now.
func (r *rate) take(p place, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	free, known := r.free[p]
	if !known && len(r.free) >= maxPlaces {
		for p, free := range r.free {
			if !free.After(now) {
				delete(r.free, p)
			}
		}
		if len(r.free) >= maxPlaces {
			return false
		}
	}
	if free.Before(now) {
		free = now
	}
	// A clock that was set back locks nobody out for longer than a full burst.
	if most := now.Add(r.ahead); free.After(most) {
		free = most
	}
	next := free.Add(r.refill)
	if next.Sub(now) > r.ahead {
		r.free[p] = free
		return false
	}
	r.free[p] = next
	return true
}
