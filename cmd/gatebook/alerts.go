package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/alerts"
	"gatebook/handlers/engine"
	"gatebook/handlers/outbox"
	"gatebook/handlers/people"
	"gatebook/handlers/telegram"
	"gatebook/policy/outlet"
)

// tellers are what tells people of what happens, by the catalog in force. Safe for
// concurrent use.
type tellers struct {
	mu      sync.Mutex
	courier *alerts.Courier // nil while there is none
	bot     *telegram.Bot   // the same
}

func (t *tellers) now() *alerts.Courier {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.courier
}

func (t *tellers) use(c *alerts.Courier, b *telegram.Bot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.courier, t.bot = c, b
}

func (t *tellers) botStatus() (telegram.Status, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bot == nil {
		return telegram.Status{}, false
	}
	return t.bot.Status(), true
}

func (t *tellers) wake() {
	if c := t.now(); c != nil {
		c.Wake()
	}
}

func (t *tellers) status() []alerts.Status {
	if c := t.now(); c != nil {
		return c.Status()
	}
	return nil
}

// tell delivers alerts until ctx ends, to the destinations of the catalog in force. It
// begins anew where those change.
func (n *node) tell(ctx context.Context) {
	box := outbox.New(outbox.Config{
		Loop: n.engine, Store: n.stores.live, Now: n.cfg.clock.Wall, Writer: n.writer, Born: bornOf(n.stores.incarnation),
		Redact: n.masks, Wake: n.tellers.wake,
	})
	var all sync.WaitGroup
	defer all.Wait()
	watch := sync.OnceFunc(func() { all.Go(func() { box.Watch(ctx) }) })
	for ctx.Err() == nil {
		c := n.engine.Catalog().Outlets()
		inner, stop := context.WithCancel(ctx)
		if err := n.tellBy(inner, &all, c, box); err != nil {
			n.cfg.log("warn", "alerts: "+err.Error())
		}
		if c.Any() {
			watch()
		}
		for same := true; same && pauseFor(ctx, time.Second) == nil; {
			same = n.engine.Catalog().Outlets().Equal(c)
		}
		stop()
		n.tellers.use(nil, nil)
	}
}

// tellBy begins what a catalog declares; all of it ends with ctx.
func (n *node) tellBy(ctx context.Context, all *sync.WaitGroup, c outlet.All, box *outbox.Outbox) (err error) {
	var bot *telegram.Bot
	if c.Telegram.On() {
		if bot, err = n.bot(c.Telegram); err != nil {
			return err
		}
		all.Go(func() { _ = bot.Run(ctx) })
	}
	courier, err := n.courier(c, bot, box)
	if err != nil {
		return err
	}
	if !c.Any() {
		n.tellers.use(nil, bot)
		all.Go(func() { n.logAlerts(ctx) }) // what nobody is told is in the log, from now on
		return nil
	}
	n.tellers.use(courier, bot)
	all.Go(func() { courier.Run(ctx) })
	return nil
}

// bornOf is when a data folder was made.
func bornOf(i events.Incarnation) events.Instant {
	id, err := ulid.ParseStrict(string(i))
	if err != nil {
		return 0
	}
	return events.InstantOf(ulid.Time(id.Time()))
}

// courier makes the senders to the destinations of a catalog.
func (n *node) courier(c outlet.All, bot *telegram.Bot, box *outbox.Outbox) (*alerts.Courier, error) {
	cfg := alerts.Config{Outbox: box, Now: time.Now, Random: random}
	for _, name := range slices.Sorted(maps.Keys(c.Alerts)) {
		d := c.Alerts[name]
		to := alerts.Destination{Name: name, Format: string(d.Form()), URL: func() (string, error) { return n.secretText(d.URL) }}
		if d.Secret != (outlet.Source{}) {
			to.Secret = func() ([]byte, error) {
				text, err := n.secretText(d.Secret)
				return []byte(text), err
			}
		}
		sender, err := alerts.NewHTTP(to, time.Now)
		if err != nil {
			return nil, err
		}
		cfg.Lines = append(cfg.Lines, alerts.Line{Name: name, Sender: sender})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Telegram.Chats)) {
		if chat := c.Telegram.Chats[name]; chat.Alerts && bot != nil {
			cfg.Lines = append(cfg.Lines, alerts.Line{Name: "telegram:" + name, Sender: chatLine{bot, chat.Chat}})
		}
	}
	return alerts.New(cfg)
}

// random is a number of [0, n), for waits.
func random(n int64) int64 {
	v, err := rand.Int(rand.Reader, big.NewInt(n))
	if err != nil {
		return 0
	}
	return v.Int64()
}

// maxSecretText bounds an address, a key or a token, in bytes.
const maxSecretText = 4 << 10

// secretText reads what a catalog names and does not hold: of a file without its last
// line end. Its errors have nothing of the text.
func (n *node) secretText(s outlet.Source) (string, error) {
	if s.Env != "" {
		if n.cfg.getenv != nil && n.cfg.getenv(s.Env) != "" {
			return n.cfg.getenv(s.Env), nil
		}
		return "", fmt.Errorf("the variable %s is empty", s.Env)
	}
	f, err := os.Open(s.File)
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxSecretText+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	raw = bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r"))
	if len(raw) == 0 || len(raw) > maxSecretText {
		return "", fmt.Errorf("the file %s is empty, or has more than %d bytes", s.File, maxSecretText)
	}
	return string(raw), nil
}

// logAlerts writes alerts to the log, where the catalog has no destination.
func (n *node) logAlerts(ctx context.Context) {
	at := n.stores.checkpoint()
	for pauseFor(ctx, time.Second) == nil {
		rows, err := n.stores.alertsAfter(at)
		if err != nil {
			continue // the store's trouble is told as such
		}
		for _, row := range rows {
			text, _ := n.masks.Text(outbox.TextOf(row))
			n.cfg.log("alert", row.Kind+": "+strings.ReplaceAll(text, "\n", " "))
			at = row.Seq
		}
	}
}

func (a *App) alertsCommand() *cobra.Command {
	cmd := group(&cobra.Command{Use: "alerts", Short: "What tells people of what happens"})
	cmd.AddCommand(&cobra.Command{
		Use:   "n8n",
		Short: "Print a workflow for n8n that mails alerts",
		Long: `Print a workflow that takes the alerts of a destination with the format json and sends
each as a mail. Import it in n8n, set the addresses, and put the address of its webhook
where the catalog says (alerts.<name>.url).

  gatebook alerts n8n`,
		Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(a.Out, alerts.ExampleN8N)
			return err
		},
	})
	return cmd
}

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
