package intake

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/tools"
	"gatebook/policy"
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
}

// Config is what an intake needs; every field is required.
type Config struct {
	Loop   Loop
	Tools  *tools.Registry
	Blobs  engine.Blobs
	Redact engine.Redactor
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

	mu      sync.Mutex
	refused map[refusal]int64
}

// refusal is what is counted into one event per second.
type refusal struct {
	agent  events.AgentID
	reason string
	second events.Instant
}

// New prepares an intake. Nothing is processed before [Intake.Run].
func New(cfg Config) *Intake {
	return &Intake{cfg: cfg, queue: newQueue(queuedBytes), refused: map[refusal]int64{}}
}

// Agent takes a message of intent.<agent>.<verb>.
func (i *Intake) Agent(m Message) { i.accept(policy.AccountAgents, m) }

// Channel takes a message of channel.<name>.<verb…>.
func (i *Intake) Channel(m Message) { i.accept(policy.AccountChannels, m) }

func (i *Intake) accept(account policy.Account, m Message) {
	_, who, _, ok := split(m.Subject)
	if !ok {
		return // no identity can publish it
	}
	if m.Reply != "" && !strings.HasPrefix(m.Reply, policy.InboxOf(who)) {
		i.record(account, who, m.Reply)
		return
	}
	if len(m.Data) > engine.MaxAnswer {
		i.turnAway(account, who, m, "too_large", "a request has at most 768 KiB")
		return
	}
	if !i.queue.push(string(account)+"/"+who, m, i.cfg.Loop.Catalog().Limits().QueuedCalls) {
		i.turnAway(account, who, m, "busy", "too many of your requests wait; ask again when some are answered")
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

// record says that a reply subject would have led elsewhere. Nothing is answered.
func (i *Intake) record(account policy.Account, who, reply string) {
	i.count(refusal{agent: agentOf(account, who), reason: "reply outside the own inbox: " + events.Quote(reply)})
}

// turnAway refuses without the loop: counted, answered at once.
func (i *Intake) turnAway(account policy.Account, who string, m Message, code, reason string) {
	i.count(refusal{agent: agentOf(account, who), reason: code})
	if m.Reply != "" {
		i.cfg.Send(account, m.Reply, engine.Refused{Error: engine.Problem{Code: code, Reason: reason}})
	}
}

func (i *Intake) count(r refusal) {
	r.second = events.InstantOf(i.cfg.Now().Truncate(time.Second))
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.refused) < 4096 || i.refused[r] > 0 {
		i.refused[r]++
	}
}

func agentOf(account policy.Account, who string) events.AgentID {
	if account == policy.AccountAgents {
		return events.AgentID(who)
	}
	return ""
}

// Run works until ctx ends and returns when every worker has.
func (i *Intake) Run(ctx context.Context) {
	var all sync.WaitGroup
	for range i.cfg.Workers {
		all.Go(func() { i.work(ctx) })
	}
	all.Go(func() { i.report(ctx) })
	all.Wait()
}

func (i *Intake) work(ctx context.Context) {
	for {
		who, m, ok := i.queue.next(ctx)
		if !ok {
			return
		}
		if cmd := i.command(m); cmd != nil {
			// The context ends only when the engine stops; the caller then hears
			// nothing, which is what an engine that is gone says.
			_ = i.cfg.Loop.Submit(ctx, cmd)
		}
		i.queue.done(who)
	}
}

// report hands the counts of past seconds to the engine.
func (i *Intake) report(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for r, n := range i.takeCounts() {
			_ = i.cfg.Loop.Submit(ctx, engine.Note{Agent: r.agent, Fact: events.IntakeRefused{
				Reason: r.reason, Count: n, Second: r.second,
			}})
		}
	}
}

func (i *Intake) takeCounts() map[refusal]int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := i.refused
	i.refused = map[refusal]int64{}
	return taken
}

// command decodes one message. Nil means that it was answered here.
func (i *Intake) command(m Message) engine.Command {
	first, who, verb, _ := split(m.Subject)
	account := policy.AccountAgents
	if first == "channel" {
		account = policy.AccountChannels
	}
	var answer engine.Answer
	if m.Reply != "" {
		answer = func(v any) { i.cfg.Send(account, m.Reply, v) }
	}
	switch {
	case account == policy.AccountAgents && verb == "call":
		return i.call(events.AgentID(who), m.Data, answer)
	case account == policy.AccountAgents && verb == "outcome":
		return i.orRefuse(account, who, m)(decodeOutcome(events.AgentID(who), m.Data, answer))
	case account == policy.AccountAgents && verb == "attach":
		return i.orRefuse(account, who, m)(decodeAttach(events.AgentID(who), m.Data, answer))
	case account == policy.AccountChannels && verb == "round.begin":
		return i.orRefuse(account, who, m)(decodeBegin(events.ChannelID(who), m.Data, answer))
	case account == policy.AccountChannels && verb == "round.end":
		return i.orRefuse(account, who, m)(decodeEnd(events.ChannelID(who), m.Data, answer))
	}
	i.turnAway(account, who, m, "unknown_verb", "no such request: "+events.Quote(m.Subject))
	return nil
}

// orRefuse turns a malformed request away.
func (i *Intake) orRefuse(account policy.Account, who string, m Message) func(engine.Command, *policy.Malformed) engine.Command {
	return func(cmd engine.Command, bad *policy.Malformed) engine.Command {
		if bad == nil {
			return cmd
		}
		i.turnAway(account, who, m, "invalid", bad.Error())
		return nil
	}
}

// unredactable stands in the book for arguments that the redactor failed on.
var unredactable = jsontext.Value(`"[unredactable]"`)
