package intake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/health"
	"gatebook/handlers/redact"
	"gatebook/handlers/tools"
	"gatebook/infra/blobs"
	"gatebook/policy"
)

const (
	aRound  = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	aHandle = "0123456789abcdef0123456789abcdef"
	aHash   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	aSecret = "ghp_a1b2a1b2a1b2a1b2a1b2a1b2a1b2a1b2a1b2"
	aTrace  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

// desk is a loop that decides nothing: it keeps what it is handed.
type desk struct {
	health  health.State
	stopped bool

	mu   sync.Mutex
	took []engine.Command
}

func (d *desk) Submit(_ context.Context, c engine.Command) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return engine.ErrStopped
	}
	d.took = append(d.took, c)
	return nil
}

func (*desk) Catalog() *policy.Compiled { return nil }

func (d *desk) Health() *health.State { return &d.health }

// echo is a tool that takes every object.
type echo struct{}

func (echo) Definition() tools.Definition {
	return tools.Definition{Name: "echo", Description: "echoes", Schema: jsontext.Value(`{}`)}
}

func (echo) Decode(raw jsontext.Value) (tools.Decoded, error) {
	if strings.HasPrefix(string(raw), `{"bad`) {
		return tools.Decoded{}, &policy.Malformed{Field: aSecret, Reason: "is no field, " + aSecret}
	}
	return tools.Decoded{Args: string(raw)}, nil
}

func (echo) Run(context.Context, tools.Env, tools.Args) (jsontext.Value, error) { return nil, nil }

// room is an intake over a desk, with real blobs and real masks.
type room struct {
	*Intake
	desk  *desk
	blobs *blobs.Store
	now   time.Time
	sent  []any
}

func newRoom(t *testing.T) *room {
	t.Helper()
	registry, err := tools.NewRegistry(echo{})
	must(t, err)
	r := &room{desk: &desk{}, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	r.blobs, err = blobs.Open(t.TempDir(), func() events.Instant { return events.InstantOf(r.now) })
	must(t, err)
	r.Intake = New(Config{
		Loop: r.desk, Tools: registry, Blobs: r.blobs, Redact: redact.New(),
		MAC:  func(b []byte) events.MAC { return events.MAC(events.DigestOf(b)) },
		Send: func(_ policy.Account, _ string, v any) { r.sent = append(r.sent, v) },
		Now:  func() time.Time { return r.now }, Workers: 1,
	})
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func body(tool, args, more string) []byte {
	return fmt.Appendf(nil, `{"round":%q,"handle":%q,"tool":%q,"args":%s%s}`, aRound, aHandle, tool, args, more)
}

// decided is what the gate records of a call.
func decided(k *engine.Call) events.CallDecided {
	return policy.DecideCall(nil, k.Request, policy.CallFacts{Tool: policy.ToolFacts{Known: k.Known}}).Decided
}

// Nothing that an agent writes brings a secret into the book.
func TestCallRecordsNoSecret(t *testing.T) {
	r := newRoom(t)
	for name, data := range map[string][]byte{
		"an unknown tool":           body(aSecret, `{}`, ""),
		"a key":                     body("echo", `{}`, `,"key":"`+aSecret+`"`),
		"a field":                   body("echo", `{}`, `,"`+aSecret+`":1`),
		"a field of the arguments":  body("echo", `{"`+aSecret+`":1,"`+aSecret+`":2}`, ""),
		"a field that a tool names": body("echo", `{"bad":1}`, ""),
		"a traceparent":             body("echo", `{}`, `,"traceparent":"`+aSecret+`"`),
		"a round":                   []byte(`{"round":"` + aSecret + `","handle":"` + aHandle + `","tool":"echo"}`),
	} {
		t.Run(name, func(t *testing.T) {
			k := r.call("alice", data, nil).(*engine.Call)
			d := decided(k)
			if d.Verdict == events.Allow || strings.Contains(fmt.Sprintf("%+v", d)+k.Trace, aSecret) {
				t.Errorf("recorded %+v, trace %q", d, k.Trace)
			}
		})
	}
	k := r.call("alice", body("echo", `{"a":1}`, `,"key":"k1"`), nil).(*engine.Call)
	if k.Request.Malformed != nil || k.Request.Key != "k1" || k.Request.Tool != (events.ToolKey{Owner: events.OwnerBuiltin, Name: "echo"}) {
		t.Errorf("(control) %+v", k.Request)
	}
	if k := r.call("alice", body("echo", `{}`, `,"key":"`+aSecret+`"`), nil).(*engine.Call); k.Request.Malformed == nil || k.Request.Malformed.Field != "key" {
		t.Errorf("a key that is a secret gives %+v", k.Request.Malformed)
	}
	long := r.call("alice", body(strings.Repeat("é", 100)+aSecret, `{}`, ""), nil).(*engine.Call)
	if n := long.Request.Tool.Name; len(n) > events.MaxName || strings.Contains(n, "ghp_a") {
		t.Errorf("the tool's name is %q", n)
	}
}

// Nothing that a channel writes brings a secret into the book, and the sender is
// still matched by the bytes it came with.
func TestRoundRecordsNoSecret(t *testing.T) {
	r := newRoom(t)
	const sender = "token=" + aSecret
	data := fmt.Sprintf(`{"agent":"alice","sender":%q,"profile":%q,"handle_hash":%q,"task":%q,"model":%q}`,
		sender, aSecret, aHash, "use "+aSecret, "m "+aSecret)
	cmd, bad := r.decodeBegin("terminal", []byte(data), nil)
	if bad != nil {
		t.Fatal(bad)
	}
	req := cmd.(*engine.BeginRound).Request
	if req.Sender != sender || req.SenderText == "" || req.Task == "" || req.Model == "" {
		t.Errorf("(control) %+v", req)
	}
	if text := req.SenderText + req.Profile + req.Task + req.Model; strings.Contains(text, aSecret) {
		t.Errorf("kept: %s", text)
	}
	task := strings.Repeat("password=x ", policy.MaxTask/len("password=x "))
	cmd, bad = r.decodeBegin("terminal", fmt.Appendf(nil, `{"agent":"alice","sender":"anna","handle_hash":%q,"task":%q}`, aHash, task), nil)
	if bad != nil || len(cmd.(*engine.BeginRound).Request.Task) > policy.MaxTask {
		t.Errorf("a task that grows by its masks: %v", bad)
	}
	cmd, bad = r.decodeEnd(policy.RoundEndRequest{Channel: "terminal"}, fmt.Appendf(nil, `{"round":%q,"handle_hash":%q,"end":"failed","reason":"password=hunter22"}`, aRound, aHash), nil)
	if bad != nil || strings.Contains(cmd.(*engine.EndRound).Request.Reason, "hunter22") {
		t.Errorf("the end is %+v, %v", cmd, bad)
	}
	for name, data := range map[string]string{
		"agent": fmt.Sprintf(`{"agent":"ghp_%s","sender":"anna","handle_hash":%q}`, strings.Repeat("a1", 18), aHash),
		"model": fmt.Sprintf(`{"agent":"alice","sender":"anna","handle_hash":%q,"model":%q}`, aHash, strings.Repeat("m", events.MaxName+1)),
	} {
		if _, bad := r.decodeBegin("terminal", []byte(data), nil); bad == nil || bad.Field != name {
			t.Errorf("%s gives %v", data, bad)
		}
	}
	if _, bad := r.decodeOutcome("alice", fmt.Appendf(nil, `{"round":%q,"handle":%q,"key":%q}`, aRound, aHandle, aSecret), nil); bad == nil || bad.Field != "key" {
		t.Errorf("an outcome by a secret key gives %v", bad)
	}
}

// A trace is kept only of a request that is well formed, in the one form.
func TestTraceParent(t *testing.T) {
	r := newRoom(t)
	for trace, want := range map[string]string{
		aTrace: aTrace, "": "", "00-1": "", strings.ToUpper(aTrace): "", "01" + aTrace[2:]: "", aTrace + "-00": "",
		aTrace + "\n": "", strings.Repeat("x", 100_000): "", "00-" + aHandle + "-00f067aa0ba902b7-01": "",
	} {
		k := r.call("alice", body("echo", `{}`, fmt.Sprintf(`,"traceparent":%q`, trace)), nil).(*engine.Call)
		bad := k.Request.Malformed
		if k.Trace != want || (bad == nil) != (trace == want) || bad != nil && bad.Field != "traceparent" {
			t.Errorf("%.80q: trace %q, %v", trace, k.Trace, bad)
		}
	}
	for name, data := range map[string][]byte{
		"no round":           []byte(`{"round":"x","handle":"` + aHandle + `","tool":"echo","traceparent":"` + aTrace + `"}`),
		"the tool's refusal": body("echo", `{"bad":1}`, `,"traceparent":"`+aTrace+`"`),
	} {
		if k := r.call("alice", data, nil).(*engine.Call); k.Trace != "" || k.Request.Malformed == nil {
			t.Errorf("%s: trace %q", name, k.Trace)
		}
	}
}

// The blob of a refused call goes, that of an allowed one stays, whatever the
// order in which calls with equal bytes are decided; what is refused for certain
// has none.
func TestBlobOfRefusedCall(t *testing.T) {
	large := func(n int) string {
		return fmt.Sprintf(`{"n":%d,"text":"%s"}`, n, strings.Repeat("x", events.MaxInlineArguments))
	}
	for n, kept := range [][]bool{{true}, {false}, {true, false}, {false, true}, {false, false}, {false, true, false}} {
		r := newRoom(t)
		var calls []*engine.Call
		for range kept {
			calls = append(calls, r.call("alice", body("echo", large(n), ""), nil).(*engine.Call))
		}
		d := calls[0].Request.Arguments.Blob
		for _, k := range calls {
			if _, err := r.blobs.Get(d); err != nil || k.Request.Arguments.Blob != d {
				t.Fatalf("%v: before the decisions: %v", kept, err)
			}
		}
		for at, k := range calls {
			k.Settled(kept[at])
			r.sweepNow()
		}
		if _, err := r.blobs.Get(d); slices.Contains(kept, true) != (err == nil) || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: after the decisions: %v", kept, err)
		}
	}
	r := newRoom(t)
	for name, data := range map[string][]byte{
		"an unknown tool":    body("none", large(1), ""),
		"the tool's refusal": body("echo", `{"bad":1,"text":"`+strings.Repeat("x", events.MaxInlineArguments)+`"}`, ""),
	} {
		if k := r.call("alice", data, nil).(*engine.Call); k.Request.Arguments.Blob != "" || k.Settled != nil || !k.Request.Arguments.Truncated {
			t.Errorf("%s: %+v", name, k.Request.Arguments)
		}
	}
	k := r.call("alice", body("echo", large(2), ""), nil).(*engine.Call)
	r.desk.stopped = true
	r.submit(t.Context(), k)
	r.sweepNow()
	if _, err := r.blobs.Get(k.Request.Arguments.Blob); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a call that the loop did not take: %v", err)
	}
}

// While the engine cannot act, everything but a question for an outcome is
// refused at once, by the reason, and nothing is written; the counts wait.
func TestDegraded(t *testing.T) {
	r := newRoom(t)
	large := body("echo", `{"text":"`+strings.Repeat("x", events.MaxInlineArguments)+`"}`, "")
	r.desk.health.Set(health.Disk, "no room")
	inbox := policy.InboxOf("alice") + "1"
	r.Agent(Message{Subject: "intent.alice.call", Reply: inbox, Data: large})
	if a, ok := r.sent[0].(engine.CallAnswer); !ok || a.Verdict != events.Deny || a.Layer != events.LayerEngine || a.Rule != "degraded" || !strings.Contains(a.Reason, "no room") {
		t.Errorf("a call hears %+v", r.sent[0])
	}
	r.Agent(Message{Subject: "intent.alice.attach", Reply: inbox})
	r.Channel(Message{Subject: "channel.terminal.round.begin", Reply: policy.InboxOf("terminal") + "1"})
	for _, v := range r.sent[1:] {
		if no, ok := v.(engine.Refused); !ok || no.Error.Code != "degraded" || !strings.Contains(no.Error.Reason, "no room") {
			t.Errorf("heard %+v", v)
		}
	}
	// What was queued before the trouble is refused as well.
	if cmd := r.command(Message{Subject: "intent.alice.call", Reply: inbox, Data: large}); cmd != nil || len(r.sent) != 4 {
		t.Errorf("a queued call: %+v, %d answers", cmd, len(r.sent))
	}
	asked := fmt.Appendf(nil, `{"round":%q,"handle":%q,"key":"k"}`, aRound, aHandle)
	if _, ok := r.command(Message{Subject: "intent.alice.outcome", Data: asked}).(*engine.Outcome); !ok || r.degraded(policy.AccountAgents, "outcome") {
		t.Error("a question for an outcome does not come through")
	}
	if all, err := r.blobs.Orphans(events.InstantOf(r.now)+1, func(events.Digest) bool { return false }); err != nil || len(all) > 0 {
		t.Errorf("written: %v, %v", all, err)
	}
	r.desk.health.Clear(health.Disk)
	if cmd := r.command(Message{Subject: "intent.alice.call", Reply: inbox, Data: large}); cmd == nil {
		t.Error("(control) a call is refused when all is well")
	}
}

// Whatever is sent, an identity makes one event per code and second, and takes no
// other's place.
func TestCountsAreBounded(t *testing.T) {
	r := newRoom(t)
	for n := range 5000 {
		r.Agent(Message{Subject: "intent.alice.call", Reply: fmt.Sprintf("elsewhere.%d.\xff%s", n, strings.Repeat("y", 200))})
		r.command(Message{Subject: fmt.Sprintf("intent.alice.verb%d", n)})
	}
	r.Agent(Message{Subject: "intent.bob.call", Reply: "inbox.alice." + aSecret})
	r.Channel(Message{Subject: "channel.terminal.round.begin", Reply: "elsewhere"})
	r.command(Message{Subject: "channel.terminal.dance"})
	r.Agent(Message{Subject: "intent.alice.call", Data: make([]byte, engine.MaxAnswer+1)})
	got := map[string]int64{}
	for _, note := range r.counts.take() {
		switch f := note.Fact.(type) {
		case events.AccessRefused:
			got[f.Account+" "+f.Client+" "+f.Action] = f.Count
			if note.Agent != "" || f.Subject == "" || f.Subject != events.Cut(f.Subject, events.MaxName) || strings.Contains(f.Subject, aSecret) {
				t.Errorf("recorded %+v", note)
			}
			if f.Client == "alice" && !strings.HasPrefix(f.Subject, "elsewhere.0.") {
				t.Errorf("not the first subject: %+v", f)
			}
		case events.IntakeRefused:
			got[string(note.Agent)+" "+f.Reason] = f.Count
		}
	}
	want := map[string]int64{
		"AGENTS alice reply": 5000, "AGENTS bob reply": 1, "CHANNELS terminal reply": 1, "CHANNELS terminal unknown_verb": 1,
		"alice unknown_verb": 5000, "alice too_large": 1,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("counted %v\nwant %v", got, want)
	}
	if again := r.counts.take(); len(again) > 0 {
		t.Errorf("counted twice: %v", again)
	}
}

// Each second has its event; while nothing can be recorded nothing is lost, and
// memory is bounded.
func TestCountsWait(t *testing.T) {
	c := newCounts()
	who := refusal{policy.AccountAgents, "alice", codeDegraded}
	subject := func() string { return "s" }
	for n := range 100 {
		c.add(who, events.Instant(n/2), subject)
	}
	notes, sum := c.take(), int64(0)
	for n, note := range notes {
		f := note.Fact.(events.IntakeRefused)
		sum += f.Count
		if f.Second != events.Instant(n) || n < maxSeconds-1 && f.Count != 2 {
			t.Errorf("event %d: %+v", n, f)
		}
	}
	if len(notes) != maxSeconds || sum != 100 {
		t.Errorf("%d events, %d counted", len(notes), sum)
	}
}

// Run reports the counts every second, once the engine can record them.
func TestRunReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { r.Run(ctx) })
		r.desk.health.Set(health.Book, "x")
		r.Agent(Message{Subject: "intent.alice.call"})
		<-time.After(3 * time.Second)
		synctest.Wait()
		if n := len(r.desk.took); n != 0 {
			t.Errorf("%d counts were handed to an engine that cannot record them", n)
		}
		r.desk.health.Clear(health.Book)
		<-time.After(time.Second)
		synctest.Wait()
		if n := len(r.desk.took); n != 1 {
			t.Errorf("%d counts were handed over, want 1", n)
		}
		stop()
		done.Wait()
	})
}

// Run removes the blobs of refused calls, and ends with its context.
func TestRun(t *testing.T) {
	r := newRoom(t)
	k := r.call("alice", body("echo", `{"text":"`+strings.Repeat("x", events.MaxInlineArguments)+`"}`, ""), nil).(*engine.Call)
	k.Settled(false)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r.Run(ctx)
	if _, err := r.blobs.Get(k.Request.Arguments.Blob); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the blob is there: %v", err)
	}
}

// O-A22 (agent-passport-system#94, asqav-sdk#444): the digest of arguments does not depend
// on the order of keys. They are sorted by their UTF-16 units (RFC 8785), which puts
// U+1F600 in front of U+FB33 and their UTF-8 bytes do not.
func TestOrderOfKeys(t *testing.T) {
	r := newRoom(t)
	mac := func(args string) (events.MAC, string) {
		k := r.call("alice", body("echo", args, ""), nil).(*engine.Call)
		if k.Request.Malformed != nil {
			t.Fatal(k.Request.Malformed)
		}
		return k.Request.Arguments.MAC, string(k.Request.Args)
	}
	for _, row := range [][2]string{
		{`{"path":"a","content":"x"}`, `{"content":"x","path":"a"}`},
		{`{"a":{"c":1,"b":[{"e":2,"d":3}]}}`, `{"a":{"b":[{"d":3,"e":2}],"c":1}}`},
		{`{"\ufb33":1,"\ud83d\ude00":2}`, `{"\ud83d\ude00":2,"\ufb33":1}`},
	} {
		a, text := mac(row[0])
		if b, _ := mac(row[1]); a != b {
			t.Errorf("O-A22 %s and %s have two digests", row[0], row[1])
		}
		if other, _ := mac(strings.Replace(row[0], "1", "7", 1) + " "); strings.Contains(row[0], "1") && other == a {
			t.Errorf("(control) %s and another value have one digest", row[0])
		}
		if strings.Contains(row[0], "ufb33") && text != "{\"\U0001f600\":2,\"\ufb33\":1}" {
			t.Errorf("O-A22 the canonical form is %q", text)
		}
	}
}

// O-A03 (pydantic/pydantic-ai#6968, anvia-hq/anvia#178), O-A04 (VoltAgent/voltagent#1403):
// what is decided, shown and run is one snapshot, made once; nobody's later change of the
// bytes that it came in reaches it.
func TestSnapshotOfArguments(t *testing.T) {
	r := newRoom(t)
	data := body("echo", `{"path":"./a.txt"}`, "")
	k := r.call("alice", data, nil).(*engine.Call)
	for i := range data {
		data[i] = 'x'
	}
	if string(k.Request.Args) != `{"path":"./a.txt"}` || k.Args != `{"path":"./a.txt"}` || k.Request.Arguments.Text.Text != `{"path":"./a.txt"}` {
		t.Errorf("O-A04 %s, %v, %s", k.Request.Args, k.Args, k.Request.Arguments.Text.Text)
	}
	if k.Request.Arguments.MAC != events.MAC(events.DigestOf(k.Request.Args)) {
		t.Error("O-A03 the digest is of something else than what runs")
	}
}
