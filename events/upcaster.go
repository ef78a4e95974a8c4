package events

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrUpcasters marks a set of upcasters with a gap or a double step.
var ErrUpcasters = errors.New("upcasters do not form a chain")

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
