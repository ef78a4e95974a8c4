package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
	"gatebook/policy/price"
)

// sumFields are what receipts --by takes.
var sumFields = []string{"agent", "day", "model"}

// maxDays keeps the borders of days within one request.
const maxDays = 366

// sumFlags say of what the sums of receipts are.
type sumFlags struct{ by, since, until string }

// sumRequest is what receipts --by asks for.
type sumRequest struct {
	people.UsageRequest
	byDay bool // the periods are days, be it only one
}

// usageRequest reads them; its errors are of usage.
func (a *App) usageRequest(f sumFlags, agent string) (sumRequest, error) {
	q := sumRequest{UsageRequest: people.UsageRequest{Agent: events.AgentID(agent)}}
	var errs []error
	for field := range strings.SplitSeq(f.by, ",") {
		switch strings.TrimSpace(field) {
		case "agent":
			q.ByAgent = true
		case "model":
			q.ByModel = true
		case "day":
			q.byDay = true
		default:
			errs = append(errs, fmt.Errorf("--by %s: want some of %s, with a comma between", events.Quote(field), strings.Join(sumFields, ", ")))
		}
	}
	since, err := a.moment("since", f.since)
	errs = append(errs, err)
	until, err := a.moment("until", f.until)
	errs = append(errs, err)
	if until != 0 && since >= until {
		errs = append(errs, errors.New("--since is not before --until: nothing can lie between"))
	}
	if err := errors.Join(errs...); err != nil {
		return q, err
	}
	switch {
	case q.byDay:
		q.Periods, err = days(since, until, a.Now().In(a.zone()))
	case since != 0 || until != 0:
		if until == 0 {
			until = max(since, events.InstantOf(a.Now())).Add(24 * time.Hour) // engine time may be ahead
		}
		q.Periods = []events.Instant{since, until}
	}
	return q, err
}

// days are the midnights, in the zone of now, from since to until, both of which may
// be within a day; the last week where neither is given.
func days(since, until events.Instant, now time.Time) ([]events.Instant, error) {
	midnight := func(t time.Time, days int) time.Time {
		y, m, d := t.In(now.Location()).Date()
		return time.Date(y, m, d+days, 0, 0, 0, 0, now.Location())
	}
	end := midnight(now, 1)
	if until != 0 {
		end = until.Time()
	}
	begin := midnight(end, -7)
	if since != 0 {
		begin = since.Time()
	}
	if !begin.Before(end) {
		end = midnight(begin, 1)
	}
	borders := []events.Instant{events.InstantOf(begin)}
	for at := midnight(begin, 1); at.Before(end); at = midnight(at, 1) {
		if len(borders) > maxDays {
			return nil, fmt.Errorf("--by day: at most %d days at once; a later --since or an earlier --until asks for fewer", maxDays)
		}
		borders = append(borders, events.InstantOf(at))
	}
	return append(borders, events.InstantOf(end)), nil
}

// sums prints what receipts add up to.
func (a *App) sums(ctx context.Context, c *client, q sumRequest) error {
	var all people.UsageAnswer
	if err := c.ask(ctx, "usage", q.UsageRequest, &all); err != nil {
		return err
	}
	if len(all.Usage) == 0 {
		a.sayNone(ctx, c, "reports of usage", q.Agent)
	}
	if a.flags.json {
		return a.printJSON(all)
	}
	return a.printSums(q, all)
}

func (a *App) printSums(q sumRequest, all people.UsageAnswer) error {
	var head []string
	if q.byDay {
		head = append(head, "DAY")
	}
	if q.ByAgent {
		head = append(head, "AGENT")
	}
	if q.ByModel {
		head = append(head, "MODEL")
	}
	rows := [][]string{}
	for _, u := range all.Usage {
		cells := map[string]string{"DAY": a.day(u.From), "AGENT": string(u.Agent), "MODEL": orDash(u.Model)}
		var row []string
		for _, name := range head {
			row = append(row, cells[name])
		}
		rows = append(rows, append(row, fmt.Sprint(u.Messages),
			amount(u.Input, u.AtLeast.Input), amount(u.CachedInput, u.AtLeast.CachedInput),
			amount(u.CacheWrite, u.AtLeast.CacheWrite), amount(u.Output, u.AtLeast.Output), cost(u)))
	}
	if err := a.table(slices.Concat(head, []string{"MESSAGES", "IN", "CACHED", "CACHE WRITE", "OUT", "COST"}), rows); err != nil {
		return err
	}
	if all.Left == 0 {
		return nil
	}
	var rest []string
	for _, u := range all.Rest {
		rest = append(rest, fmt.Sprintf("%d messages for %s", u.Messages, events.Escape(cost(u))))
	}
	_, err := fmt.Fprintf(a.Err, "gatebook: %d sums more, of %s: a shorter time, one --agent or fewer fields of --by show them\n",
		all.Left, strings.Join(rest, " and "))
	return err
}

// day is the date that a period begins in.
func (a *App) day(i events.Instant) string { return i.Time().In(a.zone()).Format(time.DateOnly) }

// amount is a sum for people: what is not known as a whole says so.
func amount(n events.Amount, least int64) string {
	switch {
	case n.Known:
		return fmt.Sprint(n.N)
	case least > 0:
		return fmt.Sprintf(">=%d", least)
	}
	return "?"
}

func cost(u people.Usage) string {
	unknown := fmt.Sprintf(" (%d unpriced)", u.Unpriced)
	switch {
	case u.Cost.Known:
		return strings.TrimSpace(price.Decimal(u.Cost.N) + " " + u.Currency)
	case u.AtLeast.Cost > 0:
		return ">=" + strings.TrimSpace(price.Decimal(u.AtLeast.Cost)+" "+u.Currency) + unknown
	}
	return "?" + unknown
}

// usageReport is the request of intent.<agent>.usage.
type usageReport struct {
	Round       events.RoundID `json:"round"`
	Handle      string         `json:"handle"`
	Message     string         `json:"message"`
	Model       string         `json:"model,omitzero"`
	Input       events.Amount  `json:"input"`
	CachedInput events.Amount  `json:"cached_input"`
	CacheWrite  events.Amount  `json:"cache_write"`
	Output      events.Amount  `json:"output"`
}

func (a *App) roundUsageCommand() *cobra.Command {
	var q usageReport
	var agent string
	cmd := &cobra.Command{
		Use:   "usage --agent ID --message ID",
		Short: "Report what one message of a model used in the round that was begun here",
		Long: `Report the tokens of one message of a model, with the key of the agent, for the round
that round begin or round accept left here. A later report of the same message takes
the place of the former. --input is without what was read from or written to the
cache. A number that is left out is not known, which is not 0.

  gatebook round usage --agent alice --message msg_1 --model m-large \
    --input 27 --cached-input 100 --cache-write 0 --output 47`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := agentFlag(agent)
			if err != nil {
				return err
			}
			if q.Message == "" {
				return usageError{errors.New("--message: name the model's message by its id")}
			}
			return a.roundUsage(cmd.Context(), id, q)
		},
	}
	f := cmd.Flags()
	f.StringVar(&agent, "agent", "", "the agent")
	f.StringVar(&q.Message, "message", "", "the id that the provider gave to the message")
	f.StringVar(&q.Model, "model", "", "the model; without it, the one that the round was begun with")
	f.Var((*amountFlag)(&q.Input), "input", "tokens read that no cache had")
	f.Var((*amountFlag)(&q.CachedInput), "cached-input", "tokens read from the cache")
	f.Var((*amountFlag)(&q.CacheWrite), "cache-write", "tokens written to the cache")
	f.Var((*amountFlag)(&q.Output), "output", "tokens written by the model")
	a.completeFlag(cmd, "agent", agentsOf)
	return cmd
}

// amountFlag is a number that is not known until it is given.
type amountFlag events.Amount

func (f *amountFlag) Set(s string) error {
	if err := json.Unmarshal([]byte(s), (*events.Amount)(f)); err != nil || !f.Known {
		return errors.New("want a whole number from 0; what is not known is left out")
	}
	return nil
}

func (f *amountFlag) String() string {
	if !f.Known {
		return ""
	}
	return fmt.Sprint(f.N)
}

func (f *amountFlag) Type() string { return "tokens" }

func (a *App) roundUsage(ctx context.Context, agent events.AgentID, q usageReport) error {
	dir, err := a.folder()
	if err != nil {
		return err
	}
	r, err := a.openRound(dir, agent)
	if err != nil {
		return err
	}
	c, err := a.agent(agent)
	if err != nil {
		return err
	}
	defer c.close()
	fmt.Fprintf(a.Err, "gatebook: using the key of agent %s\n", agent)
	q.Round, q.Handle = r.Round, r.Handle
	var answer engine.UsageAnswer
	if err := c.ask(ctx, "usage", q, &answer); err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(answer)
	}
	what := "recorded"
	if answer.Repeated {
		what = "was recorded already"
	}
	sum := people.Usage{Cost: answer.Cost, Currency: answer.Currency, Unpriced: 1}
	_, err = fmt.Fprintf(a.Out, "message %s %s at %d: cost %s\n", events.Escape(answer.Message), what, answer.Seq, cost(sum))
	return err
}
