// Package usage decides what is recorded of a report on what a model used.
//
// Start with [Record]. Nobody can prove such a report, so it is recorded as claimed,
// gives no right and lowers nothing. It is about one message of a model and tells
// the whole of it: a later report of the same message takes the former's place, in the
// round of the first. What an agent claimed never keeps out what the channel of a round
// says about it: the message is then one of that round, wherever the agent put it, and
// the room for a channel's messages is its own.
package usage

import (
	"cmp"
	"fmt"
	"time"
	"unicode/utf8"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/policy/price"
)

const (
	// MaxMessages is how many messages of a round an agent reports, and how many more
	// its channel may at least.
	MaxMessages = 10_000
	// Late is how long after a round's end its usage is still taken: clients write
	// their transcripts late.
	Late = 24 * time.Hour
	// claimed is how such usage is known.
	claimed = "claimed"
)

// Report is a wish to record usage: an agent's about a round of its own, or a
// channel's about one that it began.
type Report struct {
	Agent      events.AgentID // empty where a channel reports
	Channel    events.ChannelID
	Round      events.RoundID
	HandleHash events.Digest
	// Message is compared by its bytes.
	Message string
	Model   string // empty: the one that the round was begun with
	Tokens  events.Tokens
}

// Facts are what the views say about it.
type Facts struct {
	Round policy.RoundFacts
	// Model is the one that the round was begun with.
	Model string
	// Messages is how many messages of the round are recorded.
	Messages int64
	// Secret says that Message holds the handle of a round.
	Secret bool
	// Same is what is recorded of the message; its Round is empty where nothing is.
	Same Recorded
}

// Recorded is what is recorded of a message.
type Recorded struct {
	Round   events.RoundID
	Ended   events.Instant   // when the round ended; 0 while it is open
	Channel events.ChannelID // that began the round
	Model   string
	Tokens  events.Tokens
	Source  events.ActorKind
}

// Decision is the answer to a [Report].
type Decision struct {
	// Usage is what to record; nil where the same is recorded already.
	Usage   *events.UsageRecorded
	Refusal *policy.Refusal
}

// Record answers the report, at the time now.
func Record(c *policy.Compiled, r Report, f Facts, now events.Instant) Decision {
	for _, no := range []*policy.Refusal{checkForm(r, f.Secret), checkRound(r, f.Round, now), checkSame(r, f)} {
		if no != nil {
			return Decision{Refusal: no}
		}
	}
	out := &events.UsageRecorded{
		Round: r.Round, Message: r.Message, Model: cmp.Or(r.Model, f.Model), Tokens: r.Tokens,
		Source: r.source(), Known: claimed,
	}
	if f.Same.Round != "" && !r.overrules(f.Same) {
		if f.Same.Model == out.Model && f.Same.Tokens == out.Tokens && f.Same.Source == out.Source {
			return Decision{}
		}
		// What is recorded of that round is as final as a report of its own would be late.
		if f.Same.Ended != 0 && now.Sub(f.Same.Ended) > Late {
			return Decision{Refusal: tooLate(f.Same.Round)}
		}
		out.Round = f.Same.Round
	}
	prices := c.Prices()
	out.Cost, out.Currency = prices.Cost(out.Model, out.Tokens), prices.Currency
	return Decision{Usage: out}
}

// overrules says that a channel's report takes a message into its round that the agent
// claimed to be of another.
func (r Report) overrules(same Recorded) bool {
	return r.Channel != "" && same.Source == events.ActorAgent && same.Round != r.Round
}

func (r Report) source() events.ActorKind {
	if r.Channel != "" {
		return events.ActorChannel
	}
	return events.ActorAgent
}

func checkForm(r Report, secret bool) *policy.Refusal {
	switch {
	case secret:
		return refuse(policy.CodeInvalid, "message: holds the handle of a round")
	case r.Message == "" || len(r.Message) > events.MaxName || !utf8.ValidString(r.Message):
		return refuse(policy.CodeInvalid, fmt.Sprintf("message: want the id of the model's message, of at most %d bytes", events.MaxName))
	case len(r.Model) > events.MaxName || !utf8.ValidString(r.Model):
		return refuse(policy.CodeInvalid, fmt.Sprintf("model: want at most %d bytes of UTF-8", events.MaxName))
	}
	for _, a := range []events.Amount{r.Tokens.Input, r.Tokens.CachedInput, r.Tokens.CacheWrite, r.Tokens.Output} {
		if a.N < 0 || a.N > price.MaxTokens {
			return refuse(policy.CodeInvalid, fmt.Sprintf("tokens: want null or a number from 0 to %d", price.MaxTokens))
		}
	}
	return nil
}

// checkRound: a round that does not exist, one of somebody else and a wrong handle get
// the same answer.
func checkRound(r Report, round policy.RoundFacts, now events.Instant) *policy.Refusal {
	mine := round.ServedBy(r.Agent, r.HandleHash)
	if r.Channel != "" {
		mine = round.BegunBy(r.Channel, r.HandleHash)
	}
	switch {
	case !mine || round.Round != r.Round:
		return refuse(policy.CodeNoRound, "you have no round of this id and handle")
	case !round.Open && now.Sub(round.Ended) > Late:
		return tooLate(round.Round)
	}
	return nil
}

func tooLate(round events.RoundID) *policy.Refusal {
	return &policy.Refusal{Code: policy.CodeRoundEnded, Round: round,
		Reason: "the round " + string(round) + " ended more than a day ago; its usage is not taken any more"}
}

func checkSame(r Report, f Facts) *policy.Refusal {
	most := int64(MaxMessages)
	if r.Channel != "" {
		most *= 2
	}
	added := f.Same.Round == "" || r.overrules(f.Same)
	switch same := f.Same; {
	case added && f.Messages >= most:
		return refuse(policy.CodeTooMany, fmt.Sprintf("%d messages of this round are recorded, and no more are taken", f.Messages))
	case added:
		return nil
	case same.Source == events.ActorChannel && r.Channel == "":
		return refuse(policy.CodeConflict, "the channel has reported this message, and its report stands")
	case same.Channel != f.Round.Channel:
		return refuse(policy.CodeConflict, "the message was reported in a round of another channel")
	}
	return nil
}

func refuse(code policy.Code, reason string) *policy.Refusal {
	return &policy.Refusal{Code: code, Reason: reason}
}
