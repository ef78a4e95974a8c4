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
