package events

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
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

// Encode gives the bytes of d. They are canonical, and Decode of them gives d
// again: what a reader would not take is refused here, because an event that is
// in the book and cannot be read stops every reader for ever.
// It fails with [ErrTooLarge], [ErrUnknownKind], [ErrID] or [ErrMalformed].
func Encode(d Draft) (Record, error) { return kinds.encode(d) }

func (set kindSet) encode(d Draft) (Record, error) {
	k, subject, err := set.place(d)
	if err != nil {
		return Record{}, err
	}
	if !k.holds(d.Event) {
		return Record{}, fmt.Errorf("encode %s: %w: not the kind's own type but %T", d.Event.Kind(), ErrMalformed, d.Event)
	}
	env := envelope{
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
	}
	if again, err := env.meta(k.entity); err != nil {
		return Record{}, fmt.Errorf("encode %s: %w", d.Event.Kind(), err)
	} else if again != d.Meta {
		return Record{}, fmt.Errorf("encode %s: %w: its meta reads back as another", d.Event.Kind(), ErrMalformed)
	}
	head, err := env.head(make([]byte, 0, 1024))
	if err != nil {
		return Record{}, fmt.Errorf("encode %s: %w: %w", d.Event.Kind(), ErrMalformed, err)
	}
	data, err := json.Marshal(d.Event)
	if err != nil {
		return Record{}, fmt.Errorf("encode %s: %w: %w", d.Event.Kind(), ErrMalformed, err)
	}
	body := slices.Concat(head, data, []byte("}"))
	if len(body) > MaxEvent {
		return Record{}, fmt.Errorf("%w: %s has %d bytes, at most %d", ErrTooLarge, d.Event.Kind(), len(body), MaxEvent)
	}
	return Record{ID: d.ID, Subject: subject, Body: body}, nil
}

// head appends what comes before the data, byte for byte as json.Marshal would
// write it. After the data comes only a brace.
func (env *envelope) head(b []byte) ([]byte, error) {
	at, err := env.Time.MarshalText()
	text := func(name, value string) {
		var wrong error
		if b, wrong = jsontext.AppendQuote(append(b, name...), value); err == nil {
			err = wrong
		}
	}
	text(`{"specversion":`, env.SpecVersion)
	text(`,"id":`, string(env.ID))
	text(`,"source":`, env.Source)
	text(`,"type":`, env.Type)
	text(`,"subject":`, env.Subject)
	text(`,"time":`, string(at))
	text(`,"datacontenttype":`, env.ContentType)
	text(`,"actor":`, env.Actor)
	text(`,"writer":`, string(env.Writer))
	if env.Cause != "" {
		text(`,"causationid":`, string(env.Cause))
	}
	if env.Catalog != "" {
		text(`,"catalog":`, string(env.Catalog))
	}
	if env.Trace != "" {
		text(`,"traceparent":`, env.Trace)
	}
	return append(b, dataMember...), err
}

// dataMember comes before the data. It is never a part of another member: there
// the quotation marks would be escaped.
const dataMember = `,"data":`

// scan reads an envelope as head writes it, where no text needs an escape, and cuts
// out its data unread. It is a shortcut and may take what is no envelope; checkBytes
// does not.
func scan(body []byte) (env envelope, ok bool) {
	head, data, ok := bytes.Cut(body, []byte(dataMember))
	data, closed := bytes.CutSuffix(data, []byte("}"))
	if !ok || !closed || bytes.IndexByte(head, '\\') >= 0 {
		return envelope{}, false
	}
	rest := string(head) // one copy for all members
	take := func(name string) (value string) {
		if after, found := strings.CutPrefix(rest, name); found {
			value, rest, _ = strings.Cut(after, `"`)
		}
		return value
	}
	env.SpecVersion = take(`{"specversion":"`)
	env.ID = EventID(take(`,"id":"`))
	env.Source = take(`,"source":"`)
	env.Type = take(`,"type":"`)
	env.Subject = take(`,"subject":"`)
	at := take(`,"time":"`)
	env.ContentType = take(`,"datacontenttype":"`)
	env.Actor = take(`,"actor":"`)
	env.Writer = WriterID(take(`,"writer":"`))
	env.Cause = EventID(take(`,"causationid":"`))
	env.Catalog = Digest(take(`,"catalog":"`))
	env.Trace = take(`,"traceparent":"`)
	env.Data = data
	return env, rest == "" && env.Time.UnmarshalText([]byte(at)) == nil
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
	if env, ok := scan(r.Body); ok {
		if rec, err := c.open(&env, r); err == nil {
			return rec, nil
		}
	}
	return c.strict(r)
}

// strict has the last word where the shortcut fails, and says what is wrong.
func (c Codec) strict(r Record) (Recorded, error) {
	var env envelope
	if err := json.Unmarshal(r.Body, &env, json.RejectUnknownMembers(true)); err != nil {
		return Recorded{}, fmt.Errorf("%w at sequence %d: %w", ErrMalformed, r.Seq, err)
	}
	rec, err := c.open(&env, r)
	if err != nil {
		return Recorded{}, fmt.Errorf("sequence %d: %w", r.Seq, err)
	}
	return rec, nil
}

func (c Codec) open(env *envelope, r Record) (Recorded, error) {
	if env.SpecVersion != specVersion || env.Source != source || env.ContentType != contentType {
		return Recorded{}, fmt.Errorf("%w: foreign envelope (specversion %s, source %s, datacontenttype %s)",
			ErrMalformed, Quote(env.SpecVersion), Quote(env.Source), Quote(env.ContentType))
	}
	kind, schema, k, err := c.splitType(env.Type)
	if err != nil {
		return Recorded{}, err
	}
	meta, err := env.meta(k.entity)
	if err != nil {
		return Recorded{}, err
	}
	data := env.Data
	if schema != k.schema {
		if data, err = c.upcast(kind, schema, data); err != nil {
			return Recorded{}, err
		}
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
func (c Codec) checkBytes(d Draft, env *envelope, r Record, current bool) error {
	_, subject, err := c.set().place(d)
	if err != nil {
		return err
	}
	if subject != r.Subject {
		return fmt.Errorf("%w: its envelope belongs to subject %s, it was read from %s", ErrMalformed, subject, Quote(r.Subject))
	}
	var data any = d.Event
	if !current {
		data = env.Data
	}
	// d's meta comes from env, so env is what Encode makes of it.
	head, err := env.head(make([]byte, 0, 1024))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	rest, same := bytes.CutPrefix(r.Body, head)
	again := expected(rest)
	if same {
		err = json.MarshalWrite(&again, data)
	}
	switch {
	case !same || errors.Is(err, errOther) || err == nil && string(again) != "}":
		return fmt.Errorf("%w (%s)", ErrNotCanonical, d.Event.Kind())
	case err != nil:
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// expected takes exactly these bytes, and keeps those that are still to come.
type expected []byte

var errOther = errors.New("other bytes than expected")

func (e *expected) Write(p []byte) (int, error) {
	rest, ok := bytes.CutPrefix(*e, p)
	if !ok {
		return 0, errOther
	}
	*e = rest
	return len(p), nil
}

func (env *envelope) meta(entity Entity) (Meta, error) {
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

func (env *envelope) checkIDs() error {
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
func (c Codec) splitType(s string) (Kind, int, shape, error) {
	rest, ok := strings.CutPrefix(s, typePrefix)
	at := strings.LastIndex(rest, ".v")
	if !ok || at < 0 {
		return "", 0, shape{}, fmt.Errorf("%w: type %s", ErrUnknownKind, Quote(s))
	}
	kind := Kind(rest[:at])
	schema, err := strconv.Atoi(rest[at+2:])
	k, known := c.set()[kind]
	if err != nil || !known || schema < 1 || strconv.Itoa(schema) != rest[at+2:] {
		return "", 0, shape{}, fmt.Errorf("%w: type %s", ErrUnknownKind, Quote(s))
	}
	if schema > k.schema {
		return "", 0, shape{}, fmt.Errorf("%w: %s has schema %d, this program knows %d; use a newer gatebook", ErrUnknownKind, kind, schema, k.schema)
	}
	return kind, schema, k, nil
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
	if !data.IsValid() { // an upcaster gets JSON and nothing else
		return nil, fmt.Errorf("%w: data of %s", ErrMalformed, kind)
	}
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
