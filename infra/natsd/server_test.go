package natsd

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"gatebook/events"
	"gatebook/policy"
)

// TestConfig is O-E01 and O-E19: what the server refuses to start with.
func TestConfig(t *testing.T) {
	rows := []struct {
		name   string
		change func(*Config)
	}{
		{"O-E19 nats-io/nats-server#5935 empty store setting", func(c *Config) { c.StoreDir = "" }},
		{"O-E19 nats-io/nats-server#5935 relative store path", func(c *Config) { c.StoreDir = "store" }},
		{"every address", func(c *Config) { c.Host = "0.0.0.0" }},
		{"no address", func(c *Config) { c.Host = "" }},
		{"a name", func(c *Config) { c.Host = "localhost" }},
		{"another loopback address", func(c *Config) { c.Host = "127.0.0.2" }},
		{"no store limit", func(c *Config) { c.MaxStore = 0 }},
		{"a port out of range", func(c *Config) { c.Port = 65536 }},
		{"no authenticator", func(c *Config) { c.Authenticate = nil }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			cfg := (&bus{}).config(t.TempDir())
			row.change(&cfg)
			if s, err := Start(cfg); !errors.Is(err, ErrConfig) {
				t.Fatalf("got %v, %v", s, err)
			}
		})
	}
}

// TestSyncAlways is O-E01 (nats-io/nats-server#7564): the effective
// configuration says sync-always, and a server without it would not start.
func TestSyncAlways(t *testing.T) {
	b := newBus(t)
	got := b.run.ns.JetStreamConfig()
	must(t, checkEffective(got, b.cfg))
	if n := b.run.ns.JetStreamNumAccounts(); n != 1 {
		t.Errorf("%d accounts have JetStream, want ENGINE alone", n)
	}
	for name, spoil := range map[string]func(*server.JetStreamConfig){
		"O-E01 sync-always off": func(c *server.JetStreamConfig) { c.SyncAlways = false },
		"another limit":         func(c *server.JetStreamConfig) { c.MaxStore++ },
		"O-E19 another folder":  func(c *server.JetStreamConfig) { c.StoreDir = "/tmp/nats/jetstream" },
	} {
		changed := *got
		spoil(&changed)
		if err := checkEffective(&changed, b.cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := checkEffective(nil, b.cfg); !errors.Is(err, ErrConfig) {
		t.Errorf("without JetStream: got %v", err)
	}
}

func TestListensOnLoopbackOnly(t *testing.T) {
	b := newBus(t)
	host, port, err := net.SplitHostPort(b.Addr())
	if err != nil || host != "127.0.0.1" || port == "0" {
		t.Fatalf("address %s, %v", b.Addr(), err)
	}
}

// TestDisconnect: a released agent that stays connected is cut, hears no more,
// and does not come back.
func TestDisconnect(t *testing.T) {
	b := newBus(t)
	a1, a2 := b.agent("a1"), b.agent("a2")
	closed := make(chan struct{}, 2)
	onClose := nats.ClosedHandler(func(*nats.Conn) { closed <- struct{}{} })
	b.dial(a1, onClose, nats.Name("window 1"))
	b.dial(a1, onClose)
	stays, _ := b.dial(a2)
	b.release(a1)
	if n := b.Disconnect(a1.key); n != 2 {
		t.Fatalf("cut %d connections, want 2", n)
	}
	wait(t, "the first end", closed)
	wait(t, "the second end", closed)
	first, second := wait(t, "a disconnect", b.disconnects), wait(t, "a disconnect", b.disconnects)
	if first.Identity.Actor.ID != "a1" || second.Identity.Actor.ID != "a1" || first.Left != 1 || second.Left != 0 {
		t.Fatalf("told %+v and %+v", first, second)
	}
	if names := first.Name + second.Name; names != "window 1" {
		t.Fatalf("told the names %q", names)
	}
	if _, err := nats.Connect("nats://"+b.Addr(), nats.Nkey(string(a1.key), a1.kp.Sign)); !errors.Is(err, nats.ErrAuthorization) {
		t.Fatalf("the released agent came back: %v", err)
	}
	must(t, stays.Flush())
	if n := b.Disconnect(a1.key); n != 0 {
		t.Fatalf("cut %d connections again", n)
	}
	if left := len(b.run.logins.all()); left != 1 {
		t.Fatalf("%d logins are entered, want 1", left)
	}
}

// TestConnectionsPerKey: one key cannot take every connection.
func TestConnectionsPerKey(t *testing.T) {
	m := newMember(t, policy.AccountAgents, "agent", "a1", nil, nil)
	b := &bus{ids: map[events.PublicKey]policy.Identity{m.key: m.id},
		connects: make(chan Connect, 2*maxPerKey), disconnects: make(chan Disconnect, 1)}
	cfg := b.config("")
	l, ask := newLogins(cfg), cfg.Authenticate
	for i := range uint64(maxPerKey) {
		if _, ok := l.admit(i, "", m.key, ask); !ok {
			t.Fatalf("connection %d refused", i)
		}
	}
	if _, ok := l.admit(maxPerKey, "", m.key, ask); ok {
		t.Fatal("one too many was admitted")
	}
	l.remove(0, "test")
	if _, ok := l.admit(maxPerKey, "", m.key, ask); !ok {
		t.Fatal("the place that was left is not given again")
	}
}

// TestSweep: where the server's events were lost, ended logins are found.
func TestSweep(t *testing.T) {
	b := newBus(t)
	a1 := b.agent("a1")
	b.dial(a1)
	const never = 1 << 40
	b.run.logins.admit(never, "", a1.key, b.cfg.Authenticate)
	b.run.sweep("lost")
	if d := wait(t, "the disconnect", b.disconnects); d.Reason != "lost" || d.Left != 1 {
		t.Fatalf("told %+v", d)
	}
	if n := len(b.run.logins.all()); n != 1 {
		t.Fatalf("%d logins left", n)
	}
}

// TestRestart: same address, same book, new engine connections, clients told as
// gone and welcome again.
func TestRestart(t *testing.T) {
	b := newBus(t)
	a1 := b.agent("a1")
	b.dial(a1)
	addr, old, closed := b.Addr(), b.engine, b.inside(policy.AccountPeople)
	closed.Close()
	replaced, err := b.Restart(t.Context())
	must(t, err)
	if len(replaced) != 1 || replaced[old] == nil || !old.IsClosed() || !replaced[old].IsConnected() {
		t.Fatalf("replaced %v", replaced)
	}
	if d := wait(t, "the disconnect", b.disconnects); d.Identity.Actor.ID != "a1" {
		t.Fatalf("told %+v", d)
	}
	if b.Addr() != addr {
		t.Fatalf("address %s became %s", addr, b.Addr())
	}
	js, err := jetstream.New(replaced[old])
	must(t, err)
	b.stream, err = js.Stream(t.Context(), "BOOK_main")
	must(t, err)
	b.unmoved()
	nc, _ := b.dial(a1)
	must(t, nc.Flush())
}

func TestShutdown(t *testing.T) {
	b := newBus(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Shutdown(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	must(t, b.Shutdown(t.Context()))
	if !b.engine.IsClosed() {
		t.Error("the engine's connection is open")
	}
	if _, err := b.Engine(AccountEngine); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if n := b.Disconnect("U"); n != 0 {
		t.Errorf("cut %d", n)
	}
	if _, err := net.Dial("tcp", b.Addr()); err == nil {
		t.Error("the server still listens")
	}
	if _, err := b.Restart(t.Context()); err != nil {
		t.Errorf("does not come up again: %v", err)
	}
}

// TestStartFails: a port in use is an error that says so, not an exit.
func TestStartFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	cfg := (&bus{}).config(t.TempDir())
	cfg.Port = l.Addr().(*net.TCPAddr).Port
	if _, err := Start(cfg); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Fatalf("got %v", err)
	}
}

// TestConnect: logins are told with their names, in order with their ends, and an
// end says whether another connection of that name is there.
func TestConnect(t *testing.T) {
	b := newBus(t)
	a1 := b.agent("a1")
	long := strings.Repeat("\u00e9", maxClientName)
	first, _ := b.dial(a1, nats.Name("w"))
	b.dial(a1, nats.Name(long))
	b.dial(a1, nats.Name("w"))
	for _, want := range []string{"w", long[:maxClientName], "w"} {
		if c := wait(t, "the login", b.connects); c.Name != want || c.Identity.Actor.ID != "a1" {
			t.Fatalf("told %+v", c)
		}
	}
	first.Close()
	if d := wait(t, "the end", b.disconnects); d.Name != "w" || d.Left != 2 || d.Same != 1 {
		t.Fatalf("told %+v", d)
	}
}

// TestHeard: a subscription counts from its first answered request on, in its own
// account only, and no longer than it lasts.
func TestHeard(t *testing.T) {
	b := newBus(t)
	const subject = "audit.alice.allow"
	heard := func(a policy.Account, want bool) {
		t.Helper()
		if got := b.Heard(a, subject); got != want {
			t.Errorf("heard in %s: %t, want %t", a, got, want)
		}
	}
	heard(policy.AccountPeople, false)
	nc, err := b.Engine(policy.AccountPeople)
	must(t, err)
	sub, err := nc.SubscribeSync("audit.alice.>")
	must(t, err)
	must(t, nc.Flush())
	heard(policy.AccountPeople, true)
	heard(policy.AccountAgents, false)
	must(t, sub.Unsubscribe())
	must(t, nc.Flush())
	heard(policy.AccountPeople, false)
	_, err = nc.SubscribeSync("audit.alice.allow")
	must(t, err)
	must(t, nc.Flush())
	heard(policy.AccountPeople, true)
	must(t, b.Server.Shutdown(t.Context()))
	heard(policy.AccountPeople, false)
}
