package events

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrPersonal marks a personal field that is neither text nor sealed.
var ErrPersonal = errors.New("malformed personal field")

// Personal is a text that may concern a person. In an event it is either a JSON
// string or, once sealed under a person's key, the object
// {"enc":{"kid":…,"nonce":…,"ciphertext":…}}. Both forms exist from schema 1 on,
// so that erasing a person later changes no shape.
type Personal struct {
	Text string
	Enc  Sealed
}

// Sealed is a ciphertext and what is needed to open it with the named key.
type Sealed struct {
	KeyID      string `json:"kid"`
	Nonce      string `json:"nonce"`      // base64
	Ciphertext string `json:"ciphertext"` // base64
}

// Plain is s as a personal field that is not sealed.
func Plain(s string) Personal { return Personal{Text: s} }

// MarshalJSONTo writes the string form or the sealed form.
func (p Personal) MarshalJSONTo(enc *jsontext.Encoder) error {
	if p.Enc == (Sealed{}) {
		return enc.WriteToken(jsontext.String(p.Text))
	}
	if p.Text != "" {
		return fmt.Errorf("%w: both text and ciphertext", ErrPersonal)
	}
	if err := p.Enc.check(); err != nil {
		return err
	}
	return json.MarshalEncode(enc, struct {
		Enc Sealed `json:"enc"`
	}{p.Enc})
}

// UnmarshalJSONFrom takes exactly the two forms that MarshalJSONTo writes.
func (p *Personal) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case jsontext.KindString:
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		*p = Personal{Text: tok.String()}
		return nil
	case jsontext.KindBeginObject:
		var sealed struct {
			Enc Sealed `json:"enc"`
		}
		if err := json.UnmarshalDecode(dec, &sealed, json.RejectUnknownMembers(true)); err != nil {
			return err
		}
		if err := sealed.Enc.check(); err != nil {
			return err
		}
		*p = Personal{Enc: sealed.Enc}
		return nil
	}
	return fmt.Errorf("%w: want a string or an enc object", ErrPersonal)
}

func (s Sealed) check() error {
	if s.KeyID == "" || s.Nonce == "" || s.Ciphertext == "" {
		return fmt.Errorf("%w: enc needs kid, nonce and ciphertext", ErrPersonal)
	}
	return nil
}
