package telegram

import (
	"context"
	"time"
)

// strangers hands on that somebody asked who may not. What cannot be handed on in time
// is counted as dropped. note is called by the library's one worker only.
type strangers struct {
	record func(ctx context.Context, chat, user int64, what string)
	now    func() time.Time
	health *health
	rate   *rate // one per place and second
	notes  chan note
}

type note struct {
	place
	what string
}

func newStrangers(cfg Config, h *health) *strangers {
	return &strangers{record: cfg.Stranger, now: cfg.Now, health: h, rate: newRate(1, time.Second), notes: make(chan note, maxNotes)}
}

func (s *strangers) note(p place, what string) {
	if !s.rate.take(p, s.now()) {
		s.health.dropped()
		return
	}
	select {
	case s.notes <- note{p, what}:
	default:
		s.health.dropped()
	}
}

// run records until ctx ends.
func (s *strangers) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-s.notes:
			s.one(ctx, n)
		}
	}
}

func (s *strangers) one(ctx context.Context, n note) {
	ctx, stop := context.WithTimeout(ctx, noteTime)
	defer stop()
	s.record(ctx, n.chat, n.user, n.what)
}
