package projections_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/projections"
	"gatebook/projections/projectionstest"
	"gatebook/projections/rebuild"
)

// message is what a plain walk over reports keeps of a message: the last report, at the
// time of the first, and in its round or where a channel took it.
type message struct {
	agent   events.AgentID
	at      events.Instant
	last    events.UsageRecorded
	counted string // the name that it counts under, by all that its agent named before
}

// usageBook draws a book of reports over some hours, and the messages in it.
func usageBook(rt *rapid.T) ([]events.Draft, []*message) {
	agents := []events.AgentID{"alice", "bob"}
	now, n := events.Instant(0), 0
	var drafts []events.Draft
	write := func(agent events.AgentID, e events.Event) {
		d := eventstest.Draft(n, agent, e)
		if now == 0 {
			now = d.Time
		}
		n++
		d.Time = now
		drafts = append(drafts, d)
	}
	write("", events.EngineStarted{Incarnation: eventstest.ID[events.Incarnation](0), Version: "test"})
	for i, a := range agents {
		write(a, events.AgentEnrolled{Role: "worker"})
		for j, round := range roundsOf(a) {
			conversation := eventstest.ID[events.ConversationID](200 + 2*i + j)
			write(a, events.ConversationOpened{Conversation: conversation})
			write(a, events.RoundBegun{
				Round: round, Conversation: conversation, HandleHash: eventstest.Digest(n),
				Principal: events.Principal{ID: "ada", Kind: events.PrincipalUser},
			})
		}
	}
	amount := rapid.Map(rapid.Int64Range(-3, 1000), func(n int64) events.Amount {
		if n < 0 {
			return events.Amount{}
		}
		return events.AmountOf(n)
	})
	known, names := map[string]*message{}, map[events.AgentID][]string{}
	var all []*message
	models := rapid.SampledFrom([]int{3, 50}).Draw(rt, "models") // within the bound, or beyond it
	for range rapid.IntRange(0, 90).Draw(rt, "reports") {
		now += events.Instant(rapid.Int64Range(0, 40*60_000_000).Draw(rt, "passes"))
		a := rapid.SampledFrom(agents).Draw(rt, "agent")
		e := events.UsageRecorded{
			Round: rapid.SampledFrom(roundsOf(a)).Draw(rt, "round"), Message: fmt.Sprint(rapid.IntRange(0, 20).Draw(rt, "message")),
			Model: fmt.Sprintf("m%d", rapid.IntRange(1, models).Draw(rt, "model")),
			Tokens: events.Tokens{
				Input: amount.Draw(rt, "input"), CachedInput: amount.Draw(rt, "cached"),
				CacheWrite: amount.Draw(rt, "write"), Output: amount.Draw(rt, "output"),
			},
			Cost: amount.Draw(rt, "cost"), Currency: rapid.SampledFrom([]string{"EUR", "USD"}).Draw(rt, "currency"),
			Source: rapid.SampledFrom([]events.ActorKind{events.ActorAgent, events.ActorChannel}).Draw(rt, "source"), Known: "claimed",
		}
		key := string(a) + "/" + e.Message
		if known[key] == nil {
			known[key] = &message{agent: a, at: now}
			all = append(all, known[key])
		} else if was := known[key].last; was.Source != events.ActorAgent || e.Source != events.ActorChannel {
			e.Round = was.Round
		}
		known[key].last, known[key].counted = e, e.Model
		if !slices.Contains(names[a], e.Model) {
			if len(names[a]) < projections.MaxModels {
				names[a] = append(names[a], e.Model)
			} else {
				known[key].counted = projections.Other
			}
		}
		write(a, e)
	}
	return drafts, all
}

// roundsOf are the two rounds of an agent.
func roundsOf(agent events.AgentID) []events.RoundID {
	first := 100
	if agent == "bob" {
		first += 2
	}
	return []events.RoundID{eventstest.ID[events.RoundID](first), eventstest.ID[events.RoundID](first + 1)}
}

// summed is what UsageTotals must give, by a plain walk.
func summed(all []*message, f projections.UsageFilter) []projections.UsageSum {
	sums := map[[3]string]*projections.UsageSum{}
	for _, m := range all {
		if f.Agent != "" && m.agent != f.Agent || m.at < f.Since || f.Until != 0 && m.at >= f.Until {
			continue
		}
		of := projections.UsageSum{Currency: m.last.Currency}
		if f.ByAgent {
			of.Agent = m.agent
		}
		if f.ByModel {
			of.Model = m.counted
		}
		key := [3]string{string(of.Agent), of.Model, of.Currency}
		if sums[key] == nil {
			sums[key] = &of
		}
		s, t := sums[key], m.last.Tokens
		s.Messages++
		add(&s.Input, t.Input)
		add(&s.CachedInput, t.CachedInput)
		add(&s.CacheWrite, t.CacheWrite)
		add(&s.Output, t.Output)
		add(&s.Cost, m.last.Cost)
	}
	out := []projections.UsageSum{}
	for _, s := range sums {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b projections.UsageSum) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Currency, b.Currency))
	})
	return out
}

// byCurrency adds up the models.
func byCurrency(sums []projections.UsageSum) (out []projections.UsageSum) {
	for _, s := range sums {
		at := slices.IndexFunc(out, func(o projections.UsageSum) bool { return o.Currency == s.Currency })
		if at < 0 {
			at, out = len(out), append(out, projections.UsageSum{Currency: s.Currency})
		}
		out[at].Plus(s)
	}
	slices.SortFunc(out, func(a, b projections.UsageSum) int { return cmp.Compare(a.Currency, b.Currency) })
	return out
}

func add(s *projections.Sum, a events.Amount) {
	if a.Known {
		s.N += a.N
	} else {
		s.Unknown++
	}
}

// Totals over any range equal the sum of the messages in it, whatever came again.
func TestUsageTotalsEqualTheMessages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		drafts, all := usageBook(rt)
		s := newMapStore()
		fold(rt, s, projectionstest.NewBook(t, drafts), 7)
		snap := s.Snapshot()
		defer snap.Close()
		for _, round := range slices.Concat(roundsOf("alice"), roundsOf("bob")) {
			receipt, _, err := projections.ReceiptByRound(snap, round)
			of := slices.DeleteFunc(slices.Clone(all), func(m *message) bool { return m.last.Round != round })
			want := summed(of, projections.UsageFilter{ByModel: true})
			if slices.ContainsFunc(want, func(s projections.UsageSum) bool { return s.Model == projections.Other }) {
				// A receipt gives a place again that a later report has left.
				receipt.Usage, want = byCurrency(receipt.Usage), byCurrency(want)
			}
			if err != nil || !slices.Equal(receipt.Usage, want) {
				rt.Fatalf("the receipt of %s has %+v, %v\nwant %+v", round, receipt.Usage, err, want)
			}
		}
		start := drafts[0].Time - 3*3_600_000_000
		for range 5 {
			f := projections.UsageFilter{
				Agent:   rapid.SampledFrom([]events.AgentID{"", "alice", "nobody"}).Draw(rt, "of"),
				ByAgent: rapid.Bool().Draw(rt, "by agent"), ByModel: rapid.Bool().Draw(rt, "by model"),
			}
			if rapid.Bool().Draw(rt, "since") {
				f.Since = start + events.Instant(rapid.Int64Range(0, 40*3_600_000_000).Draw(rt, "from"))
			}
			if rapid.Bool().Draw(rt, "until") {
				f.Until = start + events.Instant(rapid.Int64Range(0, 40*3_600_000_000).Draw(rt, "to"))
			}
			if len(all) > 0 && rapid.Bool().Draw(rt, "border") { // the moment of a message is in, or out
				f.Until = rapid.SampledFrom(all).Draw(rt, "at").at
			}
			got, err := projections.UsageTotals(snap, f)
			if err != nil || !slices.Equal(got, summed(all, f)) {
				rt.Fatalf("%+v:\n got %+v, %v\nwant %+v", f, got, err, summed(all, f))
			}
		}
	})
}

// An agent names models as it likes, over any number of rounds: a receipt and the totals
// name so many and count the others together, and no message is lost.
func TestModelsOfUsageAreBounded(t *testing.T) {
	s := newScript(t)
	report := func(round events.RoundID, message, model string) {
		t.Helper()
		s.must("alice", events.UsageRecorded{Round: round, Message: message, Model: model, Tokens: events.Tokens{Input: events.AmountOf(1)}})
	}
	totals := func() map[string]int64 {
		t.Helper()
		sums, err := projections.UsageTotals(s.read(), projections.UsageFilter{ByModel: true})
		ok(t, err)
		out := map[string]int64{}
		for _, s := range sums {
			out[s.Model] = s.Messages
		}
		return out
	}
	const rounds = 80
	s.must("alice", events.RoundEnded{Round: "R1", End: events.RoundCompleted})
	for r := range rounds {
		round := events.RoundID(fmt.Sprint("M", r))
		begin := begun(round, "C1", 100+r)
		if r == 0 {
			begin.Model = events.Model{Name: "of-a-call", Known: "claimed"}
		}
		s.must("alice", begin)
		if r == 0 { // it takes a place too
			d := decided("c", 1, events.Deny)
			d.Round = round
			s.must("alice", d)
		}
		for i := range projections.MaxModels {
			report(round, fmt.Sprint(r, "/", i), fmt.Sprint("made-up-", r, "-", i))
		}
		s.must("alice", events.RoundEnded{Round: round, End: events.RoundCompleted})
		receipt, _, err := projections.ReceiptByRound(s.read(), round)
		ok(t, err)
		same(t, "models of the receipt", len(receipt.Usage), projections.MaxModels)
		same(t, "messages of the receipt", receipt.Messages(), int64(projections.MaxModels))
	}
	const named = projections.MaxModels - 1 // beside that of the call
	others := int64(rounds*projections.MaxModels - named)
	same(t, "models", len(totals()), named+1)
	same(t, "others", totals()[projections.Other], others)
	// What was counted among the others is taken away there, and what had a name there.
	report("M79", "79/0", "of-a-call")
	same(t, "others, one less", totals()[projections.Other], others-1)
	same(t, "and named", totals()["of-a-call"], int64(1))
	report("M0", "0/0", "made-up-again")
	same(t, "others, as before", totals()[projections.Other], others)
	same(t, "the name, no more", totals()["made-up-0-0"], int64(0))
	// A receipt has more than its own models only where it is full.
	report("M1", "more", "one-too-many")
	receipt, _, err := projections.ReceiptByRound(s.read(), "M1")
	ok(t, err)
	same(t, "a full receipt", len(receipt.Usage), projections.MaxModels+1)
	same(t, "its messages", receipt.Messages(), int64(projections.MaxModels+1))
}

func TestUsageLaws(t *testing.T) {
	drafts := func(last ...events.UsageRecorded) []events.Draft {
		round, conversation := eventstest.ID[events.RoundID](100), eventstest.ID[events.ConversationID](200)
		other := eventstest.ID[events.RoundID](101)
		all := []events.Event{
			events.AgentEnrolled{Role: "worker"}, events.ConversationOpened{Conversation: conversation},
			events.RoundBegun{Round: round, Conversation: conversation, HandleHash: eventstest.Digest(1)},
			events.RoundEnded{Round: round, End: events.RoundCompleted},
			events.RoundBegun{Round: other, Conversation: conversation, HandleHash: eventstest.Digest(2)},
		}
		out := []events.Draft{eventstest.Draft(0, "", events.EngineStarted{Incarnation: eventstest.ID[events.Incarnation](0), Version: "test"})}
		for _, e := range last {
			all = append(all, e)
		}
		for _, e := range all {
			out = append(out, eventstest.Draft(len(out), "alice", e))
		}
		return out
	}
	one, two := eventstest.ID[events.RoundID](100), eventstest.ID[events.RoundID](101)
	for name, row := range map[string]struct {
		reports []events.UsageRecorded
		ok      bool
	}{
		"of an ended round":       {[]events.UsageRecorded{{Round: one, Message: "m"}}, true},
		"of no round":             {[]events.UsageRecorded{{Round: eventstest.ID[events.RoundID](7), Message: "m"}}, false},
		"without a message":       {[]events.UsageRecorded{{Round: one}}, false},
		"again, of another round": {[]events.UsageRecorded{{Round: one, Message: "m"}, {Round: two, Message: "m"}}, false},
		"taken by a channel":      {[]events.UsageRecorded{{Round: one, Message: "m", Source: events.ActorAgent}, {Round: two, Message: "m", Source: events.ActorChannel}}, true},
		"taken from a channel":    {[]events.UsageRecorded{{Round: one, Message: "m", Source: events.ActorChannel}, {Round: two, Message: "m", Source: events.ActorChannel}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := rebuild.Fold(t.Context(), projectionstest.NewBook(t, drafts(row.reports...)), events.Codec{}, newMapStore(), rebuild.Options{})
			if row.ok != (err == nil) || err != nil && !errors.Is(err, projections.ErrFold) {
				t.Errorf("folded: %v", err)
			}
		})
	}
}

// Sums beyond the largest number stay the largest.
func TestSumsDoNotWrap(t *testing.T) {
	most := projections.Sum{N: math.MaxInt64 - 1, Unknown: 1}
	s := projections.UsageSum{Input: most, Output: most}
	s.Plus(projections.UsageSum{Input: projections.Sum{N: 1}, Output: projections.Sum{N: 5, Unknown: 2}})
	if s.Input.N != math.MaxInt64 || s.Output.N != math.MaxInt64 || s.Output.Unknown != 3 {
		t.Errorf("%+v", s)
	}
}
