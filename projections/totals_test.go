package projections_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/projections"
	"gatebook/projections/projectionstest"
)

// group is one call as totals count it, by a look at its row.
func group(r projections.AuditRow, by []projections.Field) []string {
	state := string(r.Status)
	if state == "" && r.Verdict == events.Stage && r.ReleasedSeq == 0 {
		state = "waiting"
	} else if state == "" {
		state = "running"
	}
	rule := r.Rule
	if r.Layer == events.LayerDecode && rule != "" {
		rule = "other"
	}
	at := r.Decided.Time()
	values := map[projections.Field]string{
		projections.ByAgent: string(r.Agent), projections.ByTool: countedTool(r), projections.ByStatus: state,
		projections.ByHour: at.Truncate(time.Hour).Format("2006-01-02T15:04Z"), projections.ByDay: at.Format(time.DateOnly),
		projections.ByVerdict: string(r.Verdict), projections.ByLayer: string(r.Layer), projections.ByRule: rule,
		projections.ByPrincipal: r.Principal.ID, projections.ByKind: string(r.Principal.Kind), projections.ByRole: r.Role,
		projections.ByChannel: string(r.Channel), projections.ByProfile: r.Profile, projections.ByModel: r.Model.Name,
		projections.ByTier: string(r.Tier),
	}
	out := make([]string, len(by))
	for i, f := range by {
		out[i] = values[f]
	}
	return out
}

func countedTool(r projections.AuditRow) string {
	if !r.ToolKnown {
		return "other"
	}
	return r.Tool.Owner + "/" + r.Tool.Name
}

// sumOf counts the rows one by one, the greatest group first.
func sumOf(all []projections.AuditRow, f projections.TotalsFilter) (rows []projections.Total, sum projections.Total) {
	sums := map[string]*projections.Total{}
	for _, r := range all {
		tool := countedTool(r)
		if !hasFields(f.CallFilter, r) || f.Tool != "" && f.Tool != tool && !strings.HasSuffix(tool, "/"+f.Tool) {
			continue
		}
		values := group(r, f.By)
		key := fmt.Sprintf("%q", values)
		if sums[key] == nil {
			sums[key] = &projections.Total{Group: values}
		}
		for _, t := range []*projections.Total{sums[key], &sum} {
			t.Calls++
			t.Duration += r.Duration
		}
	}
	for _, t := range sums {
		rows = append(rows, *t)
	}
	slices.SortFunc(rows, func(a, b projections.Total) int {
		if a.Calls != b.Calls {
			return int(b.Calls - a.Calls)
		}
		return slices.Compare(a.Group, b.Group)
	})
	return rows, sum
}

// spread gives the events times of their own: hours apart or within one, in the
// order of the book or not.
func spread(t *rapid.T, drafts []events.Draft) []events.Draft {
	step := rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Minute, 50 * time.Minute}).Draw(t, "step")
	ordered := rapid.IntRange(0, 3).Draw(t, "ordered") > 0
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "times"), 0))
	at := events.InstantOf(time.Date(2026, 3, 1, 22, 30, 0, 0, time.UTC))
	out := slices.Clone(drafts)
	for i := range out {
		at = at.Add(step * time.Duration(random.IntN(3)))
		if !ordered && random.IntN(10) == 0 {
			at = at.Add(-step * time.Duration(random.IntN(10)))
		}
		out[i].Time = at
	}
	return out
}

// The law of totals: what they say of a range is what a look at each call says that
// was decided in it, at every sequence.
func TestTotalsAreTheCalls(t *testing.T) {
	histories(t, func(rt *rapid.T, drafts []events.Draft, book projectionstest.Book) {
		drafts = spread(rt, drafts)
		cut := rapid.IntRange(1, len(drafts)).Draw(rt, "cut")
		s := newMapStore()
		live(rt, s, drafts[:cut], book)
		for end := cut; ; end = len(drafts) {
			snap := s.Snapshot()
			all, err := projections.Audit(snap, projections.AuditFilter{Limit: projections.MaxPage})
			ok(rt, err)
			for range 4 {
				f := drawTotals(rt, drafts)
				page, err := projections.Totals(snap, f)
				ok(rt, err)
				rows, sum := sumOf(all.Rows, f)
				same(rt, "as of", page.AsOf, events.Seq(end))
				same(rt, fmt.Sprintf("rows of %+v", f), page.Rows, rows)
				same(rt, "all", page.All, sum)
				same(rt, "left", page.Left, 0)
				inRange(rt, snap, all.Rows, f.CallFilter)
			}
			ok(rt, snap.Close())
			if end == len(drafts) {
				return
			}
			live(rt, s, drafts[cut:], book[cut:])
		}
	})
}

// inRange is that a page of a range of time is right whatever the clock did.
func inRange(t *rapid.T, r projections.Reader, all []projections.AuditRow, calls projections.CallFilter) {
	f := projections.AuditFilter{CallFilter: calls, Limit: projections.MaxPage}
	var want []events.CallID
	for _, row := range all {
		if fits(f, row) {
			want = append(want, row.Call)
		}
	}
	page, err := projections.Audit(r, f)
	ok(t, err)
	same(t, fmt.Sprintf("calls of %+v", f), ids(page.Rows), want)
}

func drawTotals(t *rapid.T, drafts []events.Draft) projections.TotalsFilter {
	f := projections.TotalsFilter{CallFilter: drawCalls(t)}
	fields := rapid.Permutation(projections.Fields()).Draw(t, "by")
	f.By = fields[:rapid.IntRange(0, 3).Draw(t, "how many")]
	f.Since, f.Until = drawTime(t, drafts), drawTime(t, drafts)
	if rapid.IntRange(0, 3).Draw(t, "observable") == 0 {
		f.Observable = func(a events.AgentID) bool { return a == "agent0" }
	}
	return f
}

// drawTime is open, the time of an event or right beside it, or a border of an hour.
func drawTime(t *rapid.T, drafts []events.Draft) events.Instant {
	at := drafts[rapid.IntRange(0, len(drafts)-1).Draw(t, "time of")].Time
	switch rapid.IntRange(0, 4).Draw(t, "time") {
	case 0:
		return 0
	case 1:
		return events.InstantOf(at.Time().Truncate(time.Hour).Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "next")) * time.Hour))
	}
	return at + events.Instant(rapid.IntRange(-1, 1).Draw(t, "beside"))
}

// Callers give names as they like; what is counted stays as small as the catalog.
func TestTotalsAreBounded(t *testing.T) {
	s := newScript(t)
	const calls = 60
	step := int64(0)
	for i := range calls {
		for _, v := range []events.Verdict{events.NotFound, events.Reject, events.Deny} {
			step++
			d := decided(events.CallID(fmt.Sprint(v, i)), step, v)
			d.Tool.Name = fmt.Sprint("made-up-", i)
			if v == events.Reject {
				d.Layer, d.Rule = events.LayerDecode, fmt.Sprint("field-", i)
			}
			s.must("alice", d)
		}
	}
	page, err := projections.Totals(s.read(), projections.TotalsFilter{By: []projections.Field{
		projections.ByTool, projections.ByVerdict, projections.ByLayer, projections.ByRule, projections.ByProfile,
	}})
	ok(t, err)
	same(t, "groups", len(page.Rows), 3)
	same(t, "calls", page.All.Calls, int64(3*calls))
	for i := range projections.MaxModels + 5 {
		talk := events.ConversationID(fmt.Sprint("T", i))
		s.must("alice", events.ConversationOpened{Conversation: talk, Channel: "chat"})
		begin := begun(events.RoundID(fmt.Sprint("M", i)), talk, 100+i)
		begin.Model = events.Model{Name: fmt.Sprint("model-", i), Known: "claimed"}
		s.must("alice", begin)
		d := decided(events.CallID(fmt.Sprint("m", i)), 1, events.Allow)
		d.Round, d.Conversation = begin.Round, talk
		s.must("alice", d)
		end := completed(d.Call, events.StatusOK)
		end.Round, end.Duration = begin.Round, 10
		s.must("alice", end)
		s.must("alice", events.RoundEnded{Round: begin.Round, End: events.RoundCompleted})
	}
	f := projections.TotalsFilter{By: []projections.Field{projections.ByModel}, Limit: 3}
	f.Status = events.StatusOK
	page, err = projections.Totals(s.read(), f)
	ok(t, err)
	same(t, "the greatest", page.Rows[0], projections.Total{Group: []string{"other"}, Calls: 5, Duration: 50})
	same(t, "rows", len(page.Rows), 3)
	same(t, "left", page.Left, projections.MaxModels-2)
	same(t, "rest", page.Rest.Calls, int64(projections.MaxModels-2))
	same(t, "all", page.All, projections.Total{Calls: projections.MaxModels + 5, Duration: 10 * (projections.MaxModels + 5)})
}

func TestTotalsByNothingKnown(t *testing.T) {
	s := newScript(t)
	for _, by := range [][]projections.Field{{"args"}, {""}, {"tool", "tool"}, {"Tool"}, projections.Fields()[:projections.MaxBy+1]} {
		if _, err := projections.Totals(s.read(), projections.TotalsFilter{By: by}); !errors.Is(err, projections.ErrField) {
			t.Errorf("%q gives %v", by, err)
		}
	}
}

// Each filter alone and each field alone, over the same histories every time: what a random
// draw may miss.
func TestTotalsByOneFilter(t *testing.T) {
	for seed := range 12 {
		drafts := projectionstest.Histories(60).Example(seed)
		book := make(projectionstest.Book, len(drafts))
		for i, d := range drafts {
			book[i] = events.Record{Seq: events.Seq(i + 1), ID: d.ID, Subject: "s", Body: fmt.Append(nil, i)}
		}
		s := newMapStore()
		for i, d := range drafts {
			ok(t, applyOne(s, d, book[i]))
		}
		snap := s.Snapshot()
		all, err := projections.Audit(snap, projections.AuditFilter{Limit: projections.MaxPage})
		ok(t, err)
		for _, r := range all.Rows {
			for _, f := range []projections.CallFilter{
				{Agent: r.Agent}, {Tool: r.Tool.Owner + "/" + r.Tool.Name}, {Status: r.State()}, {Verdict: r.Verdict}, {Layer: r.Layer},
				{Principal: r.Principal.ID}, {Channel: r.Channel}, {Profile: r.Profile}, {Role: r.Role},
			} {
				if f.Tool != "" && !r.ToolKnown {
					continue // it counts as other
				}
				page, err := projections.Totals(snap, projections.TotalsFilter{CallFilter: f})
				ok(t, err)
				_, sum := sumOf(all.Rows, projections.TotalsFilter{CallFilter: f})
				same(t, fmt.Sprintf("seed %d, %+v", seed, f), page.All.Calls, sum.Calls)
			}
		}
		ok(t, snap.Close())
	}
}

// A list by time lists by time, where the times of the book go back too, and what is behind
// an event is behind it, whatever time is asked for.
func TestListsByTime(t *testing.T) {
	for name, times := range map[string]func(i int) time.Duration{
		"ordered":    func(i int) time.Duration { return time.Duration(i) * time.Minute },
		"going back": func(i int) time.Duration { return time.Duration((i*37)%60) * time.Minute },
	} {
		drafts := projectionstest.Busy(2)
		for i := range drafts {
			drafts[i].Time = events.InstantOf(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(times(i)))
		}
		s := newMapStore()
		live(t, s, drafts, projectionstest.NewBook(t, drafts))
		snap := s.Snapshot()
		all, err := projections.Audit(snap, projections.AuditFilter{Limit: projections.MaxPage})
		ok(t, err)
		for _, from := range all.Rows {
			for _, after := range []events.Seq{0, all.Rows[len(all.Rows)/2].Seq, all.Rows[0].Seq} {
				f := projections.AuditFilter{CallFilter: projections.CallFilter{Since: from.Decided}, After: after, Limit: projections.MaxPage}
				page, err := projections.Audit(snap, f)
				ok(t, err)
				want := 0
				for _, r := range all.Rows {
					if fits(f, r) {
						want++
					}
				}
				same(t, fmt.Sprintf("%s, after %d since %s", name, after, from.Decided), len(page.Rows), want)
			}
		}
		ok(t, snap.Close())
	}
}

// The hour before 1970 ends at the time that stands for no bound.
func TestTotalsAround1970(t *testing.T) {
	drafts := projectionstest.Busy(1)
	s := newMapStore()
	live(t, s, drafts, projectionstest.NewBook(t, drafts))
	snap := s.Snapshot()
	all, err := projections.Totals(snap, projections.TotalsFilter{})
	ok(t, err)
	for _, since := range []events.Instant{-1, -1_800_000_000, -3_600_000_000, -3_600_000_001, 1} {
		page, err := projections.Totals(snap, projections.TotalsFilter{CallFilter: projections.CallFilter{Since: since}})
		ok(t, err)
		same(t, fmt.Sprint("calls since ", int64(since)), page.All.Calls, all.All.Calls)
	}
	for _, until := range []events.Instant{-3_600_000_001, -1, 1, 1_800_000_001, 3_600_000_000, 3_600_000_001} {
		page, err := projections.Totals(snap, projections.TotalsFilter{CallFilter: projections.CallFilter{Until: until}})
		ok(t, err)
		same(t, fmt.Sprint("calls until ", int64(until)), page.All.Calls, int64(0))
	}
	ok(t, snap.Close())
}
