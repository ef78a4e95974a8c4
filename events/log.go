package events

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"strconv"
)

// Record is an event as the log keeps it: where, and exactly which bytes.
type Record struct {
	Seq     Seq // 0 before the append
	ID      EventID
	Subject string
	Body    []byte
}

// Leaf is the Merkle leaf of a record:
//
//	v1|<incarnation>|<seq>|<subject>|<sha256 of the body>
//
// It is known before the append: no server time, no header. The hash over it is
// RFC 6962's (see golang.org/x/mod/sumdb/tlog, RecordHash).
func Leaf(inc Incarnation, r Record) []byte {
	sum := sha256.Sum256(r.Body)
	leaf := make([]byte, 0, 192)
	leaf = append(leaf, "v1|"...)
	leaf = append(leaf, inc...)
	leaf = append(leaf, '|')
	leaf = strconv.AppendUint(leaf, uint64(r.Seq), 10)
	leaf = append(leaf, '|')
	leaf = append(leaf, r.Subject...)
	leaf = append(leaf, '|')
	return hex.AppendEncode(leaf, sum[:])
}

// Log keeps the book. It has one writer; the expected last sequence of every
// append fences off a writer that was replaced.
//
// Implementations: eventstest.MemLog and infra/jetlog. Both pass
// eventstest.TestLog.
type Log interface {
	// Append writes the records of decisions, in order, right after sequence
	// after. The records of one decision stand or fall together.
	//
	// The outcome is one of four:
	//
	//   - all: nil. Every record is durable (fsynced) at after+1, after+2, …
	//   - a prefix or none: an *[AppendError] with Outcome [Prefix] or [None]; the
	//     first Stored records are durable, whole decisions of them, the others
	//     are not and never will be by this call. It wraps [ErrConflict] where
	//     another writer was first, [ErrTooLarge] where a record or a decision
	//     does not fit, [ErrFull] where there is no room.
	//   - in doubt: an *AppendError with Outcome [InDoubt]. Each record may or may
	//     not be durable. The caller MUST NOT append again before it has read
	//     from the log what is there.
	//
	// Append MUST be called from one goroutine at a time. It never retries.
	// A cancelled ctx is an append in doubt unless nothing was sent.
	Append(ctx context.Context, after Seq, decisions [][]Record) error

	// Ahead tells with which decisions the next append, right after sequence
	// after, is going to begin, while the one before it may still be on its way. A
	// log can prepare what does not make it part of the book; it may also do
	// nothing. The next append need not keep to it, and its outcome is as if
	// nothing had been told.
	//
	// Ahead MUST be called from one goroutine at a time, may run beside Append, does
	// not wait, and keeps the decisions, which nobody may change afterwards.
	Ahead(after Seq, decisions [][]Record)

	// Read yields the records from a sequence on, in order, up to the last one
	// at the time of the call, and stops at the first error, which it yields
	// with a zero Record. A missing sequence is [ErrGap]. Safe for concurrent use.
	Read(ctx context.Context, from Seq) iter.Seq2[Record, error]

	// State says what the log holds, read from its leader. Safe for concurrent
	// use.
	State(ctx context.Context) (LogState, error)
}

// LogState is what a log holds.
type LogState struct {
	Incarnation Incarnation
	First, Last Seq // both 0 when empty
	Messages    uint64
	Bytes       uint64
}

// Outcome is what became of an append.
type Outcome int

// The outcomes of a failed append.
const (
	None Outcome = iota
	Prefix
	InDoubt
)

func (o Outcome) String() string {
	return [...]string{"none stored", "a prefix stored", "in doubt"}[o]
}

// AppendError is an append that did not store everything.
type AppendError struct {
	Outcome Outcome
	Stored  int // records that are durable; not meaningful in doubt
	Err     error
}

func (e *AppendError) Error() string { return "append: " + e.Outcome.String() + ": " + e.Err.Error() }

func (e *AppendError) Unwrap() error { return e.Err }

var (
	// ErrConflict: the log does not end where the writer thought.
	ErrConflict = errors.New("the book does not end where this writer expected: another writer was here")
	// ErrFull: no room, or a write error of the disk below.
	ErrFull = errors.New("the book cannot be written: no room or a write error")
	// ErrUnavailable: no answer from the log.
	ErrUnavailable = errors.New("the book does not answer")
	// ErrGap: a sequence is missing.
	ErrGap = errors.New("the book has a gap")
	// ErrSettings: the stream's settings are not the book's.
	ErrSettings = errors.New("the book's stream has other settings")
)
