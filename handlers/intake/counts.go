package intake

import (
	"sync"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/policy"
)

// Why the intake refuses. The codes are all there is to count, so that nobody can
// make more events than one per code and second, whatever they send.
const (
	codeReply       = "reply" // the reply subject leads out of the own inbox
	codeDegraded    = "degraded"
	codeTooLarge    = "too_large"
	codeBusy        = "busy"
	codeUnknownVerb = "unknown_verb"
	codeInvalid     = "invalid"
)

// refusal is what is counted into one event per second. The server lets nobody
// use an identity that is not in the catalog, so there are few.
type refusal struct {
	account policy.Account
	who     string
	code    string
}

// tally is how often it happened in one second.
type tally struct {
	second  events.Instant
	subject string // the first of that second
	count   int64
}

// maxSeconds is how many seconds of one refusal wait to be recorded; while the
// engine cannot record for longer, the last one counts on.
const maxSeconds = 4

// counts is what was refused and is not recorded yet. Safe for concurrent use.
type counts struct {
	mu  sync.Mutex
	all map[refusal][]tally
}

func newCounts() *counts { return &counts{all: map[refusal][]tally{}} }

// add counts one refusal; subject is asked for where it is the first of a second.
func (c *counts) add(r refusal, second events.Instant, subject func() string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	past := c.all[r]
	if n := len(past); n == maxSeconds || n > 0 && past[n-1].second == second {
		past[n-1].count++
		return
	}
	c.all[r] = append(past, tally{second: second, subject: subject(), count: 1})
}

// take gives what was counted, for the book, and begins anew.
func (c *counts) take() []engine.Note {
	c.mu.Lock()
	defer c.mu.Unlock()
	var notes []engine.Note
	for r, seconds := range c.all {
		for _, t := range seconds {
			notes = append(notes, r.note(t))
		}
	}
	clear(c.all)
	return notes
}

// note: only agents have an event of their own for what the intake refused, and a
// reply elsewhere is more than a refused request.
func (r refusal) note(t tally) engine.Note {
	if r.account == policy.AccountAgents && r.code != codeReply {
		return engine.Note{Agent: events.AgentID(r.who), Fact: events.IntakeRefused{
			Reason: r.code, Count: t.count, Second: t.second,
		}}
	}
	return engine.Note{Fact: events.AccessRefused{
		Account: string(r.account), Client: r.who, Action: r.code, Subject: t.subject, Count: t.count,
	}}
}
