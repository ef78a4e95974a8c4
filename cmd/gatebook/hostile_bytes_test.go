package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/infra/identity"
	"gatebook/policy"
)

// rawLogin is a client that writes the protocol by hand, after a login with an
// agent's key.
func (h *house) rawLogin(id events.AgentID) net.Conn {
	h.t.Helper()
	key, err := identity.LoadKey(identity.AgentKey(h.dir.Keys(), id))
	check(h.t, err)
	addr, err := h.dir.ReadAddress()
	check(h.t, err)
	conn, err := net.Dial("tcp", addr)
	check(h.t, err)
	h.t.Cleanup(func() { _ = conn.Close() })
	check(h.t, conn.SetDeadline(time.Now().Add(longEnough)))
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	check(h.t, err)
	var info struct {
		Nonce string `json:"nonce"`
	}
	check(h.t, json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info))
	sig, err := key.Sign([]byte(info.Nonce))
	check(h.t, err)
	_, err = fmt.Fprintf(conn, `CONNECT {"verbose":false,"protocol":1,"nkey":%q,"sig":%q}`+"\r\nPING\r\n",
		key.Public(), base64.RawURLEncoding.EncodeToString(sig))
	check(h.t, err)
	for line = ""; !strings.HasPrefix(line, "PONG"); {
		line, err = in.ReadString('\n')
		check(h.t, err)
	}
	return conn
}

// O-R20, DESIGN 7: subjects are bytes. What a client was refused is in the book as
// valid UTF-8 whatever bytes it sent, and the engine goes on.
func TestBytesThatAreNoText(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice", "bob", "carol")
	n := h.open()
	r := h.begin("bob")
	anna, err := h.app.reader("control")
	check(t, err)
	defer anna.close()
	half := strings.Repeat("a", events.MaxName-1)
	for id, line := range map[events.AgentID]string{
		"alice": "PUB \xff\xfe.x 0\r\n\r\nSUB \xff.> 1\r\n",
		"carol": "PUB " + half + "\u00e9 0\r\n\r\nSUB " + half + "\u00e9 1\r\n",
	} {
		_, err := fmt.Fprint(h.rawLogin(id), line)
		check(t, err)
	}
	for _, reply := range []string{"x\xffy", half + "\u00e9"} {
		check(t, anna.conn.PublishRequest("control.anna.phase", reply, []byte(`{"phase":1}`)))
	}
	waitFor(t, "every refusal is in the book", func() bool {
		sum := int64(0)
		for _, who := range []string{"alice", "carol"} {
			p, _ := refusals(t, n, who, "publish")
			s, _ := refusals(t, n, who, "subscribe")
			sum += p + s
		}
		a, _ := refusals(t, n, "anna", "reply")
		return sum == 4 && a == 2
	})
	found, _ := all[events.AccessRefused](t, n)
	for _, f := range found {
		if f.Subject == "" || !utf8.ValidString(f.Subject) || len(f.Subject) > events.MaxName {
			t.Errorf("recorded %+v", f)
		}
	}
	if !slices.ContainsFunc(found, func(f events.AccessRefused) bool { return f.Client == "carol" && f.Subject == half }) {
		t.Errorf("the long subject is not cut before its last rune: %+v", found)
	}
	if a := h.agent("bob").mustCall(t, r, "demo.none", "{}"); a.Status != events.StatusOK {
		t.Errorf("(control) bob: %+v", a)
	}
}

// A subject below the verb's is answered, not left to time out.
func TestDeepVerb(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	h.open()
	var no engine.Refused
	check(t, json.Unmarshal(h.agent("alice").raw(t, "call.more.tokens", "{}"), &no))
	if no.Error.Code != "unknown_verb" {
		t.Errorf("answered %+v", no)
	}
}

// A process that comes back within the grace keeps its round, also where the
// server notices the new connection before the end of the old one.
func TestProcessComesBack(t *testing.T) {
	for name, overlap := range map[string]bool{"after the end": false, "before the end": true} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, t.TempDir(), nil, "alice", "bob")
			n := h.open()
			attach := func(id events.AgentID) (*client, roundFile) {
				r, c := h.begin(id), h.agent(id, nats.Name("one"))
				var a engine.RoundAnswer
				check(t, c.ask(t.Context(), "attach", map[string]string{"round": string(r.Round), "handle": r.Handle, "connection": "one"}, &a))
				return c, r
			}
			first, _ := attach("alice")
			gone, lost := attach("bob")
			gone.close()
			if !overlap {
				first.close()
			}
			h.agent("alice", nats.Name("one"))
			first.close()
			// Bob's, which was lost before, ends: alice's would have ended with it.
			other := h.agent("bob", nats.Name("another"))
			waitFor(t, "the round of who does not come back ends", func() bool {
				h.clock.by.Add(int64(5 * time.Second))
				_, err := other.answer(t.Context(), "outcome", map[string]string{"round": string(lost.Round), "handle": lost.Handle, "key": "x"})
				if err == nil {
					t.Error("there is no such call")
				}
				ends, _ := all[events.RoundEnded](t, n)
				return len(ends) > 0
			})
			h.clock.by.Add(int64(40 * time.Second))
			end, of := all[events.RoundEnded](t, n)
			if len(end) != 1 || of[0] != "bob" {
				t.Errorf("ended: %+v of %v", end, of)
			}
		})
	}
}

// Where a start fails after the loop has begun, run ends the loop before it
// returns: the stores may be closed then.
func TestRunThatFailsEndsTheLoop(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	n := h.node(false)
	err := n.run(t.Context(), func() error { return errNotAllowed })
	select {
	case <-n.engine.Done():
	default:
		t.Error("the loop goes on")
	}
	if err == nil || !strings.Contains(err.Error(), errNotAllowed.Error()) {
		t.Errorf("got %v", err)
	}
	check(t, n.close())
}

// What a start has to say is in what doctor asks for, also where it came late.
func TestWarningsOfTheStart(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	n := h.open()
	n.warn("late")
	anna, err := h.app.reader("view")
	check(t, err)
	defer anna.close()
	var a struct {
		Warnings []string `json:"warnings"`
	}
	check(t, anna.ask(t.Context(), "health", struct{}{}, &a))
	if !slices.Contains(a.Warnings, "late") {
		t.Errorf("told %q", a.Warnings)
	}
}

// A change of what an identity may do is seen, also where it prints alike.
func TestReplacedIdentities(t *testing.T) {
	who := identities{told: make(chan struct{})}
	one := func(publish ...string) map[events.PublicKey]policy.Identity {
		return map[events.PublicKey]policy.Identity{"U": {Key: "U", Publish: publish}}
	}
	who.replace(one("a", "b"))
	for name, c := range map[string]struct {
		now  map[events.PublicKey]policy.Identity
		gone int
	}{"the same": {one("a", "b"), 0}, "prints alike": {one("a b"), 1}} {
		if gone := who.replace(c.now); len(gone) != c.gone {
			t.Errorf("%s: %v", name, gone)
		}
		who.replace(one("a", "b"))
	}
}
