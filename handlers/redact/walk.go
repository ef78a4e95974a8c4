package redact

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// frame is one open object or list.
type frame struct {
	object bool
	naming bool     // an object whose next string is a member name
	list   nameKind // of a list below "auth": for each item that is no list or object
	kind   nameKind // of the value that comes next
	value  bool     // the member that comes next is called "value"
	pair   nameKind // a sibling gives the name: {"name": "Cookie", "value": ...}
	label  bool     // the member that comes next gives such a name
	flag   bool     // kind comes from a flag: ["--password", ...]
}

// walker copies JSON and masks on the way. It keeps its own stack, so that
// depth costs no recursion.
type walker struct {
	r     *Redactor
	raw   jsontext.Value
	dec   *jsontext.Decoder
	stack []frame
	out   []byte
	done  int // raw[:done] is in out
}

func (r *Redactor) walk(raw jsontext.Value) (jsontext.Value, bool, error) {
	w := walker{r: r, raw: raw, dec: jsontext.NewDecoder(bytes.NewReader(raw)), stack: make([]frame, 1, 16)}
	for {
		err := w.step()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false, err
		}
	}
	if w.done == 0 {
		return raw, false, nil
	}
	return append(w.out, raw[w.done:]...), true, nil
}

// step reads one value, or the opening or closing of an object or list.
func (w *walker) step() error {
	top := &w.stack[len(w.stack)-1]
	switch kind := w.dec.PeekKind(); kind {
	case '{', '[':
		if k := top.next(); k != 0 && k&scalar == 0 {
			return w.value(top)
		}
		return w.open(top, kind == '{')
	case '}', ']':
		w.stack = w.stack[:len(w.stack)-1]
		_, err := w.dec.ReadToken()
		return w.failed(err)
	default:
		return w.value(top)
	}
}

func (w *walker) open(top *frame, object bool) error {
	if len(w.stack) > maxDepth {
		return fmt.Errorf("%w: more than %d levels of objects and lists", ErrRedaction, maxDepth)
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return w.failed(err)
	}
	next := frame{object: object, naming: object}
	if !object {
		next.list = top.next()
	}
	top.passed(0)
	w.stack = append(w.stack, next)
	return nil
}

// value reads a member name, a scalar, or a list or object that is masked whole.
func (w *walker) value(top *frame) error {
	raw, err := w.dec.ReadValue()
	if err != nil {
		return w.failed(err)
	}
	end := int(w.dec.InputOffset())
	if top.naming {
		w.name(top, raw)
		return nil
	}
	if raw[0] != '"' {
		if k := top.next(); k != 0 && !k.plain(string(raw)) {
			w.replace(end-len(raw), end, Mask)
		}
		top.passed(0)
		return nil
	}
	s := unquote(raw)
	masked := w.r.text(s)
	if k := top.next(); k != 0 && !k.plain(masked) && !(top.flag && isFlag(masked)) {
		masked = Mask
	}
	if masked != s {
		w.replace(end-len(raw), end, masked)
	}
	top.passed(w.label(top, masked))
	return nil
}

func (w *walker) name(top *frame, raw jsontext.Value) {
	name := unquote(raw)
	top.naming = false
	top.kind = w.r.kindOf(name)
	top.value = name == "value"
	top.label = name == "name" || name == "key" || name == "header"
}

// label is the kind of the value that s, a string in f, announces: as a member
// "name", or as a flag in a list.
func (w *walker) label(f *frame, s string) nameKind {
	if f.label || !f.object && strings.HasPrefix(s, "-") && !strings.ContainsAny(s, "= \t\n") {
		return w.r.kindOf(s)
	}
	return 0
}

func (w *walker) replace(from, to int, by string) {
	w.out = append(w.out, w.raw[w.done:from]...)
	w.out, _ = jsontext.AppendQuote(w.out, by) // bad UTF-8 cannot come from a valid string
	w.done = to
}

// failed hides what the reader says: it quotes the input.
func (w *walker) failed(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("%w: not valid JSON after byte %d", ErrRedaction, w.dec.InputOffset())
}

// next is what the next value of f is.
func (f *frame) next() nameKind {
	switch {
	case !f.object && f.kind == 0:
		return f.list
	case f.value && f.kind == 0:
		return f.pair
	}
	return f.kind
}

// passed goes on behind a value that gave label.
func (f *frame) passed(label nameKind) {
	f.naming = f.object
	f.kind, f.flag = 0, false
	if f.object {
		f.pair |= label
	} else if label != 0 {
		f.kind, f.flag = label, true
	}
}

func unquote(raw jsontext.Value) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	s, err := jsontext.AppendUnquote(nil, raw)
	if err != nil { // the reader has checked it
		panic(err)
	}
	return string(s)
}
