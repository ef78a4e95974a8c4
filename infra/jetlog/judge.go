package jetlog

import (
	"cmp"
	"errors"
	"fmt"

	"gatebook/events"

	"github.com/nats-io/nats.go"
)

// answer is what the server said to one message; came is false where it said
// nothing.
type answer struct {
	came    bool
	refused error // not stored
	staged  bool  // a member of a batch that is not committed yet
	odd     error // no answer to this message; it may be stored
	seq     events.Seq
	count   int // of a committed batch
}

func (l *Log) readAnswer(msg *nats.Msg) answer {
	a := answer{came: true}
	if len(msg.Data) == 0 {
		switch msg.Header.Get(headerStatus) {
		case "":
			a.staged = true
		case statusNoResponders:
			a.refused = fmt.Errorf("%w: nobody takes its subjects: %w", events.ErrUnavailable, ErrNoStream)
		default:
			a.odd = fmt.Errorf("%w: status %s", events.ErrUnavailable, events.Quote(msg.Header.Get(headerStatus)))
		}
		return a
	}
	var ack struct {
		Error     *apiError  `json:"error"`
		Stream    string     `json:"stream"`
		Seq       events.Seq `json:"seq"`
		Duplicate bool       `json:"duplicate"`
		Count     int        `json:"count"`
	}
	switch err := unmarshal(msg, &ack); {
	case err != nil:
		a.odd = err
	case ack.Error != nil:
		a.refused = ack.Error.refusal()
	case ack.Stream != l.stream || ack.Duplicate:
		a.odd = fmt.Errorf("%w: stream %s answered (duplicate: %t)", events.ErrSettings, events.Quote(ack.Stream), ack.Duplicate)
	}
	a.seq, a.count = ack.Seq, ack.Count
	return a
}

// judgeSingles wants singles accepted at after+1, after+2, … up to a first refused
// one, and none behind that one. cause says why no more answers came.
func judgeSingles(cause error, answers []answer, after events.Seq) result {
	var r result
	for i, a := range answers {
		want := after + events.Seq(i) + 1
		switch {
		case !a.came:
			return doubt(errors.Join(silence(cause), r.err))
		case a.odd != nil:
			return doubt(a.odd)
		case a.refused != nil:
			r.err = cmp.Or(r.err, a.refused)
		case r.err != nil:
			return doubt(fmt.Errorf("%w; yet a later record was stored at %d", r.err, a.seq))
		case a.staged || a.seq != want:
			return doubt(fmt.Errorf("%w: stored at %d, expected %d", events.ErrConflict, a.seq, want))
		default:
			r.stored++
		}
	}
	return r
}

// judgeBatch goes by the answer to the last of n messages, the one that commits. That
// to the first only gives the reason.
func judgeBatch(cause error, answers []answer, after events.Seq, n int) result {
	var reason error
	for _, a := range answers[:len(answers)-1] {
		reason = cmp.Or(reason, a.refused)
	}
	commit := answers[len(answers)-1]
	switch {
	case !commit.came:
		return doubt(errors.Join(silence(cause), reason))
	case commit.odd != nil:
		return doubt(commit.odd)
	case commit.refused != nil && reason == nil && errors.Is(commit.refused, events.ErrFull) && !errors.Is(commit.refused, errIncomplete):
		// The store may have failed in the middle of the batch.
		return doubt(commit.refused)
	case commit.refused != nil:
		return result{err: cmp.Or(reason, commit.refused)}
	case commit.staged || commit.seq != after+events.Seq(n) || commit.count != n:
		return doubt(fmt.Errorf("%w: a batch of %d stored up to %d, expected %d of them up to %d",
			events.ErrConflict, commit.count, commit.seq, n, after+events.Seq(n)))
	}
	return result{stored: n}
}

func silence(cause error) error { return fmt.Errorf("no answer: %w", cause) }
