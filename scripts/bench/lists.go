package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gatebook/events"
	"gatebook/infra/pebblekv"
	"gatebook/projections"
	"gatebook/projections/rebuild"
)

const (
	listedAssets  = 100_000
	listedReviews = 10_000
	firstPage     = 20
	foldTogether  = 1_000
)

// lists measures the first pages of what people decide about, over views that hold as much
// of it as the row's name says, beside reading the rows of a page one by one.
func (b *bench) lists() (err error) {
	dir := filepath.Join(b.dir, "lists")
	views, err := pebblekv.Open(dir, pebblekv.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, views.Close(), os.RemoveAll(dir)) }()
	b.note("folding %d assets and %d calls that wait", listedAssets, listedReviews)
	f := &folder{store: views, memo: projections.NewMemo()}
	ids, err := f.fill()
	if err != nil {
		return err
	}
	snapshot := rebuild.NewLive(views).Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	lists := row{Name: "page-people", Unit: "us", Better: lower, Details: map[string]int64{}}
	rows := query{"rows", func(r projections.Reader) error {
		for _, id := range ids[:firstPage] {
			if _, ok, err := projections.AssetByID(r, id); err != nil || !ok {
				return errors.Join(err, fmt.Errorf("asset %s is not there", id))
			}
		}
		return nil
	}}
	var alone []int64
	for range b.opt.runs {
		one, err := rows.median(snapshot)
		if err != nil {
			return err
		}
		alone = append(alone, one)
		if err := lists.slowest(snapshot, listQueries()); err != nil {
			return err
		}
	}
	lists.beside("rows-one-by-one", "us", alone)
	lists.target("the first page of 10,000 reviews and of 100,000 assets under 20 ms", median(lists.Runs) < 20_000)
	b.report.add(lists)
	return nil
}

// listQueries are first pages: what waits, with its calls, and assets by every filter.
func listQueries() []query {
	all := []query{{"pending", func(r projections.Reader) error {
		page, err := projections.Reviews(r, projections.ReviewFilter{OpenOnly: true, Ascending: true, Limit: firstPage})
		for _, row := range page.Rows {
			_, _, callErr := projections.CallByID(r, row.Call)
			err = errors.Join(err, callErr)
		}
		return full(len(page.Rows), err)
	}}}
	for name, f := range map[string]projections.AssetFilter{
		"assets": {}, "assets_blocked": {State: events.AssetStateBlocked}, "assets_privileged": {Tier: events.Privileged},
		"assets_rare": {State: events.AssetStateBlocked, Tier: events.Privileged, Type: "rare"},
	} {
		f.Limit = firstPage
		all = append(all, query{name, func(r projections.Reader) error {
			page, err := projections.Assets(r, f)
			return full(len(page.Rows), err)
		}})
	}
	return all
}

func full(rows int, err error) error {
	if err == nil && rows != firstPage {
		err = fmt.Errorf("the page has %d rows", rows)
	}
	return err
}

// folder folds events that were never in a book.
type folder struct {
	store *pebblekv.Store
	memo  *projections.Memo
	tx    projections.Tx
	n     int
}

func (f *folder) fold(agent events.AgentID, e events.Event) error {
	if f.tx == nil {
		f.tx = f.memo.Begin(f.store)
	}
	f.n++
	d := events.Draft{Meta: events.Meta{ID: numbered[events.EventID](f.n), Time: events.Instant(f.n), Actor: events.Engine(), Agent: agent}, Event: e}
	rec := events.Record{Seq: events.Seq(f.n), ID: d.ID, Subject: "s", Body: []byte(d.ID)}
	if err := projections.Apply(f.tx, events.Recorded{Draft: d, Seq: rec.Seq}, rec); err != nil {
		return err
	}
	if f.n%foldTogether != 0 {
		return nil
	}
	return f.settle()
}

func (f *folder) settle() error {
	tx := f.tx
	f.tx = nil
	if tx == nil {
		return nil
	}
	return tx.Commit()
}

// numbered is an id that grows with n. Views take ids as they are.
func numbered[T ~string](n int) T { return T(fmt.Sprintf("%026d", n)) }

func digestOf(n int) events.Digest { return events.DigestOf(fmt.Append(nil, n)) }

// fill folds assets, each a hundredth of the rare kind, and calls that wait.
func (f *folder) fill() (ids []events.AssetID, err error) {
	const agent, round, conversation = "alice", events.RoundID("R"), events.ConversationID("V")
	err = errors.Join(
		f.fold("", events.EngineStarted{Incarnation: numbered[events.Incarnation](0), Version: "bench"}),
		f.fold(agent, events.AgentEnrolled{Role: "worker", Key: "UA"}),
		f.fold(agent, events.ConversationOpened{Conversation: conversation}),
		f.fold(agent, events.RoundBegun{Round: round, Conversation: conversation, HandleHash: digestOf(1), Principal: events.Principal{ID: "bob", Kind: events.PrincipalUser}}))
	for i := 0; i < listedAssets && err == nil; i++ {
		kind := events.AssetTool
		if i%100 == 0 {
			kind = "rare"
		}
		ids = append(ids, numbered[events.AssetID](i))
		err = f.fold(agent, events.AssetRegistered{
			Asset: ids[i], Type: kind, Owner: "mailer", Name: fmt.Sprint("tool", i), Version: digestOf(i),
			Tier: events.Privileged, State: events.AssetStateBlocked,
		})
	}
	for i := 0; i < listedReviews && err == nil; i++ {
		call, mac := numbered[events.CallID](i), events.MAC(digestOf(i))
		err = errors.Join(
			f.fold(agent, events.CallDecided{
				Call: call, Round: round, Conversation: conversation, Step: int64(i + 1), Verdict: events.Stage, Layer: events.LayerStaging, Rule: "tool",
				Tool: events.ToolKey{Owner: events.OwnerBuiltin, Name: "file.delete"}, Definition: digestOf(2), Arguments: events.Arguments{MAC: mac},
			}),
			f.fold(agent, events.ReviewRequested{Review: numbered[events.ReviewID](i), Call: call, Round: round, MAC: mac, Expires: 1 << 60}))
	}
	return ids, errors.Join(err, f.settle())
}
