package asset

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
)

var states = []events.AssetState{
	"", events.AssetStateProvisional, events.AssetStateBlocked, events.AssetStateApproved, events.AssetStateRefused, events.AssetStateReplaced,
}

// Everything that the table does not have is no transition.
func TestTransitions(t *testing.T) {
	want := map[string]events.AssetState{
		"provisional expire": "blocked", "provisional approve": "approved", "provisional refuse": "refused",
		"blocked approve": "approved", "blocked refuse": "refused",
		"approved refuse": "refused", "approved replace": "replaced",
		"refused approve": "approved", "replaced approve": "approved", "replaced refuse": "refused",
	}
	seen := 0
	for _, from := range append(states, "odd") {
		for _, act := range []Act{Expire, Approve, Refuse, Replace, "odd"} {
			to, ok := Next(from, act)
			if wanted, is := want[fmt.Sprintf("%s %s", from, act)]; to != wanted || ok != is {
				t.Errorf("%q %s gives %q (%t), want %q", from, act, to, ok, wanted)
			}
			if ok {
				seen++
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%d transitions were seen, want %d", seen, len(want))
	}
}

// book is what the events of one name add up to.
type book struct {
	name     Facts // of the last version
	versions map[events.Digest]*Facts
	graces   int
	ids      int
}

func (b *book) facts(version events.Digest) Facts {
	f := Facts{Type: events.AssetTool, Owner: "mailer", Name: "send", Version: version, Met: b.name.Met, Highest: b.name.Highest, Approved: b.name.Approved}
	if v := b.versions[version]; v != nil {
		f.Asset, f.Tier, f.State, f.Expires = v.Asset, v.Tier, v.State, v.Expires
	}
	return f
}

func (b *book) of(t *rapid.T, id events.AssetID) *Facts {
	for _, v := range b.versions {
		if v.Asset == id {
			return v
		}
	}
	t.Fatalf("an event is about asset %s, which was never registered", id)
	return nil
}

func (b *book) apply(t *rapid.T, list []events.Event) {
	for _, e := range list {
		switch e := e.(type) {
		case events.AssetRegistered:
			if b.versions[e.Version] != nil {
				t.Fatalf("version %s is registered twice", e.Version)
			}
			if e.State == events.AssetStateProvisional {
				b.graces++
			}
			b.versions[e.Version] = &Facts{Asset: e.Asset, Tier: e.Tier, State: e.State, Expires: e.Expires}
			b.name.Met, b.name.Highest = true, e.Tier
		case events.AssetExpired:
			v := b.of(t, e.Asset)
			b.move(t, v, Expire)
		case events.AssetRetiered:
			v := b.of(t, e.Asset)
			v.Tier, v.State, b.name.Highest = e.Tier, e.State, e.Tier
			if b.name.Approved == e.Asset && e.State != events.AssetStateApproved {
				b.name.Approved = ""
			}
		}
	}
}

func (b *book) move(t *rapid.T, v *Facts, act Act) {
	to, ok := Next(v.State, act)
	if !ok {
		t.Fatalf("asset %s is %s and cannot %s", v.Asset, v.State, act)
	}
	v.State = to
}

// approve and refuse are what people do, as policy records it.
func (b *book) approve(t *rapid.T, v *Facts) {
	if _, ok := Next(v.State, Approve); !ok {
		return
	}
	if b.name.Approved != "" {
		b.move(t, b.of(t, b.name.Approved), Replace)
	}
	b.move(t, v, Approve)
	b.name.Approved = v.Asset
}

func (b *book) refuse(t *rapid.T, v *Facts) {
	if _, ok := Next(v.State, Refuse); !ok {
		return
	}
	if b.name.Approved == v.Asset {
		b.name.Approved = ""
	}
	b.move(t, v, Refuse)
}

// The laws over random histories of calls, decisions and clocks: what runs is approved, or
// within its one grace; what only reads is the exception, and never after the name was met
// with more; an expired version never runs again but by a person.
func TestLifeOfAnAsset(t *testing.T) {
	ran, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		b := &book{versions: map[events.Digest]*Facts{}}
		now := events.Instant(1 << 50)
		end := now // of the only grace
		blessed := map[events.Digest]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += events.Instant(rapid.Int64Range(0, int64(Grace)/3).Draw(t, "later"))
			version := events.Digest(fmt.Sprint("v", rapid.IntRange(1, 3).Draw(t, "version")))
			f := b.facts(version)
			v := b.versions[version]
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				if v != nil {
					b.approve(t, v)
					blessed[version] = v.State == events.AssetStateApproved
				}
				continue
			case 1:
				if v != nil {
					b.refuse(t, v)
					blessed[version] = false
				}
				continue
			}
			said := rapid.SampledFrom([]events.Tier{events.ReadOnly, events.Reversible, events.Privileged, "", "odd"}).Draw(t, "said")
			b.ids++
			out := OnCall(f, Meeting{
				Tool: events.ToolKey{Owner: "mailer", Name: "send"}, Definition: version, Said: said, New: events.AssetID(fmt.Sprint("A", b.ids)), Now: now,
			})
			graces := b.graces
			b.apply(t, out.Events)
			if b.graces > graces {
				end = now + events.Instant(Grace)
			}
			switch {
			case b.graces > 1:
				t.Fatal("a second grace")
			case out.Runs == (out.Rule != "") || out.Runs == (out.Reason != ""):
				t.Fatalf("%+v: runs and says why not, or neither", out)
			case out.Runs && out.Asset == "" && (said != events.ReadOnly || f.Met && f.Highest != events.ReadOnly):
				t.Fatalf("%s runs without an asset", said)
			case out.Runs && out.Asset != "" && b.versions[version].State == events.AssetStateProvisional && now >= end:
				t.Fatal("it runs after its grace")
			case out.Runs && out.Asset != "" && b.versions[version].State != events.AssetStateProvisional && b.versions[version].State != events.AssetStateApproved:
				t.Fatalf("it runs while %s", b.versions[version].State)
			case out.Runs && out.Asset != "" && f.Effective(said) == events.Privileged && !blessed[version]:
				t.Fatal("a privileged tool runs that nobody approved")
			}
			if out.Runs {
				ran++
			} else {
				refused++
			}
			approved := 0
			for _, v := range b.versions {
				if v.State == events.AssetStateApproved {
					approved++
				}
			}
			if approved > 1 {
				t.Fatal("two versions of a name are approved")
			}
		}
	})
	if ran == 0 || refused == 0 {
		t.Errorf("%d calls ran and %d were refused: the law saw only one side", ran, refused)
	}
}

func TestFirstCalls(t *testing.T) {
	const now = events.Instant(1_000)
	over := events.Instant(Grace) + now
	for _, row := range []struct {
		name  string
		facts Facts
		said  events.Tier
		now   events.Instant
		rule  string // empty: it runs
		kinds string
	}{
		{"reads", Facts{}, events.ReadOnly, now, "", ""},
		{"unknown, reversible", Facts{}, events.Reversible, now, "", "asset.registered "},
		{"unknown, privileged", Facts{}, events.Privileged, now, "unknown", "asset.registered "},
		{"O-R26 no tier said", Facts{}, "", now, "unknown", "asset.registered "},
		{"O-A14 another definition of an approved tool", Facts{Met: true, Highest: events.Reversible, Approved: "A1"}, events.Reversible, now, "changed", "asset.registered "},
		{"O-R19 says that it only reads now", Facts{Met: true, Highest: events.Reversible}, events.ReadOnly, now, "changed", "asset.registered "},
		{"in its grace", Facts{Asset: "A1", Met: true, Tier: events.Reversible, Highest: events.Reversible, State: events.AssetStateProvisional, Expires: over}, events.Reversible, over - 1, "", ""},
		{"its grace is over and nothing noticed", Facts{Asset: "A1", Met: true, Tier: events.Reversible, Highest: events.Reversible, State: events.AssetStateProvisional, Expires: over}, events.Reversible, over, "expired", "asset.expired "},
		{"an end that is out of range", Facts{Asset: "A1", Met: true, Tier: events.Reversible, Highest: events.Reversible, State: events.AssetStateProvisional, Expires: over * 2}, events.Reversible, now, "expired", "asset.expired "},
		{"approved, and worse than it was", Facts{Asset: "A1", Met: true, Tier: events.Reversible, Highest: events.Reversible, State: events.AssetStateApproved}, events.Privileged, now, "blocked", "asset.retiered "},
		{"approved, and says that it is better than it was", Facts{Asset: "A1", Met: true, Tier: events.Privileged, Highest: events.Privileged, State: events.AssetStateApproved}, events.ReadOnly, now, "", ""},
		{"a person said that it does less", Facts{Asset: "A1", Met: true, Tier: events.Reversible, Highest: events.Reversible, Fixed: true, State: events.AssetStateApproved}, events.Privileged, now, "", ""},
		{"a person said that it only reads", Facts{Asset: "A1", Met: true, Tier: events.ReadOnly, Highest: events.ReadOnly, Fixed: true, State: events.AssetStateBlocked}, "", now, "", ""},
		{"a person said that it only reads, and refused it", Facts{Asset: "A1", Met: true, Tier: events.ReadOnly, Highest: events.ReadOnly, Fixed: true, State: events.AssetStateRefused}, "", now, "refused", ""},
		{"a person said that it does more", Facts{Asset: "A1", Met: true, Tier: events.Privileged, Highest: events.Privileged, Fixed: true, State: events.AssetStateBlocked}, events.ReadOnly, now, "blocked", ""},
		{"refused", Facts{Asset: "A1", Met: true, Tier: events.Reversible, Highest: events.Reversible, State: events.AssetStateRefused}, events.Reversible, now, "refused", ""},
		{"replaced", Facts{Asset: "A1", Met: true, Tier: events.Reversible, Highest: events.Reversible, State: events.AssetStateReplaced}, events.Reversible, now, "replaced", ""},
		{"a state from another time", Facts{Asset: "A1", Met: true, Tier: events.Reversible, Highest: events.Reversible, State: "odd"}, events.Reversible, now, "odd", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			out := OnCall(row.facts, Meeting{Tool: events.ToolKey{Owner: "mailer", Name: "send"}, Definition: "D", Said: row.said, New: "A9", Now: row.now})
			kinds := ""
			for _, e := range out.Events {
				kinds += string(e.Kind()) + " "
			}
			if out.Rule != row.rule || out.Runs != (row.rule == "") || kinds != row.kinds {
				t.Errorf("%+v (%s), want rule %q and %q", out, kinds, row.rule, row.kinds)
			}
		})
	}
}
