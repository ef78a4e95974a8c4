package jetlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gatebook/events"

	"github.com/nats-io/nats.go"
)

// ErrNoStream marks a stream that does not exist and was not to be made. It
// comes with [events.ErrUnavailable].
var ErrNoStream = errors.New("the book's stream does not exist")

// Config says which stream holds the book. The zero value opens an existing
// stream by its usual name.
type Config struct {
	// Stream is the stream's name; "BOOK_main" when empty.
	Stream string
	// Create makes the stream where there is none.
	Create bool
	// Incarnation goes into the metadata of a stream that is made. A stream that
	// exists keeps its own; see [Log.State].
	Incarnation events.Incarnation
	// Timeout is how long one append, and each request of a read, waits for
	// answers; 5 s when zero.
	Timeout time.Duration
}

// Log is the book in one stream. Append and Ahead are each for one goroutine at a
// time; the other methods are safe for concurrent use.
type Log struct {
	nc      *nats.Conn
	stream  string
	inc     events.Incarnation
	timeout time.Duration

	ahead ahead

	// The rest belongs to Append.
	inbox   string // answers arrive at <inbox>.<token>
	answers chan *nats.Msg
	sub     *nats.Subscription
	token   uint64 // of the last message sent
}

// Open checks the stream's settings, or makes the stream where there is none and
// cfg says so. It fails with [events.ErrSettings] and the name of each wrong
// setting, with [ErrNoStream], or with [events.ErrUnavailable].
//
// The connection stays the caller's, who closes it after the Log.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Log, error) {
	l := &Log{
		nc: nc, stream: cmp.Or(cfg.Stream, "BOOK_main"), timeout: cmp.Or(cfg.Timeout, 5*time.Second),
		inbox: nc.NewInbox(), answers: make(chan *nats.Msg, 2*events.MaxBatchEvents),
		ahead: ahead{hints: make(chan hint, 1), done: make(chan struct{})},
	}
	if strings.ContainsAny(l.stream, " .*>/\\\t\r\n") {
		return nil, fmt.Errorf("%w: %s cannot name a stream", events.ErrSettings, events.Quote(l.stream))
	}
	info, err := l.info(ctx)
	if errors.Is(err, ErrNoStream) && cfg.Create {
		if err := l.create(ctx, cfg.Incarnation); err != nil {
			return nil, fmt.Errorf("create stream %s: %w", l.stream, err)
		}
		info, err = l.info(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", l.stream, err)
	}
	if l.inc, err = checkSettings(l.stream, info.Config); err != nil {
		return nil, fmt.Errorf("open stream %s: %w", l.stream, err)
	}
	l.sub, err = nc.ChanSubscribe(l.inbox+".*", l.answers)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w: %w", l.stream, events.ErrUnavailable, err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.ahead.stop = stop
	go l.sendAhead(ctx) // ends with Close
	return l, nil
}

// Close stops listening for answers. No append may follow.
func (l *Log) Close() error {
	l.ahead.stop()
	<-l.ahead.done
	if err := l.sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("close stream %s: %w", l.stream, err)
	}
	return nil
}
