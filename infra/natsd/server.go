package natsd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/nats-io/nats.go"

	"gatebook/events"
	"gatebook/policy"
)

// ErrClosed marks the use of a server that was shut down or did not come up
// again.
var ErrClosed = errors.New("the bus is shut down")

// Server is the server inside the process. Its methods are safe for concurrent
// use.
type Server struct {
	cfg  Config
	port int // what Restart listens on

	mu    sync.Mutex
	run   *run // nil after Shutdown and after a Restart that failed
	conns map[*nats.Conn]policy.Account
	last  *run // the last run that was stopped; perhaps still ending
}

// Start brings the server up. It returns when clients can connect; the error
// wraps [ErrConfig] where cfg or what the server makes of it is not safe.
func Start(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	port := cfg.Port
	if port == 0 {
		port = -1 // the server's word for a free port; its 0 is the default 4222
	}
	r, err := startRun(cfg, port)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, run: r, conns: map[*nats.Conn]policy.Account{}}
	if addr, ok := r.ns.Addr().(*net.TCPAddr); ok {
		s.port = addr.Port
	}
	return s, nil
}

// Addr is where clients connect: "127.0.0.1:4222".
func (s *Server) Addr() string { return net.JoinHostPort(s.cfg.Host, fmt.Sprint(s.port)) }

// Engine opens a connection of the engine into an account; it may do anything
// there. The connection does not reconnect by itself: when it breaks, or the
// server stops, it is closed for good and its subscriptions are gone. The server
// closes it at Shutdown and replaces it at Restart; the caller may close it
// before.
func (s *Server) Engine(account policy.Account) (*nats.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return nil, ErrClosed
	}
	nc, err := s.run.connect(account)
	if err != nil {
		return nil, err
	}
	s.prune()
	s.conns[nc] = account
	return nc, nil
}

// Heard says whether anybody subscribes the subject in the account now. A client
// that subscribed before its last answered request counts.
func (s *Server) Heard(account policy.Account, subject string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return false
	}
	a := s.run.auth.accounts[account]
	return a != nil && a.SubscriptionInterest(subject)
}

// prune forgets the connections that are closed.
func (s *Server) prune() {
	for nc := range s.conns {
		if nc.IsClosed() {
			delete(s.conns, nc)
		}
	}
}

// Disconnect cuts every connection of a key and says how many there were. The
// caller MUST make Authenticate refuse the key before, else the client comes
// back at once. What a cut client had already sent may still arrive.
func (s *Server) Disconnect(key events.PublicKey) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return 0
	}
	cut := 0
	for _, cid := range s.run.logins.of(key) {
		if s.run.ns.DisconnectClientByID(cid) == nil {
			cut++
		}
	}
	return cut
}

// Restart stops the server and starts it again on the same address and store:
// after a write error JetStream does not recover otherwise. It gives the new
// connection for each of the engine's that was open; subscriptions are not
// carried over. Logins that ended are told through OnDisconnect before the new
// start. After an error the server is down; Restart may be tried again.
func (s *Server) Restart(ctx context.Context) (map[*nats.Conn]*nats.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		s.prune()
	}
	if err := s.halt(ctx); err != nil {
		return nil, err
	}
	s.last.endAll("restart of the server")
	r, err := startRun(s.cfg, s.port)
	if err != nil {
		return nil, err
	}
	replaced := map[*nats.Conn]*nats.Conn{}
	renewed := map[*nats.Conn]policy.Account{}
	for old, account := range s.conns {
		nc, err := r.connect(account)
		if err != nil {
			r.shutdown() // closes those that were opened
			return nil, err
		}
		replaced[old], renewed[nc] = nc, account
	}
	s.run, s.conns = r, renewed
	return replaced, nil
}

// Shutdown closes the engine's connections and stops the server. When ctx ends
// first it returns its error, and the server goes on ending. A second call only
// waits for that.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halt(ctx)
}

// halt ends the run, if there is one, and waits until the last one has ended. It
// keeps the closed connections listed, for Restart.
func (s *Server) halt(ctx context.Context) error {
	if r := s.run; r != nil {
		s.run, s.last = nil, r
		for nc := range s.conns {
			nc.Close()
		}
		go r.shutdown() // ends with the server
	}
	select {
	case <-s.last.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the bus: %w", ctx.Err())
	}
}
