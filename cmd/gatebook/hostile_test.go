package main

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
	"gatebook/infra/identity"
	"gatebook/policy"
)

// refusals adds up what the book says that a client was refused.
func refusals(t *testing.T, n *node, client, action string) (count int64, recorded int) {
	t.Helper()
	found, _ := all[events.AccessRefused](t, n)
	for _, f := range found {
		if f.Client == client && f.Action == action {
			count += f.Count
			recorded++
		}
	}
	return count, recorded
}

// request is a call of an agent as it goes over the wire.
func request(t *testing.T, r roundFile, key, tool, args string) []byte {
	t.Helper()
	raw, err := json.Marshal(callRequest{Round: r.Round, Handle: r.Handle, Key: key, Tool: tool, Args: jsontext.Value(args)})
	check(t, err)
	return raw
}

// O-E20 and DESIGN 7: whatever a client publishes or subscribes beyond its own
// subjects is refused, counted into one event per client and second, and leaves
// no other trace.
func TestReachingIsRecorded(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice", "bob")
	n := h.open()
	bob := h.begin("bob")
	alice := h.agent("alice").conn
	anna, err := h.app.reader("view")
	check(t, err)
	defer anna.close()

	for _, conn := range []*nats.Conn{alice, anna.conn} {
		conn.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}) // refusals, which are expected
	}
	publish := []string{
		"intent.bob.call", "ev.main.agent.alice.call_decided", "$JS.API.STREAM.DELETE.BOOK_main", "$JS.API.STREAM.PURGE.BOOK_main",
		"$JS.API.INFO", "channel.terminal.round.begin", "view.anna.audit", "control.anna.agent.release", "review.anna.phase",
		"_INBOX_bob.x", "inbox.bob", "audit.bob.ok", "$SYS.REQ.SERVER.PING", "$SRV.PING",
	}
	for _, subject := range publish {
		check(t, alice.PublishRequest(subject, policy.InboxOf("alice")+"x", request(t, bob, "", "demo.none", "{}")))
	}
	subscribe := []string{"intent.>", "_INBOX_bob.>", "inbox.bob", "audit.>", "ev.>", ">", "$JS.API.>"}
	for _, subject := range subscribe {
		_, err := alice.Subscribe(subject, func(m *nats.Msg) { t.Errorf("alice hears %s", m.Subject) })
		check(t, err)
	}
	check(t, alice.Flush())
	// The reading key of an approver does not approve.
	check(t, anna.conn.PublishRequest("review.anna.phase", policy.InboxOf("anna")+"x", []byte(`{"phase":1}`)))
	check(t, anna.conn.Flush())
	waitFor(t, "the refusals are in the book", func() bool {
		p, _ := refusals(t, n, "alice", "publish")
		s, _ := refusals(t, n, "alice", "subscribe")
		a, _ := refusals(t, n, "anna", "publish")
		return p >= int64(len(publish)) && s >= int64(len(subscribe)) && a >= 1
	})
	for action, want := range map[string]int{"publish": len(publish), "subscribe": len(subscribe)} {
		if count, recorded := refusals(t, n, "alice", action); count != int64(want) || recorded > 5 {
			t.Errorf("%s: %d refusals in %d events, want %d in few", action, count, recorded, want)
		}
	}
	if calls, _ := all[events.CallDecided](t, n); len(calls) > 0 {
		t.Errorf("calls were decided: %+v", calls)
	}
	if phases, _ := all[events.PhaseChanged](t, n); len(phases) > 0 {
		t.Errorf("the phase was changed: %+v", phases)
	}
}

// DESIGN 7: a request whose reply would speak with the engine's voice to somebody
// else is dropped and recorded, and nothing arrives.
func TestForgedReplies(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice", "bob")
	n := h.open()
	r := h.begin("alice")
	var heard atomic.Int64
	count := func(*nats.Msg) { heard.Add(1) }
	bob := h.agent("bob").conn
	anna, err := h.app.reader("view")
	check(t, err)
	defer anna.close()
	for conn, subjects := range map[*nats.Conn][]string{bob: {"_INBOX_bob.>", "inbox.bob"}, anna.conn: {"audit.>"}} {
		for _, s := range subjects {
			_, err := conn.Subscribe(s, count)
			check(t, err)
		}
		check(t, conn.Flush())
	}
	replies := []string{
		"_INBOX_bob.x", "inbox.bob", "ev.main.agent.alice.call_decided", "intent.bob.call", "_INBOX.engine", "audit.alice.ok",
		"_INBOX_alicex.y", "channel.terminal.round.end",
	}
	alice := h.agent("alice")
	for _, reply := range replies {
		check(t, alice.conn.PublishRequest("intent.alice.call", reply, request(t, r, "", "demo.none", "{}")))
	}
	channel, err := h.app.channel(terminalChannel)
	check(t, err)
	defer channel.close()
	check(t, channel.conn.PublishRequest("channel.terminal.round.begin", "_INBOX_other.x", []byte("{}")))
	for _, reply := range []string{"audit.alice.ok", "_INBOX_ben.x", "_INBOX_APPROVE_anna.x"} {
		check(t, anna.conn.PublishRequest("control.anna.phase", reply, []byte(`{"phase":1}`)))
	}
	for _, c := range []*nats.Conn{alice.conn, channel.conn, anna.conn} {
		check(t, c.Flush())
	}
	waitFor(t, "every forged reply is in the book", func() bool {
		byAlice, recorded := refusals(t, n, "alice", "reply")
		byChannel, _ := refusals(t, n, string(terminalChannel), "reply")
		byAnna, _ := refusals(t, n, "anna", "reply")
		return byAlice == int64(len(replies)) && recorded < len(replies) && byChannel == 1 && byAnna == 3
	})
	for _, c := range []*nats.Conn{bob, anna.conn} {
		check(t, c.Flush())
	}
	if heard.Load() > 0 {
		t.Errorf("%d messages arrived", heard.Load())
	}
	if calls, _ := all[events.CallDecided](t, n); len(calls) > 0 {
		t.Errorf("calls were decided: %+v", calls)
	}
}

// O-R22 agentguard#1427, mission-control#217: headers say nothing about who asks.
func TestForgedHeaders(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice", "bob")
	n := h.open()
	r := h.begin("alice")
	m := nats.NewMsg("intent.alice.call")
	m.Data = request(t, r, "", "demo.none", "{}")
	for name, value := range map[string]string{
		"Nats-Request-Info": `{"acc":"ENGINE","user":"bob"}`, "X-Agent-Name": "admin", "Nats-Rollup": "all",
		"Nats-Msg-Id": "x", "Nats-Expected-Last-Sequence": "0", "Nats-Expected-Stream": "BOOK_main",
	} {
		m.Header.Set(name, value)
	}
	answer, err := h.agent("alice").conn.RequestMsgWithContext(t.Context(), m)
	check(t, err)
	var a engine.CallAnswer
	check(t, json.Unmarshal(answer.Data, &a))
	calls, of := all[events.CallDecided](t, n)
	if a.Status != events.StatusOK || len(calls) != 1 || of[0] != "alice" || calls[0].Principal.Kind != events.PrincipalUser {
		t.Errorf("answer %+v, recorded %+v of %v", a, calls, of)
	}
	for e := range n.stores.book().Read(t.Context(), 1) {
		if strings.Contains(string(e.Body), "Rollup") || strings.Contains(string(e.Body), "admin") {
			t.Errorf("a header of the caller is in the book: %s", e.Body)
		}
	}
}

// Who is no one's key is nobody, whatever it says, and the attempt is recorded.
func TestForgedLogins(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice", "bob")
	n := h.open()
	load := func(id events.AgentID) *identity.Key {
		k, err := identity.LoadKey(identity.AgentKey(h.dir.Keys(), id))
		check(t, err)
		return k
	}
	alice, bob := load("alice"), load("bob")
	for name, opt := range map[string]nats.Option{
		"O-E20 nobody":           nats.Name("x"),
		"the engine's user name": nats.UserInfo("ENGINE", ""),
		"the system's user name": nats.UserInfo("SYS", ""),
		"bob's key without his signature": nats.Nkey(string(bob.Public()), func([]byte) ([]byte, error) {
			return []byte("x"), nil
		}),
		"bob's key with alice's signature": nats.Nkey(string(bob.Public()), alice.Sign),
	} {
		conn, err := nats.Connect("nats://"+n.bus.server.Addr(), opt, nats.NoReconnect())
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
	waitFor(t, "the logins are in the book", func() bool {
		anybody, _ := refusals(t, n, "127.0.0.1", "connect")
		claimed, _ := refusals(t, n, "claims "+string(bob.Public()), "connect")
		return anybody == 3 && claimed == 2
	})
}

// A released agent is cut although it stays connected, does not come back, and
// its round ends.
func TestReleasedAgentIsCut(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice", "bob")
	n := h.open()
	r := h.begin("alice")
	alice := h.agent("alice")
	if a := alice.mustCall(t, r, "demo.none", "{}"); a.Status != events.StatusOK {
		t.Fatalf("(control) %+v", a)
	}
	anna, err := h.app.reader("control")
	check(t, err)
	defer anna.close()
	var done engine.Done
	check(t, anna.ask(t.Context(), "agent.release", people.ActRequest{Agent: "alice", Reason: "test"}, &done))
	waitFor(t, "the connection is cut", alice.conn.IsClosed)
	if c, err := h.app.agent("alice"); err == nil {
		c.close()
		t.Error("alice came back")
	}
	waitFor(t, "the round has ended", func() bool {
		ends, _ := all[events.RoundEnded](t, n)
		return len(ends) == 1 && ends[0].Round == r.Round && ends[0].End == events.RoundCancelled
	})
	if a := h.agent("bob").mustCall(t, h.begin("bob"), "demo.none", "{}"); a.Status != events.StatusOK {
		t.Errorf("(control) bob: %+v", a)
	}
}

// Who attached to a round and is gone is known from the server, not from what
// clients say: 30 seconds later the round ends as cancelled. Others go on.
func TestGoneProcess(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice", "bob")
	n := h.open()
	attach := func(id events.AgentID, name string) (*client, roundFile) {
		r, c := h.begin(id), h.agent(id, nats.Name(name))
		var a engine.RoundAnswer
		check(t, c.ask(t.Context(), "attach", map[string]string{"round": string(r.Round), "handle": r.Handle, "connection": name}, &a))
		return c, r
	}
	alice, gone := attach("alice", "one")
	attach("bob", "two")
	other := h.agent("alice", nats.Name("another of alice"))
	alice.close()
	waitFor(t, "the round of the process that is gone ends", func() bool {
		h.clock.by.Add(int64(5 * time.Second))
		_, err := other.answer(t.Context(), "outcome", map[string]string{"round": string(gone.Round), "handle": gone.Handle, "key": "x"})
		if err == nil {
			t.Error("there is no such call")
		}
		ends, _ := all[events.RoundEnded](t, n)
		return len(ends) > 0
	})
	ends, of := all[events.RoundEnded](t, n)
	if len(ends) != 1 || of[0] != "alice" || ends[0].Round != gone.Round || ends[0].End != events.RoundCancelled {
		t.Errorf("%+v of %v", ends, of)
	}
}

// Who floods hears busy at once, or that nobody takes more where even the bus is
// full, keeps the order of what was taken, and does not
// hold up others: between two calls of bob at most what was already taken of
// alice is decided.
func TestFlood(t *testing.T) {
	const many, most, taken = 2000, 20000, 1024 + 64 + 2
	h := newHouse(t, t.TempDir(), nil, "alice", "bob")
	n := h.open()
	ra, rb := h.begin("alice"), h.begin("bob")
	alice, bob := h.agent("alice").conn, h.agent("bob")
	var sent, busy, full, other atomic.Int64
	answered := func() int64 { return busy.Load() + full.Load() + other.Load() }
	sent.Store(many)
	_, err := alice.Subscribe("_INBOX_alice.flood.*", func(m *nats.Msg) {
		var no engine.Refused
		switch {
		case m.Header.Get("Status") == "503":
			full.Add(1)
		case json.Unmarshal(m.Data, &no) == nil && no.Error.Code == "busy":
			busy.Add(1)
		default:
			other.Add(1)
		}
	})
	check(t, err)
	// Work for the intake, and a quick refusal for the loop.
	text := quote(strings.Repeat("a token here ", 1000))
	ended := make(chan int)
	go func() {
		calls := 0
		for answered() < sent.Load() || calls < 2 {
			a, err := bob.call(t.Context(), rb, "", "demo.none", "{}")
			if errors.Is(err, nats.ErrNoResponders) {
				continue // the bus is full; a client asks again
			}
			if err != nil || a.Status != events.StatusOK {
				t.Errorf("bob: %+v, %v", a, err)
				break
			}
			calls++
		}
		ended <- calls
	}()
	for i := 0; i < many || busy.Load()+full.Load() == 0 && i < most; i++ { // a fast engine takes more
		sent.Store(max(many, int64(i+1)))
		args := fmt.Sprintf(`{"i":%d,"x":%s}`, i, text)
		check(t, alice.PublishRequest("intent.alice.call", fmt.Sprintf("_INBOX_alice.flood.%d", i), request(t, ra, "", "demo.none", args)))
	}
	calls := <-ended
	waitFor(t, "all are answered", func() bool { return answered() == sent.Load() })
	if busy.Load()+full.Load() == 0 {
		t.Errorf("none of %d was busy; bob had %d calls", sent.Load(), calls)
	}
	waitFor(t, "what was turned away is counted in the book", func() bool {
		found, _ := all[events.IntakeRefused](t, n)
		var sum int64
		for _, f := range found {
			if f.Reason == "busy" {
				sum += f.Count
			}
		}
		return sum == busy.Load()
	})
	ordered(t, n, taken)
	t.Logf("%d busy, %d found the bus full, %d taken; bob had %d calls meanwhile", busy.Load(), full.Load(), other.Load(), calls)
}

// ordered: alice's calls are decided in order, and never more than most of them
// between two calls of bob.
func ordered(t *testing.T, n *node, most int) {
	t.Helper()
	found, of := all[events.CallDecided](t, n)
	last, between := -1, 0
	for i, f := range found {
		if of[i] == "bob" {
			between = 0
			continue
		}
		between++
		var k int
		_, err := fmt.Sscanf(f.Arguments.Text.Text, `{"i":%d`, &k)
		check(t, err)
		if k <= last {
			t.Errorf("request %d was decided after %d", k, last)
		}
		if between > most {
			t.Fatalf("%d calls of alice were decided while bob waited", between)
		}
		last = k
	}
}

// A request above 768 KiB is refused and counted; above 1 MiB it does not even
// leave the client.
func TestLargeRequests(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	n := h.open()
	r := h.begin("alice")
	alice := h.agent("alice")
	write := func(size int) (engine.CallAnswer, error) {
		return alice.call(t.Context(), r, "", "file.write", `{"path":"a.txt","content":`+quote(strings.Repeat("x", size))+`}`)
	}
	var no *problem
	if _, err := write(engine.MaxAnswer); !errors.As(err, &no) || no.Code != "too_large" {
		t.Errorf("768 KiB and more: %v", err)
	}
	if _, err := write(1 << 20); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("1 MiB and more: %v", err)
	}
	if a, err := write(500 << 10); err != nil || a.Status != events.StatusOK {
		t.Errorf("(control) 500 KiB: %+v, %v", a, err)
	}
	waitFor(t, "the refusal is in the book", func() bool {
		found, of := all[events.IntakeRefused](t, n)
		return len(found) == 1 && found[0].Reason == "too_large" && found[0].Count == 1 && of[0] == "alice"
	})
}
