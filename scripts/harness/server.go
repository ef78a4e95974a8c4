package harness

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"gatebook/events"
	"gatebook/infra/natsd"
	"gatebook/policy"
)

const (
	// MaxStore bounds the stores of servers that are not an engine's.
	MaxStore = 1 << 40
	// bound is for what should take no time.
	bound = time.Minute
)

// StartServer is a server as the engine runs it, on a store. Nobody can log in.
func StartServer(store string) (*natsd.Server, *nats.Conn, error) {
	s, err := natsd.Start(natsd.Config{
		StoreDir: store, Host: "127.0.0.1", MaxStore: MaxStore,
		Authenticate: func(events.PublicKey) (policy.Identity, bool) { return policy.Identity{}, false },
		OnConnect:    func(natsd.Connect) {},
		OnDisconnect: func(natsd.Disconnect) {},
		OnViolation:  func(natsd.Violation) {},
		Log:          func(string, string) {},
	})
	if err != nil {
		return nil, nil, err
	}
	conn, err := s.Engine(natsd.AccountEngine)
	if err != nil {
		return nil, nil, errors.Join(err, Shutdown(s))
	}
	return s, conn, nil
}

// Shutdown ends a server.
func Shutdown(s *natsd.Server) error {
	ctx, stop := context.WithTimeout(context.Background(), bound)
	defer stop()
	return s.Shutdown(ctx)
}
