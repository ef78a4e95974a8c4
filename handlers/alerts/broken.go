package alerts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"gatebook/events"
)

// broken says why there was no answer. The errors of the network name hosts and
// addresses, so only their sort is told, and they are not wrapped.
func (h *HTTP) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("destination %s: %w", events.Quote(h.to.Name), ctx.Err())
	}
	if errors.Is(err, errNotLocal) {
		return h.failure(true, "its address is http, and its name leads to another machine; use https")
	}
	return h.failure(false, sortOf(err))
}

func sortOf(err error) string {
	var (
		name       *net.DNSError
		notTrusted *tls.CertificateVerificationError
		notTLS     tls.RecordHeaderError
		alert      tls.AlertError
		timed      net.Error
	)
	switch {
	case errors.As(err, &name):
		return "its name cannot be resolved"
	case errors.As(err, &timed) && timed.Timeout():
		return "no answer in time"
	case errors.As(err, &notTrusted):
		return "its certificate is not trusted"
	case errors.As(err, &notTLS) || errors.As(err, &alert):
		return "it does not speak TLS as it should"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refuses connections"
	case errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH):
		return "it cannot be reached"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		return "it closed the connection without an answer"
	}
	return "there was no connection, or no answer in HTTP"
}
