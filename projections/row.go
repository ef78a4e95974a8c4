package projections

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"gatebook/events"
)

// The first byte of a key says which view or index a row belongs to. A number
// is never given to something else: a new shape of a view is a new store.
const (
	viewState        byte = 1  // -> State
	viewAgent        byte = 2  // agent -> AgentRow
	viewConversation byte = 3  // conversation -> ConversationRow
	viewRound        byte = 4  // round -> RoundRow
	viewRoundList    byte = 5  // seq of round.begun -> round
	viewRoundAgent   byte = 6  // agent, seq of round.begun -> round
	viewRoundOpen    byte = 7  // seq of round.begun -> round, while it is open
	viewRoundHandle  byte = 8  // hash of the handle -> round
	viewAudit        byte = 9  // seq of call.decided -> AuditRow
	viewCall         byte = 10 // call -> seq of call.decided
	viewCallAgent    byte = 11 // agent, seq of call.decided
	viewCallRound    byte = 12 // round, seq of call.decided
	viewCallKey      byte = 13 // round, idempotency key -> seq of call.decided
	viewCallOpen     byte = 14 // seq of what let the call run -> seq of call.decided, while it may run
	viewReceipt      byte = 15 // round -> tally
	viewDue          byte = 16 // slot, kind, round
	viewTree         byte = 17 // seq -> hashes
	viewBlob         byte = 18 // digest -> seq of the last event that names the blob
	viewJob          byte = 19 // job -> when a round of it last began, or was missed
	viewReview       byte = 20 // review -> ReviewRow
	viewReviewList   byte = 21 // seq of review.requested -> review
	viewReviewOpen   byte = 22 // seq of review.requested -> review, while it is open
	viewReviewSame   byte = 23 // agent, digest of arguments, tool -> call, while its review is open
	viewWord         byte = 24 // kind of word, word -> its number
	viewWordAt       byte = 25 // number -> kind of word, word
	viewHour         byte = 26 // level, hour of the decision, numbers of agent and combination -> sum
	viewTime         byte = 27 // time of the decision, its seq -> numbers of agent and combinations, duration; once the call has ended
	viewCallField    byte = 28 // agent, fields of a call, seq of call.decided
	viewModels       byte = 29 // agent -> the models that its calls and usage are counted by
	viewUsage        byte = 30 // seq of the first usage.recorded of a message -> UsageRow
	viewUsageMessage byte = 31 // agent, message -> that seq
	viewUsageHour    byte = 32 // hour of that event, agent, model, currency -> UsageSum
	viewCallStaged   byte = 33 // seq of call.decided, while the call waits for a person
	viewAsset        byte = 34 // asset -> AssetRow
	viewAssetName    byte = 35 // type, owner, name -> AssetNameRow
	viewAssetVersion byte = 36 // type, owner, name, version -> asset
	viewAssetField   byte = 37 // state, tier, type (empty for any), seq of asset.registered -> asset
	viewAlert        byte = 38 // seq of its first event -> AlertRow
	viewAlertLast    byte = 39 // kind, what it is about -> seq of the last alert of it
	viewAlertID      byte = 40 // event -> that event's seq, of alerts
	viewAlertTold    byte = 41 // destination, seq of the alert, part
)

// lastSeq is above every sequence of a book.
const lastSeq = events.Seq(math.MaxUint64)

// keyOf is a key whose only part is the last one, so that it needs no length.
func keyOf(view byte, id string) []byte {
	return append(append(make([]byte, 0, 1+len(id)), view), id...)
}

// listKey begins the keys of a list: the part has its length in front, so that
// no part can run into what follows.
func listKey(view byte, part string) []byte {
	k := append(make([]byte, 0, 48+len(part)), view)
	k = binary.BigEndian.AppendUint16(k, uint16(len(part)))
	return append(k, part...)
}

// withSeq is prefix followed by a sequence.
func withSeq(prefix []byte, seq events.Seq) []byte {
	k := make([]byte, 0, len(prefix)+8)
	return binary.BigEndian.AppendUint64(append(k, prefix...), uint64(seq))
}

// seqKey is a key whose only part is a sequence.
func seqKey(view byte, seq events.Seq) []byte { return withSeq([]byte{view}, seq) }

// callKeyKey is where the first call of a round under an idempotency key is.
func callKeyKey(round events.RoundID, key string) []byte {
	return append(listKey(viewCallKey, string(round)), key...)
}

// roundOfCallKey is the round of a key that [callKeyKey] made.
func roundOfCallKey(key []byte) events.RoundID {
	return events.RoundID(key[3 : 3+binary.BigEndian.Uint16(key[1:])])
}

// seqAtEnd is the sequence that a key of a list ends with.
func seqAtEnd(key []byte) (events.Seq, error) {
	if len(key) < 9 {
		return 0, fmt.Errorf("%w: a key of %d bytes holds no sequence", ErrStore, len(key))
	}
	return events.Seq(binary.BigEndian.Uint64(key[len(key)-8:])), nil
}

// seqValue is a sequence as the value of an index row.
func seqValue(seq events.Seq) []byte { return binary.BigEndian.AppendUint64(nil, uint64(seq)) }

// seqOfValue reads what seqValue wrote.
func seqOfValue(value []byte) (events.Seq, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: an index row of %d bytes holds no sequence", ErrStore, len(value))
	}
	return events.Seq(binary.BigEndian.Uint64(value)), nil
}

// appendPart puts the length of s in front of it.
func appendPart(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// cutPart takes off what appendPart wrote.
func cutPart(b []byte) (part string, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return "", nil, false
	}
	return string(b[used : used+int(n)]), b[used+int(n):], true
}

// Words are agents and combinations, numbered as they come, so that the rows of
// calls and hours are small.
const (
	wordAgent       = 'a'
	wordCombination = 'c'
)

func wordKey(no uint32) []byte { return binary.BigEndian.AppendUint32([]byte{viewWordAt}, no) }

// wordAt reads the word of a number.
func wordAt(r Reader, no uint32, kind byte) ([]byte, error) {
	word, err := r.Get(wordKey(no))
	if err == nil && (len(word) == 0 || word[0] != kind) {
		err = fmt.Errorf("%w: there is no word %d", ErrStore, no)
	}
	if err != nil {
		return nil, err
	}
	return word[1:], nil
}

// rowEncoding is RFC 8949's deterministic encoding, so that equal rows have
// equal bytes in every store.
var rowEncoding = must(cbor.CoreDetEncOptions().EncMode())

// rowDecoding refuses a row with more or fewer fields than today's struct, as
// every toarray struct does.
var rowDecoding = must(cbor.DecOptions{IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden}.DecMode())

// must is for the two modes above, whose options are constants.
func must[T any](mode T, err error) T {
	if err != nil {
		panic(err)
	}
	return mode
}

func encodeRow(row any) ([]byte, error) {
	if s, ok := row.(sum); ok {
		return s.bytes(), nil
	}
	value, err := rowEncoding.Marshal(row)
	if err != nil {
		return nil, fmt.Errorf("%w: encode %T: %w", ErrStore, row, err)
	}
	return value, nil
}

// loadRow reads the row of key, and says whether there is one.
func loadRow[T any](r Reader, key []byte) (row T, ok bool, err error) {
	m, _ := r.(*memoTx)
	if m != nil {
		if row, ok = m.row(key).(T); ok {
			return row, true, nil
		}
	}
	value, err := r.Get(key)
	if err != nil || value == nil {
		return row, false, err
	}
	if row, err = decoded[T](value); err == nil && m != nil {
		m.keep(string(key), row)
	}
	return row, true, err
}

func decoded[T any](value []byte) (row T, err error) {
	err = decodeRow(value, &row)
	return row, err
}

func decodeRow(value []byte, row any) error {
	if err := rowDecoding.Unmarshal(value, row); err != nil {
		return fmt.Errorf("%w: a row does not decode as %T: %w", ErrStore, row, err)
	}
	return nil
}

// storedPersonal is events.Personal as a row keeps it.
type storedPersonal struct {
	_                              struct{} `cbor:",toarray"`
	Text, KeyID, Nonce, Ciphertext string
}

func storePersonal(p events.Personal) storedPersonal {
	return storedPersonal{Text: p.Text, KeyID: p.Enc.KeyID, Nonce: p.Enc.Nonce, Ciphertext: p.Enc.Ciphertext}
}

func (s storedPersonal) personal() events.Personal {
	return events.Personal{Text: s.Text, Enc: events.Sealed{KeyID: s.KeyID, Nonce: s.Nonce, Ciphertext: s.Ciphertext}}
}

// preview cuts a plain text to events.MaxPreview bytes at the border of a rune.
// A sealed one stays whole: a cut ciphertext opens with no key.
func preview(p events.Personal) events.Personal {
	if len(p.Text) <= events.MaxPreview {
		return p
	}
	end := events.MaxPreview
	for end > 0 && !utf8.RuneStart(p.Text[end]) {
		end--
	}
	p.Text = p.Text[:end]
	return p
}

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
