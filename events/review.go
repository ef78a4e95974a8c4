package events

// ReviewState is where a review is.
type ReviewState string

// The states. Only an open review can be decided.
const (
	ReviewStateOpen      ReviewState = "open"
	ReviewStateApproved  ReviewState = "approved"
	ReviewStateRefused   ReviewState = "refused"
	ReviewStateExpired   ReviewState = "expired"
	ReviewStateCancelled ReviewState = "cancelled"
)

// ReviewRequested says that a staged call waits for a person's decision. It stands
// behind the call.decided of the same decision.
type ReviewRequested struct {
	Review ReviewID `json:"review"`
	Call   CallID   `json:"call"`
	Round  RoundID  `json:"round"`
	// MAC is of the arguments that are to be approved.
	MAC     MAC     `json:"mac"`
	Expires Instant `json:"expires"`
}

// ReviewApproved lets a staged call go on, once; the actor is the person.
type ReviewApproved struct {
	Review ReviewID `json:"review"`
	Call   CallID   `json:"call"`
	MAC    MAC      `json:"mac"`
	// Shown is the digest of what the person saw, Base what of it the call would
	// change, as the tool names it; empty where the tool names nothing.
	Shown Digest `json:"shown"`
	Base  Digest `json:"base,omitzero"`
}

// ReviewRefused ends a staged call; the actor is the person.
type ReviewRefused struct {
	Review ReviewID `json:"review"`
	Call   CallID   `json:"call"`
	MAC    MAC      `json:"mac"`
	Reason string   `json:"reason,omitzero"`
}

// ReviewExpired ends a review that nobody decided in time.
type ReviewExpired struct {
	Review ReviewID `json:"review"`
	Call   CallID   `json:"call"`
}

// ReviewCancelled ends a review whose call cannot go on any more.
type ReviewCancelled struct {
	Review ReviewID `json:"review"`
	Call   CallID   `json:"call"`
	Reason string   `json:"reason"`
}

// Kind is "review.requested".
func (ReviewRequested) Kind() Kind { return KindReviewRequested }

// Kind is "review.approved".
func (ReviewApproved) Kind() Kind { return KindReviewApproved }

// Kind is "review.refused".
func (ReviewRefused) Kind() Kind { return KindReviewRefused }

// Kind is "review.expired".
func (ReviewExpired) Kind() Kind { return KindReviewExpired }

// Kind is "review.cancelled".
func (ReviewCancelled) Kind() Kind { return KindReviewCancelled }

func (ReviewRequested) sealed() {}
func (ReviewApproved) sealed()  {}
func (ReviewRefused) sealed()   {}
func (ReviewExpired) sealed()   {}
func (ReviewCancelled) sealed() {}
