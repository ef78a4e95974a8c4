package people

import (
	"context"

	"github.com/go-json-experiment/json"

	"gatebook/events"
	"gatebook/handlers/engine"
)

// Desk is the handler for another surface than the bus. Who asks is what the surface says,
// which MUST have authenticated them as an approver of the catalog; what they may do is
// asked as ever, and the events of their decisions name the surface.
type Desk struct {
	h   *Handler
	via string
}

// Desk gives the handler to a surface of that name.
func (h *Handler) Desk(via string) Desk { return Desk{h, via} }

// RefusedError is a refusal that the person may hear.
type RefusedError struct{ engine.Problem }

func (r *RefusedError) Error() string { return r.Code + ": " + r.Reason }

// Pending lists what waits and the person may see, the oldest first.
func (d Desk) Pending(ctx context.Context, who events.PersonID, limit int) (ReviewsAnswer, error) {
	return ask[ReviewsAnswer](ctx, d, who, d.h.reviews, ReviewsRequest{Limit: limit})
}

// Review gives everything about one review, of any size.
func (d Desk) Review(ctx context.Context, who events.PersonID, id events.ReviewID) (ReviewDetail, error) {
	return ask[ReviewDetail](ctx, d, who, d.h.review, ReviewRequest{Review: id, Full: true})
}

// Decide decides a review, and says where in the book.
func (d Desk) Decide(ctx context.Context, who events.PersonID, approve bool, q ActRequest) (engine.Done, error) {
	do := d.h.refuseReview
	if approve {
		do = d.h.approve
	}
	return ask[engine.Done](ctx, d, who, do, q)
}

func ask[T any](ctx context.Context, d Desk, who events.PersonID, do func(request) any, q any) (answer T, err error) {
	data, err := json.Marshal(q)
	if err != nil {
		return answer, err
	}
	answered := make(chan any, 1)
	v := do(request{ctx: ctx, person: who, approves: true, via: d.via, data: data, answer: func(v any) { answered <- v }})
	if v == nil {
		select {
		case v = <-answered:
		case <-ctx.Done():
			return answer, context.Cause(ctx)
		}
	}
	if no, refused := v.(engine.Refused); refused {
		return answer, &RefusedError{no.Error}
	}
	answer, _ = v.(T)
	return answer, nil
}
