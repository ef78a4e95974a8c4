package projections_test

import (
	"testing"

	"gatebook/events"
	"gatebook/projections"
)

// Repeats within the window are one alert with their count, others are another; what is
// about something else is an alert of its own.
func TestAlertsCollapse(t *testing.T) {
	s := newScript(t)
	raise := func(kind, of string) { s.must("", events.AlertRaised{Alert: kind, Of: of, Reason: "r"}) }
	raise("disk", "a")
	first := alertsOf(t, s)[0]
	for range 5 {
		raise("disk", "a")
	}
	raise("disk", "b")
	raise("book", "a")
	all := alertsOf(t, s)
	same(t, "alerts", len(all), 3)
	same(t, "count", all[0].Count, int64(6))
	same(t, "id", all[0].ID, first.ID)
	same(t, "about", [2]string{all[1].Of, all[2].Kind}, [2]string{"b", "book"})

	s.must("", events.AlertDelivered{Alert: first.ID, To: "ops"})
	s.must("", events.AlertDelivered{Alert: "unknown", To: "ops"})
	for _, row := range []struct {
		to   string
		part int
		want bool
	}{{"ops", 0, true}, {"ops", 1, false}, {"op", 0, false}, {"opss", 0, false}} {
		got, err := projections.AlertTold(s.read(), row.to, first.Seq, row.part)
		ok(t, err)
		same(t, row.to, got, row.want)
	}
	last, found, err := projections.AlertLast(s.read(), "disk", "a")
	ok(t, err)
	same(t, "the last", found && last.Seq == first.Seq, true)
	since, err := projections.AlertsSince(s.read(), all[1].First)
	ok(t, err)
	same(t, "since the second", since < all[1].Seq, true)
}

// What the issue names is an alert: a blocked attempt, the first run of what nobody
// decided about, an asset on record, a call that waits.
func TestWhatIsAnAlert(t *testing.T) {
	s := newScript(t)
	s.must("alice", events.AssetRegistered{Asset: "A1", Type: events.AssetTool, Owner: "mailer", Name: "note", Version: "v1", Tier: events.Reversible, State: events.AssetStateProvisional, Expires: 1 << 60})
	s.must("alice", events.AssetRegistered{Asset: "A2", Type: "skill", Owner: "alice", Name: "tidy", Version: "v2", Tier: events.Privileged, State: events.AssetStateBlocked, Commit: "c", Document: "d.md"})
	d := decided("C1", 1, events.Deny)
	d.Asset, d.Layer, d.Reason = "A2", events.LayerAsset, "blocked"
	s.must("alice", d)
	other := decided("C2", 2, events.Deny)
	other.Layer = events.LayerRole
	s.must("alice", other)
	var got []string
	for _, a := range alertsOf(t, s) {
		got = append(got, a.Kind+" "+a.Of+" "+a.Name+" "+a.Commit)
	}
	same(t, "alerts", got, []string{
		"asset_provisional A1 mailer/note ", "asset_created A2 alice/tidy c", "asset_blocked A2 file.read ",
	})
}

func alertsOf(t *testing.T, s *script) []projections.AlertRow {
	t.Helper()
	all, err := projections.Alerts(s.read(), 0, 0)
	ok(t, err)
	return all
}
