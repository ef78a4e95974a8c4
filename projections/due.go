package projections

import (
	"encoding/binary"
	"fmt"

	"gatebook/events"
)

// DueKind is what happens when a [DueRow] is due.
type DueKind byte

// The kinds of due rows.
const (
	DueRound  DueKind = 1 // a round times out
	DueReview DueKind = 2 // a review expires
	DueAsset  DueKind = 3 // the grace of an asset ends
)

// DueRow is something that is to happen at a time.
type DueRow struct {
	At    events.Instant
	Kind  DueKind
	Agent events.AgentID
	// Round, Review or Asset is what it happens to.
	Round  events.RoundID
	Review events.ReviewID
	Asset  events.AssetID
}

// slotBits makes slots of 2^26 µs, about 67 seconds.
//
// The key of a due row holds the slot of its deadline, not the deadline, which
// is in the round's row. Every call moves a deadline; with slots the row itself
// moves at most once in 67 seconds, and the begin of the range does not fill up
// with deleted rows that each look at the clock would have to step over.
const slotBits = 26

func dueSlot(at events.Instant) uint64 { return uint64(max(at, 0)) >> slotBits }

func dueKey(slot uint64, kind DueKind, id string) []byte {
	k := append(make([]byte, 0, 10+len(id)), viewDue)
	k = binary.BigEndian.AppendUint64(k, slot)
	return append(append(k, byte(kind)), id...)
}

// Due lists what is due at or before until, at most limit of it (see
// [PageSize]), by the slot of its deadline. Rows that the caller acts on leave
// the list by the fold of the event that this writes.
func Due(r Reader, until events.Instant, limit int) ([]DueRow, error) {
	limit = PageSize(limit)
	var due []DueRow
	for raw, err := range r.Scan([]byte{viewDue}, dueKey(dueSlot(until)+1, 0, "")) {
		if err != nil {
			return nil, err
		}
		row, err := dueRow(r, raw.Key)
		if err != nil {
			return nil, err
		}
		if row.At > until {
			continue // later in the slot
		}
		if due = append(due, row); len(due) == limit {
			break
		}
	}
	return due, nil
}

func dueRow(r Reader, key []byte) (DueRow, error) {
	const idAt = 10 // view byte, slot, kind
	if len(key) <= idAt {
		return DueRow{}, fmt.Errorf("%w: a due row of an unknown form", ErrStore)
	}
	switch id := string(key[idAt:]); DueKind(key[idAt-1]) {
	case DueRound:
		return dueRound(r, events.RoundID(id))
	case DueReview:
		return dueReview(r, events.ReviewID(id))
	case DueAsset:
		return dueAsset(r, events.AssetID(id))
	}
	return DueRow{}, fmt.Errorf("%w: a due row of an unknown kind", ErrStore)
}

func dueReview(r Reader, id events.ReviewID) (DueRow, error) {
	review, ok, err := ReviewByID(r, id)
	if err == nil && (!ok || review.State != events.ReviewStateOpen) {
		err = fmt.Errorf("%w: a due row of review %s, which is not open", ErrStore, events.Quote(string(id)))
	}
	return DueRow{At: review.Expires, Kind: DueReview, Agent: review.Agent, Review: review.Review}, err
}

func dueAsset(r Reader, id events.AssetID) (DueRow, error) {
	asset, ok, err := AssetByID(r, id)
	if err == nil && (!ok || asset.State != events.AssetStateProvisional) {
		err = fmt.Errorf("%w: a due row of asset %s, which is not provisional", ErrStore, events.Quote(string(id)))
	}
	return DueRow{At: asset.Expires, Kind: DueAsset, Agent: asset.Agent, Asset: asset.Asset}, err
}

func dueRound(r Reader, id events.RoundID) (DueRow, error) {
	round, ok, err := RoundByID(r, id)
	if err != nil {
		return DueRow{}, err
	}
	at, timesOut := round.Deadline()
	if !ok || !timesOut {
		return DueRow{}, fmt.Errorf("%w: a due row of round %s, which does not time out", ErrStore,
			events.Quote(string(id)))
	}
	return DueRow{At: at, Kind: DueRound, Agent: round.Agent, Round: round.Round}, nil
}

// moveDue brings the due row of a round from where it was to where it belongs.
// A zero before is a round that begins.
func (f *fold) moveDue(before, after RoundRow) {
	from, was := before.Deadline()
	to, is := after.Deadline()
	if was && is && dueSlot(from) == dueSlot(to) {
		return
	}
	if was {
		f.drop(dueKey(dueSlot(from), DueRound, string(before.Round)))
	}
	if is {
		f.put(dueKey(dueSlot(to), DueRound, string(after.Round)), []byte{})
	}
}

// JobLast is when a round of the job last began or was missed, and whether one ever
// was.
func JobLast(r Reader, job string) (events.Instant, bool, error) {
	value, err := r.Get(keyOf(viewJob, job))
	if err != nil || value == nil {
		return 0, false, err
	}
	at, err := seqOfValue(value)
	return events.Instant(at), err == nil, err
}

// markJob keeps that the event settles a run of the job.
func (f *fold) markJob(job string) {
	f.put(keyOf(viewJob, job), seqValue(events.Seq(f.rec.Time)))
}
