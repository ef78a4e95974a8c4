package people

import (
	"cmp"
	"fmt"
	"slices"

	"gatebook/events"
	"gatebook/projections"
)

// Usage is what messages of models used together, as somebody told. A number is null
// where that of one message is not known; AtLeast has then what is.
type Usage struct {
	// From and Until bound the period, Agent and Model are what the sum is of; absent
	// where that was not asked for.
	From        events.Instant `json:"from,omitzero"`
	Until       events.Instant `json:"until,omitzero"`
	Agent       events.AgentID `json:"agent,omitzero"`
	Model       string         `json:"model,omitzero"`
	Messages    int64          `json:"messages"`
	Input       events.Amount  `json:"input"`
	CachedInput events.Amount  `json:"cached_input"`
	CacheWrite  events.Amount  `json:"cache_write"`
	Output      events.Amount  `json:"output"`
	Cost        events.Amount  `json:"cost_micros"`
	Currency    string         `json:"currency,omitzero"`
	// Unpriced is how many messages have no known cost.
	Unpriced int64   `json:"unpriced,omitzero"`
	AtLeast  AtLeast `json:"at_least,omitzero"`
}

// AtLeast is the sum of what is known, of each number that is not known as a whole.
type AtLeast struct {
	Input       int64 `json:"input,omitzero"`
	CachedInput int64 `json:"cached_input,omitzero"`
	CacheWrite  int64 `json:"cache_write,omitzero"`
	Output      int64 `json:"output,omitzero"`
	Cost        int64 `json:"cost_micros,omitzero"`
}

func usageOf(s projections.UsageSum) Usage {
	u := Usage{Agent: s.Agent, Model: s.Model, Messages: s.Messages, Currency: s.Currency, Unpriced: s.Cost.Unknown}
	u.Input, u.AtLeast.Input = whole(s.Input)
	u.CachedInput, u.AtLeast.CachedInput = whole(s.CachedInput)
	u.CacheWrite, u.AtLeast.CacheWrite = whole(s.CacheWrite)
	u.Output, u.AtLeast.Output = whole(s.Output)
	u.Cost, u.AtLeast.Cost = whole(s.Cost)
	return u
}

// whole is a sum where all of it is known, and else the least that it is.
func whole(s projections.Sum) (all events.Amount, least int64) {
	if s.Unknown > 0 || s.N > events.MaxAmount {
		return events.Amount{}, s.N
	}
	return events.AmountOf(s.N), 0
}

// UsageRequest asks for sums of usage. Periods are the borders between periods, in
// order; none for all time.
type UsageRequest struct {
	Agent   events.AgentID   `json:"agent,omitzero"`
	ByAgent bool             `json:"by_agent,omitzero"`
	ByModel bool             `json:"by_model,omitzero"`
	Periods []events.Instant `json:"periods,omitzero"`
}

// UsageAnswer are sums by period, agent, model and currency, all true at AsOf. Sums
// without a message are left out. Of too many, those of the most messages are there;
// Left is how many others there are, and Rest what those have, by currency.
type UsageAnswer struct {
	Usage []Usage    `json:"usage"`
	Left  int        `json:"left,omitzero"`
	Rest  []Usage    `json:"rest,omitzero"`
	AsOf  events.Seq `json:"as_of"`
}

// maxPeriods bounds the borders of a request, maxSums the sums of an answer.
const (
	maxPeriods = 400
	maxSums    = 1500
)

func (h *Handler) usage(r request) any {
	var q UsageRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	if bad := q.check(); bad != "" {
		return no("invalid", bad)
	}
	return h.read(func(v projections.Reader) (any, error) {
		state, err := projections.LoadState(v)
		if err != nil {
			return nil, err
		}
		a := UsageAnswer{Usage: []Usage{}, AsOf: state.Seq}
		if none, err := h.hidden(v, r.person, q.Agent, ""); none || err != nil {
			return a, err
		}
		var all periodSums
		f := projections.UsageFilter{Agent: q.Agent, ByAgent: q.ByAgent, ByModel: q.ByModel, Observable: h.observable(r.person)}
		for i := range max(1, len(q.Periods)-1) {
			if len(q.Periods) > 0 {
				f.Since, f.Until = q.Periods[i], q.Periods[i+1]
			}
			sums, err := projections.UsageTotals(v, f)
			if err != nil {
				return nil, err
			}
			for _, s := range inOneCurrency(sums) {
				all.kept = append(all.kept, periodSum{s, f.Since, f.Until})
			}
			all.cut(maxSums) // after each period, so that they stay few
		}
		for _, s := range all.kept {
			u := usageOf(s.UsageSum)
			u.From, u.Until = s.from, s.until
			a.Usage = append(a.Usage, u)
		}
		a.Left = all.left
		for _, s := range all.rest {
			a.Rest = append(a.Rest, usageOf(s))
		}
		return a, nil
	})
}

// inOneCurrency adds what was used before the catalog had prices, which has no currency and
// no known cost, to what the same model used after: where there is one currency, it is not
// a row of its own. Sums are in order, and those without a currency come first.
func inOneCurrency(sums []projections.UsageSum) (out []projections.UsageSum) {
	for len(sums) > 0 {
		n := 1
		for n < len(sums) && sums[n].Agent == sums[0].Agent && sums[n].Model == sums[0].Model {
			n++
		}
		of := slices.Clone(sums[:n])
		if n == 2 && of[0].Currency == "" {
			of[1].Plus(of[0])
			of = of[1:]
		}
		out, sums = append(out, of...), sums[n:]
	}
	return out
}

// periodSum is a sum of one period.
type periodSum struct {
	projections.UsageSum
	from, until events.Instant
}

func (s periodSum) compare(o periodSum) int {
	return cmp.Or(cmp.Compare(s.from, o.from), cmp.Compare(s.Agent, o.Agent), cmp.Compare(s.Model, o.Model), cmp.Compare(s.Currency, o.Currency))
}

// periodSums are sums of which too many are cut to a rest, by currency.
type periodSums struct {
	kept []periodSum
	rest []projections.UsageSum
	left int
}

// cut keeps the most sums that are of the most messages, in their order. It MAY cut
// again after more were added.
func (p *periodSums) cut(most int) {
	if len(p.kept) <= most {
		return
	}
	slices.SortFunc(p.kept, func(a, b periodSum) int { return cmp.Or(cmp.Compare(b.Messages, a.Messages), a.compare(b)) })
	for _, s := range p.kept[most:] {
		at, found := slices.BinarySearchFunc(p.rest, s.Currency, func(r projections.UsageSum, c string) int { return cmp.Compare(r.Currency, c) })
		if !found {
			p.rest = slices.Insert(p.rest, at, projections.UsageSum{Currency: s.Currency})
		}
		p.rest[at].Plus(s.UsageSum)
		p.left++
	}
	p.kept = p.kept[:most]
	slices.SortFunc(p.kept, periodSum.compare)
}

func (q UsageRequest) check() string {
	if n := len(q.Periods); n == 1 || n > maxPeriods {
		return fmt.Sprintf("periods: want 2 to %d borders, or none", maxPeriods)
	}
	for i := range q.Periods {
		if q.Periods[i] < 0 || i > 0 && q.Periods[i] <= q.Periods[i-1] {
			return "periods: want borders in order, each once"
		}
	}
	return ""
}
