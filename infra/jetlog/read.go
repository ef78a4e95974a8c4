package jetlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"gatebook/events"

	"github.com/nats-io/nats.go"
)

// One request of a read asks for so much. While its records are handed out the
// next request is under way, so a read holds twice that.
const (
	chunkRecords = 512
	chunkBytes   = 1 << 20
)

// errStop ends a read whose caller wants no more.
var errStop = errors.New("stop")

// Read is events.Log's. A batch of which the rest is missing is [events.ErrGap],
// too. The records' ids are empty: they are in the bodies, and events.Decode fills
// them in.
func (l *Log) Read(ctx context.Context, from events.Seq) iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		err := l.read(ctx, max(from, 1), yield)
		if err != nil && !errors.Is(err, errStop) {
			yield(events.Record{}, fmt.Errorf("read stream %s: %w", l.stream, err))
		}
	}
}

func (l *Log) read(ctx context.Context, from events.Seq, yield func(events.Record, error) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := l.info(ctx)
	if err != nil || from > info.State.Last {
		return err
	}
	r := &reader{log: l, inbox: l.nc.NewInbox(), in: make(chan *nats.Msg, chunkRecords+1), next: from, last: info.State.Last}
	sub, err := l.nc.ChanSubscribe(r.inbox, r.in)
	if err != nil {
		return fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	return r.run(ctx, yield)
}

// reader is one read. At most one request is under way.
type reader struct {
	log   *Log
	inbox string
	in    chan *nats.Msg
	next  events.Seq // to be received
	last  events.Seq
	batch openBatch
}

func (r *reader) run(ctx context.Context, yield func(events.Record, error) bool) error {
	if err := r.ask(); err != nil {
		return err
	}
	for more := true; more; {
		chunk, failed := r.collect(ctx)
		more = failed == nil && (r.next <= r.last || r.batch != "")
		if more {
			failed = r.ask()
		}
		for _, record := range chunk {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !yield(record, nil) {
				return errStop
			}
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}

// ask requests what is left up to the last record, and then one by one what is
// left of a batch that was being stored when the read began.
func (r *reader) ask() error {
	n := min(chunkRecords, r.last-min(r.last, r.next-1))
	question := fmt.Sprintf(`{"seq":%d,"batch":%d,"max_bytes":%d}`, r.next, max(n, 1), chunkBytes)
	if err := r.log.nc.PublishRequest(fmt.Sprintf(apiDirect, r.log.stream), r.inbox, []byte(question)); err != nil {
		return fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	return nil
}

// collect receives the answers to one request. With an error come the records
// before it.
func (r *reader) collect(ctx context.Context) ([]events.Record, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.log.timeout, events.ErrUnavailable)
	defer cancel()
	var chunk []events.Record
	for {
		select {
		case <-ctx.Done():
			return chunk, fmt.Errorf("no answer: %w", context.Cause(ctx))
		case msg := <-r.in:
			record, end, err := r.receive(msg)
			if end && err == nil && len(chunk) == 0 {
				err = missing(r.next)
			}
			if end || err != nil {
				return chunk, err
			}
			chunk = append(chunk, record)
		}
	}
}

func (r *reader) receive(msg *nats.Msg) (record events.Record, end bool, err error) {
	switch status := msg.Header.Get(headerStatus); status {
	case "":
		record, err = r.check(msg)
		return record, false, err
	case statusEnd:
		return record, true, nil
	case statusNotFound:
		return record, true, fmt.Errorf("%w%s", missing(r.next), r.batch)
	case statusNoResponders:
		return record, true, fmt.Errorf("%w: %w", events.ErrUnavailable, ErrNoStream)
	default:
		return record, true, fmt.Errorf("%w: status %s", events.ErrUnavailable, events.Quote(status))
	}
}

func (r *reader) check(msg *nats.Msg) (events.Record, error) {
	seq, err := strconv.ParseUint(msg.Header.Get(headerSequence), 10, 64)
	subject := msg.Header.Get(headerSubject)
	switch {
	case err != nil || msg.Header.Get(headerStream) != r.log.stream || !isSubject(subject):
		return events.Record{}, fmt.Errorf("%w: sequence %s of stream %s on %s is not the book's", events.ErrSettings,
			events.Quote(msg.Header.Get(headerSequence)), events.Quote(msg.Header.Get(headerStream)), events.Quote(subject))
	case events.Seq(seq) != r.next:
		return events.Record{}, missing(r.next)
	}
	if err := r.batch.see(msg.Header, r.next); err != nil {
		return events.Record{}, err
	}
	r.next++
	return events.Record{Seq: events.Seq(seq), Subject: subject, Body: msg.Data}, nil
}
