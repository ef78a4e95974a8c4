package price_test

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/policy/price"
)

func rate(micros int64) price.Rate { return price.Rate{Amount: events.AmountOf(micros)} }

func tokens(input, cached, write, output int64) events.Tokens {
	n := func(n int64) events.Amount {
		if n < 0 {
			return events.Amount{}
		}
		return events.AmountOf(n)
	}
	return events.Tokens{Input: n(input), CachedInput: n(cached), CacheWrite: n(write), Output: n(output)}
}

// O-C06 eidan#203, O-C09 zeroclaw-labs/zeroclaw#8233
func TestCost(t *testing.T) {
	table := price.Table{Currency: "EUR", Models: map[string]price.Price{
		"local":   {Input: rate(0), CachedInput: rate(0), CacheWrite: rate(0), Output: rate(0)},
		"m1":      {Input: rate(3_000_000), CachedInput: rate(300_000), CacheWrite: rate(3_750_000), Output: rate(15_000_000)},
		"uncache": {Input: rate(3_000_000), Output: rate(15_000_000)},
		"dear":    {Input: rate(price.MaxRate), CachedInput: rate(0), CacheWrite: rate(0), Output: rate(0)},
	}}
	unknown := events.Amount{}
	for name, row := range map[string]struct {
		model string
		used  events.Tokens
		want  events.Amount
	}{
		"O-C09 a price of 0 is known":               {"local", tokens(1_000_000, 1, 1, 1), events.AmountOf(0)},
		"O-C01 the final numbers of a message":      {"m1", tokens(27, 100, 10, 47), events.AmountOf(854)}, // 853.5
		"a million of each":                         {"m1", tokens(1_000_000, 1_000_000, 1_000_000, 1_000_000), events.AmountOf(22_050_000)},
		"no tokens":                                 {"m1", tokens(0, 0, 0, 0), events.AmountOf(0)},
		"O-C06 a model without a price":             {"vendor/new-model", tokens(1_000_000, 0, 0, 0), unknown},
		"O-C09 names are exact: case":               {"M1", tokens(1, 0, 0, 0), unknown},
		"O-C09 names are exact: a date behind":      {"m1-2026-01-01", tokens(1, 0, 0, 0), unknown},
		"O-C09 a missing cache price":               {"uncache", tokens(1, 1, 0, 0), unknown},
		"a missing cache price that nothing needs":  {"uncache", tokens(1, 0, 0, 1), events.AmountOf(18)},
		"O-C05 an aborted stream: output not known": {"m1", tokens(900, 0, 0, -1), unknown},
		"O-C05 nothing known":                       {"m1", tokens(-1, -1, -1, -1), unknown},
		"more than is counted is not known":         {"dear", tokens(price.MaxTokens, 0, 0, 0), unknown},
		"the most that is counted":                  {"dear", tokens(100_000, 0, 0, 0), events.AmountOf(price.MaxCost)},
		"a model without a name":                    {"", tokens(1, 0, 0, 0), unknown},
	} {
		t.Run(name, func(t *testing.T) {
			if got := table.Cost(row.model, row.used); got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
	if got := (price.Table{}).Cost("m1", tokens(1, 0, 0, 0)); got != unknown {
		t.Errorf("without prices: %+v", got)
	}
}

// Cost is the exact sum, rounded once.
func TestCostIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		number := rapid.Int64Range(0, price.MaxTokens)
		rates := rapid.Int64Range(0, price.MaxRate)
		used := tokens(number.Draw(rt, "in"), number.Draw(rt, "cached"), number.Draw(rt, "write"), number.Draw(rt, "out"))
		p := price.Price{Input: rate(rates.Draw(rt, "a")), CachedInput: rate(rates.Draw(rt, "b")), CacheWrite: rate(rates.Draw(rt, "c")), Output: rate(rates.Draw(rt, "d"))}
		sum := new(big.Int)
		for _, x := range [][2]int64{{used.Input.N, p.Input.N}, {used.CachedInput.N, p.CachedInput.N}, {used.CacheWrite.N, p.CacheWrite.N}, {used.Output.N, p.Output.N}} {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(x[0]), big.NewInt(x[1])))
		}
		want := sum.Add(sum, big.NewInt(500_000)).Div(sum, big.NewInt(1_000_000))
		got := price.Table{Models: map[string]price.Price{"m": p}}.Cost("m", used)
		if want.Cmp(big.NewInt(price.MaxCost)) > 0 {
			if got.Known {
				rt.Fatalf("got %+v for %s", got, want)
			}
			return
		}
		if !got.Known || want.Cmp(big.NewInt(got.N)) != 0 {
			rt.Fatalf("got %+v, want %s", got, want)
		}
	})
}

func TestDecimal(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "3": 3_000_000, "0.3": 300_000, "0.000001": 1, "12.345678": 12_345_678, "999999999": 999_999_999_000_000} {
		got, err := price.ParseDecimal(text)
		if err != nil || got != want || price.Decimal(got) != text {
			t.Errorf("%s: %d, %v, written %s", text, got, err, price.Decimal(got))
		}
	}
	for _, text := range []string{"", "-1", "+1", "1.", ".5", "1e3", "0x1", "01", "1,5", "NaN", "Inf", "1.0000001", "1000000000", " 1", "three"} {
		if got, err := price.ParseDecimal(text); err == nil {
			t.Errorf("%q gives %d", text, got)
		}
	}
	if got, err := price.ParseDecimal("1.50"); err != nil || price.Decimal(got) != "1.5" {
		t.Errorf("1.50: %d, %v", got, err)
	}
}

// O-C09: a bad table is refused as a whole.
func TestCheck(t *testing.T) {
	for name, row := range map[string]struct {
		table price.Table
		at    string // where, empty for no fault
	}{
		"none":             {price.Table{}, ""},
		"good":             {price.Table{Currency: "EUR", Models: map[string]price.Price{"m": {Input: rate(1)}}}, ""},
		"no currency":      {price.Table{Models: map[string]price.Price{"m": {}}}, "currency"},
		"a small currency": {price.Table{Currency: "eur"}, "currency"},
		"no name":          {price.Table{Currency: "EUR", Models: map[string]price.Price{"": {}}}, "models."},
		"a long name":      {price.Table{Currency: "EUR", Models: map[string]price.Price{strings.Repeat("m", events.MaxName+1): {}}}, "models." + strings.Repeat("m", events.MaxName+1)},
		"negative":         {price.Table{Currency: "EUR", Models: map[string]price.Price{"m": {Output: rate(-1)}}}, "models.m.output"},
		"too high":         {price.Table{Currency: "EUR", Models: map[string]price.Price{"m": {CacheWrite: rate(price.MaxRate + 1)}}}, "models.m.cache_write"},
	} {
		t.Run(name, func(t *testing.T) {
			var at []string
			row.table.Check(func(path, _ string) { at = append(at, path) })
			if strings.Join(at, " ") != row.at {
				t.Errorf("faults at %q, want %q", at, row.at)
			}
		})
	}
}
