package events

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxAmount is the largest [Amount]: what every reader of JSON holds exactly.
const MaxAmount = 1<<53 - 1

// Amount is a number that may not be known: of tokens, or of micro-units of a
// currency. Its zero value is not known, and is null in JSON; a known nothing is 0.
type Amount struct {
	N     int64
	Known bool
}

// AmountOf is a known number.
func AmountOf(n int64) Amount { return Amount{N: n, Known: true} }

// MarshalJSONTo writes null or the number.
func (a Amount) MarshalJSONTo(e *jsontext.Encoder) error {
	if !a.Known {
		return e.WriteToken(jsontext.Null)
	}
	return e.WriteToken(jsontext.Int(a.N))
}

// UnmarshalJSONFrom takes null or a whole number from 0 to [MaxAmount], without
// fraction and exponent.
func (a *Amount) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() == 'n' {
		*a = Amount{}
		return nil
	}
	n := int64(0)
	for _, c := range value {
		if c < '0' || c > '9' || n > MaxAmount/10 {
			return fmt.Errorf("want null or a whole number from 0 to %d", int64(MaxAmount))
		}
		n = n*10 + int64(c-'0')
	}
	if n > MaxAmount {
		return fmt.Errorf("want null or a whole number from 0 to %d", int64(MaxAmount))
	}
	*a = AmountOf(n)
	return nil
}

// Tokens are what one message of a model used. Input is without what was read
// from or written to the provider's cache.
type Tokens struct {
	Input       Amount `json:"input"`
	CachedInput Amount `json:"cached_input"`
	CacheWrite  Amount `json:"cache_write"`
	Output      Amount `json:"output"`
}

// UsageRecorded says what one message of a model used, as somebody told. It holds
// the whole of it: a later one of the same agent and message takes the place of the
// former, and counts for the round and the time of the first.
type UsageRecorded struct {
	Round RoundID `json:"round"`
	// Message is the id that the model's provider gave to the message, or to the
	// attempt at it.
	Message string `json:"message"`
	Model   string `json:"model,omitzero"`
	Tokens  Tokens `json:"tokens"`
	// Cost is in micro-units of Currency, by the prices of the catalog in force; not
	// known where a price or an amount is not.
	Cost     Amount `json:"cost"`
	Currency string `json:"currency,omitzero"`
	// Source is who told: an agent or a channel. Known is "claimed" unless a
	// metering proxy saw it.
	Source ActorKind `json:"source"`
	Known  string    `json:"known"`
}

// Kind is "usage.recorded".
func (UsageRecorded) Kind() Kind { return KindUsageRecorded }

func (UsageRecorded) sealed() {}
