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

// ReviewRequested says that something waits for a person's decision; where Call is set, a
// staged call does. It then stands behind the call.decided of the same decision.
type ReviewRequested struct {
	Review ReviewID `json:"review"`
	Call   CallID   `json:"call,omitzero"`
	Round  RoundID  `json:"round,omitzero"`
	// MAC is of the arguments that are to be approved.
	MAC     MAC     `json:"mac,omitzero"`
	Expires Instant `json:"expires"`
}

// ReviewApproved is a person's yes; the actor is the person. What it lets happen has an
// event of its own: call.released claims it for a call, once.
type ReviewApproved struct {
	Review ReviewID `json:"review"`
	Call   CallID   `json:"call,omitzero"`
	MAC    MAC      `json:"mac,omitzero"`
	// Definition is that of the tool which the person saw.
	Definition Digest `json:"definition,omitzero"`
	// Shown is the digest, and the blob, of the document that the person saw, and Base
	// stands for the state that the call would change, as the tool names it.
	Shown Digest `json:"shown"`
	Base  Digest `json:"base,omitzero"`
	// Via is the surface that it came over; empty for the person's own key.
	Via string `json:"via,omitzero"`
	// More is how many other people must approve it too; while any must, it stays open.
	More int `json:"more,omitzero"`
}

// ReviewRefused is a person's no; the actor is the person.
type ReviewRefused struct {
	Review ReviewID `json:"review"`
	Call   CallID   `json:"call,omitzero"`
	MAC    MAC      `json:"mac,omitzero"`
	Reason string   `json:"reason,omitzero"`
	// Via is the surface that it came over; empty for the person's own key.
	Via string `json:"via,omitzero"`
}

// ReviewExpired ends a review that nobody decided in time.
type ReviewExpired struct {
	Review ReviewID `json:"review"`
	Call   CallID   `json:"call,omitzero"`
}

// ReviewCancelled ends a review of what cannot go on any more. Rule says why to
// programs, Reason to people.
type ReviewCancelled struct {
	Review ReviewID `json:"review"`
	Call   CallID   `json:"call,omitzero"`
	Rule   string   `json:"rule,omitzero"`
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
