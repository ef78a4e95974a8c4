package alerts

import (
	"context"
	"strconv"
	"time"

	"gatebook/events"
)

// Alert is one thing to tell.
type Alert struct {
	ID    events.EventID // of the event it is about
	Part  int            // 0 for the first message about it, n for later ones (a count of repeats)
	Kind  string         // such as "asset_blocked", "asset_expires", "digest", "degraded"
	Of    string         // what it is about: a tool, an asset's id
	Agent events.AgentID // may be empty
	Text  string         // one or more lines for people, already masked
	Count int64          // how many of its kind it stands for
	First events.Instant
	Last  events.Instant
	Seq   events.Seq
}

// Key names the alert for ever: "<event>-<part>". With the destination it is the
// idempotency key of a delivery.
func (a Alert) Key() string { return string(a.ID) + "-" + strconv.Itoa(a.Part) }

// Outbox is what waits for delivery. Its methods are called by one goroutine for each
// destination and MUST be safe for that; both MUST end soon after ctx does.
type Outbox interface {
	// Waiting gives at most limit alerts that the destination to has not got yet, oldest
	// first. It may lag behind Told.
	Waiting(ctx context.Context, to string, limit int) ([]Alert, error)
	// Told records that to has got the alert or, with failed not empty, that it was given
	// up and why. nil means that it is recorded; after an error Told is called again, so
	// recording twice MUST be harmless.
	Told(ctx context.Context, to string, a Alert, failed string) error
}

// Sender brings one alert to one destination.
type Sender interface {
	// Send is called by one goroutine at a time. nil means that the destination has it. It
	// MUST end soon after ctx does. An error that is no [Failure] is taken for trouble of
	// the whole destination, and its text, which may have an address in it, is shown to
	// nobody.
	Send(ctx context.Context, a Alert) error
}

// Failure is why a destination has not got an alert.
type Failure struct {
	// Reason is for people, names the destination, and MUST NOT have an address, a secret
	// or text of the other side in it.
	Reason string
	// Refused says that this alert alone failed, for good unless somebody mends something.
	// Otherwise the destination as a whole is in trouble.
	Refused bool
	// After is the least wait that the destination asked for; 0 for none.
	After time.Duration
}

func (f *Failure) Error() string { return f.Reason }
