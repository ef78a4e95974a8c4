package harness

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"

	"github.com/nats-io/nats.go"

	"gatebook/events"
)

// Round is an open round.
type Round struct {
	ID           events.RoundID
	Conversation events.ConversationID
	Handle       string
}

// BeginRound begins a round, in the conversation or, without one, in a new one.
func BeginRound(ctx context.Context, channel *nats.Conn, agent events.AgentID, in events.ConversationID) (Round, error) {
	raw := make([]byte, 16)
	if _, err := io.ReadFull(rand.Reader, raw); err != nil {
		return Round{}, err
	}
	r := Round{Handle: hex.EncodeToString(raw)}
	request := map[string]any{
		"agent": agent, "sender": "bench", "handle_hash": events.DigestOf([]byte(r.Handle)), "task": "be measured",
	}
	if in != "" {
		request["conversation"] = in
	}
	var began struct {
		Round        events.RoundID        `json:"round"`
		Conversation events.ConversationID `json:"conversation"`
		Profile      string                `json:"profile"`
	}
	err := Ask(ctx, channel, "channel."+string(ChannelID)+".round.begin", request, &began)
	r.ID, r.Conversation = began.Round, began.Conversation
	return r, err
}

// End ends the round well.
func (r Round) End(ctx context.Context, channel *nats.Conn) error {
	var ended struct {
		End string `json:"end"`
	}
	return Ask(ctx, channel, "channel."+string(ChannelID)+".round.end", map[string]any{
		"round": r.ID, "handle_hash": events.DigestOf([]byte(r.Handle)), "end": "completed",
	}, &ended)
}
