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
// order of the bytes. Extensions have lower-case names, as the format asks.
type envelope struct {
	SpecVersion string         `json:"specversion"`
	ID          EventID        `json:"id"`
	Source      string         `json:"source"`
	Type        string         `json:"type"`
	Subject     string         `json:"subject"`
	Time        Instant        `json:"time"`
	ContentType string         `json:"datacontenttype"`
	Actor       string         `json:"actor"`
	Writer      WriterID       `json:"writer"`
	Cause       EventID        `json:"causationid,omitzero"`
	Catalog     Digest         `json:"catalog,omitzero"`
	Trace       string         `json:"traceparent,omitzero"`
	Data        jsontext.Value `json:"data"`
}

const (
	specVersion = "1.0"
	source      = "/gatebook/main"
	contentType = "application/json"
	typePrefix  = "gatebook."
)

// Encode gives the bytes of d. They are canonical: Decode of them gives d again.
// It fails with [ErrTooLarge], [ErrUnknownKind] or [ErrID].
func Encode(d Draft) (Record, error) {
	subject, err := d.Subject()
	if err != nil {
		return Record{}, err
	}
	k := kinds[d.Event.Kind()]
	data, err := json.Marshal(d.Event)
	if err != nil {
		return Record{}, fmt.Errorf("encode %s: %w", d.Event.Kind(), err)
	}
	body, err := json.Marshal(envelope{
		SpecVersion: specVersion,
		ID:          d.ID,
		Source:      source,
		Type:        typePrefix + string(d.Event.Kind()) + ".v" + strconv.Itoa(k.schema),
		Subject:     entitySubject(k.entity, d.Agent),
		Time:        d.Time,
		ContentType: contentType,
		Actor:       d.Actor.String(),
		Writer:      d.Writer,
		Cause:       d.Cause,
		Catalog:     d.Catalog,
		Trace:       d.Trace,
		Data:        data,
	})
	if err != nil {
		return Record{}, fmt.Errorf("encode %s: %w", d.Event.Kind(), err)
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
	chains map[Kind]chain
}

// Decode reads one record strictly: exact names, no duplicates, one value,
// nothing unknown, and only bytes that re-encode to themselves. It returns
// either the whole event or an error, never a part.
func (c Codec) Decode(r Record) (Recorded, error) {
	var env envelope
	if err := json.Unmarshal(r.Body, &env, json.RejectUnknownMembers(true)); err != nil {
		return Recorded{}, fmt.Errorf("%w at sequence %d: %w", ErrMalformed, r.Seq, err)
	}
	rec, err := c.open(env, r)
	if err != nil {
		return Recorded{}, fmt.Errorf("sequence %d: %w", r.Seq, err)
	}
	return rec, nil
}

func (c Codec) open(env envelope, r Record) (Recorded, error) {
	if env.SpecVersion != specVersion || env.Source != source || env.ContentType != contentType {
		return Recorded{}, fmt.Errorf("%w: foreign envelope (specversion %s, source %s, datacontenttype %s)",
			ErrMalformed, Quote(env.SpecVersion), Quote(env.Source), Quote(env.ContentType))
	}
	kind, schema, err := splitType(env.Type)
	if err != nil {
		return Recorded{}, err
	}
	meta, err := env.meta()
	if err != nil {
		return Recorded{}, err
	}
	data, err := c.upcast(kind, schema, env.Data)
	if err != nil {
		return Recorded{}, err
	}
	event, err := kinds[kind].decode(data)
	if err != nil {
		return Recorded{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	d := Draft{Meta: meta, Event: event}
	if err := checkBytes(d, env, r, schema == kinds[kind].schema); err != nil {
		return Recorded{}, err
	}
	return Recorded{Draft: d, Seq: r.Seq}, nil
}

// checkBytes is the law that bytes re-encode to themselves. Data of an older
// schema has no struct any more, so there the envelope alone is compared.
func checkBytes(d Draft, env envelope, r Record, current bool) error {
	subject, err := d.Subject()
	if err != nil {
		return err
	}
	if subject != r.Subject {
		return fmt.Errorf("%w: its envelope belongs to subject %s, it was read from %s", ErrMalformed, subject, Quote(r.Subject))
	}
	var again []byte
	if current {
		rec, err := Encode(d)
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

func (env envelope) meta() (Meta, error) {
	actor, err := parseActor(env.Actor)
	if err != nil {
		return Meta{}, err
	}
	for _, id := range []EventID{env.ID, EventID(env.Writer)} {
		if _, err := ParseULID[EventID](string(id)); err != nil {
			return Meta{}, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	_, agent, ok := strings.Cut(env.Subject, "/")
	if !ok {
		return Meta{}, fmt.Errorf("%w: subject %s", ErrMalformed, Quote(env.Subject))
	}
	if agent == "_" {
		agent = ""
	}
	return Meta{
		ID: env.ID, Time: env.Time, Actor: actor, Writer: env.Writer, Agent: AgentID(agent),
		Cause: env.Cause, Catalog: env.Catalog, Trace: env.Trace,
	}, nil
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
func splitType(s string) (Kind, int, error) {
	rest, ok := strings.CutPrefix(s, typePrefix)
	at := strings.LastIndex(rest, ".v")
	if !ok || at < 0 {
		return "", 0, fmt.Errorf("%w: type %s", ErrUnknownKind, Quote(s))
	}
	kind := Kind(rest[:at])
	schema, err := strconv.Atoi(rest[at+2:])
	k, known := kinds[kind]
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
func NewCodec(steps ...Upcaster) (Codec, error) {
	c := Codec{chains: map[Kind]chain{}}
	for _, s := range steps {
		k, ok := kinds[s.Kind]
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
	for kind, k := range kinds {
		for v := 1; v < k.schema; v++ {
			if c.chains[kind][v] == nil {
				return Codec{}, fmt.Errorf("%w: no step for %s from schema %d", ErrUpcasters, kind, v)
			}
		}
	}
	return c, nil
}

func (c Codec) upcast(kind Kind, schema int, data jsontext.Value) (jsontext.Value, error) {
	for v := schema; v < kinds[kind].schema; v++ {
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
