// Package telegram lets the people who approve look at reviews and decide on them in
// Telegram, as a second surface beside the command line.
//
// Start with [New], then [Bot.Run], which polls until its context ends; [Bot.Send] gives
// an alert to a chat and needs no Run; [Bot.Status] is for doctor. What people can do is
// behind a [Desk]; who they are, the catalog says ([People]) for each update anew.
//
// What the package promises:
//
//   - A person is who writes, by chat and user together: never a name, a digest or a
//     flag in a text. Anybody else, and every message that may be somebody else's words
//     (forwarded, edited, by way of a bot, as a chat), gets no answer; Config.Stranger
//     hears of it.
//   - An approval names the digest of what this very person was shown last in this very
//     chat (sights.go), and it was shown whole: in one message, nothing elided or masked,
//     every character that a reader does not see escaped, and Telegram's answer to the
//     message held the same text; and it was written after that message. A look is used
//     once, before the Desk is asked, and is forgotten with a restart.
//   - A button carries a random word that means nothing outside this process.
//   - An update is acted upon once. What Telegram sends again after a restart finds no
//     look, and the Desk says of a second decision that it is one.
//   - The token is in no error, no status and no log: the library never has it
//     (line.go puts it into the address), and what is said of a failure is cleared of it.
//   - Work is bounded (limits.go): per person, over all people, and for strangers.
//
// Concurrency: a Bot is safe for concurrent use. Run owns the goroutines of the library,
// one for what strangers do, and one for each person whose requests are being worked on;
// requests of one person in one chat follow each other, and people do not wait for
// each other. All of them have ended when Run returns; a Desk MUST give up when its
// context ends.
//
// Dependency: github.com/go-telegram/bot for the API's types, its form encoding and its
// loop of polls; it has no dependencies of its own. It also has habits that do not fit
// (waits that ignore retry_after, an update it cannot read stops it, errors and logs
// with whole bodies), so every request passes line.go, which gives it only good answers.
package telegram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	tgbot "github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"gatebook/events"
)

// ErrRunning says that a Bot runs already.
var ErrRunning = errors.New("the bot runs already")

// Config is what a bot needs. Fields are required where nothing else is said.
type Config struct {
	// Token reads the bot's token; it is asked for each request, so that a changed one
	// counts at once. Its error MUST NOT hold the token.
	Token func() (string, error)
	// BaseURL is where the API is, https://api.telegram.org where empty. The token is part
	// of every address, so http is only for this machine.
	BaseURL string
	Desk    Desk
	Who     People
	// Stranger records that somebody asked who may not, and what sort of thing it was,
	// never its text. At most once per chat, user and second.
	Stranger func(ctx context.Context, chat, user int64, what string)
	// Fault hears of errors of the Desk that are not for people; may be nil.
	Fault func(error)
	// Tokens is where the words on buttons come from: a source of secure randomness.
	Tokens io.Reader
	Now    func() time.Time
	// Wait waits for a while or until the context ends, with its error; nil waits by a timer.
	Wait func(ctx context.Context, d time.Duration) error
	// Transport carries the requests; nil makes one.
	Transport http.RoundTripper
	// PollTime is how long Telegram may hold a poll, and DeskTime how long the Desk may
	// take; Keep is how long what was shown can be approved. Zero is the default.
	PollTime, DeskTime, Keep time.Duration
}

// Validate says what is missing or wrong.
func (c Config) Validate() error {
	if c.Token == nil || c.Desk == nil || c.Who == nil || c.Stranger == nil || c.Tokens == nil || c.Now == nil {
		return errors.New("telegram: Token, Desk, Who, Stranger, Tokens and Now are required")
	}
	if c.PollTime < 0 || c.DeskTime < 0 || c.Keep < 0 {
		return errors.New("telegram: a time is below zero")
	}
	_, err := baseURL(c.BaseURL)
	return err
}

func (c *Config) setDefaults() {
	for _, d := range []struct {
		at   *time.Duration
		have time.Duration
	}{{&c.PollTime, pollTime}, {&c.DeskTime, deskTime}, {&c.Keep, keepTime}} {
		if *d.at == 0 {
			*d.at = d.have
		}
	}
	if c.Wait == nil {
		c.Wait = wait
	}
	if c.Fault == nil {
		c.Fault = func(error) {}
	}
}

// Bot is one bot of Telegram. Make it with [New].
type Bot struct {
	cfg       Config
	tg        *tgbot.Bot
	line      *line
	health    *health
	sights    *sights
	seen      *seen
	rate      *rate
	strangers *strangers
	queues    *queues
	running   atomic.Bool

	mu   sync.Mutex
	name string // the bot's own, once it was asked for
}

// New makes a bot. It asks nothing of Telegram.
func New(cfg Config) (*Bot, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	b := &Bot{
		cfg: cfg, health: &health{now: cfg.Now}, sights: newSights(), seen: newSeen(),
		rate: newRate(burst, refill), queues: newQueues(),
	}
	b.strangers = newStrangers(cfg, b.health)
	var err error
	if b.line, err = newLine(cfg, b.health); err != nil {
		return nil, err
	}
	b.tg, err = tgbot.New(standInToken,
		tgbot.WithServerURL(standInServer), tgbot.WithHTTPClient(cfg.PollTime, b.line), tgbot.WithSkipGetMe(),
		tgbot.WithAllowedUpdates(tgbot.AllowedUpdates{models.AllowedUpdateMessage, models.AllowedUpdateCallbackQuery}),
		tgbot.WithUpdatesChannelCap(maxUpdates), tgbot.WithWorkers(1), tgbot.WithNotAsyncHandlers(),
		tgbot.WithDefaultHandler(func(ctx context.Context, _ *tgbot.Bot, u *models.Update) { b.receive(ctx, u) }),
		// The line has said already what failed, in words that are fit to be read.
		tgbot.WithErrorsHandler(func(error) {}), tgbot.WithDebugHandler(func(string, ...any) {}))
	if err != nil {
		return nil, fmt.Errorf("telegram: %w", err)
	}
	return b, nil
}

// Run polls Telegram and works on what comes, until ctx ends; then it returns nil. No
// failure of Telegram ends it: see [Bot.Status].
func (b *Bot) Run(ctx context.Context) error {
	if !b.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer b.running.Store(false)
	var noting sync.WaitGroup
	noting.Go(func() { b.strangers.run(ctx) })
	b.tg.Start(ctx)
	b.queues.wait()
	noting.Wait()
	b.line.close()
	return nil
}

// Send gives a text to a chat, escaped, and cut where a message cannot hold it. An error
// of Telegram is a [*Failure].
func (b *Bot) Send(ctx context.Context, chat int64, text string) error {
	_, err := b.say(ctx, chat, fit(escape(text), "\n… (cut)"), nil)
	return err
}

// Status says how the bot is doing.
func (b *Bot) Status() Status { return b.health.status() }

// say sends a text that is escaped and fits.
func (b *Bot) say(ctx context.Context, chat int64, text string, buttons *models.InlineKeyboardMarkup) (*models.Message, error) {
	params := &tgbot.SendMessageParams{
		ChatID: chat, Text: text, LinkPreviewOptions: &models.LinkPreviewOptions{IsDisabled: tgbot.True()},
	}
	if buttons != nil {
		params.ReplyMarkup = buttons
	}
	sent, err := b.tg.SendMessage(ctx, params)
	return sent, plain(err)
}

// tell answers a person. That it failed stands in the status; they ask again.
func (b *Bot) tell(ctx context.Context, chat int64, text string) {
	_, _ = b.say(ctx, chat, fit(escape(text), "…"), nil)
}

// me is the bot's own name, which a command in a group may carry.
func (b *Bot) me(ctx context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.name != "" {
		return b.name, nil
	}
	user, err := b.tg.GetMe(ctx)
	if err != nil {
		return "", plain(err)
	}
	b.name = user.Username
	return b.name, nil
}

func (b *Bot) now() events.Instant { return events.InstantOf(b.cfg.Now()) }

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
