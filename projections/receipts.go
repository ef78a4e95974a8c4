package projections

import (
	"cmp"
	"slices"

	"gatebook/events"
)

// ReceiptRow is the account of one round. A call counts once, by its final
// status; Steps less the sum of ByStatus are still open.
type ReceiptRow struct {
	Round        events.RoundID
	Agent        events.AgentID
	Principal    events.Principal
	Task         events.Personal
	Begun, Ended events.Instant
	End          events.RoundEnd // empty while the round is open
	Steps        int64
	Waiting      int64         // steps that wait for a person
	ByStatus     []Count       // sorted by name
	ByTool       []ToolCount   // sorted by name
	Duration     events.Micros // of ended calls, summed
	Usage        []UsageSum    // sorted by model and currency; they name no agent
	Seq          events.Seq    // of round.begun; the cursor of lists
}

// Count is how many there are of a name: calls that ended with a status, or of a
// tool.
type Count struct {
	_    struct{} `cbor:",toarray"`
	Name string
	N    int64
}

// ToolCount is how many calls of a tool ended, and how long they took together.
type ToolCount struct {
	_        struct{} `cbor:",toarray"`
	Tool     string   // "owner/name", or [Other]
	N        int64
	Duration events.Micros
}

// MaxReceiptTools bounds the tools that a receipt names: refused calls name tools as
// they like. The calls of all further ones are [Other].
const MaxReceiptTools = 100

// tally is what a receipt has beside the round's row.
type tally struct {
	_        struct{} `cbor:",toarray"`
	ByStatus []Count
	ByTool   []ToolCount
	Duration events.Micros
	Usage    []UsageSum
}

// ReceiptByRound gives the receipt of a round, open or ended.
func ReceiptByRound(r Reader, id events.RoundID) (ReceiptRow, bool, error) {
	round, ok, err := RoundByID(r, id)
	if err != nil || !ok {
		return ReceiptRow{}, false, err
	}
	receipt, err := receiptOf(r, round)
	return receipt, err == nil, err
}

func receiptOf(r Reader, round RoundRow) (ReceiptRow, error) {
	t, _, err := loadRow[tally](r, keyOf(viewReceipt, string(round.Round)))
	return ReceiptRow{
		Round: round.Round, Agent: round.Agent, Principal: round.Principal, Task: round.Task,
		Begun: round.Begun, Ended: round.Ended, End: round.End, Steps: round.Steps, Waiting: round.Staged,
		ByStatus: t.ByStatus, ByTool: t.ByTool, Duration: t.Duration, Usage: t.Usage, Seq: round.Seq,
	}, err
}

// Messages is how many messages of models the round has reported.
func (r ReceiptRow) Messages() int64 {
	n := int64(0)
	for _, s := range r.Usage {
		n += s.Messages
	}
	return n
}

// ReceiptFilter says which receipts to list. Its zero value lists all, newest
// first.
type ReceiptFilter struct {
	Agent      events.AgentID
	Before     events.Seq                // begun below this sequence; 0: from the newest
	Limit      int                       // see [PageSize]
	Observable func(events.AgentID) bool // nil: all
}

// ReceiptPage is a page of receipts, newest first.
type ReceiptPage struct {
	Rows []ReceiptRow
	Next events.Seq // Before of the next page; 0: there is none
	AsOf events.Seq // the checkpoint that the page is true at
}

// Receipts lists receipts as [Rounds] lists their rounds.
func Receipts(r Reader, f ReceiptFilter) (ReceiptPage, error) {
	rounds, err := Rounds(r, RoundFilter{Agent: f.Agent, Before: f.Before, Limit: f.Limit, Observable: f.Observable})
	if err != nil {
		return ReceiptPage{}, err
	}
	page := ReceiptPage{Next: rounds.Next, AsOf: rounds.AsOf}
	for _, round := range rounds.Rows {
		receipt, err := receiptOf(r, round)
		if err != nil {
			return ReceiptPage{}, err
		}
		page.Rows = append(page.Rows, receipt)
	}
	return page, nil
}

// tally counts a call that has ended.
func (f *fold) tally(call AuditRow) error {
	key := keyOf(viewReceipt, string(call.Round))
	t, _, err := loadRow[tally](f.tx, key)
	if err != nil {
		return err
	}
	t.ByStatus, t.ByTool = slices.Clone(t.ByStatus), slices.Clone(t.ByTool) // others may remember them
	t.Duration += call.Duration
	t.ByStatus = addCount(t.ByStatus, string(call.Status), 1)
	t.countTool(toolName(call.Tool), call.Duration)
	f.set(key, t)
	return nil
}

// findCount looks for a name in counts that are sorted by it.
func findCount(counts []Count, name string) (int, bool) {
	return slices.BinarySearchFunc(counts, name, func(c Count, name string) int { return cmp.Compare(c.Name, name) })
}

// addCount changes counts in place.
func addCount(counts []Count, name string, n int64) []Count {
	at, found := findCount(counts, name)
	if !found {
		counts = slices.Insert(counts, at, Count{Name: name})
	}
	counts[at].N += n
	return counts
}

func (t *tally) countTool(tool string, duration events.Micros) {
	at, found := t.findTool(tool)
	if !found && len(t.ByTool) >= MaxReceiptTools {
		tool = Other
		at, found = t.findTool(tool)
	}
	if !found {
		t.ByTool = slices.Insert(t.ByTool, at, ToolCount{Tool: tool})
	}
	t.ByTool[at].N++
	t.ByTool[at].Duration += duration
}

func (t *tally) findTool(tool string) (int, bool) {
	return slices.BinarySearchFunc(t.ByTool, tool, func(c ToolCount, name string) int { return cmp.Compare(c.Tool, name) })
}
