package projections

import (
	"fmt"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"gatebook/events"
)

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
	value, err := rowEncoding.Marshal(row)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", row, err)
	}
	return value, nil
}

// loadRow reads the row of key, and says whether there is one.
func loadRow[T any](r Reader, key []byte) (row T, ok bool, err error) {
	m, _ := r.(*memoTx)
	if m != nil {
		if row, ok = m.rows[string(key)].(T); ok {
			return row, true, nil
		}
	}
	value, err := r.Get(key)
	if err != nil || value == nil {
		return row, false, err
	}
	if row, err = decoded[T](value); err == nil && m != nil {
		m.keep(key, row)
	}
	return row, true, err
}

func decoded[T any](value []byte) (row T, err error) {
	err = decodeRow(value, &row)
	return row, err
}

// Memo remembers decoded rows from one transaction to the next, so that what an
// event reads need not be decoded anew for each. It changes no answer. It belongs
// to one store and to the goroutine that folds into it.
type Memo struct {
	rows   map[string]any
	last   map[byte]string // no key of the view is greater
	writes []write         // room for those of one event
}

// maxMemo bounds what a Memo remembers, in rows.
const maxMemo = 8192

// NewMemo is a memory of nothing.
func NewMemo() *Memo { return &Memo{rows: map[string]any{}, last: map[byte]string{}} }

// Over gives tx, begun by the store of m, with its memory. All transactions of
// the store MUST be used so, or none.
func (m *Memo) Over(tx Tx) Tx { return &memoTx{tx, m} }

// keep remembers a row. What is in it MUST NOT be changed any more.
func (m *Memo) keep(key []byte, row any) {
	if len(m.rows) >= maxMemo {
		clear(m.rows)
	}
	m.rows[string(key)] = row
}

type memoTx struct {
	Tx
	*Memo
}

func (t *memoTx) Set(key, value []byte) error {
	delete(t.rows, string(key))
	if last, known := t.last[key[0]]; known && string(key) > last {
		t.last[key[0]] = string(key)
	}
	return t.Tx.Set(key, value)
}

func (t *memoTx) Delete(key []byte) error {
	delete(t.rows, string(key))
	return t.Tx.Delete(key)
}

// Discard forgets everything: what the transaction wrote never was.
func (t *memoTx) Discard() {
	clear(t.rows)
	clear(t.last)
	t.Tx.Discard()
}

// isFree says that there is no row of key. Ids grow, so that a new one is mostly
// beyond all others of its view, and that is remembered: to look for what is not
// there costs a store more than to find what is.
func isFree(r Reader, key []byte) (bool, error) {
	if m, ok := r.(*memoTx); ok {
		last, err := m.lastOf(key[0])
		if err != nil || string(key) > last {
			return err == nil, err
		}
	}
	value, err := r.Get(key)
	return value == nil, err
}

func (t *memoTx) lastOf(view byte) (string, error) {
	last, known := t.last[view]
	if known {
		return last, nil
	}
	for row, err := range t.ScanBack([]byte{view}, []byte{view + 1}) {
		if err != nil {
			return "", err
		}
		last = string(row.Key)
		break
	}
	t.last[view] = last
	return last, nil
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
