package alerts_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/alerts"
)

// The proxy of the environment is read once in a process, so it is set before all tests.
func TestMain(m *testing.M) {
	if err := os.Setenv("HTTPS_PROXY", "http://127.0.0.1:1"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func alert(n int) alerts.Alert {
	return alerts.Alert{
		ID: eventstest.ID[events.EventID](n), Kind: "asset_blocked", Of: "mail.send", Agent: "alice",
		Text: fmt.Sprintf("alert %d", n), Count: int64(n), First: eventstest.Time(n), Last: eventstest.Time(n + 1), Seq: events.Seq(n),
	}
}

func some(n int) []alerts.Alert {
	var all []alerts.Alert
	for i := range n {
		all = append(all, alert(i+1))
	}
	return all
}

// box is an outbox in memory. It survives the couriers that use it, as the book does.
type box struct {
	mu      sync.Mutex
	waiting map[string][]alerts.Alert
	told    map[string][]string // by destination: the key, and a reason behind a space
	fault   error               // of Told
	stale   bool                // Waiting does not show yet what was told
	hang    string              // the method that hangs
	looks   int
}

func newBox(to string, all ...alerts.Alert) *box {
	b := &box{waiting: map[string][]alerts.Alert{}, told: map[string][]string{}}
	b.add(to, all...)
	return b
}

func (b *box) add(to string, all ...alerts.Alert) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[to] = append(b.waiting[to], all...)
}

func (b *box) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// hangs waits for the end of ctx where method is to hang.
func (b *box) hangs(ctx context.Context, method string) error {
	b.mu.Lock()
	hang := b.hang == method
	b.mu.Unlock()
	if hang {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (b *box) Waiting(ctx context.Context, to string, limit int) ([]alerts.Alert, error) {
	if err := b.hangs(ctx, "Waiting"); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	all := b.waiting[to]
	return slices.Clone(all[:min(limit, len(all))]), nil
}

func (b *box) Told(ctx context.Context, to string, a alerts.Alert, failed string) error {
	if err := b.hangs(ctx, "Told"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fault != nil {
		return b.fault
	}
	if failed != "" {
		failed = " " + failed
	}
	b.told[to] = append(b.told[to], a.Key()+failed)
	if !b.stale {
		b.waiting[to] = slices.DeleteFunc(b.waiting[to], func(w alerts.Alert) bool { return w.Key() == a.Key() })
	}
	return nil
}

func (b *box) told1(to string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.told[to])
}

// sent is one call of a sender.
type sent struct {
	key string
	at  time.Duration // since the sender was made
}

// sender answers as it is told, and remembers who came when.
type sender struct {
	mu     sync.Mutex
	start  time.Time
	answer func(ctx context.Context, a alerts.Alert) error
	calls  []sent
}

func newSender(answer func(ctx context.Context, a alerts.Alert) error) *sender {
	return &sender{start: time.Now(), answer: answer}
}

func (s *sender) Send(ctx context.Context, a alerts.Alert) error {
	s.mu.Lock()
	s.calls = append(s.calls, sent{a.Key(), time.Since(s.start)})
	answer := s.answer
	s.mu.Unlock()
	return answer(ctx, a)
}

func (s *sender) answers(answer func(ctx context.Context, a alerts.Alert) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *sender) seen() []sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *sender) keys() []string {
	var keys []string
	for _, c := range s.seen() {
		keys = append(keys, c.key)
	}
	return keys
}

func ok(context.Context, alerts.Alert) error { return nil }

func down(context.Context, alerts.Alert) error { return &alerts.Failure{Reason: "it is down"} }

func refuse(context.Context, alerts.Alert) error {
	return &alerts.Failure{Reason: "it refuses", Refused: true}
}

// middle makes every wait what it is without chance.
func middle(n int64) int64 { return n / 2 }

func courier(t *testing.T, b *box, random func(int64) int64, lines ...alerts.Line) *alerts.Courier {
	t.Helper()
	c, err := alerts.New(alerts.Config{Outbox: b, Lines: lines, Now: time.Now, Random: random})
	check(t, err)
	return c
}

// running runs a courier in a bubble; stop ends it and says how long that took.
func running(t *testing.T, c *alerts.Courier) (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { c.Run(ctx) })
	synctest.Wait()
	return func() time.Duration {
		began := time.Now()
		cancel()
		done.Wait()
		return time.Since(began)
	}
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func keysOf(all []alerts.Alert) []string {
	var keys []string
	for _, a := range all {
		keys = append(keys, a.Key())
	}
	return keys
}
