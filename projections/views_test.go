package projections_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/projections"
	"gatebook/projections/projectionstest"
)

// Every number of the views equals the one counted from the list of events.
func TestCountersEqualTheList(t *testing.T) {
	histories(t, func(rt *rapid.T, drafts []events.Draft, book projectionstest.Book) {
		s := newMapStore()
		live(rt, s, drafts, book)
		snap := s.Snapshot()
		defer snap.Close()
		want := count(drafts)
		checkRounds(rt, snap, want)
		checkCalls(rt, snap, want)
		checkReviews(rt, snap, want)
		checkAgents(rt, snap, want)
	})
}

// counted is what a plain walk over the list gives.
type counted struct {
	rounds   []events.RoundID // in the order of their begin
	agentOf  map[events.RoundID]events.AgentID
	ended    map[events.RoundID]bool
	begun    map[events.RoundID]events.Instant
	last     map[events.RoundID]events.Instant
	timeout  map[events.RoundID]events.Micros
	steps    map[events.RoundID]int64
	byStatus map[events.RoundID]map[string]int64
	duration map[events.RoundID]events.Micros
	calls    []events.CallDecided // in order
	callOf   []events.AgentID
	status   map[events.CallID]events.Status
	firstKey map[[2]string]events.CallID
	used     map[events.RoundID]map[events.ToolKey]int64
	tool     map[events.CallID]events.ToolKey // of allowed calls
	longtime map[events.AgentID]string
	released map[events.AgentID]bool
	agents   map[events.AgentID]bool
	open     map[events.AgentID]int64
	// Of reviews, and of calls that may run.
	expires map[events.ReviewID]events.Instant // while open
	reviews map[events.ReviewID]events.ReviewState
	runs    map[events.CallID]int // where in the list it came to run
	at      int
	staged  map[events.RoundID]int64
	waits   map[events.CallID]bool
}

func count(drafts []events.Draft) counted {
	c := counted{
		agentOf: map[events.RoundID]events.AgentID{}, ended: map[events.RoundID]bool{},
		begun: map[events.RoundID]events.Instant{}, last: map[events.RoundID]events.Instant{},
		timeout: map[events.RoundID]events.Micros{}, steps: map[events.RoundID]int64{},
		byStatus: map[events.RoundID]map[string]int64{}, duration: map[events.RoundID]events.Micros{},
		status: map[events.CallID]events.Status{}, firstKey: map[[2]string]events.CallID{},
		longtime: map[events.AgentID]string{}, released: map[events.AgentID]bool{},
		agents: map[events.AgentID]bool{}, open: map[events.AgentID]int64{},
		used: map[events.RoundID]map[events.ToolKey]int64{}, tool: map[events.CallID]events.ToolKey{},
		expires: map[events.ReviewID]events.Instant{}, reviews: map[events.ReviewID]events.ReviewState{},
		runs: map[events.CallID]int{}, staged: map[events.RoundID]int64{}, waits: map[events.CallID]bool{},
	}
	for _, d := range drafts {
		c.add(d)
	}
	return c
}

func (c *counted) add(d events.Draft) {
	c.at++
	switch e := d.Event.(type) {
	case events.AgentEnrolled:
		c.agents[d.Agent] = true
	case events.AgentReleased, events.ChildRevoked:
		c.released[d.Agent], c.longtime[d.Agent] = true, ""
	case events.ProfileSet:
		c.longtime[d.Agent] = e.Profile
	case events.RoundBegun:
		c.rounds = append(c.rounds, e.Round)
		c.agentOf[e.Round], c.begun[e.Round], c.timeout[e.Round] = d.Agent, d.Time, e.Timeout
		c.byStatus[e.Round] = map[string]int64{}
		c.used[e.Round] = map[events.ToolKey]int64{}
		c.open[d.Agent]++
	case events.RoundEnded:
		c.ended[e.Round] = true
		c.open[d.Agent]--
	case events.CallDecided:
		c.calls, c.callOf = append(c.calls, e), append(c.callOf, d.Agent)
		status, final := e.Verdict.Final()
		if final {
			c.status[e.Call] = status
		}
		if e.Step == 0 {
			return
		}
		c.steps[e.Round]++
		c.last[e.Round] = d.Time
		switch e.Verdict {
		case events.Allow:
			c.used[e.Round][e.Tool]++
			c.tool[e.Call] = e.Tool
			c.runs[e.Call] = c.at
		case events.Stage:
			c.staged[e.Round]++
			c.waits[e.Call] = true
		}
		if final {
			c.byStatus[e.Round][string(status)]++
		}
		if key := [2]string{string(e.Round), e.Key}; e.Key != "" && c.firstKey[key] == "" {
			c.firstKey[key] = e.Call
		}
	case events.ReviewRequested:
		c.expires[e.Review], c.reviews[e.Review] = e.Expires, events.ReviewStateOpen
	case events.ReviewApproved:
		if e.More > 0 {
			break
		}
		c.reviewed(e.Review, events.ReviewStateApproved)
	case events.ReviewRefused:
		c.reviewed(e.Review, events.ReviewStateRefused)
	case events.ReviewExpired:
		c.reviewed(e.Review, events.ReviewStateExpired)
	case events.ReviewCancelled:
		c.reviewed(e.Review, events.ReviewStateCancelled)
	case events.CallReleased:
		c.runs[e.Call] = c.at
		delete(c.waits, e.Call)
		c.staged[e.Round]--
		for _, d := range c.calls {
			if d.Call == e.Call {
				c.used[e.Round][d.Tool]++
				c.tool[e.Call] = d.Tool
			}
		}
	case events.CallCompleted:
		if c.waits[e.Call] {
			c.staged[e.Round]--
		}
		if tool, allowed := c.tool[e.Call]; allowed && e.Status == events.StatusDenied {
			c.used[e.Round][tool]--
		}
		c.status[e.Call] = e.Status
		c.byStatus[e.Round][string(e.Status)]++
		c.duration[e.Round] += e.Duration
	}
}

func (c *counted) reviewed(id events.ReviewID, state events.ReviewState) {
	c.reviews[id] = state
	delete(c.expires, id)
}

func checkReviews(t *rapid.T, r projections.Reader, want counted) {
	for id, state := range want.reviews {
		row, found, err := projections.ReviewByID(r, id)
		ok(t, err)
		same(t, "review", found, true)
		same(t, "state", row.State, state)
		of, _, err := projections.CallByID(r, row.Call)
		ok(t, err)
		same(t, "review of the call", of.Review, id)
	}
	all, err := projections.Reviews(r, projections.ReviewFilter{Limit: projections.MaxPage})
	ok(t, err)
	same(t, "reviews", len(all.Rows), len(want.reviews))
	open, err := projections.Reviews(r, projections.ReviewFilter{Limit: projections.MaxPage, OpenOnly: true, Ascending: true})
	ok(t, err)
	same(t, "open reviews", len(open.Rows), len(want.expires))
	for _, row := range open.Rows {
		same(t, "expires", row.Expires, want.expires[row.Review])
		call, err := projections.SameStaged(r, row.Agent, events.ToolKey{Owner: row.ToolOwner, Name: row.Tool}, row.MAC)
		ok(t, err)
		same(t, "the one with these arguments", call, row.Call)
	}
}

func checkRounds(t *rapid.T, r projections.Reader, want counted) {
	page, err := projections.Rounds(r, projections.RoundFilter{Limit: projections.MaxPage})
	ok(t, err)
	same(t, "rounds", len(page.Rows), len(want.rounds))
	var due []events.RoundID
	for i, id := range want.rounds {
		row := page.Rows[len(page.Rows)-1-i]
		same(t, "round", row.Round, id)
		same(t, "agent", row.Agent, want.agentOf[id])
		same(t, "open", row.Open(), !want.ended[id])
		same(t, "steps", row.Steps, want.steps[id])
		for tool, n := range want.used[id] {
			same(t, "used", row.UsedOf(tool), n)
		}
		receipt, found, err := projections.ReceiptByRound(r, id)
		ok(t, err)
		same(t, "receipt", found, true)
		got, sum := map[string]int64{}, int64(0)
		for _, n := range receipt.ByStatus {
			got[n.Name] = n.N
			sum += n.N
		}
		same(t, "by status", got, want.byStatus[id])
		same(t, "open calls", row.OpenCalls, row.Steps-sum)
		same(t, "staged calls", row.Staged, want.staged[id])
		tools := int64(0)
		for _, n := range receipt.ByTool {
			tools += n.N
		}
		same(t, "one status for each call", tools, sum)
		same(t, "duration", receipt.Duration, want.duration[id])
		if at, timesOut := row.Deadline(); timesOut {
			same(t, "deadline", at, max(want.begun[id], want.last[id])+events.Instant(want.timeout[id]))
			due = append(due, id)
		}
		byHandle, found, err := projections.RoundByHandle(r, row.HandleHash)
		ok(t, err)
		same(t, "by handle", found && byHandle.Round == id, true)
	}
	checkDue(t, r, due, want.expires)
}

// checkDue asks at every deadline: all of no later deadline, none of a later one.
func checkDue(t *rapid.T, r projections.Reader, open []events.RoundID, reviews map[events.ReviewID]events.Instant) {
	deadline := map[events.RoundID]events.Instant{}
	for _, id := range open {
		row, _, err := projections.RoundByID(r, id)
		ok(t, err)
		deadline[id], _ = row.Deadline()
	}
	for _, now := range deadline {
		for _, now := range []events.Instant{now - 1, now} {
			want := map[events.RoundID]bool{}
			for id, at := range deadline {
				if at <= now {
					want[id] = true
				}
			}
			rows, err := projections.Due(r, now, 1000)
			ok(t, err)
			got := map[events.RoundID]bool{}
			late := 0
			for _, row := range rows {
				if row.Kind == projections.DueAsset {
					same(t, "a grace that is over", row.At <= now, true)
					continue
				}
				if row.Kind == projections.DueReview {
					late++
					same(t, "expired", row.At == reviews[row.Review] && row.At <= now, true)
					continue
				}
				got[row.Round] = true
			}
			same(t, "due", got, want)
			for _, at := range reviews {
				if at <= now {
					late--
				}
			}
			same(t, "reviews that are due", late, 0)
		}
	}
	rows, err := projections.Due(r, 1<<62, 1000)
	ok(t, err)
	graces := 0
	for _, row := range rows {
		if row.Kind == projections.DueAsset {
			graces++
		}
	}
	page, err := projections.Assets(r, projections.AssetFilter{State: events.AssetStateProvisional, Limit: 1000})
	ok(t, err)
	same(t, "graces that end", graces, len(page.Rows))
	same(t, "all due", len(rows), len(open)+len(reviews)+graces)
}

func checkCalls(t *rapid.T, r projections.Reader, want counted) {
	var open []events.CallID
	for i, e := range want.calls {
		row, found, err := projections.CallByID(r, e.Call)
		ok(t, err)
		same(t, "call", found, true)
		same(t, "status", row.Status, want.status[e.Call])
		same(t, "agent", row.Agent, want.callOf[i])
		if row.Open() && want.runs[e.Call] > 0 {
			open = append(open, e.Call)
		}
	}
	slices.SortFunc(open, func(a, b events.CallID) int { return want.runs[a] - want.runs[b] })
	rows, err := projections.OpenCalls(r, projections.MaxPage)
	ok(t, err)
	same(t, "open calls", ids(rows), open)
	for key, call := range want.firstKey {
		row, found, err := projections.CallByKey(r, events.RoundID(key[0]), key[1])
		ok(t, err)
		same(t, "by key", found && row.Call == call, true)
	}
}

func checkAgents(t *rapid.T, r projections.Reader, want counted) {
	rows, err := projections.Agents(r, "", 0)
	ok(t, err)
	same(t, "agents", len(rows), len(want.agents))
	for _, row := range rows {
		same(t, "longtime", row.Longtime, want.longtime[row.Agent])
		same(t, "released", row.Released, want.released[row.Agent])
		same(t, "open rounds", row.OpenRounds, want.open[row.Agent])
	}
	if len(rows) > 1 {
		rest, err := projections.Agents(r, rows[0].Agent, 1)
		ok(t, err)
		same(t, "next agent", rest[0].Agent, rows[1].Agent)
	}
}

func ids(rows []projections.AuditRow) (out []events.CallID) {
	for _, r := range rows {
		out = append(out, r.Call)
	}
	return out
}

func ok(tb rapid.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Every filter gives exactly the calls that a look at each of them gives, in
// order, in pages of any size, in both directions.
func TestAuditPages(t *testing.T) {
	histories(t, func(rt *rapid.T, drafts []events.Draft, book projectionstest.Book) {
		s := newMapStore()
		live(rt, s, drafts, book)
		snap := s.Snapshot()
		defer snap.Close()
		all, err := projections.Audit(snap, projections.AuditFilter{Ascending: true, Limit: projections.MaxPage})
		ok(rt, err)
		same(rt, "as of", all.AsOf, events.Seq(len(drafts)))
		same(rt, "all", len(all.Rows), len(count(drafts).calls))

		f := drawFilter(rt, drafts)
		var want []events.CallID
		for _, row := range all.Rows {
			if fits(f, row) {
				want = append(want, row.Call)
			}
		}
		if !f.Ascending {
			slices.Reverse(want)
		}
		var got []events.CallID
		for range len(all.Rows) + 2 {
			page, err := projections.Audit(snap, f)
			ok(rt, err)
			if len(page.Rows) > f.Limit {
				rt.Fatalf("%d rows in a page of %d", len(page.Rows), f.Limit)
			}
			got = append(got, ids(page.Rows)...)
			if page.Next == 0 {
				same(rt, "calls", got, want)
				return
			}
			if f.Ascending {
				f.After = page.Next
			} else {
				f.Before = page.Next
			}
		}
		rt.Fatal("the pages never end")
	})
}

func drawFilter(t *rapid.T, drafts []events.Draft) projections.AuditFilter {
	n := events.Seq(len(drafts))
	f := projections.AuditFilter{
		CallFilter: drawCalls(t),
		Ascending:  rapid.Bool().Draw(t, "ascending"),
		Limit:      rapid.IntRange(1, 7).Draw(t, "limit"),
	}
	if rapid.Bool().Draw(t, "bounded") {
		f.After = events.Seq(rapid.Uint64Range(0, uint64(n)).Draw(t, "after"))
		f.Before = events.Seq(rapid.Uint64Range(0, uint64(n)+2).Draw(t, "before"))
		f.Since = drafts[rapid.IntRange(0, len(drafts)-1).Draw(t, "since")].Time
		f.Until = drafts[rapid.IntRange(0, len(drafts)-1).Draw(t, "until")].Time
	}
	if rounds := count(drafts).rounds; len(rounds) > 0 && rapid.IntRange(0, 2).Draw(t, "by round") == 0 {
		f.Round = rapid.SampledFrom(rounds).Draw(t, "round")
	}
	if rapid.Bool().Draw(t, "observable") {
		f.Observable = func(a events.AgentID) bool { return a == "agent0" }
	}
	return f
}

// drawCalls asks for an agent often, and for few other fields at once.
func drawCalls(t *rapid.T) projections.CallFilter {
	f := projections.CallFilter{Agent: rapid.SampledFrom([]events.AgentID{"", "agent0", "agent0", "agent1", "nobody"}).Draw(t, "agent")}
	for range rapid.IntRange(0, 2).Draw(t, "fields") {
		switch rapid.IntRange(0, 7).Draw(t, "field") {
		case 0:
			f.Tool = rapid.SampledFrom([]string{"file.read", "builtin/file.list", "made/up", "made/up/1", "other", "nothing"}).Draw(t, "tool")
		case 1:
			f.Status = rapid.SampledFrom([]events.Status{events.StatusOK, events.StatusDenied, projections.Running, projections.Waiting}).Draw(t, "status")
		case 2:
			f.Verdict = rapid.SampledFrom([]events.Verdict{events.Allow, events.Stage, events.Deny}).Draw(t, "verdict")
		case 3:
			f.Layer = rapid.SampledFrom([]events.Layer{events.LayerRound, events.LayerDecode, events.LayerRole}).Draw(t, "layer")
		case 4:
			f.Principal = rapid.SampledFrom([]string{"bob", "eve", "nobody"}).Draw(t, "principal")
		case 5:
			f.Channel = rapid.SampledFrom([]events.ChannelID{"chat", "mail"}).Draw(t, "channel")
		case 6:
			f.Profile = rapid.SampledFrom([]string{"guest", "owner"}).Draw(t, "profile")
		case 7:
			f.Role = rapid.SampledFrom([]string{"worker", "reviewer"}).Draw(t, "role")
		}
	}
	return f
}

// hasFields is a look at one row, but for its tool.
func hasFields(f projections.CallFilter, r projections.AuditRow) bool {
	one := func(want, is string) bool { return want == "" || want == is }
	state := string(r.Status)
	if state == "" && r.Verdict == events.Stage && r.ReleasedSeq == 0 {
		state = "waiting"
	} else if state == "" {
		state = "running"
	}
	return one(string(f.Agent), string(r.Agent)) && one(string(f.Status), state) && one(string(f.Verdict), string(r.Verdict)) &&
		one(string(f.Layer), string(r.Layer)) && one(f.Principal, r.Principal.ID) && one(string(f.Channel), string(r.Channel)) &&
		one(f.Profile, r.Profile) && one(f.Role, r.Role) && (f.Observable == nil || f.Observable(r.Agent)) &&
		r.Decided >= f.Since && (f.Until == 0 || r.Decided < f.Until)
}

func fits(f projections.AuditFilter, r projections.AuditRow) bool {
	tool := f.Tool == "" || r.Tool.Name == f.Tool || r.Tool.Owner+"/"+r.Tool.Name == f.Tool || f.Tool == "other" && !r.ToolKnown
	round := f.Round == "" || r.Round == f.Round && r.Step > 0
	return tool && round && hasFields(f.CallFilter, r) && r.Seq > f.After && (f.Before == 0 || r.Seq < f.Before)
}

// A blob that an event names is never taken for an orphan.
func TestBlobNamed(t *testing.T) {
	store := newMapStore()
	tx := store.Begin()
	for i, r := range []events.Event{
		events.EngineStarted{Incarnation: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Version: "1"},
		events.CatalogLoaded{Digest: events.DigestOf([]byte("a")), Size: 1},
	} {
		meta := events.Meta{ID: eventstest.ID[events.EventID](i + 1)}
		rec := events.Recorded{Seq: events.Seq(i + 1), Draft: events.Draft{Meta: meta, Event: r}}
		if err := projections.Apply(tx, rec, events.Record{Seq: rec.Seq}); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]bool{"a": true, "b": false} {
		if got, err := projections.BlobNamed(tx, events.DigestOf([]byte(text))); err != nil || got != want {
			t.Errorf("blob %s named: %v, %v", text, got, err)
		}
	}
	tx.Discard()
}

// O-E04 nats-server#7302: a copy of an event, or one in another order, is damage
// and stops the fold, however it came into the book.
func TestSecondCopy(t *testing.T) {
	for name, last := range map[string]int{"the same id again": 2, "an earlier id": 1} {
		t.Run(name, func(t *testing.T) {
			tx := newMapStore().Begin()
			defer tx.Discard()
			for i, e := range []struct {
				id    int
				event events.Event
			}{
				{1, events.EngineStarted{Incarnation: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Version: "1"}},
				{2, events.PhaseChanged{Phase: 2}},
				{last, events.PhaseChanged{Phase: 1}},
			} {
				d := eventstest.Draft(e.id, "", e.event)
				rec := events.Recorded{Draft: d, Seq: events.Seq(i + 1)}
				err := projections.Apply(tx, rec, events.Record{Seq: rec.Seq})
				if bad := i == 2; errors.Is(err, projections.ErrFold) != bad {
					t.Errorf("event %d: %v", i+1, err)
				}
			}
		})
	}
}
