package jetlog

import (
	"context"
	"fmt"

	"gatebook/events"

	"github.com/nats-io/nats.go"
)

// State is events.Log's. Where records are missing it gives both the state and an
// error that wraps [events.ErrGap].
func (l *Log) State(ctx context.Context) (events.LogState, error) {
	info, err := l.info(ctx)
	if err != nil {
		return events.LogState{}, fmt.Errorf("state of stream %s: %w", l.stream, err)
	}
	s := info.State
	st := events.LogState{Incarnation: l.inc, Last: s.Last, Messages: s.Messages, Bytes: s.Bytes}
	if s.Messages > 0 {
		st.First = s.First
	}
	lost := 0
	if s.Lost != nil {
		lost = len(s.Lost.Messages)
	}
	if lost > 0 || s.NumDeleted > 0 || s.Messages != uint64(s.Last) {
		return st, fmt.Errorf("%w: stream %s holds %d records up to sequence %d (deleted: %d, lost: %d)",
			events.ErrGap, l.stream, s.Messages, s.Last, s.NumDeleted, lost)
	}
	return st, nil
}

// Last gives the last n records, fewer where the book holds fewer, read from the
// leader of the stream: what the leader has acknowledged is there. With an error
// come the records before it. A missing record, and a last batch of which the
// rest is missing, is [events.ErrGap].
//
// It is for the writer that is in doubt. A record that is not there may still
// arrive; see the package comment.
func (l *Log) Last(ctx context.Context, n int) ([]events.Record, error) {
	info, err := l.info(ctx)
	if err != nil {
		return nil, fmt.Errorf("last of stream %s: %w", l.stream, err)
	}
	last := info.State.Last
	from := last - min(last, events.Seq(max(n, 0))) + 1
	var out []events.Record
	var batch openBatch
	for seq := from; seq <= last || batch != ""; seq++ {
		r, header, err := l.get(ctx, seq)
		if err != nil {
			return out, fmt.Errorf("last of stream %s: %w%s", l.stream, err, batch)
		}
		if err := batch.see(header, seq); err != nil {
			return out, fmt.Errorf("last of stream %s: %w", l.stream, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// get reads one record from the leader.
func (l *Log) get(ctx context.Context, seq events.Seq) (events.Record, nats.Header, error) {
	var got struct {
		Error   *apiError `json:"error"`
		Message struct {
			Subject string     `json:"subject"`
			Seq     events.Seq `json:"seq"`
			Header  []byte     `json:"hdrs"`
			Data    []byte     `json:"data"`
		} `json:"message"`
	}
	question := struct {
		Seq events.Seq `json:"seq"`
	}{seq}
	if err := l.request(ctx, apiGet, question, &got); err != nil {
		return events.Record{}, nil, err
	}
	if got.Error != nil && got.Error.ErrCode == 10037 {
		return events.Record{}, nil, missing(seq)
	}
	if got.Error != nil {
		return events.Record{}, nil, got.Error.refusal()
	}
	m := got.Message
	if m.Seq != seq || !isSubject(m.Subject) {
		return events.Record{}, nil, fmt.Errorf("%w: sequence %d on %s in place of %d", events.ErrSettings, m.Seq, events.Quote(m.Subject), seq)
	}
	header, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil && len(m.Header) > 0 {
		return events.Record{}, nil, fmt.Errorf("headers of sequence %d: %w", seq, err)
	}
	return events.Record{Seq: seq, Subject: m.Subject, Body: m.Data}, header, nil
}

func missing(seq events.Seq) error {
	return fmt.Errorf("%w: sequence %d is missing", events.ErrGap, seq)
}

// openBatch is the id of the batch that the records read so far end in the middle
// of; empty where they do not. After a failure in the middle of its commit the
// server may hold a part of a batch, which must not be taken for decisions.
type openBatch string

func (b *openBatch) see(header nats.Header, seq events.Seq) error {
	id := openBatch(header.Get(headerBatch))
	if *b != "" && id != *b {
		return fmt.Errorf("%w: the batch that ends at sequence %d is not whole", events.ErrGap, seq-1)
	}
	*b = id
	if header.Get(headerCommit) != "" {
		*b = ""
	}
	return nil
}

func (b openBatch) String() string {
	if b == "" {
		return ""
	}
	return " (the batch before it is not whole)"
}
