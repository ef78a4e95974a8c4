package telegram

import (
	"context"
	"fmt"
	"strings"

	tgbot "github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"gatebook/events"
)

// show shows a review, and remembers that it did where it can be decided on.
func (b *Bot) show(ctx context.Context, who events.PersonID, in incoming, rest string) {
	id, ok := b.onlyID(ctx, in, "/show", rest)
	if !ok {
		return
	}
	b.sights.forget(in.place, id)
	asking, stop := context.WithTimeout(ctx, b.cfg.DeskTime)
	d, err := b.cfg.Desk.Show(asking, who, id)
	stop()
	if err == nil && d.Review != id {
		err = fmt.Errorf("the desk shows review %s for %s", d.Review, id)
	}
	if err != nil {
		b.tell(ctx, in.chat, b.why(err, "it cannot be shown"))
		return
	}
	text, whole := page(d, b.now())
	one, err := b.look(in.place, d, whole)
	if err != nil {
		b.tell(ctx, in.chat, b.why(err, "it cannot be shown"))
		return
	}
	sent, err := b.say(ctx, in.chat, text, buttons(one))
	if err != nil || one == nil {
		return // what may not have arrived was not seen
	}
	if strings.TrimSpace(sent.Text) != strings.TrimSpace(text) {
		b.unbutton(ctx, in.chat, sent.ID)
		b.tell(ctx, in.chat, "Telegram has changed this text, so it cannot be decided on here: see it with gatebook show --full "+string(id))
		return
	}
	one.message = sent.ID
	b.sights.keep(one)
}

// look makes the sight of what is to be shown; nil where nothing is to be decided.
func (b *Bot) look(p place, d Shown, whole bool) (*sight, error) {
	now := b.now()
	if !d.Open || d.Expires <= now {
		return nil, nil
	}
	one := &sight{place: p, review: d.Review, digest: d.Digest, expires: min(now.Add(b.cfg.Keep), d.Expires)}
	var err error
	if one.refuse, err = newWord(b.cfg.Tokens); err != nil {
		return nil, err
	}
	if whole {
		one.approve, err = newWord(b.cfg.Tokens)
	}
	return one, err
}

func buttons(one *sight) *models.InlineKeyboardMarkup {
	if one == nil {
		return nil
	}
	var row []models.InlineKeyboardButton
	if one.approve != "" {
		row = append(row, models.InlineKeyboardButton{Text: "Approve", CallbackData: one.approve})
	}
	row = append(row, models.InlineKeyboardButton{Text: "Refuse", CallbackData: one.refuse})
	return &models.InlineKeyboardMarkup{InlineKeyboard: [][]models.InlineKeyboardButton{row}}
}

// page is the message that shows a review, escaped, and whether all of it is there to be
// approved, where it waits.
func page(d Shown, now events.Instant) (text string, whole bool) {
	body := strings.TrimSpace(escape(d.Text))
	if hides(d.Text) {
		body += "\n\nWARNING: there are characters in it that a screen does not show as they are; here they stand escaped."
	}
	foot := "\n\n" + footer(d, now)
	if text := body + foot; units(text) <= maxMessage {
		return text, approvable(d)
	}
	d.Elided = true
	foot = "\n… (cut)\n\n" + footer(d, now)
	return cut(body, maxMessage-units(foot)) + foot, false
}

func approvable(d Shown) bool { return d.Digest != "" && !d.Elided && !d.Masked }

// footer says what can be done with what is shown.
func footer(d Shown, now events.Instant) string {
	full := "gatebook show --full " + string(d.Review)
	switch {
	case !d.Open:
		return "Nothing is to be decided on it any more."
	case d.Expires <= now:
		return "It has expired."
	case d.Elided:
		return "Not all of it is here, so it cannot be approved here: see all of it with " + full
	case d.Masked:
		return "Something in it is masked, so it cannot be approved here: see it with " + full
	case d.Digest == "":
		return "Not all of what it is about could be looked at, so it cannot be approved: " + full
	}
	return "To let it run once: the button, or /approve " + string(d.Review) + "\nTo end it: the button, or /refuse " + string(d.Review) + " reason"
}

// pressed decides by a button.
func (b *Bot) pressed(ctx context.Context, who events.PersonID, in incoming) {
	one, approve, ok := b.sights.press(in.place, in.press.word, b.now())
	if !ok {
		b.toast(ctx, in.press.query, "this button is not valid any more; /show it again")
		return
	}
	d := Decision{Review: one.review, Approve: approve, Shown: one.digest}
	if !approve {
		d.Reason = "refused by a button in Telegram, without a reason"
	}
	_, said := b.decide(ctx, who, d)
	b.toast(ctx, in.press.query, said)
	b.unbutton(ctx, in.chat, in.message)
	b.tell(ctx, in.chat, said)
}

// toast answers a press. That it failed stands in the status.
func (b *Bot) toast(ctx context.Context, query, text string) {
	_, _ = b.tg.AnswerCallbackQuery(ctx, &tgbot.AnswerCallbackQueryParams{
		CallbackQueryID: query, Text: fitIn(escape(text), "…", maxToast), ShowAlert: true,
	})
}

// unbutton takes the buttons from a message: they do nothing any more. That it failed
// stands in the status.
func (b *Bot) unbutton(ctx context.Context, chat int64, message int) {
	_, _ = b.tg.EditMessageReplyMarkup(ctx, &tgbot.EditMessageReplyMarkupParams{ChatID: chat, MessageID: message})
}
