package jetlog

import (
	"context"
	"errors"
	"fmt"

	"gatebook/events"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
)

// The requests of the server's API that this package makes; %s is the stream, and
// a consumer's name follows where the subject ends with a dot.
const (
	apiInfo     = "$JS.API.STREAM.INFO.%s"
	apiCreate   = "$JS.API.STREAM.CREATE.%s"
	apiGet      = "$JS.API.STREAM.MSG.GET.%s"
	apiConsumer = "$JS.API.CONSUMER.CREATE.%s."
	apiNext     = "$JS.API.CONSUMER.MSG.NEXT.%s."
	apiForget   = "$JS.API.CONSUMER.DELETE.%s."
)

// The headers that this package writes or reads.
const (
	headerStatus   = "Status"
	headerExpected = "Nats-Expected-Last-Sequence"
	headerID       = "Nats-Msg-Id"
	headerPrevious = "Nats-Expected-Last-Msg-Id"
	headerBatch    = "Nats-Batch-Id"
	headerMember   = "Nats-Batch-Sequence"
	headerCommit   = "Nats-Batch-Commit"
)

// The statuses that come in place of an answer.
const (
	statusNoResponders = "503"
	statusNotFound     = "404"
)

// apiError is an error as the server sends it.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

// errIncomplete is a batch of which a member was refused before: nothing of it was
// stored, and why is not known. Sizes are looked at before anything is sent.
var errIncomplete = fmt.Errorf("%w: a part of the batch was not taken", events.ErrFull)

// refusal is what e means for the book.
func (e apiError) refusal() error {
	means := events.ErrUnavailable
	switch e.ErrCode {
	case 10071, 10164, 10070: // wrong last sequence, with and without number; wrong last id
		means = events.ErrConflict
	case 10023, 10047, 10077, 10002, 10028: // no resources, store failed
		means = events.ErrFull
	case 10176: // a member was not staged, mostly because the disk is full
		means = errIncomplete
	case 10054, 10097, 10199: // message, header, batch too large
		means = events.ErrTooLarge
	case 10060, 10065, 10109, 10174: // another stream, overlapping subjects, sealed, no atomic publish
		means = events.ErrSettings
	case 10059:
		means = errors.Join(events.ErrUnavailable, ErrNoStream)
	}
	return fmt.Errorf("%w (the server says: %s, code %d)", means, events.Quote(e.Description), e.ErrCode)
}

type streamInfo struct {
	Error  *apiError                 `json:"error"`
	Config map[string]jsontext.Value `json:"config"`
	State  struct {
		Messages   uint64     `json:"messages"`
		Bytes      uint64     `json:"bytes"`
		First      events.Seq `json:"first_seq"`
		Last       events.Seq `json:"last_seq"`
		NumDeleted uint64     `json:"num_deleted"`
		Lost       *struct {
			Messages []uint64 `json:"msgs"`
		} `json:"lost"`
	} `json:"state"`
}

func (l *Log) info(ctx context.Context) (streamInfo, error) {
	var info streamInfo
	if err := l.request(ctx, apiInfo, struct{}{}, &info); err != nil {
		return info, err
	}
	if info.Error != nil {
		return info, info.Error.refusal()
	}
	return info, nil
}

// request asks the API once.
func (l *Log) request(ctx context.Context, api string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout, events.ErrUnavailable)
	defer cancel()
	msg, err := l.nc.RequestWithContext(ctx, fmt.Sprintf(api, l.stream), body)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("no answer: %w", context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	return unmarshal(msg, answer)
}

// unmarshal reads an answer of the server. Members that this program does not
// know are a newer server's and are ignored.
func unmarshal(msg *nats.Msg, answer any) error {
	if err := json.Unmarshal(msg.Data, answer); err != nil {
		return fmt.Errorf("%w: an answer that cannot be read: %w", events.ErrUnavailable, err)
	}
	return nil
}
