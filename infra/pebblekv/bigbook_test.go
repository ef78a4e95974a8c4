package pebblekv

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/projections"
)

// bigBook folds a book of many calls without encoding it: 16 agents, a call and its
// end for each, evenly over a time. One call in a thousand is of each rare value.
type bigBook struct {
	tb    testing.TB
	store projections.Store
	memo  *projections.Memo
	tx    projections.Tx
	seq   events.Seq
	ids   int
	at    events.Instant
	open  map[events.AgentID]rareRound
}

type rareRound struct {
	round        events.RoundID
	conversation events.ConversationID
	steps        int64
	rare         bool
}

var bigBegin = events.InstantOf(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))

func (b *bigBook) apply(a events.AgentID, e events.Event) {
	b.seq++
	d := eventstest.Draft(int(b.seq), a, e)
	d.Time, d.Catalog = b.at, eventstest.Digest(1)
	r := events.Record{Seq: b.seq, ID: d.ID, Subject: "s", Body: []byte(d.ID)}
	if err := projections.Apply(b.tx, events.Recorded{Draft: d, Seq: b.seq}, r); err != nil {
		b.tb.Fatal(err)
	}
	if b.seq%1000 == 0 {
		b.commit()
	}
}

func (b *bigBook) commit() {
	if err := b.tx.Commit(); err != nil {
		b.tb.Fatal(err)
	}
	b.tx = b.memo.Begin(b.store)
}

func bigID[T events.ULIDForm](b *bigBook) T {
	b.ids++
	return eventstest.ID[T](b.ids)
}

// fillBig folds calls over a time.
func fillBig(tb testing.TB, s projections.Store, calls int, over time.Duration) {
	b := &bigBook{tb: tb, store: s, memo: projections.NewMemo(), at: bigBegin, open: map[events.AgentID]rareRound{}}
	b.tx = b.memo.Begin(s)
	b.apply("", events.EngineStarted{Incarnation: eventstest.ID[events.Incarnation](0), Version: "test"})
	for i := range bigAgents {
		b.apply(bigAgent(i), events.AgentEnrolled{Role: "worker", Key: events.PublicKey("U" + bigAgent(i))})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range calls {
		b.at = bigBegin + events.Instant(int64(i)*over.Microseconds()/int64(calls))
		b.call(bigAgent(i%bigAgents), i, random)
	}
	b.commit()
	b.tx.Discard()
}

const bigAgents = 16

func bigAgent(i int) events.AgentID { return events.AgentID(fmt.Sprintf("agent-%02d", i)) }

// begin begins the next round of an agent; one in a thousand is a rare one's.
func (b *bigBook) begin(a events.AgentID, rare bool) rareRound {
	if r, ok := b.open[a]; ok {
		b.apply(a, events.RoundEnded{Round: r.round, End: events.RoundCompleted})
	}
	r := rareRound{round: bigID[events.RoundID](b), conversation: bigID[events.ConversationID](b), rare: rare}
	b.apply(a, events.ConversationOpened{Conversation: r.conversation, Channel: "chat"})
	channel := events.ChannelID("chat")
	if rare {
		channel = "rare"
	}
	b.apply(a, events.RoundBegun{Round: r.round, Conversation: r.conversation, Channel: channel, HandleHash: eventstest.Digest(b.ids)})
	return r
}

func (b *bigBook) call(a events.AgentID, i int, random *rand.Rand) {
	r, rare := b.open[a], i/bigAgents%1000 == 500
	if r.round == "" || r.steps >= 20 || r.rare || rare {
		r = b.begin(a, rare)
	}
	r.steps++
	b.open[a] = r
	d := events.CallDecided{
		Call: bigID[events.CallID](b), Round: r.round, Conversation: r.conversation, Step: r.steps,
		Tool: events.ToolKey{Owner: "builtin", Name: fmt.Sprint("file.", random.IntN(12))}, Definition: eventstest.Digest(7),
		Arguments: events.Arguments{Text: events.Plain(fmt.Sprintf(`{"path":"reports/2026/summary-%d.md","offset":0,"limit":65536}`, i)), Size: 60, MAC: events.MAC(eventstest.Digest(b.ids))},
		Verdict:   events.Allow, Tier: events.ReadOnly, Profile: "guest",
		Principal: events.Principal{ID: fmt.Sprint("person-", random.IntN(40)), Kind: events.PrincipalUser},
		Facts:     events.CallFacts{Phase: 2, Role: "worker", RoleVersion: 1, RoundOpen: true, HandleMatched: true},
	}
	status := events.StatusOK
	if random.IntN(50) == 0 {
		status = events.StatusCancelled
	}
	if rare {
		d.Tool.Name, d.Profile, d.Principal.ID, d.Facts.Role, status = "file.rare", "rare", "rare", "rare", events.StatusError
	}
	if i/bigAgents%1000 == 700 {
		d.Verdict, d.Layer, d.Rule = events.Deny, events.LayerRole, "grant"
		b.apply(a, d)
		return
	}
	b.apply(a, d)
	b.apply(a, events.CallCompleted{
		Call: d.Call, Round: r.round, Status: status, Duration: 812, Executor: events.ByEngine,
		Result: events.Result{Size: 2048, MAC: events.MAC(eventstest.Digest(b.ids + 1)), Preview: events.Plain("# Summary of the quarter\n\nRevenue grew; costs did not.")},
	})
}

// counting counts the keys that are read.
type counting struct {
	projections.Reader
	keys int
}

func (c *counting) Get(key []byte) ([]byte, error) {
	c.keys++
	return c.Reader.Get(key)
}

func (c *counting) Near(lower, upper []byte) (get func(key []byte) ([]byte, error), done func() error) {
	inner, done := c.Reader.(projections.Near).Near(lower, upper)
	return func(key []byte) ([]byte, error) {
		c.keys++
		return inner(key)
	}, done
}

func (c *counting) count(rows iter.Seq2[projections.Row, error]) iter.Seq2[projections.Row, error] {
	return func(yield func(projections.Row, error) bool) {
		for row, err := range rows {
			c.keys++
			if !yield(row, err) {
				return
			}
		}
	}
}

func (c *counting) Scan(lower, upper []byte) iter.Seq2[projections.Row, error] {
	return c.count(c.Reader.Scan(lower, upper))
}

func (c *counting) ScanBack(lower, upper []byte) iter.Seq2[projections.Row, error] {
	return c.count(c.Reader.ScanBack(lower, upper))
}

// bigFilters are an agent and one other filter each; what is rare among the calls is
// what a scan would be long for.
func bigFilters(over time.Duration) map[string]projections.CallFilter {
	const a = events.AgentID("agent-03")
	early, late := bigBegin.Add(over/100), bigBegin.Add(over*99/100)
	return map[string]projections.CallFilter{
		"agent":     {Agent: a},
		"tool":      {Agent: a, Tool: "file.rare"},
		"full tool": {Agent: a, Tool: "builtin/file.rare"},
		"status":    {Agent: a, Status: events.StatusError},
		"ok":        {Agent: a, Status: events.StatusOK},
		"running":   {Agent: a, Status: projections.Running},
		"waiting":   {Agent: a, Status: projections.Waiting},
		"verdict":   {Agent: a, Verdict: events.Deny},
		"allow":     {Agent: a, Verdict: events.Allow},
		"layer":     {Agent: a, Layer: events.LayerRole},
		"principal": {Agent: a, Principal: "rare"},
		"channel":   {Agent: a, Channel: "rare"},
		"profile":   {Agent: a, Profile: "rare"},
		"role":      {Agent: a, Role: "rare"},
		"nobody's":  {Agent: a, Principal: "nobody"},
		"since":     {Agent: a, Since: late},
		"until":     {Agent: a, Until: early},
		"between":   {Agent: a, Since: late, Until: late.Add(over / 100)},
	}
}

// A page of an agent's calls by one other filter reads the keys of that page, however
// rare its calls are; a count reads roll-ups and no more than half an hour at each edge.
func TestKeysRead(t *testing.T) {
	const calls, over = 12_000, 12 * time.Hour
	s := mustOpen(t, "views", Options{FS: vfs.NewMem()})
	defer closeStore(t, s)
	fillBig(t, s, calls, over)
	snap := s.Snapshot()
	defer snap.Close()
	for name, f := range bigFilters(over) {
		for _, ascending := range []bool{false, true} {
			c := &counting{Reader: snap}
			page, err := projections.Audit(c, projections.AuditFilter{CallFilter: f, Limit: 200, Ascending: ascending})
			if err != nil {
				t.Fatal(err)
			}
			if most := 2*len(page.Rows) + 40; c.keys > most {
				t.Errorf("%s: %d keys for %d rows", name, c.keys, len(page.Rows))
			}
			if empty := name == "running" || name == "waiting" || name == "nobody's"; empty != (len(page.Rows) == 0) {
				t.Errorf("%s: %d rows", name, len(page.Rows))
			}
		}
	}
	perHour := calls / 12
	for name, f := range map[string]projections.TotalsFilter{
		"all":         {},
		"whole hours": {CallFilter: projections.CallFilter{Since: bigBegin.Add(2 * time.Hour), Until: bigBegin.Add(5 * time.Hour)}},
	} {
		if keys := totalKeys(t, snap, f); keys > 12*bigAgents*12*5 {
			t.Errorf("%s: %d keys", name, keys)
		}
	}
	for minutes := range 60 {
		cut := bigBegin.Add(5*time.Hour + time.Duration(minutes)*time.Minute)
		whole := totalKeys(t, snap, projections.TotalsFilter{CallFilter: projections.CallFilter{Since: bigBegin.Add(4 * time.Hour), Until: bigBegin.Add(6 * time.Hour)}})
		if keys := totalKeys(t, snap, projections.TotalsFilter{CallFilter: projections.CallFilter{Since: bigBegin.Add(4 * time.Hour), Until: cut}}); keys > 3*whole+perHour/2 {
			t.Errorf("until minute %d: %d keys, %d for whole hours", minutes, keys, whole)
		}
	}
}

func totalKeys(t *testing.T, r projections.Reader, f projections.TotalsFilter) int {
	t.Helper()
	c := &counting{Reader: r}
	page, err := projections.Totals(c, f)
	if err != nil || page.All.Calls == 0 && f.Since != f.Until-1 && f.Until == 0 {
		t.Fatal(page.All, err)
	}
	return c.keys
}

// BenchmarkQueries asks a store of GATEBOOK_CALLS calls (100,000 unless set) within 24
// hours for pages and totals.
func BenchmarkQueries(b *testing.B) {
	calls, _ := strconv.Atoi(os.Getenv("GATEBOOK_CALLS"))
	if calls == 0 {
		calls = 100_000
	}
	const over = 24 * time.Hour
	dir := filepath.Join(b.TempDir(), "views")
	s := mustOpen(b, dir, Options{})
	defer closeStore(b, s)
	start := time.Now()
	fillBig(b, s, calls, over)
	fmt.Printf("folded %d calls, %.0f calls/s\n", calls, float64(calls)/time.Since(start).Seconds())
	logSizes(b, s, calls)
	snap := s.Snapshot()
	defer snap.Close()
	filters := bigFilters(over)
	for _, name := range slices.Sorted(mapKeys(filters)) {
		f := projections.AuditFilter{CallFilter: filters[name], Limit: 200}
		b.Run("page by "+name, func(b *testing.B) {
			measure(b, snap, func(r projections.Reader) error {
				_, err := projections.Audit(r, f)
				return err
			})
		})
	}
	day := projections.CallFilter{Since: bigBegin.Add(29 * time.Minute), Until: bigBegin.Add(24*time.Hour - 31*time.Minute)}
	mine := day
	mine.Agent = "agent-03"
	for name, f := range map[string]projections.TotalsFilter{
		"totals of a day":                {CallFilter: day},
		"totals by tool,status":          {CallFilter: day, By: []projections.Field{projections.ByTool, projections.ByStatus}},
		"totals by agent,principal,hour": {CallFilter: day, By: []projections.Field{projections.ByAgent, projections.ByPrincipal, projections.ByHour}},
		"totals by tool of an agent":     {CallFilter: mine, By: []projections.Field{projections.ByTool}},
	} {
		b.Run(name, func(b *testing.B) {
			measure(b, snap, func(r projections.Reader) error {
				_, err := projections.Totals(r, f)
				return err
			})
		})
	}
}

func mapKeys[V any](m map[string]V) iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// measure gives the median, the 99th percentile and the keys of a query.
func measure(b *testing.B, snap projections.Reader, ask func(projections.Reader) error) {
	var took []time.Duration
	c := &counting{Reader: snap}
	for b.Loop() {
		c.keys = 0
		start := time.Now()
		if err := ask(c); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(c.keys), "keys")
}

// logSizes says what each view takes on the disk.
func logSizes(b *testing.B, s *Store, calls int) {
	if err := s.db.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := s.db.Compact(b.Context(), []byte{0}, []byte{0xff}, true); err != nil {
		b.Fatal(err)
	}
	for view := range byte(36) {
		size, err := s.db.EstimateDiskUsage([]byte{view}, []byte{view + 1})
		if err != nil {
			b.Fatal(err)
		}
		fmt.Printf("view %d: %.1f bytes a call\n", view, float64(size)/float64(calls))
	}
}
