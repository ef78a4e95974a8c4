package redact

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Mask stands wherever a secret stood.
const Mask = "[redacted]"

const (
	maxDepth  = 200 // of nested objects and lists
	maxName   = 64  // bytes of a name that are looked at, from its end
	maxPasses = 6   // over one text; a text that still changes is masked whole
	// maxUserinfo bounds the part of an address before the @, in bytes.
	maxUserinfo = 256
	// maxQuoting bounds how often a text is quoted inside a quoted text: the
	// number of \ before a quote.
	maxQuoting = 7
)

// ErrRedaction says that a value could not be redacted. It must not be stored,
// and the call that carries it must be refused.
var ErrRedaction = errors.New("redaction failed")

// Redactor masks secrets. Make it with [New].
type Redactor struct {
	rules  []rule
	filter filter
}

// rule finds one sort of secret. It is asked only about text that holds one of
// its literals (lower case; the text's case is ignored).
type rule struct {
	literals []string
	find     func(s string, spans []span) []span
}

// span is s[from:to] of the text being searched.
type span struct{ from, to int }

// New makes a redactor with all rules.
func New() *Redactor { return build() }

// build adds extra rules behind the standing ones.
func build(extra ...rule) *Redactor {
	r := &Redactor{}
	r.rules = append([]rule{
		{literals: nameWords, find: r.assignments}, // must stay first: see nameSet
		{literals: []string{`\u`}},                 // an escape may hide a literal: parse
		{find: seeds},                              // must stay third: see seedSet
		{literals: []string{"bearer", "basic"}, find: schemes},
		{literals: []string{"@"}, find: userinfos},
		{literals: prefixLiterals(), find: prefixed},
		{literals: []string{"eyj"}, find: webTokens},
		{literals: []string{"-----begin"}, find: pemBlocks},
		{literals: []string{":aa"}, find: botTokens},
	}, extra...)
	r.filter = newFilter(r.rules)
	return r
}

// JSON masks the secrets of one canonical JSON value and says whether there
// were any. On an error the value is the mask alone.
func (r *Redactor) JSON(canonical jsontext.Value) (redacted jsontext.Value, changed bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: a rule panicked (%T)", ErrRedaction, v)
		}
		if err != nil {
			redacted, changed = jsontext.Value(`"`+Mask+`"`), true
		}
	}()
	if search(&r.filter, canonical) == 0 {
		return canonical, false, nil
	}
	return r.walk(canonical)
}

// Text masks the secrets of plain text and says whether there were any. If a
// rule panics the whole text is masked.
func (r *Redactor) Text(s string) (redacted string, changed bool) {
	defer func() {
		if recover() != nil {
			redacted, changed = Mask, true
		}
	}()
	redacted = r.text(s)
	return redacted, redacted != s
}

// text repeats until nothing changes, because a mask may bring a name and a
// value together that were apart.
func (r *Redactor) text(s string) string {
	for range maxPasses {
		next := r.pass(s, search(&r.filter, s))
		if next == s {
			return s
		}
		s = next
	}
	return Mask
}

// pass applies the rules in wanted, once.
func (r *Redactor) pass(s string, wanted ruleSet) string {
	if wanted == 0 {
		return s
	}
	var spans []span
	for i, rule := range r.rules {
		if wanted&(1<<i) != 0 && rule.find != nil {
			spans = rule.find(s, spans)
		}
	}
	return replace(s, spans)
}

// replace puts one mask in place of each group of spans that touch.
func replace(s string, spans []span) string {
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	var out strings.Builder
	last := 0
	for len(spans) > 0 {
		group := spans[0]
		for spans = spans[1:]; len(spans) > 0 && spans[0].from <= group.to; spans = spans[1:] {
			group.to = max(group.to, spans[0].to)
		}
		if group.from < group.to {
			out.WriteString(s[last:group.from])
			out.WriteString(Mask)
			last = group.to
		}
	}
	if last == 0 {
		return s
	}
	out.WriteString(s[last:])
	return out.String()
}
