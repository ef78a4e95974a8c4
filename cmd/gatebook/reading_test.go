package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/handlers/people"
	"gatebook/infra/config"
)

// One engine for what only reads.
func TestReading(t *testing.T) {
	h := newFolder(t)
	startEngine(t, h)
	alice, bob := connectAgent(t, h, "alice"), connectAgent(t, h, "bob")
	alice.beginRound(h, "tidy \x1b[31mup\nnow\u202e")
	bob.beginRound(h, "look around")
	if a, err := alice.call("file.write", `{"path":"a.txt","content":"x"}`, "k1"); err != nil || a.Status != events.StatusOK {
		t.Fatalf("%+v, %v", a, err)
	}
	for range 4 {
		_, _ = bob.call("no.such", "{}", "")
	}
	if _, err := bob.call("file.list", `{"path":"."}`, ""); err != nil {
		t.Fatal(err)
	}
	t.Run("filters", func(t *testing.T) { testFilters(t, h, alice) })
	t.Run("paging", func(t *testing.T) { testPaging(t, h, bob) })
	t.Run("receipts", func(t *testing.T) { testReceipts(t, h, alice) })
	t.Run("explain", func(t *testing.T) { testExplain(t, h, bob) })
	t.Run("O-L01 Yuzu#3874 O-L02 agentsync#101 hostile text", func(t *testing.T) { testHostile(t, h, alice) })
	t.Run("follow", func(t *testing.T) { testFollow(t, h, alice) })
	t.Run("doctor", func(t *testing.T) { testDoctor(t, h) })
	t.Run("O-E21 nats-server#7302 the clock jumps", func(t *testing.T) { testClock(t, h, alice) })
	t.Run("verify refuses beside an engine", func(t *testing.T) {
		if code, _, errs := h.run("verify"); code != exitNo || !strings.Contains(errs, "another engine runs") {
			t.Errorf("exit code %d, %s", code, errs)
		}
	})
	t.Run("observable agents", func(t *testing.T) { testObservable(t, h) }) // last: it narrows
}

func audited(t *testing.T, h *testFolder, args ...string) people.AuditAnswer {
	t.Helper()
	return decodeAs[people.AuditAnswer](t, h.must(append([]string{"audit", "--json"}, args...)...))
}

func testFilters(t *testing.T, h *testFolder, alice *agentAtWork) {
	future := time.Now().Add(time.Hour).Format(time.RFC3339)
	for _, c := range []struct {
		args string
		want int
	}{
		{"", 6}, {"--agent alice", 1}, {"--agent bob", 5}, {"--tool file.write", 1}, {"--tool builtin/file.write", 1},
		{"--status not_found", 4}, {"--status denied", 0}, {"--round " + string(alice.r.Round), 1},
		{"--agent bob --status ok", 1}, {"--since 1h", 6}, {"--until 1h", 0}, {"--since " + future, 0},
		{"--until " + future, 6}, {"--limit 2", 2}, {"--since 2020-01-01 --until 2020-01-02", 0},
	} {
		got := audited(t, h, strings.Fields(c.args)...)
		if len(got.Calls) != c.want || got.AsOf == 0 {
			t.Errorf("audit %s: %d calls as of %d, want %d", c.args, len(got.Calls), got.AsOf, c.want)
		}
	}
	for _, bad := range []string{"--status fine", "--since yesterday", "--limit 0", "--agent A", "--round x", "--since -1h"} {
		if code, _, _ := h.run(append([]string{"audit"}, strings.Fields(bad)...)...); code != exitUsage {
			t.Errorf("audit %s: exit code %d", bad, code)
		}
	}
	if out := h.must("audit", "--since", "2h ago", "--status", "not_found"); !strings.Contains(out, "not_found/not_found") ||
		!strings.Contains(out, "tool:") || !strings.Contains(out, "no.such") {
		t.Error("a refusal does not show layer and reason:\n" + out)
	}
}

func testPaging(t *testing.T, h *testFolder, bob *agentAtWork) {
	bob.calls(450)
	got := audited(t, h, "--limit", "430", "--agent", "bob")
	if len(got.Calls) != 430 || got.Next == 0 {
		t.Fatalf("%d calls, next %d", len(got.Calls), got.Next)
	}
	if !slices.IsSortedFunc(got.Calls, func(a, b people.Entry) int { return int(b.Seq) - int(a.Seq) }) {
		t.Error("not newest first")
	}
	all := audited(t, h, "--limit", "10000", "--agent", "bob")
	if len(all.Calls) != 455 || all.Next != 0 || all.AsOf < all.Calls[0].Seq {
		t.Errorf("%d calls, next %d, as of %d", len(all.Calls), all.Next, all.AsOf)
	}
	first := audited(t, h, "--limit", "3", "--agent", "bob")
	rest := audited(t, h, "--limit", "10000", "--agent", "bob", "--before", fmt.Sprint(first.Next))
	if len(rest.Calls) != 452 || rest.Calls[0].Call != all.Calls[3].Call {
		t.Errorf("%d calls before event %d", len(rest.Calls), first.Next)
	}
	if _, _, said := h.run("audit", "--limit", "3", "--agent", "bob"); !strings.Contains(said, fmt.Sprintf("there are more: --before %d goes on", first.Next)) {
		t.Errorf("said %q", said)
	}
	for _, c := range [][]string{{"audit"}, {"round", "list"}} {
		if code, _, said := h.run(append(c, "--agent", "bob", "--before", "1")...); code != 0 || !strings.HasSuffix(said, " match\n") {
			t.Errorf("%v: exit code %d, said %q", c, code, said)
		}
	}
	out := h.must("audit", "--limit", "210", "--agent", "bob")
	if n := strings.Count(out, "\n"); n != 211 {
		t.Errorf("%d lines for 210 calls", n)
	}
}

func testReceipts(t *testing.T, h *testFolder, alice *agentAtWork) {
	got := decodeAs[people.ReceiptsAnswer](t, h.must("receipts", "--json", "--agent", "alice"))
	if len(got.Receipts) != 1 || got.Receipts[0].Round != alice.r.Round || got.Receipts[0].Steps != 1 || got.AsOf == 0 {
		t.Errorf("%+v", got)
	}
	out := h.must("receipts", "--round", string(alice.r.Round))
	for _, want := range []string{"anna (user)", `tidy \x1b[31mup\nnow\u202e`, "1 (1 ok)", "file.write a.txt: ok, ", "open"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	two := decodeAs[people.ReceiptsAnswer](t, h.must("receipts", "--json", "--limit", "2")).Receipts
	_, _, said := h.run("receipts", "--limit", "1")
	m := regexp.MustCompile(`there are more: (--before [0-9]+) goes on`).FindStringSubmatch(said)
	if len(two) != 2 || m == nil {
		t.Fatalf("%d receipts; the first says %q", len(two), said)
	}
	if out := h.must(append([]string{"receipts", "--limit", "1"}, strings.Fields(m[1])...)...); !strings.Contains(out, string(two[1].Round)) {
		t.Errorf("after %s, which is not %s:\n%s", m[1], two[1].Round, out)
	}
	if code, _, said := h.run("receipts", "--agent", "alice", "--round", string(two[0].Round), "--before", "1"); code != 0 || said != "gatebook: no rounds match\n" {
		t.Errorf("exit code %d, said %q", code, said)
	}
	if code, _, _ := h.run("receipts", "--round", "01JZ0000000000000000000000"); code != exitNo {
		t.Errorf("a round that does not exist: exit code %d", code)
	}
}

func testExplain(t *testing.T, h *testFolder, bob *agentAtWork) {
	refusedCall := audited(t, h, "--status", "not_found", "--limit", "1").Calls[0]
	x := decodeAs[struct {
		Gate   []layerAnswer        `json:"gate"`
		Events []people.EventDetail `json:"events"`
	}](t, h.must("explain", "--json", string(refusedCall.Call)))
	want := []string{"decode passed", "engine passed", "round passed", "tool refused", "phase not asked",
		"baseline not asked", "role not asked", "profile not asked", "principal not asked", "ancestors not asked", "asset not asked", "staging not asked"}
	for i, l := range x.Gate {
		if i >= len(want) || string(l.Layer)+" "+l.Answer != want[i] {
			t.Errorf("layer %d: %+v", i, l)
		}
	}
	if len(x.Gate) != len(want) || len(x.Events) != 1 || x.Events[0].Seq != refusedCall.Seq {
		t.Errorf("%+v", x)
	}
	done := audited(t, h, "--tool", "file.write").Calls[0]
	out := h.must("explain", string(done.Call))
	for _, want := range []string{"role worker, version 1", "ev.main.agent.alice.call_decided", "ev.main.agent.alice.call_completed", "agent:alice", "phase 2"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if code, _, _ := h.run("explain", "01JZ0000000000000000000000"); code != exitNo {
		t.Errorf("a call that does not exist: exit code %d", code)
	}
}

// Whatever an agent writes, a call is one line of printable text.
func testHostile(t *testing.T, h *testFolder, alice *agentAtWork) {
	const evil = "x\n{\"event\":\"approved\"}\x1b[2J\u202e\u2066\u200b\ufeff\r\t"
	quoted := strings.NewReplacer("\n", `\n`, "\x1b", `\u001b`, "\r", `\r`, "\t", `\t`, `"`, `\"`).Replace(evil)
	alice.beginRound(h, evil)
	for _, args := range []string{`{"path":"` + quoted + `"}`, `{"` + quoted + `":1}`} {
		for _, tool := range []string{"file.read", evil} {
			if _, err := alice.call(tool, args, evil+tool+args[:3]); err != nil {
				t.Fatal(err)
			}
		}
	}
	round := string(alice.r.Round)
	rows := audited(t, h, "--round", round).Calls
	if len(rows) == 0 {
		t.Fatal("nothing is recorded")
	}
	for _, wide := range []string{"--wide=false", "--wide"} {
		out := h.must("audit", "--round", round, wide)
		wantPlain(t, out)
		if n := strings.Count(out, "\n"); n != len(rows)+1 {
			t.Errorf("audit %s: %d lines for %d calls:\n%s", wide, n, len(rows), out)
		}
	}
	wantPlain(t, h.must("receipts", "--round", round))
	for _, r := range rows {
		wantPlain(t, h.must("explain", string(r.Call)))
	}
}

func wantPlain(t *testing.T, out string) {
	t.Helper()
	if events.Escape(strings.ReplaceAll(strings.ReplaceAll(out, "\n", ""), `\`, "")) != strings.ReplaceAll(strings.ReplaceAll(out, "\n", ""), `\`, "") {
		t.Errorf("not printable: %q", out)
	}
}

func testDoctor(t *testing.T, h *testFolder) {
	var d diagnosis
	waitFor(t, "the head of the first second", func() bool {
		d = decodeAs[diagnosis](t, h.must("doctor", "--json"))
		return d.Folder.Head != nil
	})
	if !d.Running || d.Engine == nil || d.Engine.Seq == 0 || d.Folder.Head == nil || len(d.Troubles)+len(d.Damage) > 0 {
		t.Errorf("%+v", d)
	}
	out := h.must("doctor", "--accept-clock")
	for _, want := range []string{"healthy", "clock held", string(d.Folder.Incarnation), string(d.Folder.CatalogFile)} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	catalog := h.folder().Catalog()
	was, err := os.ReadFile(catalog)
	if err != nil {
		t.Fatal(err)
	}
	if err := config.Write(catalog, []byte("schema: nine\n")); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := h.run("doctor"); code != exitNo || !strings.Contains(out, "catalog file is not valid") {
		t.Errorf("a broken catalog file: exit code %d\n%s", code, out)
	}
	if err := config.Write(catalog, was); err != nil {
		t.Fatal(err)
	}
}

func testClock(t *testing.T, h *testFolder, alice *agentAtWork) {
	h.ahead.Store(int64(2 * time.Hour))
	if _, err := alice.call("file.list", `{"path":"."}`, ""); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := h.run("doctor"); code != exitNo || !strings.Contains(out, "--accept-clock") {
		t.Errorf("after a jump: exit code %d\n%s", code, out)
	}
	h.must("doctor", "--accept-clock")
}

// An agent outside of what a person may observe looks like none at all.
func testObservable(t *testing.T, h *testFolder) {
	catalog := h.folder().Catalog()
	was, err := os.ReadFile(catalog)
	if err != nil {
		t.Fatal(err)
	}
	next := strings.Replace(string(was), `observable_agents: ["*"]`, "observable_agents: [alice]", 1)
	hidden := audited(t, h, "--agent", "bob", "--limit", "1").Calls[0]
	if err := config.Write(catalog, []byte(next)); err != nil {
		t.Fatal(err)
	}
	// The change takes rights from every connection of the key that asks for it:
	// they are cut, perhaps before the answer, and the next one perhaps with them.
	// What counts is what is in force.
	_, out, errs := h.run("catalog", "approve")
	for range 20 {
		if code, _, _ := h.run("doctor"); code == exitYes {
			break
		}
	}
	if d := h.must("doctor"); strings.Contains(d, "differs from the catalog in force") {
		t.Fatalf("the change is not in force: %s%s", out, errs)
	}
	for _, c := range []string{
		"audit --agent %s", "receipts --agent %s", "audit --json --tool no.such --agent %s", "round list --agent %s",
	} {
		outside, nobody := fmt.Sprintf(c, "bob"), fmt.Sprintf(c, "zoe")
		code1, out1, err1 := h.run(strings.Fields(outside)...)
		code2, out2, err2 := h.run(strings.Fields(nobody)...)
		if !strings.Contains(err2, "there is no agent zoe that you may see\n") {
			t.Errorf("%s says %q", nobody, err2)
		}
		if code1 != code2 || out1 != out2 || strings.ReplaceAll(err1, "bob", "zoe") != err2 {
			t.Errorf("%s: %d %s%s\nwant, as for %s: %d %s%s", outside, code1, out1, err1, nobody, code2, out2, err2)
		}
	}
	code1, _, err1 := h.run("explain", string(hidden.Call))
	code2, _, err2 := h.run("explain", "01JZ0000000000000000000000")
	if code1 != code2 || strings.ReplaceAll(err1, string(hidden.Call), "") != strings.ReplaceAll(err2, "01JZ0000000000000000000000", "") {
		t.Errorf("explain: %d %s, want %d %s", code1, err1, code2, err2)
	}
	if out := h.must("agents"); strings.Contains(out, "bob") || !strings.Contains(out, "alice") {
		t.Error(out)
	}
}

// Before the first look at the book there is nothing to count.
func TestScrubNotBegun(t *testing.T) {
	for want, h := range map[string]people.HealthAnswer{
		"scrubbed +not begun": {Seq: 42}, "scrubbed +7 of 42 events": {Seq: 42, ScrubDone: 7, ScrubOf: 42},
	} {
		var out strings.Builder
		if err := (&App{Out: &out}).printDiagnosis(&diagnosis{Engine: &h}); err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %s in\n%s", want, &out)
		}
	}
}

// What leaks is seen from outside, by whoever may ask how the engine is.
func TestHealthMeasuresTheProcess(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	h.open()
	anna, err := h.app.reader("view")
	check(t, err)
	defer anna.close()
	ask := func() people.Process {
		var a people.HealthAnswer
		check(t, anna.ask(t.Context(), "health", struct{}{}, &a))
		return a.Process
	}
	const more = 1000
	before, end := ask(), make(chan struct{})
	held := make([]byte, 64<<20)
	for range more {
		go func() { <-end }()
	}
	runtime.GC()
	after := ask()
	close(end)
	if grown := after.Goroutines - before.Goroutines; grown < more/2 || grown > 2*more {
		t.Errorf("%d goroutines more, %d were started", grown, more)
	}
	if after.HeapBytes < int64(len(held)) {
		t.Errorf("%d bytes of heap, %d are held", after.HeapBytes, len(held))
	}
	runtime.KeepAlive(held)
}
