package telegram

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"gatebook/events"
)

// Failure is a request that Telegram did not do, in words that hold no token. It is
// [context.Canceled] or [context.DeadlineExceeded] where that was the cause.
type Failure struct {
	Method string // of the Bot API
	// Code is the API's or else HTTP's; 0 where there was no answer. With 400 and 403
	// another try is no use: there is no such chat, or it does not want the bot.
	Code   int
	Reason string
	// After is how long Telegram asks to wait, with code 429.
	After time.Duration

	cause error // of package context, or nil
}

func (f *Failure) Error() string { return "telegram: " + f.Method + ": " + f.Reason }

func (f *Failure) Unwrap() error { return f.cause }

// plain takes the failure out of what the library makes of it. The library's own errors
// may hold anything that came from outside.
func plain(err error) error {
	if err == nil {
		return nil
	}
	if f := (*Failure)(nil); errors.As(err, &f) {
		return f
	}
	return &Failure{Method: "request", Reason: "the answer could not be read", cause: ended(err)}
}

// ended is the error of package context in err, or nil.
func ended(err error) error {
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, cause) {
			return cause
		}
	}
	return nil
}

// unsaid is the failure of a request that got no answer.
func unsaid(method string, err error, token string) *Failure {
	f := &Failure{Method: method, Reason: "no answer: " + clean(err.Error(), token), cause: ended(err)}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		f.Reason = "no answer in time"
	case errors.Is(err, context.Canceled):
		f.Reason = "stopped"
	}
	return f
}

// refusedBy is the failure that an answer of the API tells.
func refusedBy(method string, code int, said string, after time.Duration) *Failure {
	f := &Failure{Method: method, Code: code}
	switch {
	case code == http.StatusUnauthorized:
		f.Reason = "Telegram does not take the token"
	case code == http.StatusNotFound && method == methodPoll:
		f.Reason = "Telegram does not know the token, or the base URL is not that of its API"
	case code == http.StatusConflict:
		f.Reason = "another process polls with this token, or a webhook is set"
	case code == http.StatusTooManyRequests:
		f.After = max(after, time.Second)
		f.Reason = fmt.Sprintf("too many requests, Telegram asks to wait %s", f.After)
	default:
		f.Reason = "not done"
	}
	f.Reason += fmt.Sprintf(" (%d)", code)
	if said != "" {
		f.Reason += ": " + said
	}
	return f
}

// wait is how long polls wait after the nth failure in a row.
func (f *Failure) wait(n int) time.Duration {
	switch f.Code {
	case http.StatusUnauthorized, http.StatusNotFound:
		return longWait
	case http.StatusConflict:
		return rivalWait
	case http.StatusTooManyRequests:
		return f.After
	}
	d := firstWait
	for range n - 1 {
		if d *= 2; d >= longWait {
			return longWait
		}
	}
	return d
}

// clean makes words from outside fit for a failure.
func clean(said, token string) string {
	return events.Cut(events.Escape(without(said, token)), maxReason)
}
