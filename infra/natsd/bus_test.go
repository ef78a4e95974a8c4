package natsd

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"

	"gatebook/events"
	"gatebook/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come. It is no bound of the
// code: the machine may have much else to do.
const patience = 30 * time.Second

// bus is a server with a book of one event and the identities of the test.
type bus struct {
	*Server
	t           *testing.T
	violations  chan Violation
	connects    chan Connect
	disconnects chan Disconnect
	engine      *nats.Conn // ENGINE
	stream      jetstream.Stream

	mu  sync.Mutex
	ids map[events.PublicKey]policy.Identity
}

func (b *bus) config(dir string) Config {
	return Config{
		StoreDir: dir, Host: "127.0.0.1", MaxStore: 64 << 20,
		Authenticate: func(k events.PublicKey) (policy.Identity, bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			id, ok := b.ids[k]
			return id, ok
		},
		OnConnect:    func(c Connect) { b.connects <- c },
		OnDisconnect: func(d Disconnect) { b.disconnects <- d },
		OnViolation:  func(v Violation) { b.violations <- v },
		Log:          func(string, string) {},
	}
}

func newBus(t *testing.T) *bus {
	t.Helper()
	b := &bus{t: t, ids: map[events.PublicKey]policy.Identity{},
		violations: make(chan Violation, 1000), connects: make(chan Connect, 1000), disconnects: make(chan Disconnect, 1000)}
	s, err := Start(b.config(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	b.Server = s
	t.Cleanup(func() { // a test context is already cancelled in clean-ups
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		must(t, s.Shutdown(ctx))
	})
	b.engine = b.inside(AccountEngine)
	b.book()
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bus) inside(account policy.Account) *nats.Conn {
	b.t.Helper()
	nc, err := b.Engine(account)
	must(b.t, err)
	return nc
}

// book makes the stream and one event in it.
func (b *bus) book() {
	js, err := jetstream.New(b.engine)
	must(b.t, err)
	b.stream, err = js.CreateStream(b.t.Context(), jetstream.StreamConfig{
		Name: "BOOK_main", Subjects: []string{events.SubjectPattern}, DenyDelete: true, DenyPurge: true, AllowDirect: true})
	must(b.t, err)
	_, err = js.Publish(b.t.Context(), "ev.main.engine._.engine_started", []byte("{}"))
	must(b.t, err)
}

// unmoved asserts that the book holds its one event, in its own shape.
func (b *bus) unmoved() {
	b.t.Helper()
	info, err := b.stream.Info(b.t.Context())
	must(b.t, err)
	if info.State.LastSeq != 1 || info.State.Msgs != 1 || info.State.Consumers != 0 || len(info.Config.Subjects) != 1 {
		b.t.Fatalf("the book moved: %+v", info.State)
	}
}

// member is a party with a key.
type member struct {
	kp  nkeys.KeyPair
	key events.PublicKey
	id  policy.Identity
}

func newMember(t *testing.T, account policy.Account, kind events.ActorKind, name string, publish, subscribe []string) member {
	kp, err := nkeys.CreateUser()
	must(t, err)
	pub, err := kp.PublicKey()
	must(t, err)
	inbox := "_INBOX_" + name
	return member{kp: kp, key: events.PublicKey(pub), id: policy.Identity{
		Key: events.PublicKey(pub), Account: account, Actor: events.Actor{Kind: kind, ID: name},
		Publish: publish, Subscribe: append(subscribe, inbox+".>"), Inbox: inbox + "."}}
}

func (b *bus) agent(name string) member {
	m := newMember(b.t, policy.AccountAgents, events.ActorAgent, name,
		[]string{"intent." + name + ".>"}, []string{"inbox." + name})
	b.admit(m)
	return m
}

func (b *bus) admit(m member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ids[m.key] = m.id
}

func (b *bus) release(m member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ids, m.key)
}

// dial connects m over TCP; refusals of the server arrive in the channel.
func (b *bus) dial(m member, opts ...nats.Option) (*nats.Conn, chan error) {
	b.t.Helper()
	refusals := make(chan error, 16)
	all := append([]nats.Option{
		nats.Nkey(string(m.key), m.kp.Sign), nats.NoReconnect(), nats.CustomInboxPrefix(strings.TrimSuffix(m.id.Inbox, ".")),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refusals <- err }),
	}, opts...)
	nc, err := nats.Connect("nats://"+b.Addr(), all...)
	must(b.t, err)
	b.t.Cleanup(nc.Close)
	return nc, refusals
}

func wait[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// raw speaks the protocol by hand, for clients that do not behave.
type raw struct {
	t     *testing.T
	conn  net.Conn
	in    *bufio.Reader
	nonce string
}

func (b *bus) raw() *raw {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.Addr())
	must(b.t, err)
	b.t.Cleanup(func() { conn.Close() })
	must(b.t, conn.SetDeadline(time.Now().Add(patience)))
	r := &raw{t: b.t, conn: conn, in: bufio.NewReader(conn)}
	line, err := r.in.ReadString('\n')
	must(b.t, err)
	var info struct {
		Nonce string `json:"nonce"`
	}
	must(b.t, json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info))
	r.nonce = info.Nonce
	return r
}

func (r *raw) connect(fields map[string]any) {
	fields["protocol"], fields["verbose"], fields["headers"] = 1, false, true
	text, err := json.Marshal(fields)
	must(r.t, err)
	r.send("CONNECT " + string(text) + "\r\nPING\r\n")
}

func (r *raw) send(s string) {
	_, err := fmt.Fprint(r.conn, s)
	must(r.t, err)
}

// until reads lines up to the first one with a prefix; "" where the connection
// ended before.
func (r *raw) until(prefixes ...string) string {
	for {
		line, err := r.in.ReadString('\n')
		if err != nil {
			return ""
		}
		for _, p := range prefixes {
			if strings.HasPrefix(line, p) {
				return strings.TrimSpace(line)
			}
		}
	}
}

func (r *raw) sign(m member) string {
	sig, err := m.kp.Sign([]byte(r.nonce))
	must(r.t, err)
	return base64.RawURLEncoding.EncodeToString(sig)
}
