package usage_test

import (
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/policy"
	"gatebook/policy/price"
	"gatebook/policy/usage"
)

const now = events.Instant(1_800_000_000_000_000)

var (
	one, two = eventstest.ID[events.RoundID](1), eventstest.ID[events.RoundID](2)
	handle   = eventstest.Digest(5)
)

func catalog(t *testing.T) *policy.Compiled {
	t.Helper()
	c, err := policy.Compile(policy.Catalog{Schema: 1, Prices: price.Table{Currency: "EUR", Models: map[string]price.Price{
		"m1": {Input: price.Rate{Amount: events.AmountOf(3_000_000)}, Output: price.Rate{Amount: events.AmountOf(15_000_000)}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func round() policy.RoundFacts {
	return policy.RoundFacts{Round: one, Agent: "alice", Channel: "chat", HandleHash: handle, Open: true}
}

func used(input, output int64) events.Tokens {
	return events.Tokens{Input: events.AmountOf(input), CachedInput: events.AmountOf(0), CacheWrite: events.AmountOf(0), Output: events.AmountOf(output)}
}

func byAgent(message string, t events.Tokens) usage.Report {
	return usage.Report{Agent: "alice", Round: one, HandleHash: handle, Message: message, Model: "m1", Tokens: t}
}

func byChannel(message string, t events.Tokens) usage.Report {
	r := byAgent(message, t)
	r.Agent, r.Channel = "", "chat"
	return r
}

func TestRecord(t *testing.T) {
	c := catalog(t)
	d := usage.Record(c, byAgent("m", used(10, 2)), usage.Facts{Round: round()}, now)
	want := events.UsageRecorded{
		Round: one, Message: "m", Model: "m1", Tokens: used(10, 2), Cost: events.AmountOf(60), Currency: "EUR",
		Source: events.ActorAgent, Known: "claimed",
	}
	if d.Refusal != nil || d.Usage == nil || *d.Usage != want {
		t.Errorf("got %+v, %+v, want %+v", d.Usage, d.Refusal, want)
	}
	silent := byAgent("m", used(10, 2))
	silent.Model = ""
	if d := usage.Record(c, silent, usage.Facts{Round: round(), Model: "m1"}, now); d.Usage == nil || *d.Usage != want {
		t.Errorf("without a model, that of the round: %+v", d.Usage)
	}
	if d := usage.Record(c, silent, usage.Facts{Round: round()}, now); d.Usage == nil || d.Usage.Cost.Known || d.Usage.Model != "" {
		t.Errorf("without any model: %+v", d.Usage)
	}
	if d := usage.Record(nil, byAgent("m", used(10, 2)), usage.Facts{Round: round()}, now); d.Usage == nil || d.Usage.Cost.Known || d.Usage.Currency != "" {
		t.Errorf("without a catalog: %+v", d.Usage)
	}
}

// O-C03 ccusage#1728, O-C04 agentsview#307, O-C08 lemma-work/lemma-platform#478: what is
// reported again.
func TestRecordAgain(t *testing.T) {
	recorded := func(by events.ActorKind, in events.RoundID, channel events.ChannelID) usage.Recorded {
		return usage.Recorded{Round: in, Channel: channel, Model: "m1", Tokens: used(6, 1), Source: by}
	}
	endedAt := func(at events.Instant) usage.Recorded {
		r := recorded(events.ActorAgent, two, "chat")
		r.Ended = at
		return r
	}
	for name, row := range map[string]struct {
		report usage.Report
		same   usage.Recorded
		code   policy.Code    // of the refusal
		round  events.RoundID // that the event is of; empty for no event
	}{
		"O-C03 the same line again":                     {byAgent("m1", used(6, 1)), recorded(events.ActorAgent, one, "chat"), "", ""},
		"O-C03 a later line of the message":             {byAgent("m1", used(6, 384)), recorded(events.ActorAgent, one, "chat"), "", one},
		"O-C02 later numbers may be lower":              {byAgent("m1", used(2, 1)), recorded(events.ActorAgent, one, "chat"), "", one},
		"O-C04 a resumed session copies it":             {byAgent("m1", used(6, 1)), recorded(events.ActorAgent, two, "chat"), "", ""},
		"O-C04 and goes on with it, in the first round": {byAgent("m1", used(6, 2)), recorded(events.ActorAgent, two, "chat"), "", two},
		"whose round ended a day ago":                   {byAgent("m1", used(6, 2)), endedAt(now.Add(-usage.Late)), "", two},
		"whose round ended long ago":                    {byAgent("m1", used(6, 2)), endedAt(now.Add(-usage.Late) - 1), policy.CodeRoundEnded, ""},
		"O-C04 that round's, copied as it is":           {byAgent("m1", used(6, 1)), endedAt(now.Add(-usage.Late) - 1), "", ""},
		"the channel takes it into its own round":       {byChannel("m1", used(6, 1)), endedAt(now.Add(-usage.Late) - 1), "", one},
		"also from a round of another channel":          {byChannel("m1", used(6, 1)), recorded(events.ActorAgent, two, "mail"), "", one},
		"and not what a channel reported":               {byChannel("m1", used(6, 2)), recorded(events.ActorChannel, two, "chat"), "", two},
		"O-C08 another attempt has another id":          {byAgent("m2", used(6, 1)), usage.Recorded{}, "", one},
		"the channel knows better than the agent":       {byChannel("m1", used(6, 1)), recorded(events.ActorAgent, one, "chat"), "", one},
		"the agent not than the channel":                {byAgent("m1", used(0, 0)), recorded(events.ActorChannel, one, "chat"), policy.CodeConflict, ""},
		"another channel not at all":                    {byChannel("m1", used(0, 0)), recorded(events.ActorChannel, two, "mail"), policy.CodeConflict, ""},
		"nor the agent in a round of another":           {byAgent("m1", used(0, 0)), recorded(events.ActorAgent, two, "mail"), policy.CodeConflict, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := usage.Record(catalog(t), row.report, usage.Facts{Round: round(), Same: row.same}, now)
			var code policy.Code
			if d.Refusal != nil {
				code = d.Refusal.Code
			}
			var of events.RoundID
			if d.Usage != nil {
				of = d.Usage.Round
			}
			if code != row.code || of != row.round {
				t.Errorf("code %q, event of round %q, want %q and %q", code, of, row.code, row.round)
			}
		})
	}
}

func TestRecordRefuses(t *testing.T) {
	ended := round()
	ended.Open, ended.Ended = false, now.Add(-usage.Late)
	long := ended
	long.Ended--
	foreign := round()
	foreign.Agent = "bob"
	otherHandle := byAgent("m", used(1, 1))
	otherHandle.HandleHash = eventstest.Digest(6)
	otherChannel := byChannel("m", used(1, 1))
	otherChannel.Channel = "mail"
	for name, row := range map[string]struct {
		report usage.Report
		facts  usage.Facts
		code   policy.Code
	}{
		"a day after the end":     {byAgent("m", used(1, 1)), usage.Facts{Round: ended}, ""},
		"later":                   {byAgent("m", used(1, 1)), usage.Facts{Round: long}, policy.CodeRoundEnded},
		"no round":                {byAgent("m", used(1, 1)), usage.Facts{}, policy.CodeNoRound},
		"another agent's round":   {byAgent("m", used(1, 1)), usage.Facts{Round: foreign}, policy.CodeNoRound},
		"another handle":          {otherHandle, usage.Facts{Round: round()}, policy.CodeNoRound},
		"another channel's round": {otherChannel, usage.Facts{Round: round()}, policy.CodeNoRound},
		"no message":              {byAgent("", used(1, 1)), usage.Facts{Round: round()}, policy.CodeInvalid},
		"a long message":          {byAgent(strings.Repeat("m", events.MaxName+1), used(1, 1)), usage.Facts{Round: round()}, policy.CodeInvalid},
		"no text":                 {byAgent("\xff", used(1, 1)), usage.Facts{Round: round()}, policy.CodeInvalid},
		"more than any model has": {byAgent("m", used(1, price.MaxTokens+1)), usage.Facts{Round: round()}, policy.CodeInvalid},
		"less than nothing":       {byAgent("m", used(-1, 1)), usage.Facts{Round: round()}, policy.CodeInvalid},
		"the last message":        {byAgent("m", used(1, 1)), usage.Facts{Round: round(), Messages: usage.MaxMessages - 1}, ""},
		"too many messages":       {byAgent("m", used(1, 1)), usage.Facts{Round: round(), Messages: usage.MaxMessages}, policy.CodeTooMany},
		"the channel has room":    {byChannel("m", used(1, 1)), usage.Facts{Round: round(), Messages: 2*usage.MaxMessages - 1}, ""},
		"to an end":               {byChannel("m", used(1, 1)), usage.Facts{Round: round(), Messages: 2 * usage.MaxMessages}, policy.CodeTooMany},
		"what it takes over counts": {byChannel("m", used(1, 1)), usage.Facts{Round: round(), Messages: 2 * usage.MaxMessages,
			Same: usage.Recorded{Round: two, Channel: "chat", Source: events.ActorAgent}}, policy.CodeTooMany},
		"of many, one that is known": {byAgent("m", used(1, 1)), usage.Facts{Round: round(), Messages: usage.MaxMessages, Same: usage.Recorded{Round: one, Channel: "chat"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := usage.Record(catalog(t), row.report, row.facts, now)
			var code policy.Code
			if d.Refusal != nil {
				code = d.Refusal.Code
			}
			if code != row.code || (d.Usage == nil) != (code != "") {
				t.Errorf("code %q, event %+v, want %q", code, d.Usage, row.code)
			}
		})
	}
}
