package events

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The kinds of facts. A name is for ever.
const (
	KindAgentEnrolled      Kind = "agent.enrolled"
	KindAgentReleased      Kind = "agent.released"
	KindProfileSet         Kind = "profile.set"
	KindProfileDefaulted   Kind = "profile.defaulted"
	KindChildDeclared      Kind = "child.declared"
	KindChildRevoked       Kind = "child.revoked"
	KindTrashDecided       Kind = "trash.decided"
	KindTrashEmptied       Kind = "trash.emptied"
	KindConversationOpened Kind = "conversation.opened"
	KindConversationClosed Kind = "conversation.closed"
	KindRoundBegun         Kind = "round.begun"
	KindRoundTainted       Kind = "round.tainted"
	KindRoundEnded         Kind = "round.ended"
	KindCallDecided        Kind = "call.decided"
	KindCallReleased       Kind = "call.released"
	KindCallCompleted      Kind = "call.completed"
	KindUsageRecorded      Kind = "usage.recorded"
	KindReviewRequested    Kind = "review.requested"
	KindReviewApproved     Kind = "review.approved"
	KindReviewRefused      Kind = "review.refused"
	KindReviewExpired      Kind = "review.expired"
	KindReviewCancelled    Kind = "review.cancelled"
	KindAssetRegistered    Kind = "asset.registered"
	KindAssetApproved      Kind = "asset.approved"
	KindAssetRefused       Kind = "asset.refused"
	KindAssetExpired       Kind = "asset.expired"
	KindAssetRetiered      Kind = "asset.retiered"
	KindEngineStarted      Kind = "engine.started"
	KindCatalogLoaded      Kind = "catalog.loaded"
	KindPhaseChanged       Kind = "phase.changed"
	KindClockJumped        Kind = "clock.jumped"
	KindAlertRaised        Kind = "alert.raised"
	KindAlertDelivered     Kind = "alert.delivered"
	KindJobRan             Kind = "job.ran"
	KindJobMissed          Kind = "job.missed"
	KindIntakeRefused      Kind = "intake.refused"
	KindAccessRefused      Kind = "access.refused"
	KindSubjectErased      Kind = "subject.erased"
)

// shape is what the codec knows of a kind: where it is written, its schema
// today, and how its data is read.
type shape struct {
	entity Entity
	token  string // of the subject: the kind with _ for .
	schema int
	name   string // of the kind and its schema: the type of the envelope
	holds  func(Event) bool
	decode func(jsontext.Value) (Event, error)
}

// kindSet is a closed set of kinds.
type kindSet map[Kind]shape

// kinds is the set of today, constant after start.
var kinds = kindSet{
	KindAgentEnrolled:      of[AgentEnrolled](EntityAgent, 1),
	KindAgentReleased:      of[AgentReleased](EntityAgent, 1),
	KindProfileSet:         of[ProfileSet](EntityAgent, 1),
	KindProfileDefaulted:   of[ProfileDefaulted](EntityAgent, 1),
	KindChildDeclared:      of[ChildDeclared](EntityAgent, 1),
	KindChildRevoked:       of[ChildRevoked](EntityAgent, 1),
	KindTrashDecided:       of[TrashDecided](EntityAgent, 1),
	KindTrashEmptied:       of[TrashEmptied](EntityAgent, 1),
	KindConversationOpened: of[ConversationOpened](EntityAgent, 1),
	KindConversationClosed: of[ConversationClosed](EntityAgent, 1),
	KindRoundBegun:         of[RoundBegun](EntityAgent, 1),
	KindRoundTainted:       of[RoundTainted](EntityAgent, 1),
	KindRoundEnded:         of[RoundEnded](EntityAgent, 1),
	KindCallDecided:        of[CallDecided](EntityAgent, 1),
	KindCallReleased:       of[CallReleased](EntityAgent, 1),
	KindCallCompleted:      of[CallCompleted](EntityAgent, 1),
	KindUsageRecorded:      of[UsageRecorded](EntityAgent, 1),
	KindReviewRequested:    of[ReviewRequested](EntityReview, 1),
	KindReviewApproved:     of[ReviewApproved](EntityReview, 1),
	KindReviewRefused:      of[ReviewRefused](EntityReview, 1),
	KindReviewExpired:      of[ReviewExpired](EntityReview, 1),
	KindReviewCancelled:    of[ReviewCancelled](EntityReview, 1),
	KindAssetRegistered:    of[AssetRegistered](EntityAsset, 1),
	KindAssetApproved:      of[AssetApproved](EntityAsset, 1),
	KindAssetRefused:       of[AssetRefused](EntityAsset, 1),
	KindAssetExpired:       of[AssetExpired](EntityAsset, 1),
	KindAssetRetiered:      of[AssetRetiered](EntityAsset, 1),
	KindEngineStarted:      of[EngineStarted](EntityEngine, 1),
	KindCatalogLoaded:      of[CatalogLoaded](EntityEngine, 1),
	KindPhaseChanged:       of[PhaseChanged](EntityEngine, 1),
	KindClockJumped:        of[ClockJumped](EntityEngine, 1),
	KindAlertRaised:        of[AlertRaised](EntityEngine, 1),
	KindAlertDelivered:     of[AlertDelivered](EntityEngine, 1),
	KindJobRan:             of[JobRan](EntityEngine, 1),
	KindJobMissed:          of[JobMissed](EntityEngine, 1),
	KindIntakeRefused:      of[IntakeRefused](EntityEngine, 1),
	KindAccessRefused:      of[AccessRefused](EntityEngine, 1),
	KindSubjectErased:      of[SubjectErased](EntityEngine, 1),
}

// Kinds lists every kind, sorted by name.
func Kinds() []Kind { return slices.Sorted(maps.Keys(kinds)) }

func (set kindSet) subject(d Draft) (string, error) {
	_, subject, err := set.place(d)
	return subject, err
}

// place gives the shape of d's event and the subject it is written to.
func (set kindSet) place(d Draft) (shape, string, error) {
	if d.Event == nil {
		return shape{}, "", fmt.Errorf("%w: a draft without an event", ErrUnknownKind)
	}
	k, ok := set[d.Event.Kind()]
	if !ok {
		return shape{}, "", fmt.Errorf("%w: %s", ErrUnknownKind, Quote(string(d.Event.Kind())))
	}
	agent := "_"
	if d.Agent != "" {
		if _, err := ParseAgentID(string(d.Agent)); err != nil {
			return shape{}, "", err
		}
		agent = string(d.Agent)
	}
	return k, subjectPrefix + string(k.entity) + "." + agent + "." + k.token, nil
}

func of[E Event](entity Entity, schema int) shape {
	var zero E
	return shape{
		entity: entity,
		token:  strings.ReplaceAll(string(zero.Kind()), ".", "_"),
		schema: schema,
		name:   typePrefix + string(zero.Kind()) + ".v" + strconv.Itoa(schema),
		holds: func(e Event) bool {
			_, ok := e.(E)
			return ok
		},
		decode: func(data jsontext.Value) (Event, error) {
			var e E
			if err := json.Unmarshal(data, &e, json.RejectUnknownMembers(true)); err != nil {
				return nil, fmt.Errorf("decode %s: %w", zero.Kind(), err)
			}
			return e, nil
		},
	}
}
