package alerts_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"gatebook/handlers/alerts"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// request is what a server got.
type request struct {
	method, path string
	header       http.Header
	body         []byte
	last         bool // of its connection
}

// server keeps what it gets and answers by a function.
type server struct {
	*httptest.Server
	mu  sync.Mutex
	got []request
}

func listen(t *testing.T, answer http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(s.keep(answer))
	t.Cleanup(s.Close)
	return s
}

func (s *server) keep(answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.got = append(s.got, request{r.Method, r.URL.RequestURI(), r.Header.Clone(), body, r.Close})
		s.mu.Unlock()
		answer(w, r)
	})
}

func (s *server) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func answer(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func fixed(s string) func() (string, error) { return func() (string, error) { return s, nil } }

func key(s string) func() ([]byte, error) { return func() ([]byte, error) { return []byte(s), nil } }

func destination(url string) alerts.Destination {
	return alerts.Destination{Name: "ops", Format: alerts.FormatJSON, URL: fixed(url)}
}

func send(t *testing.T, d alerts.Destination, a alerts.Alert) error {
	t.Helper()
	h, err := alerts.NewHTTP(d, func() time.Time { return noon })
	check(t, err)
	return h.Send(t.Context(), a)
}

// failure is what Send must fail with.
func failure(t *testing.T, err error) *alerts.Failure {
	t.Helper()
	var f *alerts.Failure
	if !errors.As(err, &f) {
		t.Fatalf("%v is no Failure", err)
	}
	return f
}

// What is sent, byte for byte.
func TestDelivery(t *testing.T) {
	s := listen(t, answer(http.StatusAccepted))
	d := destination(" " + s.URL + "/hook?x=1\n")
	d.Secret = key("it is secret")
	check(t, send(t, d, alert(7)))
	got := s.requests()[0]
	want(t, "a connection of its own", got.last, true)
	want(t, "target", got.method+" "+got.path, "POST /hook?x=1")
	want(t, "body", string(got.body), `{"id":"01KDYAK3SN0000000000000007-0","event":"01KDYAK3SN0000000000000007","part":0,"kind":"asset_blocked","of":"mail.send","agent":"alice","text":"alert 7","count":7,"first":"2026-01-02T03:04:05.685901Z","last":"2026-01-02T03:04:05.686901Z","seq":7}`)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "gatebook-alerts/1",
		"Idempotency-Key": alert(7).Key(), "X-Gatebook-Timestamp": fmt.Sprint(noon.Unix()),
	} {
		want(t, name, got.header.Values(name), []string{value})
	}
	mac := hmac.New(sha256.New, []byte("it is secret"))
	fmt.Fprintf(mac, "%d.%s", noon.Unix(), got.body)
	want(t, "signature", got.header.Get("X-Gatebook-Signature"), "sha256="+hex.EncodeToString(mac.Sum(nil)))
}

func TestUnsigned(t *testing.T) {
	s := listen(t, answer(http.StatusOK))
	check(t, send(t, destination(strings.Replace(s.URL, "http://", "http://anna:pass@", 1)), alert(1)))
	h := s.requests()[0].header
	want(t, "signature", h.Values("X-Gatebook-Signature"), nil)
	want(t, "authorization", h.Get("Authorization"), "Basic YW5uYTpwYXNz")
}

// posted is the text that a destination gets.
func posted(t *testing.T, s *server, format string, a alerts.Alert) map[string]any {
	t.Helper()
	d := destination(s.URL)
	d.Format = format
	check(t, send(t, d, a))
	all := s.requests()
	got := map[string]any{}
	check(t, json.Unmarshal(all[len(all)-1].body, &got))
	return got
}

func TestSlack(t *testing.T) {
	s := listen(t, answer(http.StatusOK))
	for text, shown := range map[string]string{
		"two\nlines": "two\nlines",
		"<!channel> & <@U1> <https://evil|click>": "&lt;!channel&gt; &amp; &lt;＠U1&gt; &lt;https[:]//evil|click&gt;",
		"@here [x](https://evil)":                 "＠here [x] (https[:]//evil)",
		"&lt;!here&gt;":                           "&amp;lt;!here&amp;gt;",
		"a\u202eb\x1b[31m\x00":                    `a\u202eb\x1b[31m\x00`,
		" ":                                       "alert 01KDYAK3SF0000000000000001-0: asset_blocked mail.send",
	} {
		a := alert(1)
		a.Text = text
		want(t, text, posted(t, s, alerts.FormatSlack, a), map[string]any{"text": shown})
	}
}

// Whatever a text is, it is bounded, valid, and nothing of it acts on who reads it.
func TestHostileText(t *testing.T) {
	s := listen(t, answer(http.StatusOK))
	alphabet := []rune("ab <>&@:/!|[]()`\\\"\n\r\t\x00\x1b\x7f\u0085\u200b\u202e\u2066\u2028\ufeff\ufffd😀é")
	rapid.Check(t, func(r *rapid.T) {
		foreign := rapid.OneOf(rapid.StringOfN(rapid.SampledFrom(alphabet), 0, 6000, -1), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6000), func(b []byte) string { return string(b) }))
		a := alert(1)
		a.Text, a.Kind, a.Of = foreign.Draw(r, "text"), foreign.Draw(r, "kind"), foreign.Draw(r, "of")
		plain := posted(t, s, alerts.FormatJSON, a)
		for name, most := range map[string]int{"text": 4096, "kind": 256, "of": 256} {
			shown := plain[name].(string)
			if len(shown) > most {
				r.Errorf("%s has %d bytes", name, len(shown))
			}
			if i := strings.IndexFunc(strings.ReplaceAll(shown, "\n", ""), hostile); i >= 0 || name != "text" && strings.Contains(shown, "\n") {
				r.Errorf("%s is %q", name, shown)
			}
		}
		slack := posted(t, s, alerts.FormatSlack, a)["text"].(string)
		for _, sign := range []string{"<", ">", "@", "://", "]("} {
			if strings.Contains(slack, sign) {
				r.Errorf("%q in %q", sign, slack)
			}
		}
		if bare := strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(slack); strings.Contains(bare, "&") || slack == "" || len(slack) > 40000 {
			r.Errorf("%q has an & of its own, or a size of %d", slack, len(slack))
		}
	})
}

func hostile(r rune) bool {
	return r < 0x20 || r >= 0x7f && r < 0xa0 || strings.ContainsRune("\u200b\u202e\u2066\u2028\ufeff", r)
}

// A text that was cut says so.
func TestLongText(t *testing.T) {
	s := listen(t, answer(http.StatusOK))
	a := alert(1)
	a.Text = strings.Repeat("x", 5000)
	want[any](t, "text", posted(t, s, alerts.FormatJSON, a)["text"], strings.Repeat("x", 4096-len("… (5000 bytes)"))+"… (5000 bytes)")
	a.Text = strings.Repeat("x", 4096)
	want[any](t, "text that just fits", posted(t, s, alerts.FormatJSON, a)["text"], a.Text)
}

// What each status means. Nothing is followed.
func TestStatus(t *testing.T) {
	elsewhere := listen(t, answer(http.StatusOK))
	for _, c := range []struct {
		code    int
		after   string
		failed  bool
		refused bool
		wait    time.Duration
	}{
		{code: 200}, {code: 201}, {code: 204}, {code: 299},
		{code: 301, failed: true, refused: true}, {code: 302, failed: true, refused: true},
		{code: 307, failed: true, refused: true}, {code: 308, failed: true, refused: true}, {code: 304, failed: true, refused: true},
		{code: 400, failed: true, refused: true}, {code: 401, failed: true, refused: true}, {code: 404, failed: true, refused: true},
		{code: 410, failed: true, refused: true, after: "7"}, {code: 999, failed: true, refused: true},
		{code: 408, failed: true}, {code: 425, failed: true}, {code: 500, failed: true, after: "7"}, {code: 502, failed: true}, {code: 504, failed: true},
		{code: 429, failed: true, after: "7", wait: 7 * time.Second},
		{code: 503, failed: true, after: "3600", wait: time.Hour},
		{code: 503, failed: true, after: "3601", wait: time.Hour},
		{code: 503, failed: true, after: "99999999999999999999999", wait: time.Hour},
		{code: 503, failed: true, after: "Wed, 04 Mar 2026 12:00:30 GMT", wait: 30 * time.Second},
		{code: 503, failed: true, after: "Wed, 04 Mar 2026 11:00:30 GMT"},
		{code: 503, failed: true, after: "Wed, 04 Mar 2099 11:00:30 GMT", wait: time.Hour},
		{code: 429, failed: true, after: "-1"}, {code: 429, failed: true, after: "soon"}, {code: 429, failed: true},
	} {
		s := listen(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL)
			w.Header().Set("Retry-After", c.after)
			w.WriteHeader(c.code)
		})
		err := send(t, destination(s.URL), alert(1))
		if (err != nil) != c.failed {
			t.Errorf("%d: %v", c.code, err)
			continue
		}
		if err != nil {
			f := failure(t, err)
			want(t, fmt.Sprint(c.code, " ", c.after), []any{f.Refused, f.After}, []any{c.refused, c.wait})
			if redirect := c.code/100 == 3; strings.Contains(f.Reason, "redirect") != redirect {
				t.Errorf("the reason of %d is %q", c.code, f.Reason)
			}
			if !strings.Contains(f.Reason, `"ops"`) || !strings.Contains(f.Reason, fmt.Sprint(c.code)) {
				t.Errorf("the reason is %q", f.Reason)
			}
		}
		want(t, "requests", len(s.requests()), 1)
	}
	want(t, "followed", len(elsewhere.requests()), 0)
}

// http is for this machine alone, and nothing else but https is spoken.
func TestAddress(t *testing.T) {
	for address, way := range map[string]string{
		"http://127.0.0.1/x": "127.0.0.1:80", "http://[::1]:81/": "[::1]:81", "http://localhost": "localhost:80", "http://127.9.9.9": "127.9.9.9:80",
		"https://example.org/x": "example.org:443", "HTTPS://10.0.0.1": "10.0.0.1:443",
		"http://example.org": "", "http://10.0.0.1": "", "http://0.0.0.0": "", "http://localhost.example.org": "", "http://127.0.0.1.example.org": "",
		"http://127.0.0.1@example.org": "", "ftp://127.0.0.1": "", "file:///etc/passwd": "", "https://": "", "https:example.org": "", "x": "", "https://a b": "", "://": "",
	} {
		dialled, d := "", destination(address)
		d.Dial = func(_ context.Context, _, to string) (net.Conn, error) { dialled = to; return nil, errors.New("no") }
		f := failure(t, send(t, d, alert(1)))
		if dialled != way || f.Refused != (way == "") {
			t.Errorf("%s: a connection to %q, and then %q (refused: %v)", address, dialled, f.Reason, f.Refused)
		}
	}
}

// The environment does not say where alerts go.
func TestNoProxy(t *testing.T) {
	dialled, d := "", destination("https://example.org")
	d.Dial = func(_ context.Context, _, to string) (net.Conn, error) { dialled = to; return nil, errors.New("no") }
	_ = send(t, d, alert(1))
	want(t, "a connection", dialled, "example.org:443")
}

func TestBadAlert(t *testing.T) {
	s := listen(t, answer(http.StatusOK))
	for name, spoil := range map[string]func(*alerts.Alert){
		"no id":          func(a *alerts.Alert) { a.ID = "" },
		"header in id":   func(a *alerts.Alert) { a.ID = "x\r\nHost: y" },
		"negative part":  func(a *alerts.Alert) { a.Part = -1 },
		"year of 100000": func(a *alerts.Alert) { a.Last = 1 << 62 },
	} {
		a := alert(1)
		spoil(&a)
		if err := send(t, destination(s.URL), a); err == nil || !failure(t, err).Refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	want(t, "requests", len(s.requests()), 0)
}

func TestNewHTTP(t *testing.T) {
	now := time.Now
	for name, spoil := range map[string]func(*alerts.Destination){
		"no name":        func(d *alerts.Destination) { d.Name = "" },
		"no format":      func(d *alerts.Destination) { d.Format = "" },
		"unknown format": func(d *alerts.Destination) { d.Format = "JSON" },
		"no address":     func(d *alerts.Destination) { d.URL = nil },
		"no clock":       func(*alerts.Destination) { now = nil },
	} {
		d := destination("https://example.org")
		now = time.Now
		spoil(&d)
		if _, err := alerts.NewHTTP(d, now); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// counted counts what is read.
type counted struct {
	net.Conn
	read *int
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	*c.read += n
	return n, err
}

// An answer without an end is left after a bounded part.
func TestBigAnswer(t *testing.T) {
	s := listen(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	})
	read, d := 0, destination(s.URL)
	d.Dial = func(ctx context.Context, network, to string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, to)
		return counted{conn, &read}, err
	}
	check(t, send(t, d, alert(1)))
	if read > 80<<10 {
		t.Errorf("%d bytes were read", read)
	}
}

// inMemory is a server without a network, for bubbles of time.
type inMemory struct {
	conns chan net.Conn
	done  chan struct{}
}

func serve(h http.Handler) (l *inMemory, stop func()) {
	l = &inMemory{make(chan net.Conn), make(chan struct{})}
	s := &http.Server{Handler: h}
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(l) })
	return l, func() {
		_ = s.Close()
		served.Wait()
	}
}

func (l *inMemory) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *inMemory) Close() error   { close(l.done); return nil }
func (l *inMemory) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (l *inMemory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// From the outbox to a server that wants time and then answers: what comes when.
func TestRetryAfterThenFaultsThenDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began, codes := &server{}, time.Now(), []int{429, 503, 500, 200}
		var at []time.Duration
		l, stopServer := serve(s.keep(func(w http.ResponseWriter, _ *http.Request) {
			at = append(at, time.Since(began))
			if codes[0] == 429 {
				w.Header().Set("Retry-After", "40")
			}
			if codes[0] == 503 {
				w.Header().Set("Retry-After", time.Now().Add(100*time.Second).UTC().Format(http.TimeFormat))
			}
			w.WriteHeader(codes[0])
			codes = codes[1:]
		}))
		d := destination("http://127.0.0.1/hook")
		d.Dial, d.Secret = l.dial, key("secret")
		h, err := alerts.NewHTTP(d, time.Now)
		check(t, err)
		b := newBox("ops", alert(1))
		stop := running(t, courier(t, b, middle, alerts.Line{Name: "ops", Sender: h}))
		pass(10 * time.Minute)
		want(t, "times", at, []time.Duration{0, 40 * time.Second, 140 * time.Second, 160 * time.Second})
		want(t, "told", b.told1("ops"), []string{alert(1).Key()})
		stamps := map[string]bool{}
		for _, r := range s.requests() {
			want(t, "id", r.header.Get("Idempotency-Key"), alert(1).Key())
			stamps[r.header.Get("X-Gatebook-Signature")] = true
		}
		want(t, "different signatures", len(stamps), 4)
		stop()
		stopServer()
	})
}

// A server that never answers, and one that never ends its answer, cost bounded time.
func TestTimes(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		failed  bool
		most    time.Duration
	}{
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, true, 30 * time.Second},
		"endless trickle": {func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, false, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, stop := serve((&server{}).keep(c.handler))
			d := destination("http://localhost")
			d.Dial = l.dial
			began := time.Now()
			err := send(t, d, alert(1))
			if took := time.Since(began); took != c.most || (err != nil) != c.failed {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			stop()
		})
	}
}

// The end of the context is no failure of the destination.
func TestSendEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := serve((&server{}).keep(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		d := destination("http://localhost")
		d.Dial = l.dial
		h, err := alerts.NewHTTP(d, time.Now)
		check(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Send(ctx, alert(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		stop()
	})
}

// TLS with an authority of one's own.
func TestTLS(t *testing.T) {
	s := &server{}
	s.Server = httptest.NewTLSServer(s.keep(answer(http.StatusOK)))
	t.Cleanup(s.Close)
	d := destination(s.URL)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	d.TLS = &tls.Config{RootCAs: roots}
	check(t, send(t, d, alert(1)))
}
