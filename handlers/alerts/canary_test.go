package alerts_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatebook/handlers/alerts"
)

// Whatever goes wrong, no error says anything of the address, the secret or the answer.
func TestNothingLeaks(t *testing.T) {
	const path = "/canary-path/x?canary-query=1#canary-fragment"
	withUser := func(u string) string { return strings.Replace(u, "://", "://canary-user:canary-pass@", 1) + path }
	tell := func(code int) string {
		return withUser(listen(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://canary.example/canary")
			w.Header().Set("Retry-After", "canary")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "canary-body")
		}).URL)
	}
	raw := func(text string) string { return withUser("http://" + say(t, text)) }
	tlsServer := httptest.NewUnstartedServer(answer(200))
	tlsServer.Config.ErrorLog = log.New(io.Discard, "", 0)
	tlsServer.StartTLS()
	t.Cleanup(tlsServer.Close)
	plain := listen(t, answer(200))
	gone := listen(t, answer(200))
	gone.Close()
	canary := errors.New("canary: https://canary.example")
	dialError := func(err error) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
	for name, c := range map[string]struct {
		d    alerts.Destination
		says string
	}{
		"400":               {d: destination(tell(400)), says: "answered 400"},
		"429":               {d: destination(tell(429)), says: "answered 429"},
		"500":               {d: destination(tell(500)), says: "answered 500"},
		"302":               {d: destination(tell(302)), says: "a redirect"},
		"not http":          {d: destination(raw("canary-body canary-body\r\n\r\n")), says: "no answer in HTTP"},
		"bad header":        {d: destination(raw("HTTP/1.1 200 OK\r\ncanary canary\r\n\r\n")), says: "no answer in HTTP"},
		"bad location":      {d: destination(raw("HTTP/1.1 302 Found\r\nLocation: ://canary%zz\r\nContent-Length: 0\r\n\r\n")), says: "a redirect"},
		"large header":      {d: destination(raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("canary", 20000) + "\r\n\r\n")), says: "no answer in HTTP"},
		"closed":            {d: destination(raw("")), says: "closed the connection"},
		"refused":           {d: destination(withUser(gone.URL)), says: "refuses connections"},
		"not trusted":       {d: destination(withUser(tlsServer.URL)), says: "not trusted"},
		"no TLS":            {d: destination(withUser(strings.Replace(plain.URL, "http", "https", 1))), says: "TLS"},
		"http elsewhere":    {d: destination(withUser("http://canary.example")), says: "use https"},
		"scheme":            {d: destination(withUser("canary://127.0.0.1")), says: "neither https nor http"},
		"no address at all": {d: destination("https://canary host\x00" + path), says: "its address is none"},
		"bad escape":        {d: destination("https://127.0.0.1/canary%zz"), says: "its address is none"},
		"bad port":          {d: destination("https://127.0.0.1:canary/"), says: "its address is none"},
		"no host":           {d: destination("https:///canary"), says: "names no host"},
		"empty address":     {d: destination(""), says: "its address is empty"},
		"address fails":     {d: alerts.Destination{URL: func() (string, error) { return "https://canary", canary }}, says: "its address cannot be read"},
		"address missing":   {d: alerts.Destination{URL: func() (string, error) { return "", &fs.PathError{Path: "canary", Err: fs.ErrNotExist} }}, says: "its address is not there"},
		"address kept":      {d: alerts.Destination{URL: func() (string, error) { return "", &fs.PathError{Path: "canary", Err: fs.ErrPermission} }}, says: "its address may not be read"},
		"secret fails":      {d: alerts.Destination{URL: fixed(withUser(plain.URL)), Secret: func() ([]byte, error) { return []byte("canary"), canary }}, says: "its secret cannot be read"},
		"secret empty":      {d: alerts.Destination{URL: fixed(withUser(plain.URL)), Secret: key("")}, says: "its secret is empty"},
		"no such name":      {d: alerts.Destination{URL: fixed(withUser("https://canary.example")), Dial: dialError(&net.DNSError{Name: "canary", Err: "canary"})}, says: "cannot be resolved"},
		"any other":         {d: alerts.Destination{URL: fixed(withUser("https://canary.example")), Dial: dialError(&url.Error{URL: "canary", Err: canary})}, says: "there was no connection"},
		"timed out":         {d: alerts.Destination{URL: fixed(withUser("https://canary.example")), Dial: dialError(&url.Error{URL: "canary", Err: context.DeadlineExceeded})}, says: "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			d := c.d
			d.Name, d.Format = "ops", alerts.FormatJSON
			if d.Secret == nil {
				d.Secret = key("canary-secret")
			}
			f := failure(t, send(t, d, alert(1)))
			said := fmt.Sprintf("%v %+v %#v %v", f, f, *f, errors.Unwrap(f))
			for _, hidden := range []string{"canary", "127.0.0.1", "http://", "https://", "redirect to"} {
				if strings.Contains(said, hidden) {
					t.Errorf("%q in %s", hidden, said)
				}
			}
			if !strings.Contains(f.Reason, c.says) || !strings.HasPrefix(f.Reason, `destination "ops": `) {
				t.Errorf("%q does not say %q", f.Reason, c.says)
			}
		})
	}
}

// say listens and answers each connection with a text, whatever comes.
func say(t *testing.T, text string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = conn.Read(make([]byte, 64<<10))
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}
