package projections

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"gatebook/events"
)

// UsageRow is what is recorded of one message of a model: the last report of it, at the
// time of the first. Its round is that of the first too, or the one that a channel's
// report took it into.
type UsageRow struct {
	_       struct{} `cbor:",toarray"`
	Agent   events.AgentID
	Message string
	Round   events.RoundID
	Model   string
	// Counted is the name that totals count the message under, Listed the one in the
	// receipt of its round: the model's, or [Other].
	Counted     string
	Listed      string
	Input       known
	CachedInput known
	CacheWrite  known
	Output      known
	Cost        known
	Currency    string
	Source      events.ActorKind
	At          events.Instant
	Seq         events.Seq // of the first report
	Last        events.Seq // of the one that holds
}

// known is an events.Amount as a row keeps it: the number and 1, or less for what is
// not known.
type known int64

func knownOf(a events.Amount) known {
	if !a.Known {
		return 0
	}
	return known(a.N + 1)
}

func (k known) amount() events.Amount {
	if k <= 0 {
		return events.Amount{}
	}
	return events.AmountOf(int64(k) - 1)
}

// Tokens are those of the message.
func (r UsageRow) Tokens() events.Tokens {
	return events.Tokens{
		Input: r.Input.amount(), CachedInput: r.CachedInput.amount(), CacheWrite: r.CacheWrite.amount(), Output: r.Output.amount(),
	}
}

// Charged is what the message cost, in micro-units of Currency.
func (r UsageRow) Charged() events.Amount { return r.Cost.amount() }

// Sum is a sum of numbers of which some may not be known.
type Sum struct {
	_       struct{} `cbor:",toarray"`
	N       int64    // of the known ones; at most the largest int64
	Unknown int64    // how many are not known
}

func (s *Sum) count(k known, sign int64) {
	if a := k.amount(); a.Known {
		s.N += sign * a.N
	} else {
		s.Unknown += sign
	}
}

// plus adds sums; what is too large for an int64 stays the largest one.
func (s *Sum) plus(o Sum) {
	s.Unknown += o.Unknown
	if s.N > math.MaxInt64-o.N {
		s.N = math.MaxInt64
		return
	}
	s.N += o.N
}

// UsageSum is what the messages of a model used together. Sums of what was not
// reported are too small, and say so.
type UsageSum struct {
	_           struct{} `cbor:",toarray"`
	Agent       events.AgentID
	Model       string // or [Other]
	Currency    string // of Cost; empty where the catalog of that time named none
	Messages    int64
	Input       Sum
	CachedInput Sum
	CacheWrite  Sum
	Output      Sum
	Cost        Sum // micro-units
}

func (s *UsageSum) count(r UsageRow, sign int64) {
	s.Messages += sign
	s.Input.count(r.Input, sign)
	s.CachedInput.count(r.CachedInput, sign)
	s.CacheWrite.count(r.CacheWrite, sign)
	s.Output.count(r.Output, sign)
	s.Cost.count(r.Cost, sign)
}

// Plus adds what other messages used.
func (s *UsageSum) Plus(o UsageSum) {
	s.Messages += o.Messages
	s.Input.plus(o.Input)
	s.CachedInput.plus(o.CachedInput)
	s.CacheWrite.plus(o.CacheWrite)
	s.Output.plus(o.Output)
	s.Cost.plus(o.Cost)
}

func compareSums(a, b UsageSum) int {
	return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Currency, b.Currency))
}

// countIn counts a message in the sums of a receipt, which are sorted and have none
// without a message.
func countIn(sums []UsageSum, r UsageRow, sign int64) []UsageSum {
	of := UsageSum{Model: r.Listed, Currency: r.Currency}
	at, found := slices.BinarySearchFunc(sums, of, compareSums)
	if !found {
		sums = slices.Insert(sums, at, of)
	}
	if sums[at].count(r, sign); sums[at].Messages == 0 {
		sums = slices.Delete(sums, at, at+1)
	}
	return sums
}

// UsageOf finds what is recorded of an agent's message.
func UsageOf(r Reader, agent events.AgentID, message string) (UsageRow, bool, error) {
	value, err := r.Get(usageMessageKey(agent, message))
	if err != nil || value == nil {
		return UsageRow{}, false, err
	}
	seq, err := seqOfValue(value)
	if err != nil {
		return UsageRow{}, false, err
	}
	row, ok, err := loadRow[UsageRow](r, seqKey(viewUsage, seq))
	if err == nil && !ok {
		err = fmt.Errorf("%w: the usage recorded at %d has no row", ErrStore, seq)
	}
	return row, ok, err
}

func usageMessageKey(agent events.AgentID, message string) []byte {
	return append(listKey(viewUsageMessage, string(agent)), message...)
}

func usageHourKey(at events.Instant, r UsageRow) []byte {
	k := binary.BigEndian.AppendUint64([]byte{viewUsageHour}, uint64(at/hour))
	for _, part := range []string{string(r.Agent), r.Counted} {
		k = append(binary.BigEndian.AppendUint16(k, uint16(len(part))), part...)
	}
	return append(k, r.Currency...)
}

func (f *fold) usageRecorded(e events.UsageRecorded) error {
	if _, err := f.ownRound(e.Round); err != nil {
		return err
	}
	former, again, err := UsageOf(f.tx, f.rec.Agent, e.Message)
	if err != nil {
		return err
	}
	moved := again && former.Round != e.Round
	if e.Message == "" || moved && (former.Source != events.ActorAgent || e.Source != events.ActorChannel) {
		return fmt.Errorf("%w: message %s is not one of round %s", ErrFold, events.Quote(e.Message), e.Round)
	}
	row := UsageRow{
		Agent: f.rec.Agent, Message: e.Message, Round: e.Round, Model: e.Model,
		Input: knownOf(e.Tokens.Input), CachedInput: knownOf(e.Tokens.CachedInput),
		CacheWrite: knownOf(e.Tokens.CacheWrite), Output: knownOf(e.Tokens.Output),
		Cost: knownOf(e.Cost), Currency: e.Currency, Source: e.Source,
		At: f.rec.Time, Seq: f.rec.Seq, Last: f.rec.Seq,
	}
	if again {
		row.At, row.Seq = former.At, former.Seq
	} else {
		f.put(usageMessageKey(row.Agent, row.Message), seqValue(row.Seq))
	}
	if row.Counted, err = f.nameModel(row.Agent, row.Model); err != nil {
		return err
	}
	if moved {
		if err := f.usageLeaves(former); err != nil {
			return err
		}
	}
	if err := f.usageOfRound(former, &row, again && !moved); err != nil {
		return err
	}
	if err := f.usageOfHour(former, row, again); err != nil {
		return err
	}
	f.agent.LastActivity = f.rec.Time
	f.set(seqKey(viewUsage, row.Seq), row)
	return nil
}

// usageOfRound counts the message in the receipt, and says under which name. A receipt
// has room for models of its own: what the agent named in other rounds takes none.
func (f *fold) usageOfRound(former UsageRow, row *UsageRow, again bool) error {
	key := keyOf(viewReceipt, string(row.Round))
	t, _, err := loadRow[tally](f.tx, key)
	if err != nil {
		return err
	}
	t.Usage = slices.Clone(t.Usage) // others may remember it
	if again {
		t.Usage = countIn(t.Usage, former, -1)
	}
	row.Listed = row.Model
	named := func(s UsageSum) bool { return s.Model == row.Model }
	if len(t.Usage) >= MaxModels && !slices.ContainsFunc(t.Usage, named) {
		row.Listed = Other
	}
	t.Usage = countIn(t.Usage, *row, 1)
	f.set(key, t)
	return nil
}

// usageLeaves takes a message out of the receipt of the round that the agent claimed it for.
func (f *fold) usageLeaves(former UsageRow) error {
	key := keyOf(viewReceipt, string(former.Round))
	t, _, err := loadRow[tally](f.tx, key)
	if err != nil {
		return err
	}
	t.Usage = countIn(slices.Clone(t.Usage), former, -1)
	f.set(key, t)
	return nil
}

// usageOfHour counts the message in the hour of its first report.
func (f *fold) usageOfHour(former, row UsageRow, again bool) error {
	key := usageHourKey(row.At, row)
	sum, _, err := loadRow[UsageSum](f.tx, key)
	if err != nil {
		return err
	}
	sum.Agent, sum.Model, sum.Currency = row.Agent, row.Counted, row.Currency
	sum.count(row, 1)
	if again {
		if old := usageHourKey(former.At, former); string(old) == string(key) {
			sum.count(former, -1)
		} else if err := f.uncount(old, former); err != nil {
			return err
		}
	}
	f.set(key, sum)
	return nil
}

func (f *fold) uncount(key []byte, former UsageRow) error {
	sum, _, err := loadRow[UsageSum](f.tx, key)
	if err != nil {
		return err
	}
	if sum.count(former, -1); sum.Messages == 0 {
		f.drop(key)
		return nil
	}
	f.set(key, sum)
	return nil
}

// UsageFilter says which usage to sum up; the fields are joined by and.
type UsageFilter struct {
	Agent events.AgentID
	// Since and Until bound the time of the first report, Until exclusive; 0: open.
	Since, Until events.Instant
	// ByAgent and ByModel keep agents and models apart. Currencies always are.
	ByAgent, ByModel bool
	Observable       func(events.AgentID) bool // nil: all
}

// UsageTotals sums up the usage that f wants, sorted by agent, model and currency. It
// reads the roll-ups of whole hours, and messages for the hours at both edges.
func UsageTotals(r Reader, f UsageFilter) ([]UsageSum, error) {
	u := usageTotals{f: f, sums: map[UsageSum]*UsageSum{}}
	until := cmp.Or(f.Until, math.MaxInt64)
	first, last := (max(f.Since, 0)+hour-1)/hour, until/hour // the whole hours between
	if first >= last {
		first, last = until, until // none: messages alone
	} else {
		first, last = first*hour, last*hour
	}
	if err := errors.Join(u.messages(r, f.Since, first), u.hours(r, first, last), u.messages(r, last, until)); err != nil {
		return nil, err
	}
	out := make([]UsageSum, 0, len(u.sums))
	for _, s := range u.sums {
		out = append(out, *s)
	}
	slices.SortFunc(out, compareSums)
	return out, nil
}

type usageTotals struct {
	f    UsageFilter
	sums map[UsageSum]*UsageSum // by what they are of
}

// of is the sum that belongs to agent, model and currency; nil where f does not want it.
func (u usageTotals) of(agent events.AgentID, model, currency string) *UsageSum {
	if u.f.Agent != "" && agent != u.f.Agent || u.f.Observable != nil && !u.f.Observable(agent) {
		return nil
	}
	key := UsageSum{Currency: currency}
	if u.f.ByAgent {
		key.Agent = agent
	}
	if u.f.ByModel {
		key.Model = model
	}
	if u.sums[key] == nil {
		sum := key
		u.sums[key] = &sum
	}
	return u.sums[key]
}

// hours sums up the hours from since to until.
func (u usageTotals) hours(r Reader, since, until events.Instant) error {
	lower, upper := seqKey(viewUsageHour, events.Seq(since/hour)), seqKey(viewUsageHour, events.Seq(until/hour))
	for row, err := range r.Scan(lower, upper) {
		if err != nil {
			return err
		}
		s, err := decoded[UsageSum](row.Value)
		if err != nil {
			return err
		}
		if sum := u.of(s.Agent, s.Model, s.Currency); sum != nil {
			sum.Plus(s)
		}
	}
	return nil
}

// messages sums up those that were first reported in [since, until).
func (u usageTotals) messages(r Reader, since, until events.Instant) error {
	if since >= until {
		return nil
	}
	from, err := usageFrom(r, since)
	if err != nil {
		return err
	}
	for row, err := range r.Scan(seqKey(viewUsage, from), []byte{viewUsage + 1}) {
		if err != nil {
			return err
		}
		m, err := decoded[UsageRow](row.Value)
		if err != nil || m.At >= until {
			return err
		}
		if sum := u.of(m.Agent, m.Counted, m.Currency); sum != nil {
			one := UsageSum{}
			one.count(m, 1)
			sum.Plus(one)
		}
	}
	return nil
}

// usageFrom is a sequence from which on messages were first reported at that time or
// later: engine time never goes back.
func usageFrom(r Reader, at events.Instant) (events.Seq, error) {
	state, err := LoadState(r)
	if err != nil {
		return 0, err
	}
	var failed error
	from := sort.Search(int(state.Seq)+1, func(seq int) bool {
		for row, err := range r.Scan(seqKey(viewUsage, events.Seq(seq)), []byte{viewUsage + 1}) {
			var m UsageRow
			if err == nil {
				m, err = decoded[UsageRow](row.Value)
			}
			if err != nil {
				failed = err
			}
			return err != nil || m.At >= at
		}
		return true
	})
	return events.Seq(from), failed
}
