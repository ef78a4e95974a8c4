package alerts

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"
)

// A name of this machine that leads to another one gets no connection without TLS.
func TestNameThatLeadsElsewhere(t *testing.T) {
	h, err := NewHTTP(Destination{Name: "ops", Format: FormatJSON, URL: func() (string, error) { return "http://localhost:1", nil }}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"192.0.2.1:80", "[2001:db8::1]:80"} {
		if _, err := h.near.DialContext(t.Context(), "tcp", address); !errors.Is(err, errNotLocal) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := toLoopback(t.Context(), "tcp", "127.0.0.1", nil); !errors.Is(err, errNotLocal) {
		t.Errorf("an address without a port: %v", err)
	}
	h.near = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: errNotLocal}
	}}
	var f *Failure
	if err := h.Send(t.Context(), Alert{ID: "01KDYAK3SN0000000000000007"}); !errors.As(err, &f) || !f.Refused {
		t.Errorf("%v", err)
	}
}
