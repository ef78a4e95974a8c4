package telegram

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"gatebook/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "CANARYcanaryCANARYcanary12345"
	token  = "123456:" + secret
	anna   = events.PersonID("anna")
	bert   = events.PersonID("bert")
)

// The people of the tests: anna alone, and anna and bert in a group.
var people = map[place]events.PersonID{{11, 11}: anna, {-5, 11}: anna, {-5, 22}: bert, {22, 22}: bert, {66, 66}: bert}

// message is one that the bot sent.
type message struct {
	id      int // Telegram's, of all messages
	n       int // of those that the bot sent
	chat    int64
	text    string
	buttons map[string]string // by label, what they carry
	preview string
	mode    string
}

// world is a server that speaks the Bot API, and a desk, both in one place so that a
// test can wait for either.
type world struct {
	t   *testing.T
	srv *httptest.Server

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	clock   time.Time

	// of the server
	lastID    int64
	messages  int
	updates   map[int64]string
	repeat    bool // forget what was confirmed
	polls     int
	offsets   []int64
	sent      []message
	toasts    map[string]string
	edited    []int
	faults    map[string][]http.HandlerFunc
	rewrite   func(string) string
	requested []string

	// of the desk
	reviews   map[events.ReviewID]Shown
	decided   map[events.ReviewID]string
	decisions []string
	showing   func(context.Context, events.PersonID) error
	deciding  func(context.Context) error
	strange   []string
	internal  []error
	waits     []time.Duration
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, changed: make(chan struct{}), clock: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		messages: 1000, updates: map[int64]string{}, toasts: map[string]string{}, faults: map[string][]http.HandlerFunc{},
		reviews: map[events.ReviewID]Shown{}, decided: map[events.ReviewID]string{},
	}
	w.srv = httptest.NewServer(w)
	t.Cleanup(w.srv.Close)
	return w
}

// do changes the world.
func (w *world) do(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

// see looks at the world while a bot may run.
func (w *world) see(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// await waits until the world is so.
func (w *world) await(what string, is func() bool) {
	w.t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for {
		w.mu.Lock()
		ok, changed := is(), w.changed
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			w.t.Fatalf("never: %s; sent %v, decided %v", what, w.sent, w.decisions)
		}
	}
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(time.Millisecond)
	return w.clock
}

func (w *world) pass(d time.Duration) { w.do(func() { w.clock = w.clock.Add(d) }) }

// ServeHTTP is the Bot API.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+token+"/")
	if !ok {
		answer(rw, 401, map[string]any{"ok": false, "error_code": 401, "description": "Unauthorized"})
		return
	}
	_ = r.ParseMultipartForm(1 << 20) // that of getMe is empty, and therefore none
	var fault http.HandlerFunc
	w.do(func() {
		w.requested = append(w.requested, method)
		if all := w.faults[method]; len(all) > 0 {
			fault, w.faults[method] = all[0], all[1:]
		}
	})
	if fault != nil {
		fault(rw, r)
		return
	}
	switch method {
	case "getMe":
		result(rw, map[string]any{"id": 123456, "is_bot": true, "first_name": "G", "username": "GateBot"})
	case "getUpdates":
		w.getUpdates(rw, r)
	case "sendMessage":
		w.sendMessage(rw, r)
	case "answerCallbackQuery":
		w.do(func() { w.toasts[r.FormValue("callback_query_id")] = r.FormValue("text") })
		result(rw, true)
	case "editMessageReplyMarkup":
		id, _ := strconv.Atoi(r.FormValue("message_id"))
		w.do(func() { w.edited = append(w.edited, id) })
		result(rw, true)
	default:
		answer(rw, 404, map[string]any{"ok": false, "error_code": 404, "description": "Not Found"})
	}
}

func (w *world) getUpdates(rw http.ResponseWriter, r *http.Request) {
	offset, _ := strconv.ParseInt(r.FormValue("offset"), 10, 64)
	seconds, _ := strconv.Atoi(r.FormValue("timeout"))
	limit := time.NewTimer(time.Duration(seconds) * time.Second)
	defer limit.Stop()
	w.do(func() { w.polls++; w.offsets = append(w.offsets, offset) })
	for {
		var due []string
		w.mu.Lock()
		had := len(w.updates)
		for id, u := range w.updates {
			if id < offset && !w.repeat {
				delete(w.updates, id)
			} else {
				due = append(due, u)
			}
		}
		changed, confirmed := w.changed, len(w.updates) < had
		w.mu.Unlock()
		if confirmed {
			w.do(func() {})
			continue
		}
		if len(due) > 0 {
			slices.Sort(due)
			_, _ = rw.Write([]byte(`{"ok":true,"result":[` + strings.Join(due, ",") + `]}`)) // as it stands
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			result(rw, []int{})
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (w *world) sendMessage(rw http.ResponseWriter, r *http.Request) {
	m := message{text: r.FormValue("text"), preview: r.FormValue("link_preview_options"), mode: r.FormValue("parse_mode"), buttons: map[string]string{}}
	m.chat, _ = strconv.ParseInt(r.FormValue("chat_id"), 10, 64)
	var markup struct {
		Rows [][]struct {
			Text string `json:"text"`
			Data string `json:"callback_data"`
		} `json:"inline_keyboard"`
	}
	if s := r.FormValue("reply_markup"); s != "" {
		if err := json.Unmarshal([]byte(s), &markup); err != nil {
			w.t.Error(err)
		}
	}
	for _, row := range markup.Rows {
		for _, b := range row {
			m.buttons[b.Text] = b.Data
		}
	}
	if n := units(m.text); n == 0 || n > 4096 {
		answer(rw, 400, map[string]any{"ok": false, "error_code": 400, "description": "Bad Request: message is too long"})
		return
	}
	stored := m.text
	w.do(func() {
		w.messages++
		m.id, m.n = w.messages, len(w.sent)+1
		w.sent = append(w.sent, m)
		if w.rewrite != nil {
			stored = w.rewrite(stored)
		}
	})
	result(rw, map[string]any{"message_id": m.id, "date": 1, "chat": map[string]any{"id": m.chat, "type": "private"}, "text": stored})
}

func result(rw http.ResponseWriter, v any) {
	answer(rw, 200, map[string]any{"ok": true, "result": v})
}

func answer(rw http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_, _ = rw.Write(body)
}

// raw puts an update into the queue; %d in it is its number.
func (w *world) raw(update string) {
	w.do(func() {
		w.lastID++
		w.updates[1000+w.lastID] = fmt.Sprintf(update, 1000+w.lastID)
	})
}

// write sends a text to the bot. more is further members of the message.
func (w *world) write(p place, text, more string) {
	kind := "private"
	if p.chat < 0 {
		kind = "supergroup"
	}
	quoted, _ := json.Marshal(text)
	var n int
	w.do(func() { w.messages++; n = w.messages })
	m := fmt.Sprintf(`{"message_id":%d,"date":1,"from":{"id":%d,"first_name":"bob"},"chat":{"id":%d,"type":%q},"text":%s%s}`, n, p.user, p.chat, kind, quoted, more)
	w.raw(`{"update_id":%d,"message":` + strings.ReplaceAll(m, "%", "%%") + `}`)
}

// press presses a button.
func (w *world) press(p place, word, query string, on int) {
	data, _ := json.Marshal(word)
	w.raw(`{"update_id":%d,"callback_query":` + strings.ReplaceAll(fmt.Sprintf(`{"id":%q,"from":{"id":%d},"data":%s,"message":{"message_id":%d,"date":1,"chat":{"id":%d,"type":"private"}}}`, query, p.user, data, on, p.chat), "%", "%%") + `}`)
}

// after is the first message to a chat after the first n.
func (w *world) after(n int, chat int64) message {
	w.t.Helper()
	var found message
	w.await(fmt.Sprintf("a message to %d after %d", chat, n), func() bool {
		for _, m := range w.sent[min(n, len(w.sent)):] {
			if m.chat == chat {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sent)
}

// ask writes and gives the answer.
func (w *world) ask(p place, text string) message {
	w.t.Helper()
	n := w.count()
	w.write(p, text, "")
	return w.after(n, p.chat)
}

func (w *world) toast(query string) string {
	w.t.Helper()
	w.await("an answer to "+query, func() bool { return w.toasts[query] != "" })
	return w.toasts[query]
}

// made is what Decide was asked.
func (w *world) made() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.decisions)
}

func (w *world) fail(method string, how ...http.HandlerFunc) {
	w.do(func() { w.faults[method] = append(w.faults[method], how...) })
}

func (w *world) review(text string) events.ReviewID {
	id := events.ReviewID(fmt.Sprintf("01JZ%022d", len(w.reviews)))
	w.do(func() {
		w.reviews[id] = Shown{Review: id, Text: text, Digest: events.DigestOf([]byte(text)), Open: true, Expires: events.InstantOf(w.clock.Add(time.Hour))}
	})
	return id
}

func (w *world) Pending(_ context.Context, who events.PersonID) (all []Waiting, more bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, r := range w.reviews {
		all = append(all, Waiting{Review: id, Agent: "alice", Tool: "file.write\u202e", Expires: r.Expires})
	}
	slices.SortFunc(all, func(a, b Waiting) int { return strings.Compare(string(a.Review), string(b.Review)) })
	return all, false, nil
}

func (w *world) Show(ctx context.Context, who events.PersonID, id events.ReviewID) (Shown, error) {
	w.mu.Lock()
	r, ok := w.reviews[id]
	hook := w.showing
	w.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, who); err != nil {
			return Shown{}, err
		}
	}
	if !ok {
		return Shown{}, &Refused{Reason: "there is no review of this id"}
	}
	return r, nil
}

// Decide keeps the contract of Desk: once, and only by the digest of now.
func (w *world) Decide(ctx context.Context, who events.PersonID, d Decision) (err error) {
	w.mu.Lock()
	hook := w.deciding
	w.mu.Unlock()
	w.do(func() {
		w.decisions = append(w.decisions, fmt.Sprintf("%s %s %t %.8s %s", who, d.Review, d.Approve, d.Shown, d.Reason))
	})
	if hook != nil {
		if err := hook(ctx); err != nil {
			return err
		}
	}
	w.do(func() {
		switch {
		case w.decided[d.Review] != "":
			err = &Refused{Reason: "it is decided already"}
		case d.Approve && d.Shown != w.reviews[d.Review].Digest:
			err = &Refused{Reason: "what there is to see has changed"}
		default:
			w.decided[d.Review] = fmt.Sprint(who, d.Approve)
		}
	})
	return err
}

func (w *world) config() Config {
	return Config{
		Token: func() (string, error) { return token + "\n", nil }, BaseURL: w.srv.URL, Desk: w,
		Who: func(chat, user int64) (events.PersonID, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			who, ok := people[place{chat, user}]
			return who, ok
		},
		Stranger: func(_ context.Context, chat, user int64, what string) {
			w.do(func() { w.strange = append(w.strange, fmt.Sprint(chat, " ", user, " ", what)) })
		},
		Fault:  func(err error) { w.do(func() { w.internal = append(w.internal, err) }) },
		Tokens: &counting{}, Now: w.now,
		Wait: func(ctx context.Context, d time.Duration) error {
			w.do(func() { w.waits = append(w.waits, d); w.clock = w.clock.Add(d) })
			return ctx.Err()
		},
		PollTime: 30 * time.Second,
	}
}

// counting gives bytes that differ each time.
type counting struct{ n int }

func (c *counting) Read(p []byte) (int, error) {
	c.n++
	copy(p, fmt.Sprintf("%-24d", c.n))
	return len(p), nil
}

// start runs a bot; the returned function ends it.
func (w *world) start(cfg Config) (*Bot, func()) {
	w.t.Helper()
	b, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				w.t.Error(err)
			}
		case <-time.After(5 * time.Second):
			w.t.Error("Run does not end")
		}
	})
	w.t.Cleanup(stop)
	return b, stop
}

func (w *world) run() *Bot {
	w.t.Helper()
	b, _ := w.start(w.config())
	return b
}
