package alerts

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
)

// errNotLocal stops a connection without TLS to another machine.
var errNotLocal = errors.New("not this machine")

// forbidden says why nothing may be sent to an address; "" where it may. It shows
// nothing of the address.
func forbidden(u *url.URL) string {
	switch {
	case u.Hostname() == "":
		return "its address names no host"
	case u.Scheme == "https":
		return ""
	case u.Scheme != "http":
		return "its address is neither https nor http"
	case !local(u.Hostname()):
		return "its address is http, which is for this machine alone; use https"
	}
	return ""
}

// local says that a host is this machine, by its name. What the name leads to is seen
// again when the connection is made.
func local(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// toLoopback is called with the address that a name led to, before the connection.
func toLoopback(_ context.Context, _, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !local(host) {
		return errNotLocal
	}
	return nil
}

// transport has a bound for each step, no proxy, and keeps no connection: alerts are
// rare, and an idle connection would be a goroutine without an end.
func transport(d Destination, control func(context.Context, string, string, syscall.RawConn) error) *http.Transport {
	dial := d.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTime, ControlContext: control}).DialContext
	}
	return &http.Transport{
		Proxy: nil, DialContext: dial, TLSClientConfig: d.TLS.Clone(),
		TLSHandshakeTimeout: handshakeTime, ResponseHeaderTimeout: attemptTime,
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxAnswer,
	}
}
