package projections

import (
	"golang.org/x/mod/sumdb/tlog"

	"gatebook/events"
)

// TODO-IMPLEMENT: replace this file by real implementations in the files of the nouns.

// Apply folds rec into every view and moves the checkpoint.
func Apply(tx Tx, rec events.Recorded, record events.Record) error { panic("todo") }

// Checkpoint (state.go): what the views know of the book and of the engine. One row.
type State struct {
	Seq         events.Seq
	Incarnation events.Incarnation
	Writer      events.WriterID // of the last engine.started
	Catalog     events.Digest   // in force
	ApprovedBy  events.PersonID
	Phase       int            // last phase.changed, 0 none
	Time        events.Instant // of the last event
	LastEvent   events.EventID
	ClockHeld   bool // a clock.jumped that was not accepted
	// Offset between wall and engine time after a jump is not kept here.
}

func LoadState(r Reader) (State, error) { panic("todo") }

// --- agents.go
type AgentRow struct {
	Agent        events.AgentID
	Role         string
	Key          events.PublicKey
	Parent       events.AgentID
	Longtime     string
	Released     bool
	Enrolled     events.Instant
	LastActivity events.Instant
	OpenRounds   int64
	Seq          events.Seq // last event about it
}

func AgentByID(r Reader, id events.AgentID) (AgentRow, bool, error)        { panic("todo") }
func Agents(r Reader, after events.AgentID, limit int) ([]AgentRow, error) { panic("todo") }

// --- rounds.go
type RoundRow struct {
	Round                  events.RoundID
	Agent                  events.AgentID
	Conversation           events.ConversationID
	Channel                events.ChannelID
	HandleHash             events.Digest
	Principal              events.Principal
	Requested, Session     string
	Task                   events.Personal
	Model                  events.Model
	Timeout                events.Micros
	Begun, LastCall, Ended events.Instant
	End                    events.RoundEnd // empty while open
	EndReason              string
	Steps                  int64
	OpenCalls              int64
	Seq                    events.Seq
}

func (r RoundRow) Open() bool                                            { return r.End == "" }
func RoundByID(r Reader, id events.RoundID) (RoundRow, bool, error)      { panic("todo") }
func RoundByHandle(r Reader, hash events.Digest) (RoundRow, bool, error) { panic("todo") }

type RoundFilter struct {
	Agent    events.AgentID
	OpenOnly bool
	Before   events.Seq
	Limit    int
}

// Rounds: newest first.
func Rounds(r Reader, f RoundFilter) ([]RoundRow, error) { panic("todo") }

type ConversationRow struct {
	Conversation events.ConversationID
	Agent        events.AgentID
	Channel      events.ChannelID
	Closed       bool
	OpenRound    events.RoundID
	Seq          events.Seq
}

func ConversationByID(r Reader, id events.ConversationID) (ConversationRow, bool, error) {
	panic("todo")
}

// --- audit.go
type AuditRow struct {
	Call               events.CallID
	Round              events.RoundID
	Conversation       events.ConversationID
	Step               int64
	Agent              events.AgentID
	Role               string
	Model              events.Model
	Channel            events.ChannelID
	Principal          events.Principal
	Profile            string
	Tool               events.ToolKey
	Key                string
	MAC                events.MAC
	ArgsPreview        events.Personal // at most events.MaxPreview bytes of Arguments.Text
	ArgsSize           int64
	Verdict            events.Verdict
	Status             events.Status // empty while open
	Layer              events.Layer
	Rule, Reason       string
	Error              string
	Result             events.Result
	Tier               events.Tier
	Duration           events.Micros
	Decided, Completed events.Instant
	Seq, CompletedSeq  events.Seq // of call.decided and call.completed (0 while open or where the decision was final)
	Catalog            events.Digest
}

func CallByID(r Reader, id events.CallID) (AuditRow, bool, error) { panic("todo") }

// CallByKey: the earlier call of the round under the key.
func CallByKey(r Reader, round events.RoundID, key string) (AuditRow, bool, error) { panic("todo") }

type AuditFilter struct {
	Agent        events.AgentID
	Tool         string
	Status       events.Status
	Round        events.RoundID
	Since, Until events.Instant
	After        events.Seq // ascending from here (exclusive), for catch-up; 0 = from the start
	Before       events.Seq // descending below here (exclusive); 0 = from the newest
	Ascending    bool
	Limit        int
	Observable   func(events.AgentID) bool // nil: all
}

// Audit pages over calls by the sequence of their decision.
func Audit(r Reader, f AuditFilter) ([]AuditRow, error) { panic("todo") }

// --- receipts.go
type ReceiptRow struct {
	Round        events.RoundID
	Agent        events.AgentID
	Principal    events.Principal
	Task         events.Personal
	Begun, Ended events.Instant
	End          events.RoundEnd
	Steps        int64
	ByStatus     []Count       // sorted by name
	ByTool       []ToolCount   // sorted by name
	Duration     events.Micros // of tools, summed
	Seq          events.Seq
}
type Count struct {
	Name string
	N    int64
}
type ToolCount struct {
	Tool     string
	N        int64
	Duration events.Micros
}

func ReceiptByRound(r Reader, id events.RoundID) (ReceiptRow, bool, error) { panic("todo") }

type ReceiptFilter struct {
	Agent      events.AgentID
	Before     events.Seq
	Limit      int
	Observable func(events.AgentID) bool
}

func Receipts(r Reader, f ReceiptFilter) ([]ReceiptRow, error) { panic("todo") }

// --- due.go: what expires when. Kinds: open calls (to be closed at recovery), open rounds (timeout).
// (key lifetime of 24 h after the round: rows stay; the lookup ignores keys of rounds that ended over 24 h before: policy's say.)
type DueKind byte

const (
	DueRound DueKind = 1 // a round times out
)

type DueRow struct {
	At    events.Instant
	Kind  DueKind
	Agent events.AgentID
	Round events.RoundID
	Call  events.CallID
}

func Due(r Reader, until events.Instant, limit int) ([]DueRow, error) { panic("todo") }

// OpenCalls: allowed or staged calls without an end, oldest first.
func OpenCalls(r Reader, limit int) ([]AuditRow, error) { panic("todo") }

// --- tree.go
// TreeSize = State.Seq. Hashes are stored with tlog's StoredHashIndex.
func TreeRoot(r Reader, size events.Seq) (tlog.Hash, error) { panic("todo") }
func LeafHash(r Reader, seq events.Seq) (tlog.Hash, error)  { panic("todo") }

// TreeReader is a tlog.HashReader over r, for proofs.
func TreeReader(r Reader) tlog.HashReader { panic("todo") }

// --- rebuild.go
// Fold applies records from log to store from its checkpoint on, in transactions of up to batch events (default 1000);
// progress is called after each commit. Decoding runs on another goroutine. Stops at the first bad event.
// Digest of all rows for comparing two stores byte for byte:
func Fingerprint(r Reader) (events.Digest, int64, error) { panic("todo") }
