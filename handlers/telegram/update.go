package telegram

import (
	"context"

	"github.com/go-telegram/bot/models"

	"gatebook/events"
)

// incoming is what the bot looks at of an update.
type incoming struct {
	place
	what    string // what sort of thing it is, for a stranger's record
	odd     bool   // it may be somebody else's words: as if from a stranger
	private bool   // a chat with this user alone
	message int    // that was written, or that the button is on
	text    string
	press   *press // a button, instead of text
}

// press is one press of a button.
type press struct {
	query string // Telegram's id of it
	word  string // what the button carries
}

// receive looks at an update; the library's one worker calls it, and it does not wait.
func (b *Bot) receive(ctx context.Context, u *models.Update) {
	if ctx.Err() != nil || !b.seen.first(u.ID) {
		return
	}
	in := read(u)
	if in.user == 0 {
		return
	}
	who, known := b.cfg.Who(in.chat, in.user)
	if !known || in.odd {
		b.strangers.note(in.place, in.what)
		return
	}
	if !b.rate.take(in.place, b.cfg.Now()) || !b.queues.add(in.place, func() { b.serve(ctx, who, in) }) {
		b.health.dropped()
	}
}

// serve works on one request of a person.
func (b *Bot) serve(ctx context.Context, who events.PersonID, in incoming) {
	// It may have waited, and the catalog may have changed.
	if now, known := b.cfg.Who(in.chat, in.user); ctx.Err() != nil || !known || now != who {
		return
	}
	if in.press != nil {
		b.pressed(ctx, who, in)
		return
	}
	b.command(ctx, who, in)
}

func read(u *models.Update) incoming {
	switch {
	case u.CallbackQuery != nil:
		return readPress(u.CallbackQuery)
	case u.Message != nil:
		return readMessage(u.Message, oddity(u.Message))
	case u.EditedMessage != nil:
		return readMessage(u.EditedMessage, "an edited message")
	case u.ChannelPost != nil:
		return readMessage(u.ChannelPost, "a channel post")
	case u.EditedChannelPost != nil:
		return readMessage(u.EditedChannelPost, "a channel post")
	case u.BusinessMessage != nil:
		return readMessage(u.BusinessMessage, "a business message")
	case u.EditedBusinessMessage != nil:
		return readMessage(u.EditedBusinessMessage, "a business message")
	}
	return incoming{}
}

// oddity says why a message may not be the words of who sent it; empty where it is.
func oddity(m *models.Message) string {
	switch {
	case m.ForwardOrigin != nil || m.IsAutomaticForward:
		return "a forwarded message"
	case m.ViaBot != nil:
		return "a message by way of a bot"
	case m.From != nil && m.From.IsBot:
		return "a message of a bot"
	case m.SenderChat != nil:
		return "a message as a chat"
	case m.BusinessConnectionID != "" || m.SenderBusinessBot != nil:
		return "a business message"
	case m.EditDate != 0:
		return "an edited message"
	}
	return ""
}

func readMessage(m *models.Message, odd string) incoming {
	in := incoming{what: odd, odd: odd != "", private: m.Chat.Type == models.ChatTypePrivate, message: m.ID, text: m.Text}
	if odd == "" {
		in.what = "a message"
	}
	in.chat = m.Chat.ID
	if m.From != nil {
		in.user = m.From.ID
	}
	return in
}

func readPress(q *models.CallbackQuery) incoming {
	in := incoming{what: "a button", odd: q.From.IsBot, press: &press{query: q.ID, word: q.Data}}
	in.user = q.From.ID
	switch {
	case q.Message.Message != nil:
		in.chat, in.message = q.Message.Message.Chat.ID, q.Message.Message.ID
	case q.Message.InaccessibleMessage != nil:
		in.chat, in.message = q.Message.InaccessibleMessage.Chat.ID, q.Message.InaccessibleMessage.MessageID
	}
	return in
}

// seen knows the last updates again. Telegram sends one more than once where it does not
// know that it arrived. Used by the library's one worker only.
type seen struct {
	ids  map[int64]bool
	ring [maxSeen]int64
	next int
}

func newSeen() *seen { return &seen{ids: map[int64]bool{}} }

// first says that an update is new, and remembers it.
func (s *seen) first(id int64) bool {
	if s.ids[id] {
		return false
	}
	delete(s.ids, s.ring[s.next])
	s.ids[id] = true
	s.ring[s.next] = id
	s.next = (s.next + 1) % maxSeen
	return true
}
