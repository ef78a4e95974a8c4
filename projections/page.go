package projections

import (
	"fmt"
	"iter"
	"strings"

	"gatebook/events"
)

// Bounds of a page.
const (
	// DefaultPage is the size of a page where none is asked for.
	DefaultPage = 100
	// MaxPage is the largest page.
	MaxPage = 1000
	// MaxVisits is how many rows a filtered page looks at before it stops and
	// says where to go on.
	MaxVisits = 100_000
)

// PageSize is limit brought between 1 and [MaxPage]; 0 and less ask for
// [DefaultPage].
func PageSize(limit int) int {
	if limit <= 0 {
		return DefaultPage
	}
	return min(limit, MaxPage)
}

// list is the rows whose keys are one of the prefixes and a sequence, in the order
// of the sequences. No sequence is under two of the prefixes.
type list struct {
	prefixes      [][]byte
	after, before events.Seq // both exclusive; 0 where open
	ascending     bool
	limit         int
	visits        int
}

func (l list) rows(r Reader) iter.Seq2[Row, error] {
	before := l.before
	if before == 0 {
		before = lastSeq
	}
	if l.after >= before {
		return func(func(Row, error) bool) {}
	}
	var runs []iter.Seq2[Row, error]
	for _, prefix := range l.prefixes {
		lower, upper := withSeq(prefix, l.after+1), withSeq(prefix, before)
		if l.ascending {
			runs = append(runs, r.Scan(lower, upper))
		} else {
			runs = append(runs, r.ScanBack(lower, upper))
		}
	}
	if len(runs) == 1 {
		return runs[0]
	}
	return merged(runs, l.ascending)
}

// merged gives the rows of several runs in the order of their sequences.
func merged(runs []iter.Seq2[Row, error], ascending bool) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		var heads []*head
		for _, run := range runs {
			h := new(head)
			var stop func()
			h.pull, stop = iter.Pull2(run)
			defer stop()
			if h.step() {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i, h := range heads {
				if h.err != nil {
					yield(Row{}, h.err)
					return
				}
				if h.seq < heads[first].seq == ascending {
					first = i
				}
			}
			if !yield(heads[first].row, nil) {
				return
			}
			if !heads[first].step() {
				heads = append(heads[:first], heads[first+1:]...)
			}
		}
	}
}

// head is the next row of a run.
type head struct {
	pull func() (Row, error, bool)
	row  Row
	seq  events.Seq
	err  error
}

func (h *head) step() (ok bool) {
	if h.row, h.err, ok = h.pull(); ok && h.err == nil {
		h.seq, h.err = seqAtEnd(h.row.Key)
	}
	return ok
}

// Calls of an agent are indexed by groups of fields. What a group has together takes
// few values, so that a filter on one of its fields asks for few runs of rows.
const (
	fieldsTool      byte = 1 // name, owner
	fieldsPrincipal byte = 2 // id
	fieldsOutcome   byte = 3 // verdict, state, layer
	fieldsSetting   byte = 4 // channel, profile, role
)

// fields are the values of a group; in a filter an empty one stands for any.
type fields struct {
	group  byte
	values []string
}

func outcomeOf(r AuditRow) fields {
	return fields{fieldsOutcome, []string{string(r.Verdict), string(r.State()), string(r.Layer)}}
}

// narrowest is the values of the group that likely fewest calls have; several where
// the filter may mean one or the other. It is nil where the filter is of no group.
func (f CallFilter) narrowest() []fields {
	switch {
	case f.Tool != "" && f.Tool != Other: // which have no name in common
		of := []fields{{fieldsTool, []string{f.Tool, ""}}}
		if owner, name, ok := strings.Cut(f.Tool, "/"); ok {
			of = append(of, fields{fieldsTool, []string{name, owner}})
		}
		return of
	case f.Principal != "":
		return []fields{{fieldsPrincipal, []string{f.Principal}}}
	case f.Verdict != "" || f.Status != "" || f.Layer != "":
		return []fields{{fieldsOutcome, []string{string(f.Verdict), string(f.Status), string(f.Layer)}}}
	case f.Channel != "" || f.Profile != "" || f.Role != "":
		return []fields{{fieldsSetting, []string{string(f.Channel), f.Profile, f.Role}}}
	}
	return nil
}

func (v fields) key(agent events.AgentID) []byte {
	k := append(listKey(viewCallField, string(agent)), v.group)
	for _, s := range v.values {
		k = appendPart(k, s)
	}
	return k
}

// index makes a new call to be found by its fields.
func (f *fold) index(r AuditRow) {
	of := []fields{
		{fieldsTool, []string{r.Tool.Name, r.Tool.Owner}}, outcomeOf(r),
		{fieldsSetting, []string{string(r.Channel), r.Profile, r.Role}},
	}
	if r.Principal.ID != "" {
		of = append(of, fields{fieldsPrincipal, []string{r.Principal.ID}})
	}
	for _, v := range of {
		f.put(withSeq(v.key(r.Agent), r.Seq), []byte{})
	}
}

// reindex moves a call whose outcome is another now.
func (f *fold) reindex(was, r AuditRow) {
	before, after := outcomeOf(was).key(r.Agent), outcomeOf(r).key(r.Agent)
	if string(before) != string(after) {
		f.drop(withSeq(before, r.Seq))
		f.put(withSeq(after, r.Seq), []byte{})
	}
}

// lists finds the runs of an agent's calls that have the values: it goes from one
// combination of values to the next, not through their calls.
func (v fields) lists(r Reader, agent events.AgentID) (prefixes [][]byte, err error) {
	start := fields{group: v.group}
	for len(start.values) < len(v.values) && v.values[len(start.values)] != "" {
		start.values = v.values[:len(start.values)+1]
	}
	from := start.key(agent)
	if len(start.values) == len(v.values) {
		return [][]byte{from}, nil
	}
	upper := withSeq(from, lastSeq)
	for from != nil {
		var found []byte
		if found, err = firstKey(r, from, upper); err != nil || found == nil {
			return prefixes, err
		}
		found = found[:max(0, len(found)-8)]
		fits, err := v.fit(found[len(listKey(viewCallField, string(agent)))+1:])
		if err != nil {
			return nil, err
		}
		if fits {
			prefixes = append(prefixes, found)
		}
		from = withSeq(found, lastSeq)
	}
	return prefixes, nil
}

// firstKey is a copy of the first key from one on; nil where there is none.
func firstKey(r Reader, from, upper []byte) ([]byte, error) {
	for row, err := range r.Scan(from, upper) {
		return append([]byte(nil), row.Key...), err
	}
	return nil, nil
}

// fit says whether the values in a key are those wanted.
func (v fields) fit(key []byte) (bool, error) {
	fits := true
	for _, want := range v.values {
		part, rest, ok := cutPart(key)
		if !ok {
			return false, fmt.Errorf("%w: a key of the fields of calls does not decode", ErrStore)
		}
		fits, key = fits && (want == "" || want == part), rest
	}
	return fits, nil
}

// page collects what take keeps, up to the limit. next is where to go on: the
// last sequence visited, or 0 where the list was at its end.
func page[T any](r Reader, l list, take func(events.Seq, []byte) (T, bool, error)) (rows []T, next events.Seq, err error) {
	limit, visits := PageSize(l.limit), 0
	var seq events.Seq
	for raw, err := range l.rows(r) {
		if err != nil {
			return nil, 0, err
		}
		if len(rows) == limit || visits == l.visits {
			return rows, seq, nil
		}
		visits++
		if seq, err = seqAtEnd(raw.Key); err != nil {
			return nil, 0, err
		}
		row, keep, err := take(seq, raw.Value)
		if err != nil {
			return nil, 0, err
		}
		if keep {
			rows = append(rows, row)
		}
	}
	return rows, 0, nil
}
