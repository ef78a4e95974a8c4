package projections_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/projections"
	"gatebook/projections/projectionstest"
)

// Every list of assets is the whole list without what is not asked for, page by page.
func TestListsOfAssets(t *testing.T) {
	histories(t, func(t *rapid.T, drafts []events.Draft, book projectionstest.Book) {
		s := newMapStore()
		live(t, s, drafts, book)
		r := s.Snapshot()
		defer r.Close()
		all := assetPages(t, r, projections.AssetFilter{Limit: 1000})
		for _, state := range []events.AssetState{
			"", events.AssetStateProvisional, events.AssetStateBlocked, events.AssetStateApproved, events.AssetStateRefused, events.AssetStateReplaced,
		} {
			for _, tier := range []events.Tier{"", events.Reversible, events.Privileged} {
				for _, of := range []events.AssetType{"", events.AssetTool, "skill"} {
					var want []projections.AssetRow
					for _, row := range all {
						if (state == "" || row.State == state) && (tier == "" || row.Tier == tier) && (of == "" || row.Type == of) {
							want = append(want, row)
						}
					}
					got := assetPages(t, r, projections.AssetFilter{State: state, Tier: tier, Type: of, Limit: 2})
					if !slices.Equal(got, want) {
						t.Fatalf("%q %q %q: %v, want %v", state, tier, of, got, want)
					}
				}
			}
		}
	})
}

func assetPages(t *rapid.T, r projections.Reader, f projections.AssetFilter) (all []projections.AssetRow) {
	for {
		p, err := projections.Assets(r, f)
		ok(t, err)
		all = append(all, p.Rows...)
		if f.Before = p.Next; f.Before == 0 {
			return all
		}
	}
}

// What the fold refuses of assets: a second grace of a name, a second asset of a version,
// two approved versions, and a call as an asset that may not run.
func TestLawsOfAssets(t *testing.T) {
	registered := func(id events.AssetID, version events.Digest, tier events.Tier, state events.AssetState, expires events.Instant) events.Event {
		return events.AssetRegistered{Asset: id, Type: events.AssetTool, Owner: "mailer", Name: "send", Version: version, Tier: tier, State: state, Expires: expires}
	}
	grace := registered("A1", "v1", events.Reversible, events.AssetStateProvisional, 1<<60)
	blocked := registered("A2", "v2", events.Privileged, events.AssetStateBlocked, 0)
	approved := events.AssetApproved{Asset: "A2", Version: "v2", Shown: "s"}
	for _, row := range []struct {
		name   string
		before []events.Event
		event  events.Event
		fits   bool
	}{
		{"a grace", nil, grace, true},
		{"a grace without an end", nil, registered("A1", "v1", events.Reversible, events.AssetStateProvisional, 0), false},
		{"a grace of a privileged tool", nil, registered("A1", "v1", events.Privileged, events.AssetStateProvisional, 9), false},
		{"a second grace", []events.Event{grace}, registered("A3", "v3", events.Reversible, events.AssetStateProvisional, 9), false},
		{"a grace after a block", []events.Event{blocked}, registered("A3", "v3", events.Reversible, events.AssetStateProvisional, 9), false},
		{"an id again", []events.Event{grace}, registered("A1", "v3", events.Privileged, events.AssetStateBlocked, 0), false},
		{"a version again", []events.Event{grace}, registered("A3", "v1", events.Privileged, events.AssetStateBlocked, 0), false},
		{"registered as approved", nil, registered("A1", "v1", events.Privileged, events.AssetStateApproved, 0), false},
		{"approved", []events.Event{blocked}, approved, true},
		{"approved, and nobody knows it", nil, approved, false},
		{"approved twice", []events.Event{blocked, approved}, approved, false},
		{"another version approved", []events.Event{grace, blocked}, events.AssetApproved{Asset: "A2", Version: "v1", Shown: "s"}, false},
		{"two approved", []events.Event{grace, blocked, approved}, events.AssetApproved{Asset: "A1", Version: "v1", Shown: "s"}, false},
		{"one in the place of the other", []events.Event{grace, blocked, approved}, events.AssetApproved{Asset: "A1", Version: "v1", Shown: "s", Replaces: "A2"}, true},
		{"replaces what is not approved", []events.Event{grace, blocked}, events.AssetApproved{Asset: "A1", Version: "v1", Shown: "s", Replaces: "A2"}, false},
		{"expired", []events.Event{grace}, events.AssetExpired{Asset: "A1"}, true},
		{"expired twice", []events.Event{grace, events.AssetExpired{Asset: "A1"}}, events.AssetExpired{Asset: "A1"}, false},
		{"expired, and never in a grace", []events.Event{blocked}, events.AssetExpired{Asset: "A2"}, false},
		{"refused", []events.Event{blocked, approved}, events.AssetRefused{Asset: "A2"}, true},
		{"refused twice", []events.Event{blocked, events.AssetRefused{Asset: "A2"}}, events.AssetRefused{Asset: "A2"}, false},
		{"raised, and blocked by that", []events.Event{grace}, events.AssetRetiered{Asset: "A1", Tier: events.Privileged, State: events.AssetStateBlocked}, true},
		{"let run by a tier", []events.Event{blocked}, events.AssetRetiered{Asset: "A2", Tier: events.Reversible, State: events.AssetStateApproved}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScript(t)
			for _, e := range row.before {
				s.must("", e)
			}
			if err := s.fold("", row.event); errors.Is(err, projections.ErrFold) == row.fits {
				t.Errorf("it gives %v", err)
			}
		})
	}
}

// A call that may run counts as an execution of its asset, and is none of one that may not.
func TestExecutions(t *testing.T) {
	s := newScript(t)
	s.must("", events.AssetRegistered{Asset: "A1", Type: events.AssetTool, Owner: "mailer", Name: "send", Version: "v1", Tier: events.Privileged, State: events.AssetStateBlocked})
	d := decided("C1", 1, events.Allow)
	d.Asset = "A1"
	if err := s.fold("alice", d); !errors.Is(err, projections.ErrFold) {
		t.Errorf("a call runs as an asset that is blocked: %v", err)
	}
	s.must("", events.AssetApproved{Asset: "A1", Version: "v1", Shown: "s"})
	s.must("alice", d)
	row, _, err := projections.AssetByID(s.read(), "A1")
	ok(t, err)
	same(t, "executions", row.Executions, int64(1))
	call, _, err := projections.CallByID(s.read(), "C1")
	ok(t, err)
	same(t, "the call's asset", call.Asset, events.AssetID("A1"))
}
