package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"gatebook/events"
	"gatebook/handlers/alerts"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
	"gatebook/handlers/telegram"
	"gatebook/policy/outlet"
)

// bot makes the bot of a catalog, whose chats are those of the catalog in force.
func (n *node) bot(t outlet.Telegram) (*telegram.Bot, error) {
	return telegram.New(telegram.Config{
		Token: func() (string, error) { return n.secretText(t.Token) }, BaseURL: t.Server,
		Desk: telegramDesk{n.people.Desk("telegram")},
		Who: func(chat, user int64) (events.PersonID, bool) {
			return n.engine.Catalog().Outlets().Telegram.Who(chat, user)
		},
		Stranger: func(ctx context.Context, chat, user int64, what string) {
			_ = n.engine.Submit(ctx, engine.Note{Fact: events.AccessRefused{
				Account: "TELEGRAM", Client: fmt.Sprintf("user %d in chat %d", user, chat), Action: what, Count: 1,
			}})
		},
		Fault:  func(err error) { n.cfg.log("warn", "telegram: "+err.Error()) },
		Tokens: rand.Reader, Now: time.Now,
	})
}

// telegramDesk is what people do, as the bot knows it.
type telegramDesk struct{ people.Desk }

// maxPending is how many reviews the bot lists.
const maxPending = 20

// Pending lists what waits.
func (d telegramDesk) Pending(ctx context.Context, who events.PersonID) (waiting []telegram.Waiting, more bool, err error) {
	page, err := d.Desk.Pending(ctx, who, maxPending)
	if err != nil {
		return nil, false, forPeople(err)
	}
	for _, r := range page.Reviews {
		waiting = append(waiting, telegram.Waiting{Review: r.Review, Agent: r.Agent, Tool: r.Tool, Expires: r.Expires})
	}
	return waiting, page.Next != 0, nil
}

// Show gives everything that a decision is about.
func (d telegramDesk) Show(ctx context.Context, who events.PersonID, id events.ReviewID) (telegram.Shown, error) {
	r, err := d.Review(ctx, who, id)
	return telegram.Shown{
		Review: id, Text: telegramText(r), Digest: r.Shown, Elided: r.Elided, Masked: r.Masked,
		Open: r.State == events.ReviewStateOpen, Expires: r.Expires,
	}, forPeople(err)
}

// telegramText is a review in lines. What stands in one line has its line ends written out.
func telegramText(d people.ReviewDetail) string {
	var b strings.Builder
	utc := func(i events.Instant) string { return i.Time().UTC().Format("2006-01-02 15:04:05 UTC") }
	for _, row := range reviewRows(d, utc) {
		fmt.Fprintf(&b, "%s: %s\n", row[0], strings.ReplaceAll(row[1], "\n", `\n`))
	}
	args := d.Arguments
	if args == "" {
		args = d.Args
	}
	fmt.Fprintf(&b, "\narguments, %d bytes:\n%s\n", d.ArgsSize, args)
	if d.Change != "" {
		fmt.Fprintf(&b, "\nwhat it is about:\n%s\n", strings.TrimSuffix(d.Change, "\n"))
	}
	if len(d.Hidden) > 0 {
		fmt.Fprintf(&b, "\nWARNING: there are characters in it that a screen does not show as they are: %s\n", strings.Join(d.Hidden, " "))
	}
	if d.Unseen {
		b.WriteString("\nNot all of what it is about could be looked at, so it cannot be approved.\n")
	}
	return b.String()
}

// Decide decides a review.
func (d telegramDesk) Decide(ctx context.Context, who events.PersonID, q telegram.Decision) error {
	_, err := d.Desk.Decide(ctx, who, q.Approve, people.ActRequest{Review: q.Review, Shown: q.Shown, Reason: q.Reason})
	return forPeople(err)
}

// forPeople lets a refusal through, and nothing else.
func forPeople(err error) error {
	if no := (*people.RefusedError)(nil); errors.As(err, &no) {
		return &telegram.Refused{Reason: no.Reason}
	}
	return err
}

// chatLine brings alerts to a chat.
type chatLine struct {
	bot  *telegram.Bot
	chat int64
}

// Send brings one alert.
func (c chatLine) Send(ctx context.Context, a alerts.Alert) error {
	err := c.bot.Send(ctx, c.chat, a.Kind+": "+a.Text)
	if f := (*telegram.Failure)(nil); errors.As(err, &f) && ctx.Err() == nil {
		return &alerts.Failure{
			Reason: "telegram: " + f.Reason, After: f.After,
			Refused: f.Code == http.StatusBadRequest || f.Code == http.StatusForbidden,
		}
	}
	return err
}
