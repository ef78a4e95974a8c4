package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"gatebook/scripts/harness"
)

// serverWord, alone on the command line with a folder, makes the process a server
// with a stream and nothing else: bench starts itself so.
const serverWord = "yardstick-server"

// remote is the yardstick of what an agent waits for: the same publish as that of
// [disk], by the client of the load, over TCP to a server in another process.
type remote struct {
	cmd   *exec.Cmd
	input io.Closer // the server ends with it
	conn  *harness.Wire
}

// serveYardstick is the process of the server: it prints its address and ends when
// in does.
func serveYardstick(store string, in io.Reader, out io.Writer) (err error) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: store, JetStreamMaxStore: harness.MaxStore, SyncAlways: true,
	})
	if err != nil {
		return err
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(bound) {
		return errors.New("the yardstick's server does not come up")
	}
	conn, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := makeYardstick(conn); err != nil {
		return err
	}
	fmt.Fprintln(out, s.Addr())
	_, err = io.Copy(io.Discard, in)
	return err
}

// makeYardstick makes the stream of a yardstick.
func makeYardstick(conn *nats.Conn) error {
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), bound)
	defer stop()
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "YARDSTICK", Subjects: []string{yardstickSubject}, Storage: jetstream.FileStorage, Compression: jetstream.S2Compression,
	})
	return err
}

func openRemote(ctx context.Context, dir string) (r *remote, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r = &remote{cmd: exec.CommandContext(ctx, self, serverWord, filepath.Join(dir, "yardstick-tcp"))}
	r.cmd.Stderr = os.Stderr
	in, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r.input = in
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the yardstick's server: %w", err)
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		r.conn, err = harness.Dial(ctx, strings.TrimSpace(addr), nil, yardstickSubject+".answer")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reach the yardstick's server: %w", err), r.close())
	}
	return r, nil
}

// publish gives the median of publishes, one after the other for a time, in
// microseconds.
func (r *remote) publish(window time.Duration) (int64, error) {
	body := make([]byte, bodySize)
	var took []time.Duration
	for began := time.Now(); time.Since(began) < window || len(took) == 0; {
		sent := time.Now()
		answer, err := r.conn.Ask(yardstickSubject, yardstickSubject+".answer", body)
		if err == nil && !bytes.Contains(answer, []byte(`"seq":`)) {
			err = fmt.Errorf("it answers %s", answer)
		}
		if err != nil {
			return 0, fmt.Errorf("one fsynced publish over TCP: %w", err)
		}
		took = append(took, time.Since(sent))
	}
	return micros(harness.Quantile(took, 50)), nil
}

func (r *remote) close() (err error) {
	if r.conn != nil {
		err = r.conn.Close()
	}
	return errors.Join(err, r.input.Close(), r.cmd.Wait())
}
