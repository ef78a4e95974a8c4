// Package price says what the tokens of a model cost.
//
// Start with [Table], the prices that a catalog declares, and [Table.Cost]. A price
// that is not declared is not known, which is something else than nothing: the cost
// of a model without one is not known either. All of it is whole numbers.
package price

import (
	"fmt"
	"maps"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gatebook/events"
)

const (
	// MaxRate is the highest price, in micro-units for a million tokens.
	MaxRate = 10_000_000_000_000
	// MaxCost is the highest cost of one message, in micro-units; more is not known.
	// Sums of so many as an engine can record in an hour stay within an int64.
	MaxCost = 1_000_000_000_000
	// MaxTokens is how many tokens of a kind a message may have.
	MaxTokens = 100_000_000
	// MaxModels is how many models a table prices.
	MaxModels = 1_000
	// perMillion is how many tokens a price is for.
	perMillion = 1_000_000
)

// Rate is what a million tokens cost, in micro-units of the table's currency.
type Rate struct{ events.Amount }

// Price is that of a model, for each kind of tokens. One that is left out is not
// known; where there is none of those tokens, it is not needed either.
type Price struct {
	Input       Rate `json:"input,omitzero"`
	CachedInput Rate `json:"cached_input,omitzero"`
	CacheWrite  Rate `json:"cache_write,omitzero"`
	Output      Rate `json:"output,omitzero"`
}

// String is p for people: "input 3, output 15.5 for a million".
func (p Price) String() string {
	var parts []string
	for _, k := range p.kinds(events.Tokens{}) {
		if k.rate.Known {
			parts = append(parts, k.name+" "+Decimal(k.rate.N))
		}
	}
	if len(parts) == 0 {
		return "nothing known"
	}
	return strings.Join(parts, ", ") + " for a million"
}

// Table is the prices of models, by their exact names.
type Table struct {
	// Currency is the code of ISO 4217, three capital letters.
	Currency string           `json:"currency,omitzero"`
	Models   map[string]Price `json:"models,omitzero"`
}

// kinds pairs the kinds of tokens with their prices.
func (p Price) kinds(t events.Tokens) [4]struct {
	name   string
	rate   Rate
	tokens events.Amount
} {
	return [4]struct {
		name   string
		rate   Rate
		tokens events.Amount
	}{
		{"input", p.Input, t.Input}, {"cached_input", p.CachedInput, t.CachedInput},
		{"cache_write", p.CacheWrite, t.CacheWrite}, {"output", p.Output, t.Output},
	}
}

// Cost is what a message cost, to the nearest micro-unit. It is not known where the
// model has no price, where a number of tokens is not known, where there are tokens
// of a kind without a price, and above [MaxCost].
func (t Table) Cost(model string, used events.Tokens) events.Amount {
	p, priced := t.Models[model]
	if !priced {
		return events.Amount{}
	}
	var hi, lo uint64
	for _, k := range p.kinds(used) {
		if !k.tokens.Known || k.tokens.N != 0 && !k.rate.Known {
			return events.Amount{}
		}
		h, l := bits.Mul64(uint64(k.tokens.N), uint64(k.rate.N))
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi, _ = bits.Add64(hi, h, carry)
	}
	lo, carry := bits.Add64(lo, perMillion/2, 0)
	if hi += carry; hi >= perMillion {
		return events.Amount{}
	}
	cost, _ := bits.Div64(hi, lo, perMillion)
	if cost > MaxCost {
		return events.Amount{}
	}
	return events.AmountOf(int64(cost))
}

var currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)

// Check calls fault for each thing that is wrong, with where it is.
func (t Table) Check(fault func(path, text string)) {
	if t.Currency == "" && len(t.Models) == 0 {
		return
	}
	if !currencyForm.MatchString(t.Currency) {
		fault("currency", "want the code of a currency in three capital letters, such as EUR")
	}
	if len(t.Models) > MaxModels {
		fault("models", fmt.Sprintf("at most %d models", MaxModels))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Models)) {
		path := "models." + name
		if name == "" || len(name) > events.MaxName || !utf8.ValidString(name) {
			fault(path, fmt.Sprintf("want the name of a model, of at most %d bytes", events.MaxName))
		}
		for _, k := range t.Models[name].kinds(events.Tokens{}) {
			if k.rate.N < 0 || k.rate.N > MaxRate {
				fault(path+"."+k.name, "want the price of a million tokens, from 0 to 10000000")
			}
		}
	}
}

// digits is how many digits of a unit a micro-unit has.
const digits = 6

var decimalForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})(\.[0-9]{1,6})?$`)

// ParseDecimal reads an amount of a currency, such as 0.075, as micro-units.
func ParseDecimal(s string) (int64, error) {
	if !decimalForm.MatchString(s) {
		return 0, fmt.Errorf("want an amount such as 3 or 0.075, with at most %d digits after the point", digits)
	}
	whole, part, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", digits-len(part)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read an amount: %w", err)
	}
	return n, nil
}

// Decimal writes micro-units as [ParseDecimal] reads them, without zeros at the end.
func Decimal(micros int64) string {
	s := fmt.Sprintf("%0*d", digits+1, micros)
	whole, part := s[:len(s)-digits], strings.TrimRight(s[len(s)-digits:], "0")
	if part == "" {
		return whole
	}
	return whole + "." + part
}
