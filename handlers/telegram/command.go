package telegram

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gatebook/events"
)

const help = `/pending: what waits for a person, the oldest first
/show ID: everything about one of them, with buttons to decide
/approve ID: let it run once, as you were shown it last in this chat
/refuse ID reason: end it; the agent hears the reason
/help: this

Who decides is who writes here; no name counts. An ID is whole and exact. What cannot be shown whole here cannot be approved here: gatebook show --full shows it.`

// order is a command as it was written.
type order struct {
	name, bot string // without / and @
	rest      string
}

func isSpace(r rune) bool { return r == ' ' || r == '\n' }

// parseOrder takes a command apart; false: it is none.
func parseOrder(text string) (o order, ok bool) {
	text, ok = strings.CutPrefix(text, "/")
	if !ok {
		return o, false
	}
	word := text
	if at := strings.IndexFunc(text, isSpace); at >= 0 {
		word, o.rest = text[:at], strings.TrimFunc(text[at:], isSpace)
	}
	o.name, o.bot, _ = strings.Cut(word, "@")
	// What /pending lists can be tapped: Telegram makes a link of this form only.
	if id, tapped := strings.CutPrefix(o.name, "show_"); tapped && o.rest == "" {
		o.name, o.rest = "show", id
	}
	return o, true
}

func (b *Bot) command(ctx context.Context, who events.PersonID, in incoming) {
	o, ok := parseOrder(in.text)
	if !ok {
		if in.private { // in a group, people talk with each other
			b.tell(ctx, in.chat, "I know commands only: /help")
		}
		return
	}
	if o.bot != "" {
		me, err := b.me(ctx)
		if err != nil || !strings.EqualFold(o.bot, me) {
			return // it is for another bot, or nobody can say
		}
	}
	switch o.name {
	case "help", "start":
		b.tell(ctx, in.chat, help)
	case "pending":
		b.pending(ctx, who, in)
	case "show":
		b.show(ctx, who, in, o.rest)
	case "approve":
		b.approve(ctx, who, in, o.rest)
	case "refuse":
		b.refuse(ctx, who, in, o.rest)
	default:
		b.tell(ctx, in.chat, "there is no such command: /help lists those that there are")
	}
}

func (b *Bot) pending(ctx context.Context, who events.PersonID, in incoming) {
	asking, stop := context.WithTimeout(ctx, b.cfg.DeskTime)
	waiting, more, err := b.cfg.Desk.Pending(asking, who)
	stop()
	if err != nil {
		b.tell(ctx, in.chat, b.why(err, "what waits cannot be listed"))
		return
	}
	if len(waiting) == 0 {
		b.tell(ctx, in.chat, "nothing waits for a person")
		return
	}
	if len(waiting) > maxListed {
		waiting, more = waiting[:maxListed], true
	}
	var text strings.Builder
	text.WriteString("These wait for a person, the oldest first:\n")
	for _, w := range waiting {
		fmt.Fprintf(&text, "\n/show_%s\n%s: %s, until %s\n", w.Review, oneLine(string(w.Agent)), oneLine(w.Tool), when(w.Expires))
	}
	if more {
		text.WriteString("\nThere are more: gatebook pending lists them.")
	}
	b.tell(ctx, in.chat, text.String())
}

// approve lets a review run by what this person was shown of it in this chat. Nothing
// but its id is taken from the text.
func (b *Bot) approve(ctx context.Context, who events.PersonID, in incoming, rest string) {
	id, ok := b.onlyID(ctx, in, "/approve", rest)
	if !ok {
		return
	}
	one, ok := b.sights.take(in.place, id, in.message, b.now())
	if !ok {
		b.tell(ctx, in.chat, "look first with /show "+string(id)+": what you approve is what you were shown in this chat, whole and not long ago")
		return
	}
	_, said := b.decide(ctx, who, Decision{Review: id, Approve: true, Shown: one.digest})
	b.tell(ctx, in.chat, said)
}

func (b *Bot) refuse(ctx context.Context, who events.PersonID, in incoming, rest string) {
	word, reason := rest, ""
	if at := strings.IndexFunc(rest, isSpace); at >= 0 {
		word, reason = rest[:at], strings.TrimFunc(rest[at:], isSpace)
	}
	id, err := events.ParseULID[events.ReviewID](word)
	switch {
	case err != nil:
		b.tell(ctx, in.chat, "/refuse ID reason: the ID is whole and exact, as /pending lists it")
		return
	case reason == "":
		b.tell(ctx, in.chat, "say why, the agent hears it: /refuse "+string(id)+" not this file")
		return
	}
	b.sights.forget(in.place, id)
	_, said := b.decide(ctx, who, Decision{Review: id, Reason: reason})
	b.tell(ctx, in.chat, said)
}

// onlyID takes a rest that is one id and nothing else.
func (b *Bot) onlyID(ctx context.Context, in incoming, command, rest string) (events.ReviewID, bool) {
	if strings.ContainsFunc(rest, isSpace) {
		b.tell(ctx, in.chat, command+" takes one ID and nothing else; who decides is who writes, and by what they were shown")
		return "", false
	}
	id, err := events.ParseULID[events.ReviewID](rest)
	if err != nil {
		b.tell(ctx, in.chat, command+" ID: the ID is whole and exact, as /pending lists it")
		return "", false
	}
	return id, true
}

// decide asks the Desk, and says how it went.
func (b *Bot) decide(ctx context.Context, who events.PersonID, d Decision) (done bool, said string) {
	asking, stop := context.WithTimeout(ctx, b.cfg.DeskTime)
	defer stop()
	verb := "refused"
	if d.Approve {
		verb = "approved"
	}
	if err := b.cfg.Desk.Decide(asking, who, d); err != nil {
		return false, b.why(err, "not "+verb+" as far as is known") + "; how it stands says /show " + string(d.Review)
	}
	return true, verb + ": " + string(d.Review)
}

// why tells a person what went wrong. The text of what is not meant for them stays inside.
func (b *Bot) why(err error, what string) string {
	if r := (*Refused)(nil); errors.As(err, &r) {
		return "no: " + r.Reason
	}
	b.cfg.Fault(err)
	if errors.Is(err, context.DeadlineExceeded) {
		return what + ": there was no answer in time"
	}
	return what + ": something failed inside; gatebook doctor may say what"
}

func when(i events.Instant) string { return i.Time().Format("2006-01-02 15:04:05 UTC") }

func oneLine(s string) string { return events.Escape(s) }
