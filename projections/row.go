package projections

import (
	"encoding/binary"
	"fmt"
	"math"
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
