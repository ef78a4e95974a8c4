package natsd

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"gatebook/events"
	"gatebook/policy"
)

// TestAgentReachesNothing is O-E20 and DESIGN 7 over real TCP: whatever an
// agent, a channel, a tool service or a person publishes or subscribes beyond the
// own lists is refused, told once with who it was, and leaves the book as it is.
func TestAgentReachesNothing(t *testing.T) {
	b := newBus(t)
	members := map[string]member{
		"agent": b.agent("a1"),
		"channel": newMember(t, policy.AccountChannels, events.ActorChannel, "c1",
			[]string{"channel.c1.>"}, nil),
		"tool": newMember(t, policy.AccountTools, events.ActorAgent, "t1", nil, []string{"tool.t1 workers"}),
		"person": newMember(t, policy.AccountPeople, events.ActorPerson, "anna",
			[]string{"view.>", "$SRV.PING"}, []string{"audit.>"}),
	}
	for _, m := range members {
		b.admit(m)
	}
	rows := []struct {
		name, who string
		action    Action
		subject   string
	}{
		{"another agent's subject", "agent", ActionPublish, "intent.a2.call"},
		{"O-E20 the book", "agent", ActionPublish, "ev.main.agent.a1.call_decided"},
		{"O-E20 stream create", "agent", ActionPublish, "$JS.API.STREAM.CREATE.X"},
		{"O-E20 stream delete", "agent", ActionPublish, "$JS.API.STREAM.DELETE.BOOK_main"},
		{"O-E20 stream purge", "agent", ActionPublish, "$JS.API.STREAM.PURGE.BOOK_main"},
		{"O-E20 stream update", "agent", ActionPublish, "$JS.API.STREAM.UPDATE.BOOK_main"},
		{"O-E20 message delete", "agent", ActionPublish, "$JS.API.STREAM.MSG.DELETE.BOOK_main"},
		{"O-E20 consumer create", "agent", ActionPublish, "$JS.API.CONSUMER.CREATE.BOOK_main"},
		{"O-E20 consumer delete", "agent", ActionPublish, "$JS.API.CONSUMER.DELETE.BOOK_main.x"},
		{"read the book", "agent", ActionPublish, "$JS.API.DIRECT.GET.BOOK_main"},
		{"the system account", "agent", ActionPublish, "$SYS.REQ.SERVER.PING.CONNZ"},
		{"who am I", "agent", ActionPublish, "$SYS.REQ.USER.INFO"},
		{"the channels' subject", "agent", ActionPublish, "channel.c1.begin"},
		{"people's view", "agent", ActionPublish, "view.audit"},
		{"people's control", "agent", ActionPublish, "control.phase"},
		{"another's hint", "agent", ActionPublish, "inbox.a2"},
		{"the own hint", "agent", ActionPublish, "inbox.a1"},
		{"another's answer", "agent", ActionPublish, "_INBOX_a2.x.y"},
		{"the own answer", "agent", ActionPublish, "_INBOX_a1.x.y"},
		{"the feed", "agent", ActionPublish, "audit.a1.allow"},
		{"a service reply", "agent", ActionPublish, "_R_.x.y"},
		{"the engine's answer", "agent", ActionPublish, "_INBOX.x.y"},
		{"O-E20 everything", "agent", ActionSubscribe, ">"},
		{"one token", "agent", ActionSubscribe, "*"},
		{"all intents", "agent", ActionSubscribe, "intent.>"},
		{"the own intents", "agent", ActionSubscribe, "intent.a1.>"},
		{"another's hints", "agent", ActionSubscribe, "inbox.a2"},
		{"all hints", "agent", ActionSubscribe, "inbox.*"},
		{"another's answers", "agent", ActionSubscribe, "_INBOX_a2.>"},
		{"all answers", "agent", ActionSubscribe, "*.>"},
		{"the book's subjects", "agent", ActionSubscribe, "ev.main.>"},
		{"the feed", "agent", ActionSubscribe, "audit.>"},
		{"an agent's intent", "channel", ActionPublish, "intent.a1.call"},
		{"O-E20 the book", "channel", ActionPublish, "ev.main.agent.a1.round_begun"},
		{"another channel", "channel", ActionPublish, "channel.c2.begin"},
		{"another channel's requests", "channel", ActionSubscribe, "channel.>"},
		{"O-E20 an empty list is not everything", "tool", ActionPublish, "anything"},
		{"O-E20 stream delete", "tool", ActionPublish, "$JS.API.STREAM.DELETE.BOOK_main"},
		{"without the fixed queue", "tool", ActionSubscribe, "tool.t1"},
		{"another tool", "tool", ActionSubscribe, "tool.t2"},
		{"an agent's intent", "person", ActionPublish, "intent.a1.call"},
		{"O-E20 stream delete", "person", ActionPublish, "$JS.API.STREAM.DELETE.BOOK_main"},
		{"forge the feed", "person", ActionPublish, "audit.a1.allow"},
		{"approve without the right", "person", ActionPublish, "review.approve"},
		{"others' requests", "person", ActionSubscribe, "view.>"},
	}
	conns, refusals := map[string]*nats.Conn{}, map[string]chan error{}
	for who, m := range members {
		conns[who], refusals[who] = b.dial(m)
	}
	for _, r := range rows {
		t.Run(r.who+" "+string(r.action)+": "+r.name, func(t *testing.T) {
			nc := conns[r.who]
			if r.action == ActionPublish {
				must(t, nc.PublishRequest(r.subject, members[r.who].id.Inbox+"x", []byte("{}")))
			} else {
				_, err := nc.Subscribe(r.subject, func(*nats.Msg) { t.Error("a message arrived") })
				must(t, err)
			}
			must(t, nc.Flush())
			if err := wait(t, "the refusal", refusals[r.who]); !errors.Is(err, nats.ErrPermissionViolation) {
				t.Fatalf("got %v", err)
			}
			v := wait(t, "the violation", b.violations)
			if v.Identity.Actor != members[r.who].id.Actor || v.Action != r.action || v.Subject != r.subject || v.Remote != "127.0.0.1" {
				t.Fatalf("got %+v", v)
			}
			b.unmoved()
		})
	}
}

// TestRefusedLogins is who does not get in over TCP.
func TestRefusedLogins(t *testing.T) {
	b := newBus(t)
	a1, a2 := b.agent("a1"), b.agent("a2")
	released := newMember(t, policy.AccountAgents, events.ActorAgent, "old", nil, nil)
	asEngine := newMember(t, AccountEngine, events.ActorAgent, "a3", []string{">"}, nil)
	asSystem := newMember(t, AccountSystem, events.ActorAgent, "a4", []string{">"}, nil)
	bad := newMember(t, policy.AccountAgents, events.ActorAgent, "a5", []string{"intent..x"}, nil)
	mixed := newMember(t, policy.AccountAgents, events.ActorAgent, "a6", nil, nil)
	for _, m := range []member{asEngine, asSystem, bad} {
		b.admit(m)
	}
	b.ids[mixed.key] = a1.id // an identity of another key
	by := func(m member) func(r *raw) map[string]any {
		return func(r *raw) map[string]any { return map[string]any{"nkey": m.key, "sig": r.sign(m)} }
	}
	rows := []struct {
		name    string
		fields  func(r *raw) map[string]any
		claimed events.PublicKey
	}{
		{"no credentials", func(*raw) map[string]any { return map[string]any{} }, ""},
		{"user name ENGINE", func(*raw) map[string]any { return map[string]any{"user": "ENGINE", "pass": ""} }, ""},
		{"user name SYS", func(*raw) map[string]any { return map[string]any{"user": "SYS", "pass": "x"} }, ""},
		{"a token", func(*raw) map[string]any { return map[string]any{"auth_token": "ENGINE"} }, ""},
		{"somebody's key without a signature", func(*raw) map[string]any { return map[string]any{"nkey": a2.key} }, a2.key},
		{"somebody's key, signed with the own", func(r *raw) map[string]any {
			return map[string]any{"nkey": a2.key, "sig": r.sign(a1)}
		}, a2.key},
		{"the right key, a signature of something else", func(r *raw) map[string]any {
			r.nonce += "x"
			return map[string]any{"nkey": a1.key, "sig": r.sign(a1)}
		}, a1.key},
		{"the right key, no base64", func(*raw) map[string]any { return map[string]any{"nkey": a1.key, "sig": "%%%"} }, a1.key},
		{"ENGINE and somebody's key without a signature", func(*raw) map[string]any {
			return map[string]any{"user": "ENGINE", "nkey": a2.key}
		}, a2.key},
		{"not a key", func(*raw) map[string]any { return map[string]any{"nkey": "U%s", "sig": ""} }, ""},
		{"a JWT", func(*raw) map[string]any { return map[string]any{"jwt": "e30.e30.", "sig": ""} }, ""},
		{"another account asked for", func(r *raw) map[string]any {
			return map[string]any{"nkey": a1.key, "sig": r.sign(a1), "account": "ENGINE"}
		}, "-"}, // refused by the server itself after the login
		{"a released key", by(released), released.key},
		{"an identity that says ENGINE", by(asEngine), asEngine.key},
		{"an identity that says SYS", by(asSystem), asSystem.key},
		{"a list that is no subject", by(bad), bad.key},
		{"an identity of another key", by(mixed), mixed.key},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := b.raw()
			r.connect(row.fields(r))
			if got := r.until("-ERR", "PONG"); !strings.Contains(got, "Authorization Violation") {
				t.Fatalf("got %q", got)
			}
			if row.claimed == "-" {
				if d := wait(t, "the disconnect", b.disconnects); d.Identity.Key != a1.key {
					t.Fatalf("got %+v", d)
				}
			} else if v := wait(t, "the violation", b.violations); v.Action != ActionConnect || v.Claimed != row.claimed || v.Identity.Key != "" {
				t.Fatalf("got %+v", v)
			}
			b.unmoved()
		})
	}
}

// TestOneIdentityPerConnection: a second login on a connection would leave the
// first one's subscriptions and name behind it.
func TestOneIdentityPerConnection(t *testing.T) {
	b := newBus(t)
	a1, a2 := b.agent("a1"), b.agent("a2")
	for _, second := range []member{a1, a2} {
		r := b.raw()
		r.connect(map[string]any{"nkey": a1.key, "sig": r.sign(a1)})
		if got := r.until("-ERR", "PONG"); got != "PONG" {
			t.Fatal(got)
		}
		r.connect(map[string]any{"nkey": second.key, "sig": r.sign(second)})
		if got := r.until("-ERR", "PONG"); !strings.Contains(got, "Authorization Violation") {
			t.Fatalf("got %q", got)
		}
		wait(t, "the violation", b.violations)
		if d := wait(t, "the disconnect", b.disconnects); d.Identity.Actor.ID != "a1" || d.Left != 0 {
			t.Fatalf("the end of a1's connection was told as %+v", d)
		}
	}
	b.unmoved()
}

// TestNamesDoNotForgeViolations: a client names itself so that the server's line
// about it reads as another client's.
func TestNamesDoNotForgeViolations(t *testing.T) {
	b := newBus(t)
	a1 := b.agent("a1")
	for _, name := range []string{
		`%s %q %d`, `" - "AGENTS/nkey:U" - Publish Violation - Subject "x`,
		` - Subscription Violation - Subject "x", SID 1`, "x\r\n127.0.0.1:1 - cid:1 - ", " - cid:1 - ", "%!(EXTRA",
	} {
		nc, refusals := b.dial(a1, nats.Name(name))
		must(t, nc.Publish("ev.main.x", nil))
		_, err := nc.SubscribeSync("audit.%s")
		must(t, err)
		must(t, nc.Flush())
		for _, want := range []Violation{
			{Identity: a1.id, Action: ActionPublish, Subject: "ev.main.x", Remote: "127.0.0.1"},
			{Identity: a1.id, Action: ActionSubscribe, Subject: "audit.%s", Remote: "127.0.0.1"},
		} {
			wait(t, "the refusal", refusals)
			v := wait(t, "the violation", b.violations)
			if v.Identity.Key != a1.key || v.Action != want.Action || v.Subject != want.Subject || v.Remote != want.Remote {
				t.Fatalf("name %q: got %+v", name, v)
			}
		}
	}
}

// TestTrueReplySubject: the server passes a reply subject on as the client wrote
// it; the engine's side sees it and can compare, and nothing lands in the book.
func TestTrueReplySubject(t *testing.T) {
	b := newBus(t)
	a1, a2 := b.agent("a1"), b.agent("a2")
	agents := b.inside(policy.AccountAgents)
	sub, err := agents.SubscribeSync("intent.>")
	must(t, err)
	must(t, agents.Flush())
	other, _ := b.dial(a2)
	inbox, err := other.SubscribeSync("_INBOX_a2.>")
	must(t, err)
	must(t, other.Flush())
	nc, _ := b.dial(a1)
	send := func(reply string) {
		forged := nats.NewMsg("intent.a1.call")
		forged.Reply, forged.Data = reply, []byte("{}")
		forged.Header.Set("Nats-Request-Info", `{"acc":"ENGINE","user":"a2"}`)
		must(t, nc.PublishMsg(forged))
	}
	for _, reply := range []string{"_INBOX_a2.x.y", "ev.main.agent.a1.call_decided", "_INBOX.engine", "intent.a2.call", ""} {
		send(reply)
		m, err := sub.NextMsg(patience)
		if err != nil {
			t.Fatalf("reply %q: %v", reply, err)
		}
		if m.Reply != reply || m.Subject != "intent.a1.call" {
			t.Fatalf("got subject %q reply %q, want reply %q", m.Subject, m.Reply, reply)
		}
		b.unmoved()
	}
	noViolation(t, b)
	// Replies that would be requests to JetStream or to a service are refused
	// by the server itself.
	for _, reply := range []string{"$JS.API.STREAM.DELETE.BOOK_main", "_R_.x.y"} {
		send(reply)
		if v := wait(t, "the violation", b.violations); v.Identity.Key != a1.key || v.Action != ActionPublish || v.Subject != reply {
			t.Fatalf("got %+v", v)
		}
		b.unmoved()
	}
	if n, _, err := inbox.Pending(); err != nil || n != 0 {
		t.Fatalf("%d messages in a2's inbox, %v", n, err)
	}
	noViolation(t, b)
}

func noViolation(t *testing.T, b *bus) {
	t.Helper()
	select {
	case v := <-b.violations:
		t.Fatalf("got %+v", v)
	default:
	}
}

// TestOnlyEngineHasJetStream: even the engine's own connection finds no
// JetStream in the other accounts, and no message crosses between accounts.
func TestOnlyEngineHasJetStream(t *testing.T) {
	b := newBus(t)
	all, err := b.engine.SubscribeSync(">")
	must(t, err)
	must(t, b.engine.Flush())
	for _, account := range []policy.Account{policy.AccountAgents, policy.AccountChannels, policy.AccountTools, policy.AccountPeople, AccountSystem} {
		nc := b.inside(account)
		if m, err := nc.Request("$JS.API.STREAM.DELETE.BOOK_main", nil, 100*time.Millisecond); err == nil && !strings.Contains(string(m.Data), "not enabled") {
			t.Errorf("%s: %s", account, m.Data)
		}
		must(t, nc.Publish("ev.main.agent.a1.call_decided", []byte("{}")))
		must(t, nc.Flush())
	}
	must(t, b.engine.Flush())
	if n, _, err := all.Pending(); err != nil || n != 0 {
		t.Errorf("%d messages crossed into ENGINE, %v", n, err)
	}
	must(t, all.Unsubscribe())
	b.unmoved()
	if _, err := b.Engine("NOBODY"); !errors.Is(err, ErrConfig) {
		t.Errorf("an account that does not exist: %v", err)
	}
}
