package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"gatebook/infra/natsd"
	"gatebook/scripts/harness"
)

const (
	// bodySize is that of a usual event, in bytes.
	bodySize = 700
	// yardstickSubject is where the publishes of a yardstick go.
	yardstickSubject = "yardstick"
	// bound is for what should take no time.
	bound = time.Minute
)

// disk gives the yardstick of everything durable: one publish that JetStream
// acknowledges after its fsync, on the disk of the data folder.
type disk struct {
	server *natsd.Server
	stream jetstream.JetStream
}

func openDisk(dir string) (*disk, error) {
	store := filepath.Join(dir, "yardstick")
	if err := os.Mkdir(store, 0o700); err != nil {
		return nil, err
	}
	s, conn, err := harness.StartServer(store)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err == nil {
		err = makeYardstick(conn)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the yardstick's stream: %w", err), harness.Shutdown(s))
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
	return micros(harness.Quantile(took, 50)), nil
}

func (d *disk) close() {
	_ = harness.Shutdown(d.server) // what it holds is thrown away
}
