package jetlog

import (
	"cmp"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/events/eventstest"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// startServer runs a real server with a store of its own.
func startServer(t testing.TB, change func(*server.Options)) *server.Server {
	t.Helper()
	opts := &server.Options{
		ServerName: "test", DontListen: true, NoLog: true, NoSigs: true,
		JetStream: true, SyncAlways: true, StoreDir: t.TempDir(), JetStreamMaxStore: 1 << 30,
	}
	if change != nil {
		change(opts)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s
}

func connect(t testing.TB, s nats.InProcessConnProvider) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.ReconnectBufSize(-1), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func openLog(t testing.TB, nc *nats.Conn, cfg Config) *Log {
	t.Helper()
	cfg.Timeout = cmp.Or(cfg.Timeout, 30*time.Second) // the machine may be busy
	l, err := Open(t.Context(), nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func making() Config {
	return Config{Create: true, Incarnation: eventstest.ID[events.Incarnation](7)}
}

// leaky is a server whose answers get lost while lost is set.
type leaky struct {
	*server.Server
	lost atomic.Bool
}

func (s *leaky) InProcessConn() (net.Conn, error) {
	conn, err := s.Server.InProcessConn()
	return &leakyConn{conn, &s.lost}, err
}

type leakyConn struct {
	net.Conn
	lost *atomic.Bool
}

func (c *leakyConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.lost.Load() {
			return n, err
		}
	}
}

// outcome wants an append that failed like this.
func outcome(t *testing.T, err error, want events.Outcome, stored int, is error) {
	t.Helper()
	var failed *events.AppendError
	if !errors.As(err, &failed) || failed.Outcome != want || failed.Stored != stored || !errors.Is(err, is) {
		t.Errorf("append: %v\nwant %s, %d stored, because of: %v", err, want, stored, is)
	}
}

func mustAppend(t testing.TB, l *Log, after events.Seq, decisions [][]events.Record) {
	t.Helper()
	if err := l.Append(t.Context(), after, decisions); err != nil {
		t.Fatal(err)
	}
}

// wantLog wants the book to hold exactly these records.
func wantLog(t *testing.T, l *Log, want ...events.Record) {
	t.Helper()
	var got []string
	for r, err := range l.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(r.Body))
	}
	ok := len(got) == len(want)
	for i := range want {
		ok = ok && got[i] == string(want[i].Body)
	}
	if !ok {
		t.Errorf("the book holds %d records, not the %d wanted:\n%q", len(got), len(want), got)
	}
}

// change sets one setting of the stream behind the book's back.
func change(t *testing.T, nc *nats.Conn, set func(*jetstream.StreamConfig)) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "BOOK_main")
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	set(&cfg)
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}
