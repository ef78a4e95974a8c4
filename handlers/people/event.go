package people

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
)

// EventDetail is one event, body as stored.
type EventDetail struct {
	Seq     events.Seq     `json:"seq"`
	Subject string         `json:"subject"`
	Event   jsontext.Value `json:"event"`
}

// event reads one event from the book itself.
func (h *Handler) event(ctx context.Context, seq events.Seq) (EventDetail, error) {
	for r, err := range h.cfg.Book().Read(ctx, seq) {
		if err != nil {
			return EventDetail{}, err
		}
		return EventDetail{Seq: r.Seq, Subject: r.Subject, Event: r.Body}, nil
	}
	return EventDetail{}, fmt.Errorf("sequence %d: %w", seq, events.ErrGap)
}
