package projections

import (
	"fmt"

	"gatebook/events"
)

// The kinds of alerts that the fold makes of events. Others have the kind that their
// alert.raised says.
const (
	AlertAssetBlocked     = "asset_blocked"     // a call was refused because of its asset
	AlertAssetProvisional = "asset_provisional" // a tool that nobody decided about ran first
	AlertAssetCreated     = "asset_created"     // a version is on record
	AlertReviewWaits      = "review_waits"      // calls of an agent wait for a person
)

// AlertWindow is how long repeats of an alert are counted into it: 10 minutes.
const AlertWindow events.Micros = 600_000_000

// AlertRow is something that people are told, with the repeats of its window.
type AlertRow struct {
	_    struct{}       `cbor:",toarray"`
	ID   events.EventID // of its first event
	Kind string
	Of   string // an asset, an agent, or what its alert.raised says
	// Agent, Name, Tier and the rest are those of the first event, as far as it has them.
	Agent    events.AgentID
	Name     string // of a tool or an asset
	Tier     events.Tier
	Version  events.Digest
	Commit   string
	Document string
	Reason   string
	Count    int64
	First    events.Instant
	Last     events.Instant
	Seq      events.Seq // of its first event
}

// Over says that no repeat is counted into the alert any more.
func (r AlertRow) Over(now events.Instant) bool { return now >= r.First+events.Instant(AlertWindow) }

// Alerts lists the alerts above a sequence, in order, at most limit of them (see
// [PageSize]).
func Alerts(r Reader, after events.Seq, limit int) ([]AlertRow, error) {
	l := list{prefixes: [][]byte{{viewAlert}}, after: after, ascending: true, limit: limit, visits: MaxPage}
	rows, _, err := page(r, l, func(seq events.Seq, _ []byte) (AlertRow, bool, error) {
		row, ok, err := alertAt(r, seq)
		return row, ok, err
	})
	return rows, err
}

// AlertsSince is the sequence below the first alert that began at or after a time, seen
// from the newest; it looks at no more than [MaxVisits] of them.
func AlertsSince(r Reader, since events.Instant) (events.Seq, error) {
	visits := 0
	for raw, err := range r.ScanBack([]byte{viewAlert}, []byte{viewAlert + 1}) {
		if err != nil {
			return 0, err
		}
		row, err := decoded[AlertRow](raw.Value)
		if visits++; err != nil || row.First < since || visits > MaxVisits {
			return row.Seq, err
		}
	}
	return 0, nil
}

// AlertLast finds the last alert of a kind about something.
func AlertLast(r Reader, kind, of string) (AlertRow, bool, error) {
	value, err := r.Get(alertLastKey(kind, of))
	if err != nil || value == nil {
		return AlertRow{}, false, err
	}
	seq, err := seqOfValue(value)
	if err != nil {
		return AlertRow{}, false, err
	}
	row, ok, err := alertAt(r, seq)
	if err == nil && !ok {
		err = fmt.Errorf("%w: alert %d is the last of its kind and has no row", ErrStore, seq)
	}
	return row, ok, err
}

// AlertTold says whether a destination has got a part of an alert, or it was given up.
func AlertTold(r Reader, to string, alert events.Seq, part int) (bool, error) {
	value, err := r.Get(alertToldKey(to, alert, part))
	return value != nil, err
}

func alertAt(r Reader, seq events.Seq) (AlertRow, bool, error) {
	return loadRow[AlertRow](r, seqKey(viewAlert, seq))
}

func alertLastKey(kind, of string) []byte { return append(listKey(viewAlertLast, kind), of...) }

func alertToldKey(to string, alert events.Seq, part int) []byte {
	return append(withSeq(listKey(viewAlertTold, to), alert), byte(min(max(part, 0), 255)))
}

// alert counts the event into the alert of its kind about the same, or begins one.
func (f *fold) alert(row AlertRow) error {
	last, found, err := AlertLast(f.tx, row.Kind, row.Of)
	if err != nil {
		return err
	}
	if found && !last.Over(f.rec.Time) {
		last.Count++
		last.Last = f.rec.Time
		f.set(seqKey(viewAlert, last.Seq), last)
		return nil
	}
	row.ID, row.Agent, row.Seq = f.rec.ID, f.rec.Agent, f.rec.Seq
	row.Count, row.First, row.Last = 1, f.rec.Time, f.rec.Time
	f.set(seqKey(viewAlert, row.Seq), row)
	f.put(alertLastKey(row.Kind, row.Of), seqValue(row.Seq))
	f.put(keyOf(viewAlertID, string(row.ID)), seqValue(row.Seq))
	return nil
}

func (f *fold) alertAsset(a AssetRow) error {
	kind := AlertAssetCreated
	if a.State == events.AssetStateProvisional {
		kind = AlertAssetProvisional
	}
	return f.alert(AlertRow{
		Kind: kind, Of: string(a.Asset), Name: events.ToolKey{Owner: a.Owner, Name: a.Name}.String(), Tier: a.Tier, Version: a.Version,
		Commit: a.Commit, Document: a.Document,
	})
}

func (f *fold) alertRaised(e events.AlertRaised) error {
	return f.alert(AlertRow{Kind: e.Alert, Of: e.Of, Reason: e.Reason})
}

// alertDelivered keeps who knows what. One that no event is the begin of was about the
// engine's own state, which no event told.
func (f *fold) alertDelivered(e events.AlertDelivered) error {
	value, err := f.tx.Get(keyOf(viewAlertID, string(e.Alert)))
	if err != nil || value == nil {
		return err
	}
	seq, err := seqOfValue(value)
	if err == nil {
		f.put(alertToldKey(e.To, seq, e.Part), []byte{1})
	}
	return err
}
