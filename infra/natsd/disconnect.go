package natsd

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"gatebook/policy"
)

// disconnects carries an event for every connection that ended, in every
// account.
const disconnects = "$SYS.ACCOUNT.*.DISCONNECT"

// Connect is one login.
type Connect struct {
	Identity policy.Identity
	// Name is what the client called its connection: claimed, not escaped, valid
	// UTF-8 of at most 128 bytes.
	Name string
}

// Disconnect is the end of one login.
type Disconnect struct {
	Connect
	// Left is how many connections of the same key are still there, and Same how
	// many of those have the same name.
	Left, Same int
	// Reason is the server's, in its words.
	Reason string
}

// watch tells of ended logins until ctx ends. Where the server's events were
// lost it looks for itself.
func (r *run) watch(ctx context.Context, sub *nats.Subscription) {
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, nats.ErrSlowConsumer):
			r.sweep("events of the server were lost")
			continue
		case err != nil:
			r.cfg.Log("error", fmt.Sprintf("no more news of disconnects: %v", err))
			return
		}
		var e struct {
			Client struct {
				ID uint64 `json:"id"`
			} `json:"client"`
			Reason string `json:"reason"`
		}
		if err := json.Unmarshal(m.Data, &e); err != nil {
			r.sweep("unreadable event of the server")
			continue
		}
		r.logins.remove(e.Client.ID, e.Reason)
	}
}

// sweep finds the logins that the server no longer has.
func (r *run) sweep(reason string) {
	for _, cid := range r.logins.all() {
		if r.ns.GetClient(cid) == nil {
			r.logins.remove(cid, reason)
		}
	}
}

// endAll tells of every login that is left, after the server has stopped.
func (r *run) endAll(reason string) {
	for _, cid := range r.logins.all() {
		r.logins.remove(cid, reason)
	}
}
