package natsd

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"gatebook/policy"
)

// TestSlowReader: a client that asks for large answers and reads none does not
// hold up those of another one, and does not cost more than maxPending.
func TestSlowReader(t *testing.T) {
	b := newBus(t)
	slow, quick := b.agent("slow"), b.agent("quick")
	engine := b.inside(policy.AccountAgents)
	answer := bytes.Repeat([]byte("x"), 700<<10)
	_, err := engine.Subscribe("intent.*.>", func(m *nats.Msg) { must(t, m.Respond(answer)) })
	must(t, err)
	must(t, engine.Flush())

	r := b.raw()
	r.connect(map[string]any{"nkey": string(slow.key), "sig": r.sign(slow)})
	if r.until("PONG", "-ERR") != "PONG" {
		t.Fatal("the slow client does not get in")
	}
	r.send("SUB _INBOX_slow.> 1\r\n" + strings.Repeat("PUB intent.slow.call _INBOX_slow.x 0\r\n\r\n", 3*maxPending/len(answer)))

	nc, _ := b.dial(quick)
	begun, longest := time.Now(), time.Duration(0)
	for range 50 {
		asked := time.Now()
		if _, err := nc.Request("intent.quick.call", nil, patience); err != nil {
			t.Fatalf("after %v: %v", time.Since(begun), err)
		}
		longest = max(longest, time.Since(asked))
	}
	if stalls := b.run.ns.NumStalledClients(); stalls > 0 {
		t.Errorf("the engine was stalled %d times", stalls)
	}
	// The slow one itself may be cut, in time; nobody else is.
	if lost := b.run.ns.NumSlowConsumers(); lost > 1 || engine.Stats().Reconnects+nc.Stats().Reconnects > 0 || !engine.IsConnected() || !nc.IsConnected() {
		t.Errorf("%d connections were cut for what waits", lost)
	}
	t.Logf("50 answers in %v, the slowest in %v", time.Since(begun), longest)
}

// TestFloodOfLargeRequests: what many clients send at once may be lost, but does
// not cost the engine its connection, and who does not flood is answered after.
func TestFloodOfLargeRequests(t *testing.T) {
	const clients, each = 4, 30
	b := newBus(t)
	engine := b.inside(policy.AccountAgents)
	var heard atomic.Int64
	_, err := engine.Subscribe("intent.*.>", func(m *nats.Msg) {
		heard.Add(1)
		if m.Reply != "" {
			must(t, m.Respond(nil))
		}
	})
	must(t, err)
	must(t, engine.Flush())
	body := make([]byte, 700<<10)
	sent := make(chan error, clients)
	for i := range clients {
		nc, _ := b.dial(b.agent(fmt.Sprint("flood", i)))
		go func() {
			for range each {
				if err := nc.Publish(fmt.Sprintf("intent.flood%d.call", i), body); err != nil {
					sent <- err
					return
				}
			}
			sent <- nc.Flush()
		}()
	}
	for range clients {
		must(t, wait(t, "the end of the flood", sent))
	}
	nc, _ := b.dial(b.agent("quick"))
	for { // until the flood has passed
		_, err := nc.RequestWithContext(t.Context(), "intent.quick.call", nil)
		if !errors.Is(err, nats.ErrNoResponders) {
			must(t, err)
			break
		}
	}
	if !engine.IsConnected() {
		t.Error("the engine lost its connection")
	}
	t.Logf("%d of %d large requests were heard", heard.Load()-1, clients*each)
}
