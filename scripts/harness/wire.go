package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"gatebook/infra/identity"
)

// Wire is an agent's connection that speaks the protocol of NATS itself: the load
// shares the machine with the engine, and a client library with its goroutines
// takes a part of it that would be counted against the engine. It belongs to one
// goroutine.
type Wire struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	long []byte // a message that in has no room for
}

// Dial connects, with a key where one is given, and subscribes the subject that answers come to.
func Dial(ctx context.Context, addr string, key *identity.Key, inbox string) (w *Wire, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	w = &Wire{conn: conn, in: bufio.NewReader(conn)}
	if err := conn.SetDeadline(time.Now().Add(AnswerTime)); err != nil {
		return nil, err
	}
	hello, err := w.line()
	if err != nil {
		return nil, err
	}
	var info struct {
		Nonce string `json:"nonce"`
	}
	text, ok := bytes.CutPrefix(hello, []byte("INFO "))
	if !ok {
		return nil, fmt.Errorf("no server of NATS: it says %.60q", hello)
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return nil, fmt.Errorf("the server's INFO: %w", err)
	}
	var login string
	if key != nil {
		sig, err := key.Sign([]byte(info.Nonce))
		if err != nil {
			return nil, err
		}
		login = fmt.Sprintf(",\"nkey\":%q,\"sig\":%q", key.Public(), base64.RawURLEncoding.EncodeToString(sig))
	}
	fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"bench\",\"version\":\"1\"%s}\r\nSUB %s 1\r\nPING\r\n",
		login, inbox)
	for {
		switch line, err := w.line(); {
		case err != nil:
			return nil, err
		case string(line) == "PONG":
			return w, conn.SetDeadline(time.Time{})
		}
	}
}

// line reads a line; an error of the server is an error.
func (w *Wire) line() ([]byte, error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	line = bytes.TrimRight(line, "\r\n")
	if bytes.HasPrefix(line, []byte("-ERR")) {
		return nil, fmt.Errorf("the server says %s", line)
	}
	return line, nil
}

// Ask publishes a request and gives the answer, which is valid until the next.
func (w *Wire) Ask(subject, reply string, body []byte) ([]byte, error) {
	w.out = append(w.out[:0], "PUB "...)
	w.out = append(append(w.out, subject...), ' ')
	w.out = append(append(w.out, reply...), ' ')
	w.out = strconv.AppendInt(w.out, int64(len(body)), 10)
	w.out = append(append(append(w.out, "\r\n"...), body...), "\r\n"...)
	if err := w.conn.SetDeadline(time.Now().Add(AnswerTime)); err != nil {
		return nil, err
	}
	if _, err := w.conn.Write(w.out); err != nil {
		return nil, err
	}
	for {
		line, err := w.line()
		switch {
		case err != nil:
			return nil, err
		case string(line) == "PING":
			if _, err := w.conn.Write([]byte("PONG\r\n")); err != nil {
				return nil, err
			}
		case bytes.HasPrefix(line, []byte("MSG ")):
			return w.message(string(line))
		}
	}
}

// message reads what follows a line "MSG <subject> <sid> <bytes>".
func (w *Wire) message(line string) ([]byte, error) {
	n, err := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1:])
	if err != nil {
		return nil, fmt.Errorf("the server says %s", line)
	}
	if n+2 > w.in.Size() {
		w.long = slices.Grow(w.long[:0], n+2)[:n+2]
		_, err := io.ReadFull(w.in, w.long)
		return w.long[:n], err
	}
	whole, err := w.in.Peek(n + 2)
	if err != nil {
		return nil, err
	}
	_, err = w.in.Discard(n + 2)
	return whole[:n], err
}

// Close ends the connection.
func (w *Wire) Close() error { return w.conn.Close() }
