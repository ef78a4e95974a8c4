package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"gatebook/events"
	"gatebook/infra/natsd"
	"gatebook/policy"
)

const (
	// bodySize is that of a usual event, in bytes.
	bodySize = 700
	// yardstickSubject is where the publishes of a yardstick go.
	yardstickSubject = "yardstick"
	// maxStore bounds the stores of the bench's own server.
	maxStore = 1 << 40
	// bound is for what should take no time.
	bound = time.Minute
)

// disk gives the yardstick of everything durable: one publish that JetStream
// acknowledges after its fsync, on the disk of the data folder.
type disk struct {
	server *natsd.Server
	stream jetstream.JetStream
}

// startServer is a server as the engine runs it, on a store. Nobody can log in.
func startServer(store string) (*natsd.Server, *nats.Conn, error) {
	s, err := natsd.Start(natsd.Config{
		StoreDir: store, Host: "127.0.0.1", MaxStore: maxStore,
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
		return nil, nil, errors.Join(err, shutdown(s))
	}
	return s, conn, nil
}

func shutdown(s *natsd.Server) error {
	ctx, stop := context.WithTimeout(context.Background(), bound)
	defer stop()
	return s.Shutdown(ctx)
}

func openDisk(dir string) (*disk, error) {
	store := filepath.Join(dir, "yardstick")
	if err := os.Mkdir(store, 0o700); err != nil {
		return nil, err
	}
	s, conn, err := startServer(store)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err == nil {
		err = makeYardstick(conn)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the yardstick's stream: %w", err), shutdown(s))
	}
	return &disk{s, js}, nil
}

// publish gives the median of publishes, one after the other for a time, in
// microseconds.
func (d *disk) publish(ctx context.Context, window time.Duration) (int64, error) {
	ctx, stop := context.WithTimeout(ctx, bound)
	defer stop()
	body := make([]byte, bodySize)
	var took []time.Duration
	for began := time.Now(); time.Since(began) < window || len(took) == 0; {
		sent := time.Now()
		if _, err := d.stream.Publish(ctx, yardstickSubject, body); err != nil {
			return 0, fmt.Errorf("one fsynced publish: %w", err)
		}
		took = append(took, time.Since(sent))
	}
	return micros(quantile(took, 50)), nil
}

func (d *disk) close() {
	_ = shutdown(d.server) // what it holds is thrown away
}
