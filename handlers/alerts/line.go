package alerts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gatebook/events"
)

// line is one destination at work. All but the status belongs to the goroutine of run.
type line struct {
	Line
	cfg  Config
	wake chan struct{}

	// known is what is remembered of alerts that wait, by their keys.
	known map[string]*standing
	// streak is how many attempts in a row found the destination in trouble.
	streak int
	// until is before when nothing is sent.
	until time.Time
	// unrecorded counts failures of the outbox in a row; before recordFrom it is left alone.
	unrecorded int
	recordFrom time.Time

	mu     sync.Mutex
	status Status
}

// standing is how it stands with one alert.
type standing struct {
	tries   int       // failed attempts with this alert
	refused int       // those of them where it alone was refused
	since   int       // the streak when the alert was first seen
	due     time.Time // not before
	// settled says that there is an outcome: delivered, or given up for the reason failed.
	settled  bool
	failed   string
	recorded bool
}

func newLine(l Line, cfg Config) *line {
	return &line{
		Line: l, cfg: cfg, wake: make(chan struct{}, 1),
		known: map[string]*standing{}, status: Status{Name: l.Name},
	}
}

func (l *line) run(ctx context.Context) {
	for {
		pause, wake := l.pass(ctx), l.wake
		if held := l.until.Sub(l.cfg.Now()); held > 0 {
			// Nothing can be sent, however much there is.
			pause, wake = min(pause, held), nil
		}
		// The first part is slept through: many wakes in a row cost a few looks.
		if !sleep(ctx, rest, nil) || !sleep(ctx, pause-rest, wake) {
			return
		}
	}
}

// sleep waits for a time or a wake, and says whether ctx still lasts.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
	return ctx.Err() == nil
}

// pass looks into the outbox once, does what can be done now, and says when there is
// more to do at the latest.
func (l *line) pass(ctx context.Context) time.Duration {
	timed, cancel := context.WithTimeout(ctx, outboxTime)
	waiting, err := l.cfg.Outbox.Waiting(timed, l.Name, min(window+len(l.known), maxWindow))
	cancel()
	if err != nil {
		if ctx.Err() == nil {
			l.troubled(shown(fmt.Sprintf("what waits cannot be read: %v", err)))
		}
		return tick
	}
	l.remember(waiting)
	for _, a := range waiting {
		if s := l.known[a.Key()]; s.settled && ctx.Err() == nil {
			l.record(ctx, a, s)
		}
	}
	for ctx.Err() == nil {
		a, found := l.next(waiting)
		if !found {
			break
		}
		l.attempt(ctx, a, waiting)
	}
	l.count(waiting)
	return l.pause(waiting)
}

// remember knows what waits, and forgets the rest.
func (l *line) remember(waiting []Alert) {
	known := make(map[string]*standing, len(waiting))
	for _, a := range waiting {
		s := l.known[a.Key()]
		if s == nil {
			s = &standing{since: l.streak}
		}
		known[a.Key()] = s
	}
	l.known = known
}

// next is the alert to try now: the oldest that is due. While the destination is in
// trouble the alerts take turns, since one of them may be the trouble.
func (l *line) next(waiting []Alert) (Alert, bool) {
	now := l.cfg.Now()
	if now.Before(l.until) {
		return Alert{}, false
	}
	best, turns := -1, 0
	for i, a := range waiting {
		s := l.known[a.Key()]
		if s.settled || now.Before(s.due) {
			continue
		}
		if l.streak == 0 {
			return a, true
		}
		if t := s.tries / patience; best < 0 || t < turns {
			best, turns = i, t
		}
	}
	if best < 0 {
		return Alert{}, false
	}
	return waiting[best], true
}

// attempt sends one alert. An attempt that the end of ctx cut off counts for nothing.
func (l *line) attempt(ctx context.Context, a Alert, waiting []Alert) {
	timed, cancel := context.WithTimeout(ctx, sendTime)
	err := l.Sender.Send(timed, a)
	cancel()
	switch {
	case err == nil:
		l.delivered(ctx, a)
	case ctx.Err() == nil:
		l.failed(ctx, a, failureOf(l.Name, err), waiting)
	}
}

func (l *line) delivered(ctx context.Context, a Alert) {
	l.streak = 0
	for _, s := range l.known {
		s.since = 0
	}
	l.mu.Lock()
	l.status.LastSuccess = events.InstantOf(l.cfg.Now())
	l.status.Delivered++
	l.mu.Unlock()
	s := l.known[a.Key()]
	s.settled = true
	l.record(ctx, a, s)
}

// failed puts off the alert, and the destination where that is in trouble, and gives up
// what has been tried enough.
func (l *line) failed(ctx context.Context, a Alert, f Failure, waiting []Alert) {
	l.troubled(f.Reason)
	now, s := l.cfg.Now(), l.known[a.Key()]
	s.tries++
	if f.Refused {
		s.refused++
		s.due = now.Add(l.wait(firstRefused, mostWait, s.refused))
		l.until = now.Add(refusedPause)
		if s.refused >= maxRefused || s.tries >= maxTries {
			l.giveUp(ctx, a, s.tries, f.Reason)
		}
		return
	}
	l.streak++
	l.until = now.Add(max(l.wait(firstWait, mostWait, l.streak), f.After))
	s.due = l.until
	if s.tries > l.streak { // others get through meanwhile
		s.due = now.Add(max(l.wait(firstWait, mostWait, s.tries), f.After))
	}
	for _, w := range waiting {
		s := l.known[w.Key()]
		if n := max(s.tries, l.streak-s.since); !s.settled && n >= maxTries {
			l.giveUp(ctx, w, n, f.Reason)
		}
	}
}

func (l *line) giveUp(ctx context.Context, a Alert, attempts int, reason string) {
	s := l.known[a.Key()]
	s.settled = true
	s.failed = fmt.Sprintf("given up after %d failed attempts, the last: %s", attempts, reason)
	l.mu.Lock()
	l.status.GivenUp++
	l.mu.Unlock()
	l.record(ctx, a, s)
}

// record tells the outbox the outcome. Where it cannot take it, only that is done again.
func (l *line) record(ctx context.Context, a Alert, s *standing) {
	if s.recorded || l.cfg.Now().Before(l.recordFrom) {
		return
	}
	timed, cancel := context.WithTimeout(ctx, outboxTime)
	err := l.cfg.Outbox.Told(timed, l.Name, a, s.failed)
	cancel()
	switch {
	case err == nil:
		s.recorded, l.unrecorded = true, 0
	case ctx.Err() == nil:
		l.unrecorded++
		l.recordFrom = l.cfg.Now().Add(l.wait(firstWait, mostRecordWait, l.unrecorded))
		l.troubled(shown(fmt.Sprintf("an outcome cannot be recorded: %v", err)))
	}
}

// wait doubles from first up to most, and is then a quarter more or less by chance, so
// that what failed together is not tried again together.
func (l *line) wait(first, most time.Duration, failures int) time.Duration {
	d := first
	for i := 1; i < failures && d < most; i++ {
		d *= 2
	}
	d = min(d, most)
	return d - d/4 + time.Duration(l.cfg.Random(int64(d/2)))
}

// pause is when there is something to do again, at the latest.
func (l *line) pause(waiting []Alert) time.Duration {
	now := l.cfg.Now()
	next := now.Add(tick)
	for _, a := range waiting {
		s, at := l.known[a.Key()], now
		switch {
		case s.recorded:
			at = now.Add(lag)
		case s.settled:
			at = l.recordFrom
		case s.due.After(l.until):
			at = s.due
		default:
			at = l.until
		}
		if at.Before(next) {
			next = at
		}
	}
	return next.Sub(now)
}

// failureOf makes a failure of any error. What is no Failure may say anything, so its
// text stays here.
func failureOf(name string, err error) Failure {
	var f *Failure
	if errors.As(err, &f) {
		return Failure{Reason: shown(f.Reason), Refused: f.Refused, After: min(f.After, maxRetryAfter)}
	}
	why := "it failed without a reason that can be shown"
	if errors.Is(err, context.DeadlineExceeded) {
		why = "no answer in time"
	}
	return Failure{Reason: "destination " + events.Quote(name) + ": " + why}
}

// shown is a reason as one short line.
func shown(why string) string { return events.Escape(events.Cut(why, maxReason)) }

func (l *line) troubled(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.LastFailure, l.status.FailedAt = why, events.InstantOf(l.cfg.Now())
}

func (l *line) count(waiting []Alert) {
	n := 0
	for _, a := range waiting {
		if !l.known[a.Key()].settled {
			n++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Waiting = n
}

func (l *line) report() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}
