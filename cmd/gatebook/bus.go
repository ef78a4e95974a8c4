package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sys/unix"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/intake"
	"gatebook/handlers/people"
	"gatebook/infra/natsd"
	"gatebook/policy"
)

// bus is the embedded server and the engine's connection into each account.
type bus struct {
	server *natsd.Server
	log    func(level, text string)

	mu    sync.Mutex
	conns map[policy.Account]*nats.Conn
}

// accounts that the engine has a connection in.
func accounts() []policy.Account {
	return []policy.Account{
		natsd.AccountEngine, policy.AccountAgents, policy.AccountChannels, policy.AccountTools, policy.AccountPeople,
	}
}

func openBus(cfg nodeConfig, n *node) (*bus, error) {
	most, err := maxStore(cfg.dir)
	if err != nil {
		return nil, err
	}
	seen := newViolations()
	n.seen = seen
	if err := portFree(cfg.port); err != nil {
		return nil, err
	}
	server, err := natsd.Start(natsd.Config{
		StoreDir: cfg.dir.Nats(), Host: "127.0.0.1", Port: cfg.port, MaxStore: most,
		Authenticate: n.who.find,
		OnConnect:    n.joined,
		OnDisconnect: n.left,
		OnViolation:  seen.add,
		Log:          cfg.log,
	})
	if err != nil {
		return nil, err
	}
	b := &bus{server: server, log: cfg.log, conns: map[policy.Account]*nats.Conn{}}
	for _, a := range accounts() {
		if b.conns[a], err = server.Engine(a); err != nil {
			err = fmt.Errorf("connect to account %s: %w", a, err)
			return nil, errors.Join(err, b.close(context.Background()))
		}
	}
	return b, nil
}

// portFree finds a port in use: the server would tell it in its own words, twice.
func portFree(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("port %d of 127.0.0.1 is in use: name another with --port, or none for a free one", port)
	}
	if err != nil {
		return fmt.Errorf("--port %d: %w", port, err)
	}
	return l.Close()
}

// book is the connection that the log uses.
func (b *bus) book() *nats.Conn { return b.conn(natsd.AccountEngine) }

func (b *bus) conn(a policy.Account) *nats.Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conns[a]
}

// restart brings a server that had a write error back, on the same address.
func (b *bus) restart(ctx context.Context) error {
	b.log("warn", "the bus restarts because the book did not answer")
	fresh, err := b.server.Restart(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for a, old := range b.conns {
		if now := fresh[old]; now != nil {
			b.conns[a] = now
			continue
		}
		if b.conns[a], err = b.server.Engine(a); err != nil {
			return err
		}
	}
	return nil
}

// send publishes an answer or a notice. It never blocks: the connections are in
// this process and the server takes what they write.
func (b *bus) send(account policy.Account, subject string, v any) {
	raw, err := json.Marshal(v)
	if err == nil && len(raw) > engine.MaxAnswer {
		raw, err = json.Marshal(engine.Refused{Error: engine.Problem{
			Code: "too_large", Reason: "the answer has more than 768 KiB; ask for less at once",
		}})
	}
	if err == nil {
		err = b.conn(account).Publish(subject, raw)
	}
	if err != nil {
		b.log("warn", "an answer was not sent: "+err.Error())
	}
}

// announce publishes a hint to whoever listens: mostly nobody does, and a message
// costs as much as a part of a decision. Who begins to listen subscribes first and
// then asks the views, which hold what was not said.
func (b *bus) announce(account policy.Account, subject string, v any) {
	if b.server.Heard(account, subject) {
		b.send(account, subject, v)
	}
}

// bind subscribes what the engine takes.
func (b *bus) bind(ctx context.Context, n *node) error {
	agents, channels := b.conn(policy.AccountAgents), b.conn(policy.AccountChannels)
	_, err := agents.Subscribe("intent.*.>", func(m *nats.Msg) {
		n.intake.Agent(intake.Message{Subject: m.Subject, Reply: m.Reply, Data: m.Data})
	})
	if err != nil {
		return fmt.Errorf("take intents: %w", err)
	}
	_, err = channels.Subscribe("channel.*.>", func(m *nats.Msg) {
		n.intake.Channel(intake.Message{Subject: m.Subject, Reply: m.Reply, Data: m.Data})
	})
	if err != nil {
		return fmt.Errorf("take rounds: %w", err)
	}
	if err := b.serve(ctx, n); err != nil {
		return err
	}
	for _, c := range []*nats.Conn{agents, channels, b.conn(policy.AccountPeople)} {
		if err := c.Flush(); err != nil {
			return fmt.Errorf("subscribe: %w", err)
		}
	}
	return nil
}

// serve offers the people's requests as a NATS service, so that nats micro ls
// shows them.
func (b *bus) serve(ctx context.Context, n *node) error {
	service, err := micro.AddService(b.conn(policy.AccountPeople), micro.Config{
		Name: "gatebook", Version: serviceVersion, Description: "views, control and review of a gatebook engine",
		QueueGroupDisabled: true,
	})
	if err != nil {
		return fmt.Errorf("offer the service: %w", err)
	}
	for _, subject := range n.people.Subjects() {
		name := strings.NewReplacer(".", "_", "*", "any").Replace(subject)
		err := service.AddEndpoint(name, micro.ContextHandler(ctx, func(ctx context.Context, r micro.Request) {
			n.people.Handle(ctx, people.Message{Subject: r.Subject(), Reply: r.Reply(), Data: r.Data()})
		}), micro.WithEndpointSubject(subject))
		if err != nil {
			return fmt.Errorf("offer %s: %w", subject, err)
		}
	}
	return nil
}

// cut disconnects keys, after the answers that were sent before.
func (b *bus) cut(keys []events.PublicKey) {
	if len(keys) == 0 {
		return
	}
	for _, a := range accounts() {
		if err := b.conn(a).FlushTimeout(time.Second); err != nil {
			b.log("warn", "flush before a disconnect: "+err.Error())
		}
	}
	for _, key := range keys {
		b.server.Disconnect(key)
	}
}

func (b *bus) close(ctx context.Context) error { return b.server.Shutdown(ctx) }
