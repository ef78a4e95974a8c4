package engine

import (
	"sort"
	"sync"
)

// Trouble is a reason why the engine does not act.
type Trouble string

// The kinds of trouble.
const (
	// TroubleBook: the log cannot be written or read.
	TroubleBook Trouble = "book"
	// TroubleDisk: too little space is left on the volume.
	TroubleDisk Trouble = "disk"
	// TroubleDamage: stores disagree; deciding again takes a person.
	TroubleDamage Trouble = "damage"
	// TroubleDrain: the engine is stopping.
	TroubleDrain Trouble = "drain"
)

// Health is what keeps the engine from deciding. Its zero value is healthy. Safe
// for concurrent use.
type Health struct {
	mu  sync.Mutex
	why map[Trouble]string
}

// Set reports trouble, in words for people.
func (h *Health) Set(t Trouble, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why == nil {
		h.why = map[Trouble]string{}
	}
	h.why[t] = why
}

// Clear says that the trouble is over.
func (h *Health) Clear(t Trouble) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.why, t)
}

// Why lists the troubles, worst names first by the alphabet; empty when healthy.
func (h *Health) Why() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]string, 0, len(h.why))
	for t, why := range h.why {
		out = append(out, string(t)+": "+why)
	}
	sort.Strings(out)
	return out
}

// OK says that nothing keeps the engine from deciding.
func (h *Health) OK() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.why) == 0
}

// Damaged says that only a person can go on.
func (h *Health) Damaged() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why[TroubleDamage] != ""
}
