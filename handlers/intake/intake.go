package intake

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/health"
	"gatebook/handlers/tools"
	"gatebook/policy"
	"gatebook/policy/usage"
)

// Bounds of the intake.
const (
	// queuedBytes is what one identity may have waiting; how many messages is the
	// catalog's to say (limits.queued_calls).
	queuedBytes = 4 << 20
)

// Message is a request as it came from the bus.
type Message struct {
	Subject string
	Reply   string // empty where the sender wants no answer
	Data    []byte
}

// Loop is what the intake needs of the engine.
type Loop interface {
	Submit(context.Context, engine.Command) error
	Catalog() *policy.Compiled
	Health() *health.State
}

// Blobs keeps large arguments of calls that are not decided yet; release says
// whether an event names them. Safe for concurrent use.
type Blobs interface {
	Hold(data []byte) (d events.Digest, release func(keep bool) error, err error)
}

// Redactor masks secrets, in canonical JSON and in plain text. Safe for
// concurrent use.
type Redactor interface {
	JSON(jsontext.Value) (redacted jsontext.Value, changed bool, err error)
	Text(string) (redacted string, changed bool)
}

// Config is what an intake needs; every field is required.
type Config struct {
	Loop   Loop
	Tools  *tools.Registry
	Blobs  Blobs
	Redact Redactor
	MAC    func([]byte) events.MAC
	// Send gives an answer to a reply subject of an account; it must not block.
	Send    func(policy.Account, string, any)
	Now     func() time.Time // for counting refusals per second only
	Workers int
}

// Intake makes commands of messages.
type Intake struct {
	cfg   Config
	queue *queue

	counts *counts
	// sweep has one token while refusedBlobs is not empty.
	sweep chan struct{}

	mu           sync.Mutex
	refusedBlobs []func(keep bool) error
}

// New prepares an intake. Nothing is processed before [Intake.Run].
func New(cfg Config) *Intake {
	return &Intake{cfg: cfg, queue: newQueue(queuedBytes), counts: newCounts(), sweep: make(chan struct{}, 1)}
}

// Agent takes a message of intent.<agent>.<verb>.
func (i *Intake) Agent(m Message) { i.accept(policy.AccountAgents, m) }

// Channel takes a message of channel.<name>.<verb…>.
func (i *Intake) Channel(m Message) { i.accept(policy.AccountChannels, m) }

func (i *Intake) accept(account policy.Account, m Message) {
	_, who, verb, ok := split(m.Subject)
	if !ok {
		return // no identity can publish it
	}
	if m.Reply != "" && !strings.HasPrefix(m.Reply, policy.InboxOf(who)) {
		// Nothing is answered: it would speak with the engine's voice to somebody else.
		i.count(account, who, codeReply, m.Reply)
		return
	}
	if i.degraded(account, verb) {
		i.turnDown(account, who, verb, m)
		return
	}
	if len(m.Data) > engine.MaxAnswer {
		i.turnAway(account, who, m, codeTooLarge, "a request has at most 768 KiB")
		return
	}
	if !i.queue.push(string(account)+"/"+who, m, i.cfg.Loop.Catalog().Limits().QueuedCalls) {
		i.turnAway(account, who, m, codeBusy, "too many of your requests wait; ask again when some are answered")
	}
}

// split takes "<first>.<id>.<verb…>" apart.
func split(subject string) (first, id, verb string, ok bool) {
	first, rest, ok := strings.Cut(subject, ".")
	if !ok {
		return "", "", "", false
	}
	id, verb, ok = strings.Cut(rest, ".")
	return first, id, verb, ok && id != ""
}

// degraded says that a request is refused at once because nothing can be recorded
// now: what has to be recorded first would only fill memory and the disk. Reading
// goes on.
func (i *Intake) degraded(account policy.Account, verb string) bool {
	return !i.cfg.Loop.Health().OK() && !(account == policy.AccountAgents && verb == verbOutcome)
}

// turnDown refuses because the engine does not act. A call gets the answer that
// the loop gives then.
func (i *Intake) turnDown(account policy.Account, who, verb string, m Message) {
	reason := "the engine does not act now (" + strings.Join(i.cfg.Loop.Health().Why(), "; ") + "); nothing was done, ask again later"
	var answer any = engine.Refused{Error: engine.Problem{Code: codeDegraded, Reason: reason}}
	if account == policy.AccountAgents && verb == verbCall {
		answer = engine.CallAnswer{
			State: engine.StateFinal, Verdict: events.Deny, Status: events.StatusDenied,
			Layer: events.LayerEngine, Rule: codeDegraded, Reason: reason,
		}
	}
	i.count(account, who, codeDegraded, m.Subject)
	if m.Reply != "" {
		i.cfg.Send(account, m.Reply, answer)
	}
}

// turnAway refuses without the loop: counted, answered at once.
func (i *Intake) turnAway(account policy.Account, who string, m Message, code, reason string) {
	i.count(account, who, code, m.Subject)
	if m.Reply != "" {
		i.cfg.Send(account, m.Reply, engine.Refused{Error: engine.Problem{Code: code, Reason: reason}})
	}
}

func (i *Intake) count(account policy.Account, who, code, subject string) {
	second := events.InstantOf(i.cfg.Now().Truncate(time.Second))
	i.counts.add(refusal{account, who, code}, second, func() string { return i.foreign(subject, events.MaxName) })
}

// Run works until ctx ends and returns when every worker has.
func (i *Intake) Run(ctx context.Context) {
	var all sync.WaitGroup
	for range i.cfg.Workers {
		all.Go(func() { i.work(ctx) })
	}
	all.Go(func() { i.report(ctx) })
	all.Go(func() { i.sweepAll(ctx) })
	all.Wait()
}

func (i *Intake) work(ctx context.Context) {
	for {
		who, m, ok := i.queue.next(ctx)
		if !ok {
			return
		}
		if cmd := i.command(m); cmd != nil {
			i.submit(ctx, cmd)
		}
		i.queue.done(who)
	}
}

// submit hands a command over. That fails only when the engine stops; the caller
// then hears nothing, which is what an engine that is gone says.
func (i *Intake) submit(ctx context.Context, cmd engine.Command) {
	err := i.cfg.Loop.Submit(ctx, cmd)
	if k, ok := cmd.(*engine.Call); ok && err != nil && k.Settled != nil {
		k.Settled(false) // it was not taken, so nobody else says so
	}
}

// report hands the counts of past seconds to the engine, until ctx ends. While that
// cannot record them they wait.
func (i *Intake) report(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !i.cfg.Loop.Health().OK() {
			continue
		}
		for _, note := range i.Refusals() {
			_ = i.cfg.Loop.Submit(ctx, note) // fails only where the loop has stopped
		}
	}
}

// Refusals gives what was counted and is not recorded yet, and begins anew. Safe
// for concurrent use.
func (i *Intake) Refusals() []engine.Note { return i.counts.take() }

// The verbs of agents that are more than a name in [Intake.command].
const (
	verbCall    = "call"
	verbOutcome = "outcome"
	verbUsage   = "usage"
)

// command decodes one message. Nil means that it was answered here.
func (i *Intake) command(m Message) engine.Command {
	first, who, verb, _ := split(m.Subject)
	account := policy.AccountAgents
	if first == "channel" {
		account = policy.AccountChannels
	}
	if i.degraded(account, verb) { // since it was queued
		i.turnDown(account, who, verb, m)
		return nil
	}
	var answer engine.Answer
	if m.Reply != "" {
		answer = func(v any) { i.cfg.Send(account, m.Reply, v) }
	}
	switch {
	case account == policy.AccountAgents && verb == verbCall:
		return i.call(events.AgentID(who), m.Data, answer)
	case account == policy.AccountAgents && verb == verbOutcome:
		return i.orRefuse(account, who, m)(i.decodeOutcome(events.AgentID(who), m.Data, answer))
	case account == policy.AccountAgents && verb == verbUsage:
		return i.orRefuse(account, who, m)(i.decodeUsage(usage.Report{Agent: events.AgentID(who)}, m.Data, answer))
	case account == policy.AccountChannels && verb == verbUsage:
		return i.orRefuse(account, who, m)(i.decodeUsage(usage.Report{Channel: events.ChannelID(who)}, m.Data, answer))
	case account == policy.AccountAgents && verb == "attach":
		return i.orRefuse(account, who, m)(i.decodeAttach(events.AgentID(who), m.Data, answer))
	case account == policy.AccountAgents && verb == "round.accept":
		return i.orRefuse(account, who, m)(i.decodeAccept(events.AgentID(who), m.Data, answer))
	case account == policy.AccountAgents && verb == "round.begin":
		return i.orRefuse(account, who, m)(i.decodeSelfBegin(events.AgentID(who), m.Data, answer))
	case account == policy.AccountAgents && verb == "round.end":
		return i.orRefuse(account, who, m)(i.decodeEnd(policy.RoundEndRequest{Self: true, Agent: events.AgentID(who)}, m.Data, answer))
	case account == policy.AccountChannels && verb == "round.begin":
		return i.orRefuse(account, who, m)(i.decodeBegin(events.ChannelID(who), m.Data, answer))
	case account == policy.AccountChannels && verb == "round.end":
		return i.orRefuse(account, who, m)(i.decodeEnd(policy.RoundEndRequest{Channel: events.ChannelID(who)}, m.Data, answer))
	}
	i.turnAway(account, who, m, codeUnknownVerb, "no such request: "+events.Quote(m.Subject))
	return nil
}

// orRefuse turns a malformed request away.
func (i *Intake) orRefuse(account policy.Account, who string, m Message) func(engine.Command, *policy.Malformed) engine.Command {
	return func(cmd engine.Command, bad *policy.Malformed) engine.Command {
		if bad == nil {
			return cmd
		}
		i.turnAway(account, who, m, codeInvalid, bad.Error())
		return nil
	}
}

// unredactable stands in the book for arguments that the redactor failed on.
var unredactable = jsontext.Value(`"[unredactable]"`)
