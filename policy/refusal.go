package policy

import "gatebook/events"

// Refusal is a no to something that is not a call.
type Refusal struct {
	Code   Code // for programs
	Reason string
	// Round is the open round where that is why.
	Round events.RoundID
}

func refuse(code Code, reason string) *Refusal { return &Refusal{Code: code, Reason: reason} }

// Code says to a program why something was refused.
type Code string

// The codes of this package's refusals.
const (
	CodeConflict            Code = "conflict"
	CodeInvalid             Code = "invalid"
	CodeNoAsset             Code = "no_asset"
	CodeNoReview            Code = "no_review"
	CodeNoRound             Code = "no_round"
	CodeNotAllowed          Code = "not_allowed"
	CodeReviewDecided       Code = "review_decided"
	CodeReviewExpired       Code = "review_expired"
	CodeRoundEnded          Code = "round_ended"
	CodeRoundOpen           Code = "round_open"
	CodeTooMany             Code = "too_many"
	CodeUnknownAgent        Code = "unknown_agent"
	CodeUnknownConversation Code = "unknown_conversation"
	CodeUnknownProfile      Code = "unknown_profile"
)

// Codes are all of them, in order. The caller owns the slice.
func Codes() []Code {
	return []Code{
		CodeConflict, CodeInvalid, CodeNoAsset, CodeNoReview, CodeNoRound, CodeNotAllowed, CodeReviewDecided, CodeReviewExpired, CodeRoundEnded, CodeRoundOpen,
		CodeTooMany, CodeUnknownAgent, CodeUnknownConversation, CodeUnknownProfile,
	}
}
