package projections

import (
	"fmt"
	"slices"

	"gatebook/events"
)

// AssetRow is one version of an asset.
type AssetRow struct {
	_       struct{} `cbor:",toarray"`
	Asset   events.AssetID
	Type    events.AssetType
	Owner   string
	Name    string
	Version events.Digest
	Tier    events.Tier
	Fixed   bool // a person gave the tier
	State   events.AssetState
	Created events.Instant
	// Expires is when the grace of a provisional asset ends; 0 in every other state.
	Expires    events.Instant
	Expired    events.Instant // when it ended; 0 where it did not
	Executions int64          // calls that were allowed to run
	Agent      events.AgentID // whose call met it first; empty where a person registered it
	Call       events.CallID
	Commit     string
	Document   string
	Text       events.Digest   // of the document
	Decided    events.Instant  // 0 where no person decided
	By         events.PersonID // who did last
	Reason     string          // of a refusal
	Seq        events.Seq      // of asset.registered; the cursor of lists
}

// AssetNameRow is what all versions of a name have in common.
type AssetNameRow struct {
	_ struct{} `cbor:",toarray"`
	// Tier is that of the version that was registered last, or that a version was given
	// since.
	Tier     events.Tier
	Approved events.AssetID // empty: none
	// Former is the version that was approved before; empty: none.
	Former events.AssetID
	Latest events.AssetID
}

// Back is where a rollback of a version goes: the version that is approved in its place,
// else the one that was before; empty for none.
func (r AssetNameRow) Back(from events.AssetID) events.AssetID {
	if r.Approved != "" && r.Approved != from {
		return r.Approved
	}
	return r.Former
}

// AssetByID finds a version in any state.
func AssetByID(r Reader, id events.AssetID) (AssetRow, bool, error) {
	if id == "" {
		return AssetRow{}, false, nil
	}
	return loadRow[AssetRow](r, keyOf(viewAsset, string(id)))
}

// AssetName finds what the versions of a name have in common.
func AssetName(r Reader, of events.AssetType, owner, name string) (AssetNameRow, bool, error) {
	return loadRow[AssetNameRow](r, assetNameKey(of, owner, name))
}

// AssetByVersion finds one version of a name.
func AssetByVersion(r Reader, of events.AssetType, owner, name string, version events.Digest) (AssetRow, bool, error) {
	id, err := r.Get(assetVersionKey(of, owner, name, version))
	if err != nil || id == nil {
		return AssetRow{}, false, err
	}
	row, ok, err := AssetByID(r, events.AssetID(id))
	if err == nil && !ok {
		err = fmt.Errorf("%w: asset %s is indexed and has no row", ErrStore, events.Quote(string(id)))
	}
	return row, ok, err
}

func assetNameKey(of events.AssetType, owner, name string) []byte {
	return appendPart(appendPart(listKey(viewAssetName, string(of)), owner), name)
}

func assetVersionKey(of events.AssetType, owner, name string, version events.Digest) []byte {
	return append(appendPart(appendPart(listKey(viewAssetVersion, string(of)), owner), name), version...)
}

// AssetFilter says which assets to list, the newest first. Its zero value lists all.
type AssetFilter struct {
	State  events.AssetState
	Tier   events.Tier
	Type   events.AssetType
	Before events.Seq // registered below this sequence; 0: from the newest
	Limit  int        // see [PageSize]
}

// AssetPage is a page of assets.
type AssetPage struct {
	Rows []AssetRow
	Next events.Seq // Before of the next page; 0: there is none
	AsOf events.Seq
}

// Assets lists assets by the sequence of their registration. It reads the rows of the
// page and no others: there is an index for each set of fields to ask for.
func Assets(r Reader, f AssetFilter) (AssetPage, error) {
	state, err := LoadState(r)
	if err != nil {
		return AssetPage{}, err
	}
	l := list{prefixes: [][]byte{assetFields(f.State, f.Tier, f.Type)}, before: f.Before, limit: f.Limit, visits: MaxVisits}
	rows, next, err := page(r, l, func(_ events.Seq, id []byte) (AssetRow, bool, error) {
		row, ok, err := AssetByID(r, events.AssetID(id))
		if err == nil && !ok {
			err = fmt.Errorf("%w: asset %s is listed and has no row", ErrStore, events.Quote(string(id)))
		}
		return row, true, err
	})
	return AssetPage{Rows: rows, Next: next, AsOf: state.Seq}, err
}

// assetFields begins the index of the assets with these fields; an empty one is any.
func assetFields(state events.AssetState, tier events.Tier, of events.AssetType) []byte {
	return appendPart(appendPart(listKey(viewAssetField, string(state)), string(tier)), string(of))
}

// keys are where an asset is listed.
func (r AssetRow) keys() (all [][]byte) {
	for _, state := range [...]events.AssetState{"", r.State} {
		for _, tier := range [...]events.Tier{"", r.Tier} {
			for _, of := range [...]events.AssetType{"", r.Type} {
				all = append(all, withSeq(assetFields(state, tier, of), r.Seq))
			}
		}
	}
	return all
}

func (f *fold) assetRegistered(e events.AssetRegistered) error {
	free, err := isFree(f.tx, keyOf(viewAsset, string(e.Asset)))
	if err != nil {
		return err
	}
	_, double, err := AssetByVersion(f.tx, e.Type, e.Owner, e.Name, e.Version)
	if err != nil {
		return err
	}
	name, met, err := AssetName(f.tx, e.Type, e.Owner, e.Name)
	if err != nil {
		return err
	}
	provisional := e.State == events.AssetStateProvisional && e.Expires > 0 && !met && e.Tier == events.Reversible
	blocked := e.State == events.AssetStateBlocked && e.Expires == 0
	if !free || double || e.Asset == "" || e.Version == "" || e.Type == "" || !provisional && !blocked {
		return fmt.Errorf("%w: asset %s cannot be registered as %s", ErrFold, events.Quote(string(e.Asset)), events.Quote(string(e.State)))
	}
	row := AssetRow{
		Asset: e.Asset, Type: e.Type, Owner: e.Owner, Name: e.Name, Version: e.Version, Tier: e.Tier, State: e.State,
		Created: f.rec.Time, Expires: e.Expires, Agent: f.rec.Agent, Call: e.Call, Commit: e.Commit, Document: e.Document, Text: e.Text, Seq: f.rec.Seq,
	}
	name.Tier, name.Latest = e.Tier, e.Asset
	f.nameBlob(e.Version)
	f.nameBlob(e.Text)
	f.put(assetVersionKey(e.Type, e.Owner, e.Name, e.Version), []byte(e.Asset))
	f.set(assetNameKey(e.Type, e.Owner, e.Name), name)
	for _, key := range row.keys() {
		f.put(key, []byte(row.Asset))
	}
	if provisional {
		f.put(dueKey(dueSlot(row.Expires), DueAsset, string(row.Asset)), []byte{})
	}
	f.set(keyOf(viewAsset, string(row.Asset)), row)
	return f.alertAsset(row)
}

// asset is the law that an asset which something happens to is on record, and in one of
// the states.
func (f *fold) asset(id events.AssetID, states ...events.AssetState) (AssetRow, error) {
	row, ok, err := AssetByID(f.tx, id)
	if err == nil && (!ok || !slices.Contains(states, row.State)) {
		err = fmt.Errorf("%w: asset %s is %s, not one of %s", ErrFold, events.Quote(string(id)), events.Quote(string(row.State)), states)
	}
	return row, err
}

// named is asset with what the versions of its name have in common.
func (f *fold) named(id events.AssetID, states ...events.AssetState) (AssetRow, AssetNameRow, error) {
	row, err := f.asset(id, states...)
	if err != nil {
		return row, AssetNameRow{}, err
	}
	name, _, err := AssetName(f.tx, row.Type, row.Owner, row.Name)
	return row, name, err
}

// moveAsset sets the row of an asset that was as was.
func (f *fold) moveAsset(was, row AssetRow) {
	if was.State != row.State || was.Tier != row.Tier {
		for _, key := range was.keys() {
			f.drop(key)
		}
		for _, key := range row.keys() { // some are the same
			f.put(key, []byte(row.Asset))
		}
	}
	if was.State == events.AssetStateProvisional && row.State != was.State {
		f.drop(dueKey(dueSlot(was.Expires), DueAsset, string(was.Asset)))
		row.Expires = 0
	}
	f.set(keyOf(viewAsset, string(row.Asset)), row)
}

func (f *fold) assetApproved(e events.AssetApproved) error {
	was, name, err := f.named(e.Asset, events.AssetStateProvisional, events.AssetStateBlocked, events.AssetStateRefused, events.AssetStateReplaced)
	if err != nil {
		return err
	}
	if e.Version != was.Version || e.Replaces != name.Approved {
		return fmt.Errorf("%w: asset %s is not what was approved", ErrFold, e.Asset)
	}
	if name.Approved != "" {
		old, err := f.asset(name.Approved, events.AssetStateApproved)
		if err != nil {
			return err
		}
		next := old
		next.State = events.AssetStateReplaced
		f.moveAsset(old, next)
		name.Former = name.Approved
	}
	row := was
	row.State, row.Reason = events.AssetStateApproved, ""
	row.Decided, row.By = f.rec.Time, events.PersonID(f.rec.Actor.ID)
	name.Approved = e.Asset
	f.nameBlob(e.Shown)
	f.moveAsset(was, row)
	f.set(assetNameKey(row.Type, row.Owner, row.Name), name)
	return nil
}

func (f *fold) assetRefused(e events.AssetRefused) error {
	was, name, err := f.named(e.Asset, events.AssetStateProvisional, events.AssetStateBlocked, events.AssetStateApproved, events.AssetStateReplaced)
	if err != nil {
		return err
	}
	row := was
	row.State, row.Reason = events.AssetStateRefused, e.Reason
	row.Decided, row.By = f.rec.Time, events.PersonID(f.rec.Actor.ID)
	f.moveAsset(was, row)
	if name.Approved == e.Asset {
		name.Approved = ""
		f.set(assetNameKey(row.Type, row.Owner, row.Name), name)
	}
	return nil
}

func (f *fold) assetExpired(e events.AssetExpired) error {
	was, err := f.asset(e.Asset, events.AssetStateProvisional)
	if err != nil {
		return err
	}
	row := was
	row.State, row.Expired = events.AssetStateBlocked, f.rec.Time
	f.moveAsset(was, row)
	return nil
}

func (f *fold) assetRetiered(e events.AssetRetiered) error {
	was, name, err := f.named(e.Asset, events.AssetStateProvisional, events.AssetStateBlocked, events.AssetStateApproved,
		events.AssetStateRefused, events.AssetStateReplaced)
	if err != nil {
		return err
	}
	if e.State != was.State && e.State != events.AssetStateBlocked {
		return fmt.Errorf("%w: with another tier asset %s cannot become %s", ErrFold, e.Asset, events.Quote(string(e.State)))
	}
	row := was
	row.Tier, row.State, row.Fixed = e.Tier, e.State, f.rec.Actor.Kind == events.ActorPerson
	f.moveAsset(was, row)
	name.Tier = e.Tier
	if name.Approved == e.Asset && row.State != events.AssetStateApproved {
		name.Approved = ""
	}
	f.set(assetNameKey(row.Type, row.Owner, row.Name), name)
	return nil
}

// runAsset counts a call that may run as an execution of its asset, which the law lets
// run only where it is approved or provisional.
func (f *fold) runAsset(id events.AssetID) error {
	if id == "" {
		return nil
	}
	was, err := f.asset(id, events.AssetStateApproved, events.AssetStateProvisional)
	if err != nil {
		return err
	}
	if was.State == events.AssetStateProvisional && f.rec.Time >= was.Expires {
		return fmt.Errorf("%w: asset %s has expired", ErrFold, id)
	}
	row := was
	row.Executions++
	f.moveAsset(was, row)
	return nil
}
