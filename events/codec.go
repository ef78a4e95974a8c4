package events

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var (
	// ErrUpcasters marks a set of upcasters with a gap or a double step.
	ErrUpcasters = errors.New("upcasters do not form a chain")
	// ErrUnknownKind marks a kind or schema that this program does not know.
	// A reader must stop at it.
	ErrUnknownKind = errors.New("unknown kind of event")
	// ErrNotCanonical marks bytes that do not re-encode to themselves.
	ErrNotCanonical = errors.New("event is not in canonical form")
	// ErrTooLarge marks an event above [MaxEvent].
	ErrTooLarge = errors.New("event too large")
	// ErrMalformed marks bytes that are no event at all.
	ErrMalformed = errors.New("malformed event")
)

// envelope is CloudEvents 1.0, structured mode. The order of the fields is the
// order of the bytes. Extensions have lower-case names, as the format asks. Its
// data is an Event on the way out and raw JSON on the way in.
type envelope[D any] struct {
	SpecVersion string   `json:"specversion"`
	ID          EventID  `json:"id"`
	Source      string   `json:"source"`
	Type        string   `json:"type"`
	Subject     string   `json:"subject"`
	Time        Instant  `json:"time"`
	ContentType string   `json:"datacontenttype"`
	Actor       string   `json:"actor"`
	Writer      WriterID `json:"writer"`
	Cause       EventID  `json:"causationid,omitzero"`
	Catalog     Digest   `json:"catalog,omitzero"`
	Trace       string   `json:"traceparent,omitzero"`
	Data        D        `json:"data"`
}

const (
	specVersion = "1.0"
	source      = "/gatebook/main"
	contentType = "application/json"
	typePrefix  = "gatebook."
)

// Encode gives the bytes of d. They are canonical, and Decode of them gives d
// again: what a reader would not take is refused here, because an event that is
// in the book and cannot be read stops every reader for ever.
// It fails with [ErrTooLarge], [ErrUnknownKind], [ErrID] or [ErrMalformed].
func Encode(d Draft) (Record, error) { return kinds.encode(d) }

func (set kindSet) encode(d Draft) (Record, error) {
	subject, err := set.subject(d)
	if err != nil {
		return Record{}, err
	}
	k := set[d.Event.Kind()]
	if !k.holds(d.Event) {
		return Record{}, fmt.Errorf("encode %s: %w: not the kind's own type but %T", d.Event.Kind(), ErrMalformed, d.Event)
	}
	env := envelope[Event]{
		SpecVersion: specVersion,
		ID:          d.ID,
		Source:      source,
		Type:        k.name,
		Subject:     entitySubject(k.entity, d.Agent),
		Time:        d.Time,
		ContentType: contentType,
		Actor:       d.Actor.String(),
		Writer:      d.Writer,
		Cause:       d.Cause,
		Catalog:     d.Catalog,
		Trace:       d.Trace,
		Data:        d.Event,
	}
	if again, err := env.meta(k.entity); err != nil {
		return Record{}, fmt.Errorf("encode %s: %w", d.Event.Kind(), err)
	} else if again != d.Meta {
		return Record{}, fmt.Errorf("encode %s: %w: its meta reads back as another", d.Event.Kind(), ErrMalformed)
	}
	body, err := json.Marshal(env)
	if err != nil {
		return Record{}, fmt.Errorf("encode %s: %w: %w", d.Event.Kind(), ErrMalformed, err)
	}
	if len(body) > MaxEvent {
		return Record{}, fmt.Errorf("%w: %s has %d bytes, at most %d", ErrTooLarge, d.Event.Kind(), len(body), MaxEvent)
	}
	return Record{ID: d.ID, Subject: subject, Body: body}, nil
}

// Decode reads r with the schemas of today and no upcaster.
func Decode(r Record) (Recorded, error) { return Codec{}.Decode(r) }

// Codec reads records. Its zero value knows the schemas of today; upcasters
// make it read older ones.
type Codec struct {
	kinds  kindSet // nil for the set of the package
	chains map[Kind]chain
}

func (c Codec) set() kindSet {
	if c.kinds == nil {
		return kinds
	}
	return c.kinds
}

// Decode reads one record strictly: exact names, no duplicates, one value,
// nothing unknown, and only bytes that re-encode to themselves. It returns
// either the whole event or an error, never a part.
func (c Codec) Decode(r Record) (Recorded, error) {
	if len(r.Body) > MaxEvent {
		return Recorded{}, fmt.Errorf("%w: sequence %d has %d bytes, at most %d", ErrTooLarge, r.Seq, len(r.Body), MaxEvent)
	}
	var env envelope[jsontext.Value]
	if err := json.Unmarshal(r.Body, &env, json.RejectUnknownMembers(true)); err != nil {
		return Recorded{}, fmt.Errorf("%w at sequence %d: %w", ErrMalformed, r.Seq, err)
	}
	rec, err := c.open(env, r)
	if err != nil {
		return Recorded{}, fmt.Errorf("sequence %d: %w", r.Seq, err)
	}
	return rec, nil
}

func (c Codec) open(env envelope[jsontext.Value], r Record) (Recorded, error) {
	if env.SpecVersion != specVersion || env.Source != source || env.ContentType != contentType {
		return Recorded{}, fmt.Errorf("%w: foreign envelope (specversion %s, source %s, datacontenttype %s)",
			ErrMalformed, Quote(env.SpecVersion), Quote(env.Source), Quote(env.ContentType))
	}
	kind, schema, err := c.splitType(env.Type)
	if err != nil {
		return Recorded{}, err
	}
	k := c.set()[kind]
	meta, err := env.meta(k.entity)
	if err != nil {
		return Recorded{}, err
	}
	data, err := c.upcast(kind, schema, env.Data)
	if err != nil {
		return Recorded{}, err
	}
	event, err := k.decode(data)
	if err != nil {
		return Recorded{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	d := Draft{Meta: meta, Event: event}
	if err := c.checkBytes(d, env, r, schema == k.schema); err != nil {
		return Recorded{}, err
	}
	return Recorded{Draft: d, Seq: r.Seq}, nil
}

// checkBytes is the law that bytes re-encode to themselves. Data of an older
// schema has no struct any more, so there the envelope alone is compared.
func (c Codec) checkBytes(d Draft, env envelope[jsontext.Value], r Record, current bool) error {
	subject, err := c.set().subject(d)
	if err != nil {
		return err
	}
	if subject != r.Subject {
		return fmt.Errorf("%w: its envelope belongs to subject %s, it was read from %s", ErrMalformed, subject, Quote(r.Subject))
	}
	var again []byte
	if current {
		rec, err := c.set().encode(d)
		if err != nil {
			return err
		}
		again = rec.Body
	} else if again, err = json.Marshal(env); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if !bytes.Equal(again, r.Body) {
		return fmt.Errorf("%w (%s)", ErrNotCanonical, d.Event.Kind())
	}
	return nil
}

func (env envelope[D]) meta(entity Entity) (Meta, error) {
	actor, err := parseActor(env.Actor)
	if err != nil {
		return Meta{}, err
	}
	if err := env.checkIDs(); err != nil {
		return Meta{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	_, token, _ := strings.Cut(env.Subject, "/")
	agent := AgentID(token)
	if token == "_" {
		agent = ""
	}
	if env.Subject != entitySubject(entity, agent) {
		return Meta{}, fmt.Errorf("%w: subject %s of an event about the entity %s", ErrMalformed, Quote(env.Subject), entity)
	}
	return Meta{
		ID: env.ID, Time: env.Time, Actor: actor, Writer: env.Writer, Agent: agent,
		Cause: env.Cause, Catalog: env.Catalog, Trace: env.Trace,
	}, nil
}

func (env envelope[D]) checkIDs() error {
	if _, err := ParseULID[EventID](string(env.ID)); err != nil {
		return fmt.Errorf("id: %w", err)
	}
	if _, err := ParseULID[WriterID](string(env.Writer)); err != nil {
		return fmt.Errorf("writer: %w", err)
	}
	if env.Cause != "" {
		if _, err := ParseULID[EventID](string(env.Cause)); err != nil {
			return fmt.Errorf("causationid: %w", err)
		}
	}
	if env.Catalog != "" {
		if _, err := ParseDigest(string(env.Catalog)); err != nil {
			return fmt.Errorf("catalog: %w", err)
		}
	}
	return nil
}

func entitySubject(entity Entity, agent AgentID) string {
	if agent == "" {
		agent = "_"
	}
	return string(entity) + "/" + string(agent)
}

func parseActor(s string) (Actor, error) {
	kind, id, _ := strings.Cut(s, ":")
	a := Actor{Kind: ActorKind(kind), ID: id}
	known := a.Kind == ActorEngine && id == "" || id != "" && (a.Kind == ActorPerson || a.Kind == ActorAgent || a.Kind == ActorChannel)
	if !known || a.String() != s {
		return Actor{}, fmt.Errorf("%w: actor %s", ErrMalformed, Quote(s))
	}
	return a, nil
}

// splitType takes "gatebook.<kind>.v<schema>" apart.
func (c Codec) splitType(s string) (Kind, int, error) {
	rest, ok := strings.CutPrefix(s, typePrefix)
	at := strings.LastIndex(rest, ".v")
	if !ok || at < 0 {
		return "", 0, fmt.Errorf("%w: type %s", ErrUnknownKind, Quote(s))
	}
	kind := Kind(rest[:at])
	schema, err := strconv.Atoi(rest[at+2:])
	k, known := c.set()[kind]
	if err != nil || !known || schema < 1 || strconv.Itoa(schema) != rest[at+2:] {
		return "", 0, fmt.Errorf("%w: type %s", ErrUnknownKind, Quote(s))
	}
	if schema > k.schema {
		return "", 0, fmt.Errorf("%w: %s has schema %d, this program knows %d; use a newer gatebook", ErrUnknownKind, kind, schema, k.schema)
	}
	return kind, schema, nil
}

// Upcaster turns the data of one schema of a kind into the next one's. Up is
// pure: raw JSON in, raw JSON out.
type Upcaster struct {
	Kind Kind
	From int // to From+1
	Up   func(jsontext.Value) (jsontext.Value, error)
}

// chain maps a schema to the step out of it.
type chain map[int]func(jsontext.Value) (jsontext.Value, error)

// NewCodec checks that for every kind the steps lead from each older schema to
// today's without gap or double, else [ErrUpcasters].
func NewCodec(steps ...Upcaster) (Codec, error) { return newCodec(kinds, steps...) }

func newCodec(set kindSet, steps ...Upcaster) (Codec, error) {
	c := Codec{kinds: set, chains: map[Kind]chain{}}
	for _, s := range steps {
		k, ok := set[s.Kind]
		if !ok || s.From < 1 || s.From >= k.schema || s.Up == nil {
			return Codec{}, fmt.Errorf("%w: %s from schema %d", ErrUpcasters, s.Kind, s.From)
		}
		if c.chains[s.Kind] == nil {
			c.chains[s.Kind] = chain{}
		}
		if c.chains[s.Kind][s.From] != nil {
			return Codec{}, fmt.Errorf("%w: two steps for %s from schema %d", ErrUpcasters, s.Kind, s.From)
		}
		c.chains[s.Kind][s.From] = s.Up
	}
	for kind, k := range set {
		for v := 1; v < k.schema; v++ {
			if c.chains[kind][v] == nil {
				return Codec{}, fmt.Errorf("%w: no step for %s from schema %d", ErrUpcasters, kind, v)
			}
		}
	}
	return c, nil
}

func (c Codec) upcast(kind Kind, schema int, data jsontext.Value) (jsontext.Value, error) {
	for v := schema; v < c.set()[kind].schema; v++ {
		up := c.chains[kind][v]
		if up == nil {
			return nil, fmt.Errorf("%w: %s schema %d, and no upcaster", ErrUnknownKind, kind, v)
		}
		next, err := up(data)
		if err != nil {
			return nil, fmt.Errorf("%w: upcast %s from schema %d: %w", ErrMalformed, kind, v, err)
		}
		data = next
	}
	return data, nil
}
