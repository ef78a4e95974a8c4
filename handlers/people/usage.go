package people

import (
	"fmt"

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
// without a message are left out.
type UsageAnswer struct {
	Usage []Usage    `json:"usage"`
	AsOf  events.Seq `json:"as_of"`
}

// maxPeriods bounds the borders of a request, maxSums what an answer holds.
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
		f := projections.UsageFilter{Agent: q.Agent, ByAgent: q.ByAgent, ByModel: q.ByModel, Observable: h.observable(r.person)}
		for i := range max(1, len(q.Periods)-1) {
			if len(q.Periods) > 0 {
				f.Since, f.Until = q.Periods[i], q.Periods[i+1]
			}
			sums, err := projections.UsageTotals(v, f)
			if err != nil {
				return nil, err
			}
			for _, s := range sums {
				u := usageOf(s)
				u.From, u.Until = f.Since, f.Until
				a.Usage = append(a.Usage, u)
			}
			if len(a.Usage) > maxSums {
				return no("too_large", fmt.Sprintf("there are more than %d sums; ask for a shorter time, for one agent, or by less", maxSums)), nil
			}
		}
		return a, nil
	})
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
