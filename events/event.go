// Package events holds what happened: the closed set of facts, their
// envelope, their bytes, and the contract of the log that keeps them.
//
// Start with [Event] and the structs that implement it (agent.go, round.go,
// call.go, review.go, asset.go, engine.go), then [Draft] (stamped, not yet in the book) and
// [Recorded] (in the book). [Encode] and [Decode] turn one into the bytes of
// the other; [Log] is where the bytes live.
//
// What the package promises:
//
//   - Names are for ever; a shape has a schema number. A field may be added
//     when its zero value means the old behaviour and it is marked omitzero,
//     so that old bytes still re-encode to themselves. Any other change takes
//     a new schema number and a pure upcaster ([Upcaster]).
//   - Stored bytes are hashed as they are and never re-marshalled. Bytes that
//     would not re-encode to themselves are refused ([ErrNotCanonical]), and
//     so is an unknown kind or a schema from the future: the unknown one may
//     be a revocation.
//   - No event holds a map, a float, a pointer or a secret. Money is an integer
//     in micro-units, a duration an integer in microseconds, a time an
//     [Instant] in UTC that is never used for order. [Seq] is the only order.
//
// The package reads no clock and does no IO. Its values are safe to share
// between goroutines as long as nobody changes them.
//
// Dependencies: go-json-experiment/json because encoding/json takes "RULE"
// for "rule", the last of two equal keys and trailing data; oklog/ulid because
// ids sort by time and fit in a subject token.
package events

// Event is one fact. The set is closed: only this package adds members.
type Event interface {
	// Kind is the fact's name, for ever.
	Kind() Kind
	sealed()
}

// Kind names a fact: "<entity>.<past tense>".
type Kind string

// Entity is what a fact is about; it is a token of the subject.
type Entity string

// The entities of the book.
const (
	EntityAgent  Entity = "agent"
	EntityAsset  Entity = "asset"
	EntityReview Entity = "review"
	EntityTask   Entity = "task"
	EntityEngine Entity = "engine"
)

// ActorKind is what kind of party caused a fact.
type ActorKind string

// The kinds of actor. The engine is an actor where nobody asked: timers,
// recovery, the start.
const (
	ActorPerson  ActorKind = "person"
	ActorAgent   ActorKind = "agent"
	ActorChannel ActorKind = "channel"
	ActorEngine  ActorKind = "engine"
)

// Actor is who caused a fact, as the engine knows it from the connection.
type Actor struct {
	Kind ActorKind
	// ID is empty for the engine.
	ID string
}

// Engine is the engine as an actor.
func Engine() Actor { return Actor{Kind: ActorEngine} }

func (a Actor) String() string {
	if a.Kind == ActorEngine {
		return string(ActorEngine)
	}
	return string(a.Kind) + ":" + a.ID
}

// Meta is what the engine stamps on a fact.
type Meta struct {
	ID     EventID
	Time   Instant
	Actor  Actor
	Writer WriterID
	// Agent is whom the fact is about; empty for facts that are about no agent.
	Agent AgentID
	// Cause is the event that led to this one; empty for a first cause.
	Cause EventID
	// Catalog is the digest of the catalog in force; empty before the first.
	Catalog Digest
	// Trace is a W3C traceparent; empty where none came along.
	Trace string
}

// Draft is a stamped fact that is not yet in the book.
type Draft struct {
	Meta
	Event Event
}

// Recorded is a fact in the book.
type Recorded struct {
	Draft
	Seq Seq
}

// Subject is where d is written: ev.main.<entity>.<agent or _>.<event_kind>.
// It has few values; every other id is in the body.
func (d Draft) Subject() (string, error) { return kinds.subject(d) }

// SubjectPattern matches every subject of the book.
const SubjectPattern = subjectPrefix + ">"

const subjectPrefix = "ev.main."

// Every bound of the book in one place. Sizes are bytes.
const (
	// MaxEvent is the size of one encoded event, envelope included.
	MaxEvent = 64 << 10
	// MaxBatchEvents is how many events one atomic batch of the log holds.
	MaxBatchEvents = 1000
	// MaxBatchBytes is the size of the bodies of one atomic batch.
	MaxBatchBytes = 4 << 20
	// MaxSingles is how many one-event decisions go as pipelined single
	// appends; above it an atomic batch costs fewer fsyncs.
	MaxSingles = 8
	// MaxPreview is how much of an argument or a result a refused or large
	// call keeps in its event.
	MaxPreview = 256
	// MaxInlineArguments is the largest redacted argument text that stays in
	// the event; a larger one goes to a blob and leaves its preview.
	MaxInlineArguments = 8 << 10
	// MaxName bounds names that are not ids: roles, profiles, tools.
	MaxName = 128
)
