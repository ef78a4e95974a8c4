package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// attackers agents try 10,000 times in a minute together: one alone would wait for each
// answer.
const (
	attackers    = 16
	attemptEvery = attackers * time.Minute / 10_000
)

// attack calls what is blocked, again and again, until ctx ends.
func (w *worker) attack(ctx context.Context, refused *atomic.Int64) error {
	tick := time.NewTicker(attemptEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		answer, err := w.conn.Ask(w.subject, w.reply, w.request())
		if err != nil {
			return fmt.Errorf("%s: %w", w.subject, err)
		}
		if !bytes.Contains(answer, []byte(`"layer":"asset"`)) {
			return fmt.Errorf("%s: the call was not refused for its asset: %s", w.subject, answer)
		}
		refused.Add(1)
	}
}

// callsBlocked is how many calls agents get through while others try 10,000 times in a
// minute to call what is blocked, beside the same without those.
func (b *bench) callsBlocked(ctx context.Context) (err error) {
	one, err := b.contest(ctx, "calls-blocked")
	if err != nil {
		return err
	}
	bad := &crew{workers: one.crew.workers[agents-attackers:]}
	one.crew.workers = one.crew.workers[:agents-attackers]
	defer func() { err = errors.Join(err, bad.close(), one.close()) }()
	bad.calling(privileged)
	row := row{Name: "calls-blocked", Unit: "calls/s", Better: higher, Details: map[string]int64{}}
	var alone []int64
	var refused atomic.Int64
	var attacked time.Duration
	for i := range b.opt.runs + 1 {
		quiet, err := one.load(ctx, b.opt)
		if err != nil {
			return err
		}
		began := time.Now()
		busy, err := bad.during(ctx, &refused, func() (sample, error) { return one.load(ctx, b.opt) })
		if err != nil {
			return err
		}
		attacked += time.Since(began)
		if i == 0 {
			continue // to get warm
		}
		alone, row.Runs = append(alone, quiet.rate()), append(row.Runs, busy.rate())
		b.note("calls-blocked, run %d: %d calls/s; without the attempts %d calls/s", i, busy.rate(), quiet.rate())
	}
	said, err := os.ReadFile(one.engine.Log())
	if err != nil {
		return err
	}
	row.Details["attempts_a_minute"] = 60 * perSecond(refused.Load(), attacked)
	row.Details["messages"] = int64(bytes.Count(said, []byte("asset_blocked")))
	row.beside("calls-alone", "calls/s", alone)
	row.target("costs others at most 5%", row.Ratio >= 0.95)
	row.target("a handful of messages, and at least one", row.Details["messages"] >= 1 && row.Details["messages"] <= 5)
	b.report.add(row)
	return nil
}

// during attacks with all of the crew while do runs.
func (c *crew) during(ctx context.Context, refused *atomic.Int64, do func() (sample, error)) (sample, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make([]error, len(c.workers))
	var all sync.WaitGroup
	for i, w := range c.workers {
		all.Go(func() { failed[i] = w.attack(ctx, refused) })
	}
	got, err := do()
	stop()
	all.Wait()
	return got, errors.Join(err, errors.Join(failed...))
}
