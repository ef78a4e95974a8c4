package telegram

import (
	"sync"
	"time"

	"gatebook/events"
)

// Status is how a bot is doing, for doctor. No text in it holds the token.
type Status struct {
	// Polled is when Telegram last answered a poll; zero: not yet.
	Polled events.Instant `json:"polled,omitzero"`
	// Polling is why polls fail now; empty while they are answered.
	Polling string `json:"polling,omitzero"`
	// Failed and Failure are of the last request of any kind that failed.
	Failed  events.Instant `json:"failed,omitzero"`
	Failure string         `json:"failure,omitzero"`
	// Dropped counts what was not looked at because it was too much.
	Dropped int `json:"dropped,omitzero"`
}

// health keeps the status. Safe for concurrent use.
type health struct {
	now func() time.Time

	mu sync.Mutex
	s  Status
}

func (h *health) status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.s
}

func (h *health) polled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.s.Polled, h.s.Polling = events.InstantOf(h.now()), ""
}

func (h *health) failed(f *Failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.s.Failed, h.s.Failure = events.InstantOf(h.now()), f.Error()
	if f.Method == methodPoll {
		h.s.Polling = f.Reason
	}
}

func (h *health) dropped() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.s.Dropped++
}
