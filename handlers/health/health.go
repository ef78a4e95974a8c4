// Package health says what keeps the engine from deciding.
//
// Start with [State]: whoever finds a trouble sets it, whoever found it over clears
// it, and everybody may ask. A state with any trouble means: decide nothing, refuse
// what would have to be recorded, go on reading.
package health

import (
	"sort"
	"sync"
)

// Trouble is a reason why the engine does not act.
type Trouble string

// The kinds of trouble.
const (
	// Book: the log cannot be written or read.
	Book Trouble = "book"
	// Disk: too little space is left on the volume.
	Disk Trouble = "disk"
	// Damage: stores disagree; deciding again takes a person.
	Damage Trouble = "damage"
	// Drain: the engine is stopping.
	Drain Trouble = "drain"
)

// State is what keeps the engine from deciding. Its zero value is healthy. Safe
// for concurrent use.
type State struct {
	mu  sync.Mutex
	why map[Trouble]string
}

// Set reports trouble, in words for people.
func (s *State) Set(t Trouble, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		s.why = map[Trouble]string{}
	}
	s.why[t] = why
}

// Clear says that the trouble is over.
func (s *State) Clear(t Trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.why, t)
}

// Why lists the troubles in the order of their names; empty when healthy.
func (s *State) Why() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.why))
	for t, why := range s.why {
		out = append(out, string(t)+": "+why)
	}
	sort.Strings(out)
	return out
}

// OK says that nothing keeps the engine from deciding.
func (s *State) OK() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.why) == 0
}

// Damaged says that only a person can go on.
func (s *State) Damaged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why[Damage] != ""
}
