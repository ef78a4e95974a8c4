package telegram

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatebook/events"
)

// says is an answer of the API that something was not done.
func says(code int, text string, after int) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		answer(rw, code, map[string]any{"ok": false, "error_code": code, "description": text, "parameters": map[string]any{"retry_after": after}})
	}
}

// writes is an answer that is none of the API. PATH in it stands for the path asked for.
func writes(status int, body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, strings.ReplaceAll(body, "PATH", r.URL.Path))
	}
}

func cutOff(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(rw, `{"ok":true,"result":[{"update_id":1,"`+r.URL.Path)
	panic(http.ErrAbortHandler)
}

func drop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func redirect(to string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, to+r.URL.Path, http.StatusFound) }
}

// trip is a transport that fails.
type trip func(*http.Request) (*http.Response, error)

func (t trip) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// No failure of any kind tells the token: not to who sends, not in the status, not in
// what the library would log.
func TestNoFailureTellsTheToken(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("followed to %s, Referer %q", r.URL, r.Header.Get("Referer"))
	}))
	defer elsewhere.Close()
	echo := `{"ok":false,"error_code":400,"description":"Bad Request: \u0043` + secret[1:] + ` of PATH"}`
	kinds := map[string]any{
		"401": says(401, "Unauthorized "+token, 0), "404": says(404, token, 0), "403": says(403, "Forbidden: "+token, 0),
		"400": writes(400, echo), "409": says(409, "Conflict "+token, 0), "429": says(429, "Too Many Requests "+token, 7),
		"500 of the API": says(500, token, 0), "502": writes(502, "<html>PATH"), "no JSON": writes(200, "PATH is not here"),
		"half JSON": writes(200, `{"ok":true,"result":[{"update_id":"PATH`), "another JSON": writes(200, `["PATH"]`),
		"a result of another kind": writes(200, `{"ok":true,"result":"PATH"}`), "nothing": writes(200, ""), "cut off": http.HandlerFunc(cutOff),
		"dropped": http.HandlerFunc(drop), "redirect": redirect(elsewhere.URL),
		"too large": writes(200, `{"ok":true,"result":"`+strings.Repeat("x", maxAnswer)+`PATH"}`),
		"no way": func(c *Config) {
			c.Transport = trip(func(r *http.Request) (*http.Response, error) { return nil, fmt.Errorf("no way to %s", r.URL) })
		},
		"too late": func(c *Config) {
			c.Transport = trip(func(r *http.Request) (*http.Response, error) {
				return nil, fmt.Errorf("%s: %w", r.URL, context.DeadlineExceeded)
			})
		},
		"nobody there":         func(c *Config) { c.BaseURL = "http://127.0.0.1:1" },
		"no TLS":               func(c *Config) { c.BaseURL = strings.Replace(c.BaseURL, "http:", "https:", 1) },
		"a token of two lines": func(c *Config) { c.Token = func() (string, error) { return token + "\n" + token, nil } },
		"a token with a /":     func(c *Config) { c.Token = func() (string, error) { return token + "/", nil } },
		"no token":             func(c *Config) { c.Token = func() (string, error) { return token, errors.New("no file " + token) } },
	}
	for name, how := range kinds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.srv.Config.ErrorLog = log.New(io.Discard, "", 0)
			cfg := w.config()
			waiting := make(chan struct{}, 100)
			cfg.Wait = func(ctx context.Context, _ time.Duration) error {
				waiting <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
			switch how := how.(type) {
			case http.HandlerFunc:
				w.fail("getUpdates", how, how)
				w.fail("sendMessage", how, how)
			case func(*Config):
				how(&cfg)
			}
			b, stop := w.start(cfg)
			<-waiting // the poll has failed
			polling := b.Status()
			ctx, cancel := context.WithCancel(t.Context())
			if name == "429" {
				go func() { <-waiting; cancel() }()
			}
			err := b.Send(ctx, 11, "an alert")
			cancel()
			stop()
			status := b.Status()
			if err == nil || polling.Polling == "" || polling.Failure == "" || status.Failure == "" || polling.Polled != 0 {
				t.Fatalf("not said: %v, %+v, %+v", err, polling, status)
			}
			if f := (*Failure)(nil); !errors.As(err, &f) {
				t.Errorf("of another type: %T", err)
			}
			all := fmt.Sprintf("%v %+v %#v %v %+v %v", err, err, err, polling, status, logged.String())
			for e := err; e != nil; e = errors.Unwrap(e) {
				all += fmt.Sprintf(" %v %#v", e, e)
			}
			for _, part := range []string{secret, secret[1:], "123456:"} {
				if strings.Contains(all, part) {
					t.Errorf("the token is in %s", all)
				}
			}
			if logged.Len() > 0 {
				t.Errorf("logged: %s", logged.String())
			}
		})
	}
}

func TestPollsGoOnAfterFailures(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault http.HandlerFunc
		waits []time.Duration // after the first three in a row
		says  string
	}{
		{"5xx", writes(503, "busy"), []time.Duration{firstWait, 2 * firstWait, 4 * firstWait}, "503"},
		{"broken JSON", writes(200, `{"ok":true,"result":[{"upd`), []time.Duration{firstWait, 2 * firstWait, 4 * firstWait}, "not one of the Bot API"},
		{"null for an update", writes(200, `{"ok":true,"result":[null]}`), []time.Duration{firstWait, 2 * firstWait, 4 * firstWait}, "not a list of updates"},
		{"dropped", drop, []time.Duration{firstWait, 2 * firstWait, 4 * firstWait}, "no answer"},
		{"429", says(429, "Too Many Requests: retry after 37", 37), []time.Duration{37 * time.Second, 37 * time.Second, 37 * time.Second}, "asks to wait 37s"},
		{"429 without a time", says(429, "", 0), []time.Duration{time.Second, time.Second, time.Second}, "asks to wait 1s"},
		{"429 for ever", says(429, "", 1<<40), []time.Duration{maxWait, maxWait, maxWait}, "asks to wait 1h"},
		{"401", says(401, "Unauthorized", 0), []time.Duration{longWait, longWait, longWait}, "does not take the token"},
		{"404", says(404, "Not Found", 0), []time.Duration{longWait, longWait, longWait}, "does not know the token"},
		{"409", says(409, "Conflict: terminated by other getUpdates request", 0), []time.Duration{rivalWait, rivalWait, rivalWait}, "another process polls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.srv.Config.ErrorLog = log.New(io.Discard, "", 0)
			w.fail("getUpdates", c.fault, c.fault, c.fault)
			cfg := w.config()
			var said []string
			var b *Bot
			ready := make(chan struct{})
			note := cfg.Wait
			cfg.Wait = func(ctx context.Context, d time.Duration) error {
				<-ready
				said = append(said, b.Status().Polling)
				return note(ctx, d)
			}
			b, stop := w.start(cfg)
			close(ready)
			w.ask(annaAlone, "/help")
			stop()
			if fmt.Sprint(w.waits) != fmt.Sprint(c.waits) {
				t.Errorf("waited %v, want %v", w.waits, c.waits)
			}
			if len(said) == 0 || !strings.Contains(said[0], c.says) {
				t.Errorf("the status said %q, want %q", said, c.says)
			}
			if s := b.Status(); s.Polling != "" || s.Polled == 0 || s.Failed == 0 {
				t.Errorf("in the end %+v", s)
			}
		})
	}
}

func TestSendWaitsOnceWhereItMay(t *testing.T) {
	w := newWorld(t)
	cfg := w.config()
	b, _ := w.start(cfg)
	w.fail("sendMessage", says(429, "Too Many Requests", 5))
	if err := b.Send(t.Context(), 11, "one"); err != nil || w.count() != 1 {
		t.Errorf("%v, sent %v", err, w.count())
	}
	w.see(func() {
		if !slices.Contains(w.waits, 5*time.Second) {
			t.Errorf("waits %v", w.waits)
		}
	})
	for _, c := range []struct {
		faults []http.HandlerFunc
		code   int
		after  time.Duration
	}{
		{[]http.HandlerFunc{says(429, "", 5), says(429, "", 6)}, 429, 6 * time.Second},
		{[]http.HandlerFunc{says(429, "", 600)}, 429, 600 * time.Second},
		{[]http.HandlerFunc{says(403, "Forbidden: bot was blocked by the user", 0)}, 403, 0},
		{[]http.HandlerFunc{writes(500, "")}, 500, 0},
	} {
		w.fail("sendMessage", c.faults...)
		var f *Failure
		if err := b.Send(t.Context(), 11, "two"); !errors.As(err, &f) || f.Code != c.code || f.After != c.after || w.count() != 1 {
			t.Errorf("%v with %+v, want code %d", err, f, c.code)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := b.Send(ctx, 11, "three"); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// A poll has a time limit of its own, though Telegram never answers.
func TestAPollEndsInTime(t *testing.T) {
	w := newWorld(t)
	cfg := w.config()
	limits := make(chan time.Duration, 100)
	cfg.Transport = trip(func(r *http.Request) (*http.Response, error) {
		at, _ := r.Context().Deadline()
		limits <- time.Until(at)
		return nil, context.DeadlineExceeded
	})
	ended := make(chan struct{})
	cfg.Wait = func(ctx context.Context, _ time.Duration) error { close(ended); <-ctx.Done(); return ctx.Err() }
	b, _ := w.start(cfg)
	<-ended
	if got := <-limits; got < cfg.PollTime || got > cfg.PollTime+pollSlack {
		t.Errorf("a poll may take %v", got)
	}
	if got := b.Status().Polling; got != "no answer in time" {
		t.Errorf("it says %q", got)
	}
}

// What the library cannot read, and what comes twice, holds up nothing.
func TestUpdatesThatAreTrouble(t *testing.T) {
	w := newWorld(t)
	id := w.review("x")
	w.run()
	w.raw(`{"update_id":%d,"message":{"message_id":1,"date":1,"chat":{"id":33},"from":{"id":33},"forward_origin":{"type":"of tomorrow"}}}`)
	w.raw(`{"update_id":%d,"message":{"message_id":"1"}}`)
	w.raw(`{"update_id":%d,"message":{"message_id":1,"date":1,"chat":{"id":33},"from":{"id":33},"text":"\ud83d"}}`)
	w.raw(`{"update_id":%d}`)
	w.raw(`{"update_id":%d,"callback_query":{"id":"q","from":{"id":11},"data":"x"}}`)
	w.raw(`{"update_id":%d,"callback_query":null,"message":null}`)
	if got := w.ask(annaAlone, "/help"); got.text != help {
		t.Fatalf("sent %q", got.text)
	}
	// The server forgets what was confirmed, and sends all of it again and again.
	w.do(func() { w.repeat = true })
	w.write(annaAlone, "/refuse "+string(id)+" no", "")
	before := 0
	w.see(func() { before = w.polls })
	w.await("many polls", func() bool { return w.polls > before+40 })
	if got := w.made(); len(got) != 1 || w.count() != 2 {
		t.Errorf("decisions %q, sent %v", got, w.sent)
	}
	// That is no reason to ask without a pause.
	w.see(func() {
		if n := len(w.waits); n < 10 || slices.Max(w.waits) != pollPace {
			t.Errorf("waits %v", w.waits)
		}
	})
}

// A bot that ends in the middle gets the same updates again after the restart: the looks
// too, and then the approvals that were written before what is shown now.
func TestARestartInTheMiddle(t *testing.T) {
	w := newWorld(t)
	byButton, byText, refused := w.review("x"), w.review("y"), w.review("z")
	_, stop := w.start(w.config())
	shown := w.ask(annaAlone, "/show "+string(byButton))
	w.ask(annaAlone, "/show "+string(byText))
	w.do(func() { w.repeat = true }) // the confirmations do not arrive
	w.press(annaAlone, shown.buttons["Approve"], "q", shown.id)
	w.write(annaAlone, "/approve "+string(byText), "")
	w.write(annaAlone, "/refuse "+string(refused)+" no", "")
	w.await("all is decided", func() bool { return len(w.decided) == 3 })
	w.await("all is answered", func() bool { return len(w.sent) == 5 })
	stop()
	w.do(func() { delete(w.toasts, "q") })
	first := w.made()
	cfg := w.config()
	cfg.Tokens = &counting{n: 100}
	_, stop = w.start(cfg)
	if got := w.toast("q"); !strings.Contains(got, "not valid any more") {
		t.Errorf("the button says %q", got)
	}
	w.await("all is answered again", func() bool {
		return len(w.sent) > 0 && strings.HasPrefix(w.sent[len(w.sent)-1].text, "no: it is decided already")
	})
	stop()
	again := w.made()[len(first):]
	if len(first) != 3 || len(again) != 1 || !strings.Contains(again[0], string(refused)+" false") {
		t.Errorf("decided %q, and again %q", first, again)
	}
	if len(w.decided) != 3 {
		t.Errorf("decided %v", w.decided)
	}
}

func TestWhoIsAskedAgain(t *testing.T) {
	w := newWorld(t)
	id := w.review("x")
	free := make(chan struct{})
	w.showing = func(ctx context.Context, _ events.PersonID) error { <-free; return nil }
	cfg := w.config()
	removed := false
	cfg.Who = func(chat, user int64) (events.PersonID, bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		who, ok := people[place{chat, user}]
		return who, ok && !removed
	}
	w.start(cfg)
	w.write(annaAlone, "/show "+string(id), "")
	w.write(annaAlone, "/refuse "+string(id)+" no", "")
	w.await("both have come", func() bool { return len(w.updates) == 0 })
	w.do(func() { removed = true })
	close(free)
	w.write(annaAlone, "/help", "")
	w.await("it is recorded", func() bool { return len(w.strange) == 1 })
	if got := w.made(); len(got) != 0 {
		t.Errorf("decisions %q", got)
	}
}

func TestTokenIsReadForEachRequest(t *testing.T) {
	w := newWorld(t)
	cfg := w.config()
	n := 0
	cfg.Token = func() (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if n++; n < 3 {
			return "1:" + strings.Repeat("a", 35), nil
		}
		return token, nil
	}
	b, _ := w.start(cfg)
	w.ask(annaAlone, "/help")
	if s := b.Status(); s.Polling != "" || !strings.Contains(s.Failure, "does not take the token (401)") {
		t.Errorf("%+v", s)
	}
}

func TestValidate(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		base string
		ok   bool
	}{
		{"", true}, {"https://api.telegram.org", true}, {"https://example.org/bots/", true}, {"http://127.0.0.1:8081", true},
		{"http://[::1]:1/x", true}, {"http://localhost", true}, {"http://example.org", false}, {"http://10.0.0.1", false},
		{"ftp://localhost", false}, {"example.org", false}, {"https://a:b@example.org", false}, {"https://example.org?x=1", false},
		{"https://", false}, {"https://example.org/#x", false}, {"http://localhost.example.org", false}, {"://", false},
	} {
		cfg := w.config()
		cfg.BaseURL = c.base
		if _, err := New(cfg); (err == nil) != c.ok {
			t.Errorf("%q: %v", c.base, err)
		}
	}
	cfg := w.config()
	cfg.PollTime = -1
	if _, err := New(cfg); err == nil {
		t.Error("a time below zero is taken")
	}
	if _, err := New(Config{}); err == nil {
		t.Error("nothing is taken")
	}
}

func TestRate(t *testing.T) {
	at := time.Unix(1000, 0)
	r := newRate(3, time.Second)
	p := place{1, 1}
	take := func(d time.Duration) string { at = at.Add(d); return strconv.FormatBool(r.take(p, at)) }
	var got []string
	for _, d := range []time.Duration{0, 0, 0, 0, time.Second, 0, -time.Hour, time.Second, time.Minute, 0, 0, 0} {
		got = append(got, take(d))
	}
	if want := "true true true false true false false true true true true false"; strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	for i := range 2 * maxPlaces {
		r.take(place{2, int64(i)}, at)
	}
	if len(r.free) > maxPlaces || !r.take(place{3, 3}, at.Add(time.Minute)) {
		t.Errorf("%d places are kept", len(r.free))
	}
}

func TestSeenForgetsTheOldest(t *testing.T) {
	s := newSeen()
	for id := int64(1); id <= 3*maxSeen; id++ {
		if !s.first(id) || s.first(id) {
			t.Fatalf("%d is not seen once", id)
		}
	}
	if len(s.ids) != maxSeen || s.first(2*maxSeen+1) || !s.first(1) {
		t.Errorf("%d are kept", len(s.ids))
	}
}

func TestQueuesAreBounded(t *testing.T) {
	q := newQueues()
	free := make(chan struct{})
	began := make(chan struct{})
	order := make(chan int, 100)
	taken := 0
	add := func(p place) bool {
		n := taken
		taken++
		return q.add(p, func() { began <- struct{}{}; <-free; order <- n })
	}
	if !add(place{0, 0}) {
		t.Fatal("there is no room")
	}
	<-began // what is worked on does not wait any more
	for range maxQueued {
		if !add(place{0, 0}) {
			t.Fatal("there is no room")
		}
	}
	if add(place{0, 0}) {
		t.Error("more wait than may")
	}
	for i := 1; i < maxBusy; i++ {
		if !q.add(place{int64(i), 0}, func() { <-free }) {
			t.Fatalf("there is no room for %d", i)
		}
	}
	if q.add(place{maxBusy, 0}, func() {}) {
		t.Error("more are worked on than may be")
	}
	close(free)
	for range maxQueued {
		<-began
	}
	q.wait()
	for want := range maxQueued + 1 {
		if got := <-order; got != want {
			t.Errorf("worked on %d, want %d", got, want)
		}
	}
	if len(q.waiting) != 0 || !q.add(place{maxBusy, 0}, func() {}) {
		t.Errorf("%d are left", len(q.waiting))
	}
	q.wait()
}

func TestNoRandomnessNoButtons(t *testing.T) {
	w := newWorld(t)
	id := w.review("x")
	cfg := w.config()
	cfg.Tokens = strings.NewReader("too short for a word")
	w.start(cfg)
	if got := w.ask(annaAlone, "/show "+string(id)); len(got.buttons) != 0 || !strings.HasPrefix(got.text, "it cannot be shown") {
		t.Errorf("shown %+v", got)
	}
}
