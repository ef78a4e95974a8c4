package when

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/go-json-experiment/json/jsontext"
)

// Arguments are the arguments of a call as a map. The zero value are arguments that
// are not known.
type Arguments struct {
	value ref.Val
	text  int // the size of all texts and names, in bytes
}

// reader counts the bytes of the texts and names that it reads.
type reader struct {
	*jsontext.Decoder
	text int
}

// ParseArguments reads a JSON object. Whole numbers are int, others double.
func ParseArguments(text jsontext.Value) (Arguments, error) {
	dec := &reader{Decoder: jsontext.NewDecoder(bytes.NewReader(text))}
	if dec.PeekKind() != '{' {
		return Arguments{}, fmt.Errorf("%w: no JSON object", ErrArguments)
	}
	value, err := read(dec)
	if err != nil {
		return Arguments{}, fmt.Errorf("%w: %w", ErrArguments, err)
	}
	return Arguments{value, dec.text}, nil
}

// read reads the next value.
func read(dec *reader) (ref.Val, error) {
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{':
		return readObject(dec)
	case '[':
		return readArray(dec)
	case '"':
		text := token.String()
		dec.text += len(text)
		return types.String(text), nil
	case '0':
		return number(token)
	case 't', 'f':
		return types.Bool(token.Bool()), nil
	}
	return types.NullValue, nil
}

// number is an int where it is one, else a double.
func number(token jsontext.Token) (ref.Val, error) {
	text := token.String()
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return types.Int(n), nil
	}
	value := types.String(text).ConvertToType(types.DoubleType)
	if err, failed := value.(*types.Err); failed {
		return nil, err
	}
	return value, nil
}

func readObject(dec *reader) (ref.Val, error) {
	members, names := map[string]any{}, []string{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String() // before the next token is read
		dec.text += len(key)
		if members[key], err = read(dec); err != nil {
			return nil, err
		}
		names = append(names, key)
	}
	slices.SortFunc(names, strings.Compare)
	_, err := dec.ReadToken()
	return object{types.NewStringInterfaceMap(types.DefaultTypeAdapter, members), names}, err
}

func readArray(dec *reader) (ref.Val, error) {
	list := []ref.Val{}
	for dec.PeekKind() != ']' {
		value, err := read(dec)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := dec.ReadToken()
	return types.NewRefValList(types.DefaultTypeAdapter, list), err
}

// object is a map whose names are walked in their order: a Go map's order would make
// what an expression costs a matter of luck.
type object struct {
	traits.Mapper
	names []string
}

func (o object) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, o.names).Iterator()
}
