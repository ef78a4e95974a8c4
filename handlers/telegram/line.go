package telegram

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// What the library believes to speak to, and by which token.
const (
	standInServer = "https://telegram.invalid"
	standInToken  = "0:stand-in"
	methodPoll    = "getUpdates"
	hidden        = "***"
)

var tokenForm = regexp.MustCompile(`^[0-9]{1,20}:[A-Za-z0-9_-]{16,128}$`)

// line carries the library's requests. It alone has the token, which stands in every
// address: it puts it in on the way out, and takes it out of every word that it says of
// what came back. The library is given nothing but good answers and [*Failure]s.
type line struct {
	cfg    Config
	base   string
	http   *http.Client
	health *health
	pace   *rate
}

// request is one request of the library, so that it can be sent again.
type request struct {
	method, form string
	body         []byte
}

func newLine(cfg Config, h *health) (*line, error) {
	base, err := baseURL(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	l := &line{cfg: cfg, base: base, health: h, pace: newRate(pollBurst, pollPace)}
	transport := cfg.Transport
	if transport == nil {
		transport = &http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: sendTime}).DialContext, TLSHandshakeTimeout: sendTime,
			ForceAttemptHTTP2: true, MaxIdleConns: 8, MaxIdleConnsPerHost: 8, IdleConnTimeout: longWait,
		}
	}
	l.http = &http.Client{
		Transport: transport,
		// The address of a request is a secret, and goes to nobody as a Referer.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return l, nil
}

// baseURL checks where the API is.
func baseURL(s string) (string, error) {
	if s == "" {
		return "https://api.telegram.org", nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("telegram: the base URL is not of the form https://host or https://host/path")
	}
	ip := net.ParseIP(u.Hostname())
	if local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(); u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return "", errors.New("telegram: the base URL is not https; the token is part of every address, so http is only for this machine")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func (l *line) close() { l.http.CloseIdleConnections() }

// Do is what the library calls. A poll comes back only with updates or when ctx ends.
func (l *line) Do(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	r := request{method: path.Base(req.URL.Path), form: req.Header.Get("Content-Type")}
	var err error
	r.body, err = io.ReadAll(io.LimitReader(req.Body, maxRequest+1))
	if closed := req.Body.Close(); err == nil {
		err = closed
	}
	if err != nil || len(r.body) > maxRequest {
		return nil, &Failure{Method: r.method, Reason: "the request could not be made"}
	}
	send := l.once
	if r.method == methodPoll {
		send = l.poll
	}
	result, err := send(ctx, r)
	if err != nil {
		return nil, err
	}
	body := `{"ok":true,"result":` + string(result) + `}`
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// poll asks until there is an answer, and waits after each failure.
func (l *line) poll(ctx context.Context, r request) (jsontext.Value, error) {
	for failures := 1; ; failures++ {
		for !l.pace.take(place{}, l.cfg.Now()) {
			if err := l.cfg.Wait(ctx, pollPace); err != nil {
				return nil, ctxError(ctx, err)
			}
		}
		result, fail := l.attempt(ctx, r, l.cfg.PollTime+pollSlack)
		if fail == nil {
			if result, fail = sift(result); fail == nil {
				l.health.polled()
				return result, nil
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		l.health.failed(fail)
		if err := l.cfg.Wait(ctx, fail.wait(failures)); err != nil {
			return nil, ctxError(ctx, err)
		}
	}
}

// ctxError is the end of ctx. The library takes a canceled context in any error for the
// end of its own, and stops: it gets one only when that is so.
func ctxError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &Failure{Method: methodPoll, Reason: "could not wait: " + clean(err.Error(), "")}
}

// once sends a request, and a second time where Telegram says to wait for that.
func (l *line) once(ctx context.Context, r request) (jsontext.Value, error) {
	result, fail := l.attempt(ctx, r, sendTime)
	if fail != nil && fail.After > 0 && fail.After <= maxHold {
		l.health.failed(fail)
		if l.cfg.Wait(ctx, fail.After) != nil {
			return nil, fail
		}
		result, fail = l.attempt(ctx, r, sendTime)
	}
	if fail != nil {
		l.health.failed(fail)
		return nil, fail
	}
	return result, nil
}

// attempt sends a request once.
func (l *line) attempt(ctx context.Context, r request, limit time.Duration) (jsontext.Value, *Failure) {
	token, err := l.cfg.Token()
	if token = strings.TrimSpace(token); err != nil {
		return nil, &Failure{Method: r.method, Reason: "there is no token: " + clean(err.Error(), token)}
	}
	if !tokenForm.MatchString(token) {
		return nil, &Failure{Method: r.method, Reason: "the token has not the form of one: a number, a colon, then letters"}
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.base+"/bot"+token+"/"+r.method, bytes.NewReader(r.body))
	if err != nil {
		return nil, &Failure{Method: r.method, Reason: "the request could not be made"}
	}
	req.Header.Set("Content-Type", r.form)
	resp, err := l.http.Do(req)
	if about := (*url.Error)(nil); errors.As(err, &about) {
		err = about.Err // url.Error names the address
	}
	if err != nil {
		return nil, unsaid(r.method, err, token)
	}
	defer resp.Body.Close() //nolint:errcheck // it is read, or of no use
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, unsaid(r.method, err, token)
	}
	if len(body) > maxAnswer {
		return nil, &Failure{Method: r.method, Code: resp.StatusCode, Reason: "the answer is too large"}
	}
	return opened(r.method, resp.StatusCode, body, token)
}

// envelope is what every answer of the API is in.
type envelope struct {
	OK          bool           `json:"ok"`
	Result      jsontext.Value `json:"result"`
	Description string         `json:"description"`
	Code        int            `json:"error_code"`
	Parameters  struct {
		RetryAfter int `json:"retry_after"`
	} `json:"parameters"`
}

// opened takes the result out of an answer.
func opened(method string, status int, body []byte, token string) (jsontext.Value, *Failure) {
	var e envelope
	// A lone surrogate in somebody's text is no reason to stop.
	if err := json.Unmarshal(body, &e, jsontext.AllowInvalidUTF8(true)); err != nil {
		if status != http.StatusOK {
			return nil, refusedBy(method, status, "", 0)
		}
		return nil, &Failure{Method: method, Reason: "the answer is not one of the Bot API"}
	}
	if e.OK && status == http.StatusOK && len(e.Result) > 0 {
		return e.Result, nil
	}
	code := e.Code
	if code == 0 {
		code = status
	}
	if code == http.StatusOK {
		return nil, &Failure{Method: method, Reason: "the answer is not one of the Bot API"}
	}
	after := time.Duration(min(max(e.Parameters.RetryAfter, 0), int(maxWait/time.Second))) * time.Second
	return nil, refusedBy(method, code, clean(e.Description, token), after)
}

// without takes the token out of a text.
func without(text, token string) string {
	if token == "" {
		return text
	}
	_, secret, _ := strings.Cut(token, ":")
	for _, part := range []string{token, url.QueryEscape(token), secret} {
		if part != "" {
			text = strings.ReplaceAll(text, part, hidden)
		}
	}
	return text
}

// String is there so that nothing prints the fields.
func (l *line) String() string { return fmt.Sprintf("line to %s", l.base) }
