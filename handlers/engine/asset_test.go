package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
	"gatebook/handlers/tools"
	"gatebook/policy"
	"gatebook/policy/asset"
)

// note is the probe as a tool that is not built in, in one of its versions.
type note struct {
	*probe
	version string
	tier    events.Tier
}

func (note) Owner() string { return "mailer" }

func (n note) Tier() events.Tier { return n.tier }

func (n note) Definition() tools.Definition {
	return tools.Definition{Name: "note", Description: "counts, version " + n.version, Schema: jsontext.Value(`{}`)}
}

// assetHouse is a house whose agent may call mailer/note. Its rounds stay open, and its
// privileged calls do not wait for a person.
func assetHouse(t *testing.T) *house {
	t.Helper()
	h := newHouse(t)
	c := h.catalog.Catalog()
	c.Profiles["work"] = policy.Profile{Tools: []string{"probe", "mailer/note"}}
	c.Roles["worker"] = policy.Role{Version: 1, Grants: []policy.Rule{{Tool: "probe"}, {Tool: "mailer/note"}}}
	c.Tools = map[string]policy.Tool{"mailer/note": {Staging: policy.StagingAuto}}
	c.Limits.RoundTimeout = 300 * 86_400_000_000
	var err error
	h.catalog, err = policy.Compile(c, "probe", "mailer/note")
	must(t, err)
	h.start()
	return h
}

func (h *house) callNote(round events.RoundID, handle string, n note, text string) func(engine.Answer) engine.Command {
	made := call(round, handle, text, text, h.probe)
	return func(a engine.Answer) engine.Command {
		k := made(a).(*engine.Call)
		entry, err := tools.NewEntry(n)
		must(h.tb, err)
		k.Tool, k.Request.Tool = entry, entry.Key
		return k
	}
}

// assets are the assets of the book in the order of their registration.
func (h *house) assets() (all []events.AssetRegistered) {
	for _, rec := range h.book() {
		if e, ok := rec.Event.(events.AssetRegistered); ok {
			all = append(all, e)
		}
	}
	return all
}

func decideAsset(id events.AssetID, verb string) *engine.DecideAsset {
	return &engine.DecideAsset{
		Act: engine.Act{By: anna(), Approves: true}, Asset: id, Verb: verb, Shown: seen, Now: seen, Reason: "so", Tier: events.Privileged,
	}
}

func (h *house) sendAsset(d *engine.DecideAsset) <-chan any {
	return h.send(func(a engine.Answer) engine.Command {
		d.Answer = a
		return d
	})
}

// Many first calls at once put one asset on record, and all of them run.
func TestFirstCallsAtOnce(t *testing.T) {
	h := assetHouse(t)
	defer h.close()
	r := h.begin("one")
	var answers []<-chan any
	for i := range 50 {
		answers = append(answers, h.send(h.callNote(r.Round, "one", note{h.probe, "1", events.Reversible}, fmt.Sprint(i))))
	}
	for _, a := range answers {
		if v := (<-a).(engine.CallAnswer); v.Status != events.StatusOK {
			t.Errorf("%+v", v)
		}
	}
	if all := h.assets(); len(all) != 1 || all[0].State != events.AssetStateProvisional || all[0].Call == "" {
		t.Errorf("on record: %+v", all)
	}
}

// Of many approvals at once one counts, and everybody hears the truth.
func TestAssetApprovedManyTimesAtOnce(t *testing.T) {
	h := assetHouse(t)
	defer h.close()
	r := h.begin("one")
	n := note{h.probe, "1", events.Privileged}
	if a := h.ask(h.callNote(r.Round, "one", n, "early")).(engine.CallAnswer); a.Status != events.StatusDenied || a.Layer != events.LayerAsset || a.Rule != "unknown" {
		t.Fatalf("%+v", a)
	}
	id := h.assets()[0].Asset
	var answers []<-chan any
	for range 50 {
		answers = append(answers, h.sendAsset(decideAsset(id, engine.AssetApprove)))
	}
	done := 0
	for _, a := range answers {
		switch v := (<-a).(type) {
		case engine.Done:
			done++
		case engine.Refused:
			if v.Error.Code != string(policy.CodeConflict) {
				t.Errorf("%+v", v)
			}
		}
	}
	if done != 1 {
		t.Errorf("%d approvals count", done)
	}
	if a := h.ask(h.callNote(r.Round, "one", n, "late")).(engine.CallAnswer); a.Status != events.StatusOK {
		t.Errorf("%+v", a)
	}
	if h.probe.runs["early"] != 0 || h.probe.runs["late"] != 1 {
		t.Errorf("it ran %v", h.probe.runs)
	}
}

// Who is no approver, has another key, or has seen something else, decides nothing, and
// the attempt is in the book.
func TestWhoDecidesAboutAssets(t *testing.T) {
	h := assetHouse(t)
	defer h.close()
	r := h.begin("one")
	h.ask(h.callNote(r.Round, "one", note{h.probe, "1", events.Privileged}, "early"))
	id := h.assets()[0].Asset
	for _, row := range []struct {
		name string
		edit func(*engine.DecideAsset)
		code policy.Code
	}{
		{"the reading key", func(d *engine.DecideAsset) { d.Approves = false }, policy.CodeNotAllowed},
		{"an agent", func(d *engine.DecideAsset) { d.By = events.Actor{Kind: events.ActorAgent, ID: "anna"} }, policy.CodeNotAllowed},
		{"a part of the id", func(d *engine.DecideAsset) { d.Asset = id[:20] }, policy.CodeNoAsset},
		{"nothing was seen", func(d *engine.DecideAsset) { d.Shown = "" }, policy.CodeInvalid},
		{"something else was seen", func(d *engine.DecideAsset) { d.Shown = eventstest.Digest(9) }, policy.CodeConflict},
		{"nothing to go back to", func(d *engine.DecideAsset) { d.Verb = engine.AssetRollback }, policy.CodeConflict},
		{"a tier that there is not", func(d *engine.DecideAsset) { d.Verb, d.Tier = engine.AssetRetier, "harmless" }, policy.CodeInvalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := decideAsset(id, engine.AssetApprove)
			row.edit(d)
			if v, ok := (<-h.sendAsset(d)).(engine.Refused); !ok || v.Error.Code != string(row.code) {
				t.Errorf("%+v, want %s", v, row.code)
			}
			book := h.book()
			if e, ok := book[len(book)-1].Event.(events.AccessRefused); !ok || e.Action != "asset."+d.Verb {
				t.Errorf("the last event is %+v, want the attempt", book[len(book)-1].Event)
			}
		})
	}
	if a := h.ask(h.callNote(r.Round, "one", note{h.probe, "1", events.Privileged}, "late")).(engine.CallAnswer); a.Status != events.StatusDenied || h.probe.runs["late"] != 0 {
		t.Errorf("%+v", a)
	}
}

// A call that waits runs as what its tool is when a person approves it: the engine lives
// through everything that can happen to the asset meanwhile.
func TestAssetChangesWhileACallWaits(t *testing.T) {
	for _, row := range []struct {
		name string
		acts []string // on the asset, the last on another version
		tier events.Tier
		want events.Status
	}{
		{"nothing", nil, "", events.StatusOK},
		{"refused", []string{engine.AssetRefuse}, "", events.StatusDenied},
		{"raised", []string{engine.AssetRetier}, events.Privileged, events.StatusDenied},
		{"lowered to read_only", []string{engine.AssetRetier}, events.ReadOnly, events.StatusOK},
		{"lowered to read_only, and replaced", []string{engine.AssetRetier, "other"}, events.ReadOnly, events.StatusOK},
		{"replaced", []string{"other"}, "", events.StatusDenied},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := assetHouse(t)
			defer h.close()
			r := h.begin("one")
			n := note{h.probe, "1", events.Reversible}
			h.ask(h.callNote(r.Round, "one", n, "first"))
			id := h.assets()[0].Asset
			<-h.sendAsset(decideAsset(id, engine.AssetApprove))
			h.recompile(t, func(c *policy.Catalog) { c.Tools["mailer/note"] = policy.Tool{Staging: policy.StagingApprove} })
			h.ask(func(a engine.Answer) engine.Command {
				return &engine.LoadCatalog{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Next: h.catalog}
			})
			waits := h.ask(h.callNote(r.Round, "one", n, "waits")).(engine.CallAnswer)
			if waits.State != engine.StateStaged {
				t.Fatalf("%+v", waits)
			}
			for _, act := range row.acts {
				on := id
				if act == "other" {
					h.ask(h.callNote(r.Round, "one", note{h.probe, "2", events.Reversible}, "other"))
					on, act = h.assets()[1].Asset, engine.AssetApprove
				}
				d := decideAsset(on, act)
				d.Tier = row.tier
				if v, ok := (<-h.sendAsset(d)).(engine.Done); !ok {
					t.Fatalf("%s: %+v", act, v)
				}
			}
			ids := h.reviews()
			if v, ok := h.decide(review(ids[len(ids)-1], true)).(engine.Done); !ok {
				t.Fatalf("%+v", v)
			}
			if end := h.outcome(r.Round, "one", waits.Call); end.Status != row.want {
				t.Errorf("%+v, want %s", end, row.want)
			}
		})
	}
}

// The grace ends by the timer too, and is not given again.
func TestGraceEnds(t *testing.T) {
	h := assetHouse(t)
	defer h.close()
	r := h.begin("one")
	n := note{h.probe, "1", events.Reversible}
	h.ask(h.callNote(r.Round, "one", n, "a"))
	h.clock.pass(asset.Grace.Duration())
	expired := func(r events.Recorded) bool {
		e, ok := r.Event.(events.AssetExpired)
		return ok && e.Asset == h.assets()[0].Asset && r.Actor == events.Engine()
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !slices.ContainsFunc(h.book(), expired); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("the grace does not end by itself")
		}
	}
	for i, v := range []note{n, {h.probe, "2", events.Reversible}} {
		if a := h.ask(h.callNote(r.Round, "one", v, fmt.Sprint("b", i))).(engine.CallAnswer); a.Status != events.StatusDenied || a.Layer != events.LayerAsset {
			t.Errorf("%+v", a)
		}
	}
}

// Whatever happens, the book keeps the laws: see [checkAssets].
func TestAssetsAnything(t *testing.T) {
	for seed := range int64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(seed), 7))
			h := proposalHouse(t)
			r := h.begin("one")
			tiers := []events.Tier{events.ReadOnly, events.Reversible, events.Privileged}
			var answers []<-chan any
			settle := func() {
				for _, a := range answers {
					<-a
				}
				answers = nil
			}
			for n := range 120 {
				switch rnd.IntN(9) {
				case 8:
					answers = append(answers, h.propose(fmt.Sprint(rnd.IntN(2)), fmt.Sprint(rnd.IntN(4))))
				case 0, 1, 2, 3:
					v := note{h.probe, fmt.Sprint(rnd.IntN(3)), tiers[max(1, rnd.IntN(len(tiers)))]}
					if rnd.IntN(6) == 0 {
						v.tier = events.ReadOnly
					}
					answers = append(answers, h.send(h.callNote(r.Round, "one", v, fmt.Sprint(n))))
				case 4, 5:
					if all := h.assets(); len(all) > 0 {
						verbs := []string{engine.AssetApprove, engine.AssetApprove, engine.AssetApprove, engine.AssetRefuse, engine.AssetRollback, engine.AssetRetier}
						answers = append(answers, h.sendAsset(decideAsset(all[rnd.IntN(len(all))].Asset, verbs[rnd.IntN(len(verbs))])))
					}
				case 6:
					settle()
					h.clock.pass(time.Duration(rnd.IntN(60)) * time.Hour)
				case 7:
					if settle(); rnd.IntN(3) == 0 {
						h.crash()
						h.start()
					}
				}
			}
			settle()
			h.close()
			checkAssets(t, h)
		})
	}
}

// life is what the checks know of an asset, from the events alone.
type life struct {
	events.AssetRegistered
	state events.AssetState
}

// checkAssets are the laws over a whole book: no state follows that the table does not
// have, one grace for a name, what was allowed was approved or in its grace at that time,
// one refused by its asset was not, and nothing ran that was not allowed.
func checkAssets(t *testing.T, h *house) {
	t.Helper()
	all := map[events.AssetID]*life{}
	graces, allowed, denied := 0, 0, 0
	move := func(id events.AssetID, to events.AssetState, from ...events.AssetState) {
		if a := all[id]; a == nil || !slices.Contains(from, a.state) {
			t.Errorf("asset %s becomes %s from %+v", id, to, a)
		} else {
			a.state = to
		}
	}
	const p, b, ok, no, old = events.AssetStateProvisional, events.AssetStateBlocked, events.AssetStateApproved, events.AssetStateRefused, events.AssetStateReplaced
	for _, rec := range h.book() {
		switch e := rec.Event.(type) {
		case events.AssetRegistered:
			if e.Type != events.AssetTool && (e.State != b || e.Tier != events.Privileged) {
				t.Errorf("a proposal begins as %+v", e)
			}
			if all[e.Asset] = (&life{e, e.State}); e.State == p {
				graces++
			}
		case events.AssetApproved:
			if e.Replaces != "" {
				move(e.Replaces, old, ok)
			}
			move(e.Asset, ok, p, b, no, old)
		case events.AssetRefused:
			move(e.Asset, no, p, b, ok, old)
		case events.AssetExpired:
			move(e.Asset, b, p)
		case events.AssetRetiered:
			if all[e.Asset].state == ok || all[e.Asset].state == p {
				move(e.Asset, e.State, ok, p)
			}
		case events.CallDecided:
			if e.Tool.Owner != "mailer" {
				continue
			}
			a := all[events.AssetID(e.Asset)]
			runs := a != nil && (a.state == ok || a.state == p && rec.Time < a.Expires)
			switch {
			case e.Verdict == events.Allow && e.Tier != events.ReadOnly:
				if allowed++; !runs {
					t.Errorf("event %d lets a call run as %+v", rec.Seq, a)
				}
			case e.Layer == events.LayerAsset:
				if denied++; runs {
					t.Errorf("event %d refuses a call of %+v", rec.Seq, a)
				}
			}
		}
	}
	runs := 0
	for text, n := range h.probe.runs {
		if runs += n; n > 1 {
			t.Errorf("%s ran %d times", text, n)
		}
	}
	if graces > 1 || allowed == 0 || denied == 0 {
		t.Errorf("%d graces, %d allowed, %d denied", graces, allowed, denied)
	}
}
