package jetlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"gatebook/events"

	"github.com/nats-io/nats.go"
)

// chunkRecords is how many records one request of a read asks for: less than 2 MiB
// of them wait for the connection, of which the server bounds what may, and cuts it
// where more does. The next request follows when they are handed out.
const chunkRecords = 30

// idleReader is how long a reader may rest between two requests. The server takes
// the consumer of a reader that is gone away after that.
const idleReader = 10 * time.Minute

// errStop ends a read whose caller wants no more.
var errStop = errors.New("stop")

// Read is events.Log's. A batch of which the rest is missing is [events.ErrGap],
// too. The records' ids are empty: they are in the bodies, and events.Decode fills
// them in.
//
// The records come through a consumer in the server's memory, which delivers them
// as they are stored. A direct get would add six headers to each, and costs three
// times as much.
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
	last, err := l.end(ctx)
	if err != nil || from > last {
		return err
	}
	r := &reader{
		log: l, inbox: l.nc.NewInbox(), in: make(chan *nats.Msg, chunkRecords+1),
		next: from, last: last, yield: yield, patience: time.NewTimer(l.timeout),
	}
	defer r.patience.Stop()
	r.name = r.inbox[strings.LastIndexByte(r.inbox, '.')+1:]
	sub, err := l.nc.ChanSubscribe(r.inbox, r.in)
	if err != nil {
		return fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	if err := r.open(ctx); err != nil {
		return err
	}
	defer r.close()
	return r.run(ctx)
}

// end is the last sequence. Everything up to it is durable: the server answers
// the get of a record only when no append is under way, while its state and its
// consumers show records that are not fsynced yet, and a batch by halves.
func (l *Log) end(ctx context.Context) (events.Seq, error) {
	info, err := l.info(ctx)
	if err != nil || info.State.Last == 0 {
		return 0, err
	}
	// A gap is found when the read comes to it.
	if _, _, err := l.get(ctx, info.State.Last); err != nil && !errors.Is(err, events.ErrGap) {
		return 0, err
	}
	return info.State.Last, nil
}

// reader is one read. At most one request is under way.
type reader struct {
	log   *Log
	inbox string
	name  string // of the consumer; never used again
	in    chan *nats.Msg
	next  events.Seq // to be received
	last  events.Seq
	batch openBatch
	yield func(events.Record, error) bool

	patience *time.Timer // for one answer
}

// open makes the consumer. Making one that is there already changes nothing.
func (r *reader) open(ctx context.Context) error {
	question := map[string]any{"stream_name": r.log.stream, "config": map[string]any{
		"name":               r.name,
		"deliver_policy":     "by_start_sequence",
		"opt_start_seq":      r.next,
		"ack_policy":         "none",
		"replay_policy":      "instant",
		"inactive_threshold": idleReader.Nanoseconds(),
		"num_replicas":       1,
		"mem_storage":        true,
	}}
	var answer struct {
		Error *apiError `json:"error"`
	}
	if err := r.log.request(ctx, apiConsumer+r.name, question, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error.refusal()
	}
	return nil
}

// close takes the consumer away. Where the request is lost, the server does it
// after a time.
func (r *reader) close() {
	_ = r.log.nc.Publish(fmt.Sprintf(apiForget, r.log.stream)+r.name, nil)
}

func (r *reader) run(ctx context.Context) error {
	for r.next <= r.last {
		n := min(chunkRecords, r.last-r.next+1)
		if err := r.ask(n); err != nil {
			return err
		}
		for range n {
			msg, err := r.receive(ctx)
			if err != nil {
				return err
			}
			if err := r.hand(ctx, events.Record{Seq: r.next, Subject: msg.Subject, Body: msg.Data}, msg.Header); err != nil {
				return err
			}
		}
	}
	// What is left of a batch that was being stored when the read began.
	for r.batch != "" {
		record, header, err := r.log.get(ctx, r.next)
		if err != nil {
			return fmt.Errorf("%w%s", err, r.batch)
		}
		if err := r.hand(ctx, record, header); err != nil {
			return err
		}
	}
	return nil
}

// ask requests the next n records. The server answers with fewer and a status
// where it does not have them.
func (r *reader) ask(n events.Seq) error {
	subject := fmt.Sprintf(apiNext, r.log.stream) + r.name
	question := fmt.Sprintf(`{"batch":%d,"no_wait":true}`, n)
	if err := r.log.nc.PublishRequest(subject, r.inbox, []byte(question)); err != nil {
		return fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	return nil
}

// receive waits for the record of the next sequence.
func (r *reader) receive(ctx context.Context) (*nats.Msg, error) {
	select {
	case msg := <-r.in: // mostly there already, and then no timer is needed
		return msg, r.check(msg)
	default:
	}
	r.patience.Reset(r.log.timeout)
	select {
	case msg := <-r.in:
		return msg, r.check(msg)
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer: %w", context.Cause(ctx))
	case <-r.patience.C:
		return nil, fmt.Errorf("no answer: %w", events.ErrUnavailable)
	}
}

func (r *reader) check(msg *nats.Msg) error {
	switch status := msg.Header.Get(headerStatus); status {
	case "":
	case statusNotFound:
		return fmt.Errorf("%w%s", missing(r.next), r.batch)
	default:
		return fmt.Errorf("%w: status %s", events.ErrUnavailable, events.Quote(status))
	}
	meta, err := msg.Metadata()
	switch {
	case err != nil || meta.Stream != r.log.stream || !isSubject(msg.Subject):
		return fmt.Errorf("%w: %s on %s is not the book's", events.ErrSettings, events.Quote(msg.Reply), events.Quote(msg.Subject))
	case events.Seq(meta.Sequence.Stream) != r.next:
		return missing(r.next)
	}
	return nil
}

// hand gives a record to the caller.
func (r *reader) hand(ctx context.Context, record events.Record, header nats.Header) error {
	if err := r.batch.see(header, record.Seq); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.next++
	if !r.yield(record, nil) {
		return errStop
	}
	return nil
}
