package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
)

// raw sends a request as it is and gives the answer as it is.
func (c *client) raw(t *testing.T, verb, body string) []byte {
	t.Helper()
	m, err := c.conn.RequestWithContext(t.Context(), c.prefix+verb, []byte(body))
	check(t, err)
	return m.Data
}

// Whatever is malformed is refused before the policy, with the field, exactly one
// decision in the book, and nothing touched.
func TestBadInput(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	n := h.open()
	r, alice := h.begin("alice"), h.agent("alice")
	whole := func(more string) string {
		return fmt.Sprintf(`{"round":%q,"handle":%q,"tool":"file.write"%s,"args":{"path":"ok.txt","content":"x"}}`, r.Round, r.Handle, more)
	}
	args := func(a string) string {
		return fmt.Sprintf(`{"round":%q,"handle":%q,"tool":"file.write","args":%s}`, r.Round, r.Handle, a)
	}
	rows := []struct{ name, body, field string }{
		{"O-R20 go-sdk#805 a name in another case", args(`{"path":"ok.txt","Path":"../Identity.md","content":"x"}`), "Path"},
		{"O-R20 golang/go#14750 a name twice", args(`{"path":"ok.txt","path":"../Identity.md","content":"x"}`), "path"},
		{"O-R20 capitals", args(`{"PATH":"x","content":"x"}`), "PATH"},
		{"O-R20 long s", args(`{"path":"ok.txt","content":"x","\u017ftatus":"x"}`), "\u017ftatus"},
		{"O-R20 kelvin sign", args(`{"path":"ok.txt","content":"x","\u212aind":"human"}`), "\u212aind"},
		{"O-R20 two values", args(`{"path":"a","content":"x"}{"path":"../b","content":"x"}`), ""},
		{"O-R20 two requests", whole("") + whole(""), "request"},
		{"O-R20 the request's own names in another case", whole(`,"Tool":"file.delete"`), "Tool"},
		{"O-R20 the request's own names twice", whole(`,"tool":"file.delete"`), "tool"},
		{"O-R20 a name that folds", whole(`,"` + "\u212aey" + `":"k"`), "\u212aey"},
		{"O-R22 agentguard#1427 a kind", whole(`,"principalKind":"human"`), "principalKind"},
		{"O-R22 mission-control#217 an agent", whole(`,"agent_id":"sup"`), "agent_id"},
		{"O-L09 mcp_agent_mail#99 a sender", whole(`,"sender":"HumanOverseer"`), "sender"},
		{"O-L09 the-librarian#71 from", whole(`,"from":"system"`), "from"},
		{"O-L09 agentId", args(`{"path":"ok.txt","content":"x","agentId":"bob"}`), "agentId"},
		{"O-L10 bitwarden/server#8296 a time", whole(`,"timestamp":"2001-01-01T00:00:00Z"`), "timestamp"},
		{"O-L10 a time of the call", args(`{"path":"ok.txt","content":"x","timestamp":"2001-01-01T00:00:00Z"}`), "timestamp"},
		{"O-L13 no JSON", `{"round":`, ""},
		{"nothing", ``, ""},
		{"a list", `[]`, "request"},
		{"not UTF-8", "{\"tool\":\"\xff\"}", ""},
		{"a round that is none", strings.Replace(whole(""), string(r.Round), strings.ToLower(string(r.Round)), 1), "round"},
		{"a handle in capitals", strings.Replace(whole(""), r.Handle, strings.Repeat("A", 32), 1), "handle"},
		{"a key that is too long", whole(`,"key":"` + strings.Repeat("k", 129) + `"`), "key"},
		{"a number for a path", args(`{"path":7,"content":"x"}`), "path"},
		{"arguments that are a text", args(`"path"`), ""},
		{"O-R20 arguments beyond one's depth", args(strings.Repeat("[", 20000) + strings.Repeat("]", 20000)), ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			before, _ := all[events.CallDecided](t, n)
			var a engine.CallAnswer
			check(t, json.Unmarshal(alice.raw(t, "call", row.body), &a))
			if a.Verdict != events.Reject || a.Status != events.StatusRejected || !strings.Contains(a.Reason, events.Quote(row.field)) && !strings.Contains(a.Reason, row.field) {
				t.Errorf("answered %+v, want a reject that names %q", a, row.field)
			}
			after, of := all[events.CallDecided](t, n)
			if len(after) != len(before)+1 {
				t.Fatalf("%d decisions", len(after)-len(before))
			}
			last := len(after) - 1
			if d := after[last]; of[last] != "alice" || d.Call != a.Call || d.Verdict != events.Reject || d.Reason != a.Reason {
				t.Errorf("recorded %+v of %s", d, of[last])
			}
			if strings.Contains(after[last].Arguments.Text.Text, r.Handle) {
				t.Error("the handle is in the book")
			}
		})
	}
	if found, _ := filepath.Glob(filepath.Join(h.dir.Path(), "agents", "alice", "*", "*")); len(found) > 0 {
		t.Errorf("files were touched: %v", found)
	}
}

// O-E13 rustgate#616: a name that would be several tokens, or none, of a subject
// is no agent; O-E14 nats-server#2585: what could be a header is only text.
func TestNamesAreNotSubjects(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	n := h.open()
	channel, err := h.app.channel(terminalChannel)
	check(t, err)
	defer channel.close()
	for _, id := range []string{"a.b", "*", ">", "a b", "", "a\r\nPUB x 1", ".a", strings.Repeat("a", 300), "\u00e9", "Alice", "engine"} {
		body := fmt.Sprintf(`{"agent":%s,"sender":"anna","handle_hash":%q}`, quote(id), strings.Repeat("0", 64))
		var no engine.Refused
		check(t, json.Unmarshal(channel.raw(t, "round.begin", body), &no))
		if no.Error.Code == "" {
			t.Errorf("O-E13 agent %q: a round began", id)
		}
	}
	r, alice := h.begin("alice"), h.agent("alice")
	const header = "x\r\nNats-Rollup: all\r\nNats-Expected-Last-Sequence: 0\r\n"
	for _, c := range []struct{ key, tool, args string }{
		{header, "demo.none", "{}"},
		{"", header, "{}"},
		{"", "file.write", `{"path":"a.txt","content":` + quote(header) + `}`},
		{"", "demo.none", `{"Nats-Rollup":"all"}`},
	} {
		_, err := alice.call(t.Context(), r, c.key, c.tool, c.args)
		check(t, err)
	}
	state, err := n.stores.book().State(t.Context())
	check(t, err)
	if state.First != 1 || state.Messages != uint64(state.Last) {
		t.Errorf("O-E14 the book has lost events: %+v", state)
	}
	calls, _ := all[events.CallDecided](t, n)
	if len(calls) != 4 || calls[0].Key != header || calls[1].Tool.Name != header || calls[1].Verdict != events.NotFound {
		t.Errorf("O-E14 recorded %+v", calls)
	}
}

// O-L13 claude-code#82420, darbaan#236: every kind of refusal is in the book with
// a reason of its own.
func TestEveryRefusalIsRecorded(t *testing.T) {
	ungranted := func(catalog string) string { return strings.Replace(catalog, "      - tool: file.delete\n", "", 1) }
	h := newHouse(t, t.TempDir(), ungranted, "alice", "bob")
	n := h.open()
	r, alice := h.begin("alice"), h.agent("alice")
	folder := filepath.Join(h.dir.Path(), "agents", "alice", "Workspace")
	check(t, os.MkdirAll(folder, 0o700))
	check(t, os.Symlink("/etc/hostname", filepath.Join(folder, "link")))
	guest := h.begin("bob")
	channel, err := h.app.channel(terminalChannel)
	check(t, err)
	defer channel.close()
	check(t, channel.ask(t.Context(), "round.end", roundEnd{Round: guest.Round, HandleHash: guest.hash(), End: events.RoundCompleted}, new(engine.RoundAnswer)))
	forged := r
	forged.Handle = strings.Repeat("0", 32)
	for _, row := range []struct {
		name string
		c    *client
		r    roundFile
		tool string
		args string
		want events.Verdict
		// end is set where the refusal is the call's end.
		end events.Status
	}{
		{"malformed", alice, r, "file.read", `{"path":"a","x":1}`, events.Reject, ""},
		{"unknown tool", alice, r, "no.such", `{}`, events.NotFound, ""},
		{"a tool in another case", alice, r, "file.Read", `{"path":"a"}`, events.NotFound, ""},
		{"a tool with a space", alice, r, "file.read ", `{"path":"a"}`, events.NotFound, ""},
		{"a tool that looks like another", alice, r, "f\u0456le.read", `{"path":"a"}`, events.NotFound, ""},
		{"a tool with nothing to see in it", alice, r, "file.\u200bread", `{"path":"a"}`, events.NotFound, ""},
		{"a tool with a control character", alice, r, "file.read\x00", `{"path":"a"}`, events.NotFound, ""},
		{"not granted", alice, r, "file.delete", `{"path":"a"}`, events.Deny, ""},
		{"wrong handle", alice, forged, "file.list", `{}`, events.Deny, ""},
		{"somebody else's round", h.agent("bob"), r, "file.list", `{}`, events.Deny, ""},
		{"round has ended", h.agent("bob"), guest, "file.list", `{}`, events.Deny, ""},
		{"path outside", alice, r, "file.read", `{"path":"../../../keys/mac"}`, "", ""},
		{"a link", alice, r, "file.read", `{"path":"link"}`, events.Allow, events.StatusDenied},
	} {
		a := row.c.mustCall(t, row.r, row.tool, row.args)
		if row.want != "" && a.Verdict != row.want || a.Reason == "" || row.end != "" && a.Status != row.end || a.Status == events.StatusOK {
			t.Errorf("%s: %+v", row.name, a)
		}
		book := livesIn(facts(t, n.stores.book()))
		if ends := book.ends[a.Call]; len(ends) != 1 || ends[0] != a.Status || row.end == "" && book.decided[a.Call].Reason != a.Reason {
			t.Errorf("%s: recorded %+v with the ends %v", row.name, book.decided[a.Call], ends)
		}
	}
	if calls, _ := all[events.CallDecided](t, n); len(calls) != 13 {
		t.Errorf("%d decisions for 13 calls", len(calls))
	}
}

// secret is in every value of TestNoExitShowsSecrets that no exit may show.
const secret = "CANARY7f3a"

// O-L03 to O-L06 (openworker#397, 5dive#881, mcp-hangar#1168): arguments and
// results with secrets leave by no exit: book, blobs, views, feed, people's
// views, errors, and what the engine prints.
func TestNoExitShowsSecrets(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	p := h.start()
	r, alice := h.begin("alice"), h.agent("alice")
	anna, err := h.app.reader("view")
	check(t, err)
	defer anna.close()
	var feed atomic.Pointer[bytes.Buffer]
	feed.Store(new(bytes.Buffer))
	_, err = anna.conn.Subscribe("audit.>", func(m *nats.Msg) {
		now := bytes.NewBuffer(bytes.Clone(feed.Load().Bytes())) // one goroutine writes
		fmt.Fprintf(now, "%s %v %s\n", m.Subject, m.Header, m.Data)
		feed.Store(now)
	})
	check(t, err)
	check(t, anna.conn.Flush())
	exits := map[string]string{"answers with a refusal": ""}
	calls := secretCalls(t, h, r, alice, exits)
	for _, q := range []struct {
		verb string
		ask  any
	}{{"audit", people.AuditRequest{}}, {"receipts", people.ListRequest{}}, {"rounds", people.ListRequest{}}, {"health", struct{}{}}, {"agents", people.ListRequest{}}} {
		raw, err := anna.request(t.Context(), q.verb, q.ask)
		check(t, err)
		exits["view."+q.verb] = string(raw)
	}
	for _, id := range calls {
		raw, err := anna.request(t.Context(), "call", people.CallRequest{Call: id})
		check(t, err)
		exits["view.call"] += string(raw)
		raw, err = alice.request(t.Context(), "outcome", callRequest{Round: r.Round, Handle: r.Handle, Call: string(id)})
		check(t, err)
		exits["outcome"] += string(raw)
	}
	waitFor(t, "the feed told of every call", func() bool {
		return strings.Count(feed.Load().String(), "\n") >= len(calls)
	})
	exits["feed"] = feed.Load().String()
	p.stop()
	exits["printed"] = p.said.String()
	storedExits(t, h, exits)
	for exit, text := range exits {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("%s shows a secret: …%s…", exit, text[max(0, at-200):min(len(text), at+60)])
		}
	}
	if !strings.Contains(exits["book"], "[redacted]") || !strings.Contains(exits["view.audit"], "private_key") {
		t.Error("(control) the names of what was masked are not kept")
	}
}

// secretCalls sends secrets in every place of a call and gives the ids.
func secretCalls(t *testing.T, h *house, r roundFile, alice *client, exits map[string]string) (ids []events.CallID) {
	t.Helper()
	l03 := strings.ReplaceAll(`{"headers":{"Authorization":"Bearer sk-test-@"},"auth":[{"private_key":"@"}],"cookie":"c=@","cfg":{"api-key":"@","apiKey":"@2","credential":"@3"}}`, "@", secret)
	l04 := "password: " + secret + "\n--api-key=" + secret + "\nhttps://docs.example.com/?access_token=" + secret + "\n"
	long := strings.Repeat("harmless words\n", 2000)
	for _, c := range []struct{ name, tool, args string }{
		{"O-L03 refused arguments", "demo.none", l03},
		{"O-L03 of an unknown tool", "no.such", l03},
		{"O-L04 items of a list", "no.such", `{"args":["set","telegram.token=` + secret + `","--api-key=` + secret + `"]}`},
		{"O-L04 written to a file", "file.write", `{"path":"a.txt","content":` + quote(l04) + `}`},
		{"O-L05 large arguments, kept as a blob", "file.write", `{"path":"b.txt","content":` + quote(long+l04+long) + `}`},
		{"O-L05 an error that shows the path", "file.read", `{"path":"password=` + secret + `"}`},
		{"O-L05 a refusal that shows the path", "file.read", `{"path":"../password=` + secret + `"}`},
		{"O-L06 a result", "file.read", `{"path":"c.txt"}`},
		{"O-L06 a large result, kept as a blob", "file.read", `{"path":"b.txt"}`},
	} {
		if c.name == "O-L06 a result" {
			path := filepath.Join(h.dir.Path(), "agents", "alice", "Workspace", "c.txt")
			check(t, os.WriteFile(path, []byte("PORT=1\nAPI_KEY="+secret+"2\n"), 0o600))
		}
		a := alice.mustCall(t, r, c.tool, c.args)
		if a.Call == "" {
			t.Fatalf("%s: %+v", c.name, a)
		}
		ids = append(ids, a.Call)
		if c.tool == "file.read" && a.Status == events.StatusOK && !strings.Contains(string(a.Result), secret) {
			t.Errorf("%s: (control) the agent gets its own file masked: %.200s", c.name, a.Result)
		}
		a.Result = nil
		exits["previews and reasons of answers"] += fmt.Sprintf("%s %+v\n", c.name, a)
	}
	// What is no request at all.
	for _, body := range []string{
		`{"round":"x","handle":"` + r.Handle + `","tool":"file.write","args":` + l03 + `,"token":"` + secret + `"}`,
		`{"password":"` + secret + `"`,
	} {
		var a engine.CallAnswer
		check(t, json.Unmarshal(alice.raw(t, "call", body), &a))
		ids = append(ids, a.Call)
		exits["answers with a refusal"] += fmt.Sprintf("%+v\n", a)
	}
	return ids
}

// storedExits reads what an engine has left on the disk: every file but the
// agent's own ones, every row of the views, every event.
func storedExits(t *testing.T, h *house, exits map[string]string) {
	t.Helper()
	check(t, filepath.WalkDir(h.dir.Path(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(path, filepath.Join(h.dir.Path(), "agents")) {
			return err
		}
		raw, err := os.ReadFile(path)
		exits["file "+path] = string(raw)
		return err
	}))
	n := h.node(true)
	defer func() { check(t, n.close()) }()
	for r, err := range n.stores.book().Read(t.Context(), 1) {
		check(t, err)
		exits["book"] += r.Subject + " " + string(r.Body) + "\n"
	}
	snap := n.stores.views.Snapshot()
	defer func() { check(t, snap.Close()) }()
	for row, err := range snap.Scan([]byte{}, []byte{0xff}) {
		check(t, err)
		exits["views"] += string(row.Key) + " " + string(row.Value) + "\n"
	}
}

// O-L11 omni#1166, screamingface#695: a large result has its end in the book
// whatever its size, and its recorded text can be fetched in pieces. O-L12
// openworker#397: of large arguments everything is kept.
func TestLargeContent(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	n := h.open()
	r, alice := h.begin("alice"), h.agent("alice")
	folder := filepath.Join(h.dir.Path(), "agents", "alice", "Workspace")
	check(t, os.MkdirAll(folder, 0o700))
	for name, content := range map[string]string{
		"O-L11 doubles when escaped": strings.Repeat(`"`, 512<<10),
		"O-L11 six times as long":    strings.Repeat("\x01", 512<<10),
		"O-L11 plain":                strings.Repeat("plain words ", 43690),
		"O-L11 no text":              strings.Repeat("\xff", 512<<10),
		"O-L11 three bytes each":     strings.Repeat("\u20ac", 170000),
		"O-L11 small":                "x",
	} {
		check(t, os.WriteFile(filepath.Join(folder, "f.txt"), []byte(content), 0o600))
		a := alice.mustCall(t, r, "file.read", `{"path":"f.txt","limit":524288}`)
		if a.Status != events.StatusOK || a.Size == 0 {
			t.Errorf("%s: %+.300v", name, a)
			continue
		}
		book := livesIn(facts(t, n.stores.book()))
		if ends := book.ends[a.Call]; len(ends) != 1 || ends[0] != events.StatusOK {
			t.Errorf("%s: the book has the ends %v", name, ends)
		}
		recorded, pieces := fetch(t, alice, r, a.Call)
		if a.Result != nil && !sameJSON(t, recorded, string(a.Result)) || int64(len(recorded)) != a.Size {
			t.Errorf("%s: %d bytes recorded in %d pieces, the answer has %d of %d", name, len(recorded), pieces, len(a.Result), a.Size)
		}
	}
	longArguments(t, h, n, alice, r)
}

// fetch joins the pieces of a recorded result.
func fetch(t *testing.T, c *client, r roundFile, id events.CallID) (text string, pieces int) {
	t.Helper()
	q := callRequest{Round: r.Round, Handle: r.Handle, Call: string(id)}
	for {
		a, err := c.answer(t.Context(), "outcome", q)
		check(t, err)
		text, pieces = text+a.Preview, pieces+1
		if a.Truncated != (a.Cursor != 0) {
			t.Fatalf("truncated %t with cursor %d", a.Truncated, a.Cursor)
		}
		if q.Cursor = a.Cursor; q.Cursor == 0 {
			return text, pieces
		}
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	x, y := jsontext.Value(a), jsontext.Value(b)
	check(t, x.Canonicalize())
	check(t, y.Canonicalize())
	return bytes.Equal(x, y)
}

func longArguments(t *testing.T, h *house, n *node, alice *client, r roundFile) {
	t.Helper()
	harmless := strings.Repeat("harmless; ", 3000)
	for _, end := range []string{"delete everything", "delete nothing"} {
		alice.mustCall(t, r, "file.write", `{"path":"long.txt","content":`+quote(harmless+end)+`}`)
	}
	calls, _ := all[events.CallDecided](t, n)
	one, two := calls[len(calls)-2].Arguments, calls[len(calls)-1].Arguments
	if !one.Truncated || one.Size < int64(len(harmless)) || one.MAC == two.MAC || one.Blob == "" {
		t.Fatalf("O-L12 recorded %+v", one)
	}
	raw, err := os.ReadFile(filepath.Join(h.dir.Blobs(), string(one.Blob)))
	check(t, err)
	if !strings.Contains(string(raw), "delete everything") || events.DigestOf(raw) != one.Blob {
		t.Error("O-L12 the end of the arguments is not kept")
	}
}
