package alerts

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gatebook/events"
)

// Destination is somewhere that takes alerts over HTTP.
type Destination struct {
	Name   string // as in the catalog; stands in errors
	Format string // [FormatJSON] or [FormatSlack]
	// URL and Secret are called for each attempt, so that neither is kept; they MUST return
	// soon. Space around an address does not count; a secret is taken as it is. Secret is
	// nil for a destination that gets no signature. Their errors are not shown.
	URL    func() (string, error)
	Secret func() ([]byte, error)
	// Dial makes the connections; nil for the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is for who has authorities of his own; nil for those of the system.
	TLS *tls.Config
}

// HTTP sends alerts to one destination. Make it with [NewHTTP].
type HTTP struct {
	to  Destination
	now func() time.Time
	// near reaches this machine alone, without TLS.
	near, far *http.Transport
}

// NewHTTP makes a sender; now gives the time of signatures, which the other side
// compares with its own.
func NewHTTP(d Destination, now func() time.Time) (*HTTP, error) {
	switch {
	case d.Name == "":
		return nil, errors.New("a destination for alerts has no name")
	case d.Format != FormatJSON && d.Format != FormatSlack:
		return nil, fmt.Errorf("destination %s: unknown format %s; known are %s, %s", events.Quote(d.Name), events.Quote(d.Format), FormatJSON, FormatSlack)
	case d.URL == nil || now == nil:
		return nil, fmt.Errorf("destination %s: an address and a clock are needed", events.Quote(d.Name))
	}
	return &HTTP{to: d, now: now, near: transport(d, toLoopback), far: transport(d, nil)}, nil
}

// Send posts a. The error is a [Failure], or wraps ctx's where that ended.
func (h *HTTP) Send(ctx context.Context, a Alert) error {
	body, err := encode(h.to.Format, a)
	if err != nil {
		return h.failure(true, "the alert cannot be written")
	}
	timed, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	req, err := h.request(timed, a, body)
	if err != nil {
		return err
	}
	way := h.far
	if req.URL.Scheme == "http" {
		way = h.near
	}
	// A transport, unlike a client, follows no redirect and has no cookies.
	resp, err := way.RoundTrip(req)
	if err != nil {
		return h.broken(ctx, err)
	}
	// The outcome is known: an answer that trickles costs little more.
	late := time.AfterFunc(answerTime, cancel)
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	_ = resp.Body.Close()
	return h.outcome(resp)
}

// request reads address and secret and makes the signed request.
func (h *HTTP) request(ctx context.Context, a Alert, body []byte) (*http.Request, error) {
	address, err := h.to.URL()
	address = strings.TrimSpace(address)
	if err != nil || address == "" {
		return nil, h.unreadable("address", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, h.failure(true, "its address is none")
	}
	if why := forbidden(req.URL); why != "" {
		return nil, h.failure(true, why)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set(headerKey, a.Key())
	if user := req.URL.User; user != nil {
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
	if h.to.Secret == nil {
		return req, nil
	}
	secret, err := h.to.Secret()
	if err != nil || len(secret) == 0 {
		return nil, h.unreadable("secret", err)
	}
	timestamp := strconv.FormatInt(h.now().Unix(), 10)
	req.Header.Set(headerTime, timestamp)
	req.Header.Set(headerSignature, signature(secret, timestamp, body))
	return req, nil
}

func (h *HTTP) failure(refused bool, why string) *Failure {
	return &Failure{Reason: "destination " + events.Quote(h.to.Name) + ": " + why, Refused: refused}
}

// unreadable says why an address or a secret cannot be read, by the sort of the error:
// its text may have the value in it.
func (h *HTTP) unreadable(what string, err error) error {
	switch {
	case err == nil:
		return h.failure(false, "its "+what+" is empty")
	case errors.Is(err, fs.ErrNotExist):
		return h.failure(false, "its "+what+" is not there")
	case errors.Is(err, fs.ErrPermission):
		return h.failure(false, "its "+what+" may not be read by the engine's user")
	}
	return h.failure(false, "its "+what+" cannot be read")
}

// outcome says what a status means.
func (h *HTTP) outcome(resp *http.Response) error {
	code := resp.StatusCode
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return h.failure(true, fmt.Sprintf("it answered %d, a redirect, and none is followed", code))
	}
	passing := code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests || code >= 500 && code < 600
	f := h.failure(!passing, fmt.Sprintf("it answered %d", code))
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		f.After = retryAfter(resp.Header.Get("Retry-After"), h.now())
	}
	return f
}

// retryAfter reads seconds or an HTTP date; what is neither, or over, is 0.
func retryAfter(value string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		wait = time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}
