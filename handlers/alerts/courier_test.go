package alerts_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatebook/handlers/alerts"
)

// Alerts go out oldest first, are recorded, and a wake brings the next at once.
func TestOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newBox("ops", some(150)...), newSender(ok)
		c := courier(t, b, middle, alerts.Line{Name: "ops", Sender: s})
		stop := running(t, c)
		pass(5 * time.Second)
		want(t, "sent", s.keys(), keysOf(some(150)))
		want(t, "told", b.told1("ops"), keysOf(some(150)))
		pass(time.Minute)
		b.add("ops", alert(151))
		c.Wake()
		pass(100 * time.Millisecond)
		want(t, "sent after a wake", len(s.seen()), 151)
		b.add("ops", alert(152))
		pass(30 * time.Second)
		want(t, "sent without a wake", len(s.seen()), 152)
		st := c.Status()[0]
		want(t, "status", []any{st.Name, st.Waiting, st.Delivered, st.GivenUp, st.LastFailure}, []any{"ops", 0, 152, 0, ""})
		if st.LastSuccess == 0 {
			t.Error("no time of the last success")
		}
		stop()
	})
}

// A wake never waits, and many of them cost a few looks.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context, _ alerts.Alert) error { <-ctx.Done(); return ctx.Err() }
		b := newBox("ops")
		c := courier(t, b, middle, alerts.Line{Name: "ops", Sender: newSender(hangs)})
		for range 1000 {
			c.Wake() // nobody runs
		}
		stop := running(t, c)
		for range 1000 {
			c.Wake()
			pass(time.Millisecond)
		}
		if b.looks > 20 {
			t.Errorf("%d looks in a second", b.looks)
		}
		b.add("ops", some(3)...)
		c.Wake()
		pass(time.Second)
		for range 1000 {
			c.Wake() // it hangs
		}
		stop()
	})
}

// While nothing can be sent, wakes cost nothing, and what came in meanwhile goes out as
// soon as something can.
func TestWakeInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox("ops", alert(1))
		s := newSender(func(context.Context, alerts.Alert) error {
			return &alerts.Failure{Reason: "slower", After: 40 * time.Second}
		})
		c := courier(t, b, middle, alerts.Line{Name: "ops", Sender: s})
		stop := running(t, c)
		b.set(func() { b.waiting["ops"] = nil })
		for range 350 {
			c.Wake()
			pass(100 * time.Millisecond)
		}
		if b.looks > 3 {
			t.Errorf("%d looks in 35 seconds", b.looks)
		}
		s.answers(ok)
		b.add("ops", alert(2))
		c.Wake()
		pass(6 * time.Second)
		want(t, "told", b.told1("ops"), []string{alert(2).Key()})
		stop()
	})
}

// Run ends with its context, whatever a sender is doing, and what was cut off counts for
// nothing: no failure, nothing recorded.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := newSender(func(ctx context.Context, _ alerts.Alert) error { <-ctx.Done(); return ctx.Err() })
		b := newBox("hangs", alert(1))
		b.add("down", alert(1))
		c := courier(t, b, middle, alerts.Line{Name: "hangs", Sender: hangs}, alerts.Line{Name: "down", Sender: newSender(down)},
			alerts.Line{Name: "idle", Sender: newSender(ok)})
		stop := running(t, c)
		pass(time.Second)
		want(t, "time to end", stop(), 0)
		want(t, "failure", c.Status()[0].LastFailure, "")
		want(t, "told", len(b.told1("hangs")), 0)
	})
	for _, method := range []string{"Waiting", "Told"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBox("ops", alert(1))
			b.hang = method
			c := courier(t, b, middle, alerts.Line{Name: "ops", Sender: newSender(ok)})
			stop := running(t, c)
			pass(time.Second)
			want(t, "time to end", stop(), 0)
			want(t, "failure of "+method, c.Status()[0].LastFailure, "")
		})
	}
}

// One that hangs and one that is dead delay nobody else.
func TestDestinationsAreOnTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, good := newBox("good", some(20)...), newSender(ok)
		b.add("hangs", some(20)...)
		b.add("dead", some(20)...)
		hangs := newSender(func(ctx context.Context, _ alerts.Alert) error { <-ctx.Done(); return ctx.Err() })
		c := courier(t, b, middle, alerts.Line{Name: "hangs", Sender: hangs}, alerts.Line{Name: "dead", Sender: newSender(down)},
			alerts.Line{Name: "good", Sender: good})
		stop := running(t, c)
		want(t, "told before any time passed", b.told1("good"), keysOf(some(20)))
		pass(61 * time.Second)
		if why := c.Status()[0].LastFailure; !strings.Contains(why, "no answer in time") {
			t.Errorf("one that hangs for ever is said to have %q", why)
		}
		want(t, "waiting", c.Status()[0].Waiting, 20)
		stop()
	})
}

// A destination that is down gets one attempt at a time, with waits that double, and
// after a day what waited all the while is given up. What came later is not.
func TestDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newBox("ops", some(3)...), newSender(down)
		c := courier(t, b, middle, alerts.Line{Name: "ops", Sender: s})
		stop := running(t, c)
		pass(12 * time.Hour)
		b.add("ops", alert(4))
		want(t, "given up after half a day", len(b.told1("ops")), 0)
		pass(18 * time.Hour)
		calls := s.seen()
		for i, wait := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 7200, 7200, 7200} {
			if got := calls[i+1].at - calls[i].at; got != wait*time.Second {
				t.Errorf("wait %d is %v, not %v", i+1, got, wait*time.Second)
			}
		}
		told := b.told1("ops")
		if len(told) != 3 || !slices.ContainsFunc(told, func(s string) bool {
			return s == alert(1).Key()+" given up after 23 failed attempts, the last: it is down"
		}) {
			t.Fatalf("given up: %q", told)
		}
		if day := calls[22].at; day < 20*time.Hour || day > 28*time.Hour {
			t.Errorf("given up after %v", day)
		}
		st := c.Status()[0]
		want(t, "status", []any{st.GivenUp, st.Waiting, st.LastFailure}, []any{3, 1, "it is down"})
		s.answers(ok)
		pass(2 * time.Hour)
		want(t, "the one that came later", b.told1("ops")[3:], []string{alert(4).Key()})
		stop()
	})
}

// After a short trouble the order is kept.
func TestShortTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newBox("ops", some(5)...), newSender(down)
		stop := running(t, courier(t, b, middle, alerts.Line{Name: "ops", Sender: s}))
		pass(6 * time.Second)
		want(t, "attempts", s.keys(), []string{alert(1).Key(), alert(1).Key()})
		s.answers(ok)
		pass(9 * time.Second)
		want(t, "told", b.told1("ops"), keysOf(some(5)))
		stop()
	})
}

// An alert that brings the destination into trouble by itself does not hold up the
// others, is not tried faster because they succeed, and is given up.
func TestPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox("ops", some(10)...)
		s := newSender(func(ctx context.Context, a alerts.Alert) error {
			if a.Key() == alert(1).Key() {
				return down(ctx, a)
			}
			return nil
		})
		stop := running(t, courier(t, b, middle, alerts.Line{Name: "ops", Sender: s}))
		pass(time.Minute)
		want(t, "told", b.told1("ops"), keysOf(some(10)[1:]))
		for n := range 30 * 60 {
			b.add("ops", alert(100+n))
			pass(time.Minute)
		}
		poison := 0
		for _, key := range s.keys() {
			if key == alert(1).Key() {
				poison++
			}
		}
		want(t, "attempts with it", poison, 23)
		given := slices.DeleteFunc(b.told1("ops"), func(s string) bool { return !strings.Contains(s, " ") })
		want(t, "given up", given, []string{alert(1).Key() + " given up after 23 failed attempts, the last: it is down"})
		stop()
	})
}

// What is refused is tried three times while all else goes on.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := some(200)
		b := newBox("ops", all...)
		bad := map[string]bool{}
		for _, a := range all[:100] {
			bad[a.Key()] = true
		}
		s := newSender(func(ctx context.Context, a alerts.Alert) error {
			if bad[a.Key()] {
				return refuse(ctx, a)
			}
			return nil
		})
		c := courier(t, b, middle, alerts.Line{Name: "ops", Sender: s})
		stop := running(t, c)
		pass(10 * time.Second)
		if n := len(s.seen()); n > 12 {
			t.Errorf("%d refusals in 10 seconds", n)
		}
		pass(2 * time.Minute)
		want(t, "told", b.told1("ops"), keysOf(all[100:]))
		pass(time.Hour)
		want(t, "told in the end", len(b.told1("ops")), 200)
		want(t, "a reason", b.told1("ops")[100], all[0].Key()+" given up after 3 failed attempts, the last: it refuses")
		want(t, "attempts", len(s.seen()), 100*3+100)
		want(t, "dead letters", c.Status()[0].GivenUp, 100)
		stop()
	})
}

// A refused alert is tried again when its wait is over, not at some later look.
func TestRefusedWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newBox("ops", alert(1)), newSender(refuse)
		most := func(n int64) int64 { return n - 1 }
		stop := running(t, courier(t, b, most, alerts.Line{Name: "ops", Sender: s}))
		pass(time.Hour)
		var at []time.Duration
		for _, c := range s.seen() {
			at = append(at, c.at.Round(time.Second))
		}
		want(t, "times", at, []time.Duration{0, 375 * time.Second, (375 + 750) * time.Second})
		stop()
	})
}

// One success begins the day anew, for all alike.
func TestSuccessCountsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := newBox("ops", some(3)...), 0
		s := newSender(func(ctx context.Context, a alerts.Alert) error {
			if n++; n == 11 {
				return nil
			}
			return down(ctx, a)
		})
		stop := running(t, courier(t, b, middle, alerts.Line{Name: "ops", Sender: s}))
		pass(80 * time.Minute)
		want(t, "attempts", len(s.seen()), 10)
		b.add("ops", some(6)[3:]...)
		pass(20 * time.Hour)
		want(t, "told after 20 hours", len(b.told1("ops")), 1)
		pass(10 * time.Hour)
		want(t, "told after 30 hours", len(b.told1("ops")), 6)
		stop()
	})
}

// A destination that fails every other time gives up nothing.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := newBox("ops", some(60)...), 0
		s := newSender(func(ctx context.Context, a alerts.Alert) error {
			if n++; n%2 == 1 {
				return down(ctx, a)
			}
			return nil
		})
		stop := running(t, courier(t, b, middle, alerts.Line{Name: "ops", Sender: s}))
		pass(time.Hour)
		told := b.told1("ops")
		slices.Sort(told)
		want(t, "told", told, keysOf(some(60)))
		stop()
	})
}

// A destination says how long to wait, up to an hour.
func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox("ops", alert(1))
		s := newSender(func(context.Context, alerts.Alert) error {
			return &alerts.Failure{Reason: "slower", After: 100 * time.Hour}
		})
		stop := running(t, courier(t, b, middle, alerts.Line{Name: "ops", Sender: s}))
		pass(time.Hour - time.Second)
		want(t, "attempts within the hour", len(s.seen()), 1)
		pass(2 * time.Second)
		want(t, "attempts", len(s.seen()), 2)
		stop()
	})
}

// An outcome that cannot be recorded is recorded later, others go on meanwhile, and
// nobody is told twice while the courier knows.
func TestToldFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newBox("ops", some(2)...), newSender(ok)
		b.fault = errors.New("the engine is degraded")
		c := courier(t, b, middle, alerts.Line{Name: "ops", Sender: s})
		stop := running(t, c)
		pass(10 * time.Minute)
		want(t, "sent", s.keys(), keysOf(some(2)))
		if why := c.Status()[0].LastFailure; !strings.Contains(why, "the engine is degraded") {
			t.Errorf("the failure is %q", why)
		}
		b.set(func() { b.fault = nil })
		pass(time.Minute)
		want(t, "told", b.told1("ops"), keysOf(some(2)))
		want(t, "sent in the end", s.keys(), keysOf(some(2)))
		b.set(func() { b.fault = errors.New("again") })
		b.add("ops", alert(3))
		c.Wake()
		pass(time.Second)
		b.set(func() { b.fault = nil })
		pass(5 * time.Second)
		want(t, "told soon after a new fault", b.told1("ops"), keysOf(some(3)))
		stop()
	})
}

// What was sent and never recorded is sent again after a restart, with the same id.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newBox("ops", alert(1)), newSender(ok)
		b.fault = errors.New("the engine is degraded")
		stop := running(t, courier(t, b, middle, alerts.Line{Name: "ops", Sender: s}))
		pass(time.Minute)
		stop()
		b.fault = nil
		stop = running(t, courier(t, b, middle, alerts.Line{Name: "ops", Sender: s}))
		want(t, "sent", s.keys(), []string{alert(1).Key(), alert(1).Key()})
		want(t, "told", b.told1("ops"), []string{alert(1).Key()})
		stop()
	})
}

// A view that lags behind what was recorded makes no repeats.
func TestLaggingOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newBox("ops", some(3)...), newSender(ok)
		b.stale = true
		c := courier(t, b, middle, alerts.Line{Name: "ops", Sender: s})
		stop := running(t, c)
		for range 100 {
			c.Wake()
			pass(time.Second)
		}
		want(t, "sent", s.keys(), keysOf(some(3)))
		want(t, "told", b.told1("ops"), keysOf(some(3)))
		stop()
	})
}

// An outbox that hangs or fails is asked again, and the courier says so meanwhile.
func TestOutboxInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newBox("ops", some(2)...), newSender(ok)
		b.hang = "Waiting"
		c := courier(t, b, middle, alerts.Line{Name: "ops", Sender: s})
		stop := running(t, c)
		pass(31 * time.Second)
		if why := c.Status()[0].LastFailure; !strings.Contains(why, "what waits cannot be read") {
			t.Errorf("the failure is %q", why)
		}
		b.set(func() { b.hang = "Told" })
		pass(2 * time.Minute)
		want(t, "sent", s.keys(), keysOf(some(2)))
		b.set(func() { b.hang = "" })
		pass(2 * time.Minute)
		want(t, "told", b.told1("ops"), keysOf(some(2)))
		stop()
	})
}

// A reason is one short line in the book and on a screen, whoever made it.
func TestHostileReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox("ops", alert(1))
		s := newSender(func(context.Context, alerts.Alert) error {
			return &alerts.Failure{Reason: "a\nb\u202e" + strings.Repeat("x", 10000), Refused: true}
		})
		c := courier(t, b, middle, alerts.Line{Name: "ops", Sender: s})
		stop := running(t, c)
		pass(time.Hour)
		stop()
		for _, why := range append(b.told1("ops"), c.Status()[0].LastFailure) {
			if !strings.Contains(why, `a\nb\u202exx`) || len(why) > 500 {
				t.Errorf("the reason is %q", why)
			}
		}
	})
}

// An error that is no Failure may say anything: nobody sees it.
func TestStrangeSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox("ops", alert(1))
		s := newSender(func(context.Context, alerts.Alert) error { return errors.New(`Post "https://canary/": no`) })
		c := courier(t, b, middle, alerts.Line{Name: "ops", Sender: s})
		stop := running(t, c)
		pass(48 * time.Hour)
		stop()
		if told := strings.Join(b.told1("ops"), ""); told == "" || strings.Contains(told+c.Status()[0].LastFailure, "canary") {
			t.Errorf("told %q, status %q", told, c.Status()[0].LastFailure)
		}
	})
}

// Waits differ by chance, by a quarter at the most.
func TestJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[time.Duration]bool{}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 50 {
			b, s := newBox("ops", alert(1)), newSender(down)
			stop := running(t, courier(t, b, rng.Int64N, alerts.Line{Name: "ops", Sender: s}))
			pass(7 * time.Second)
			wait := s.seen()[1].at
			if seen[wait] = true; wait < 3750*time.Millisecond || wait > 6250*time.Millisecond {
				t.Errorf("a first wait of %v", wait)
			}
			stop()
		}
		if len(seen) < 40 {
			t.Errorf("%d different waits of 50", len(seen))
		}
	})
}

func TestConfig(t *testing.T) {
	good := func() alerts.Config {
		return alerts.Config{Outbox: newBox("a"), Now: time.Now, Random: middle, Lines: []alerts.Line{{Name: "a", Sender: newSender(ok)}}}
	}
	for name, spoil := range map[string]func(*alerts.Config){
		"no outbox":  func(c *alerts.Config) { c.Outbox = nil },
		"no clock":   func(c *alerts.Config) { c.Now = nil },
		"no chance":  func(c *alerts.Config) { c.Random = nil },
		"no sender":  func(c *alerts.Config) { c.Lines[0].Sender = nil },
		"no name":    func(c *alerts.Config) { c.Lines[0].Name = "" },
		"name twice": func(c *alerts.Config) { c.Lines = append(c.Lines, c.Lines[0]) },
	} {
		cfg := good()
		spoil(&cfg)
		if _, err := alerts.New(cfg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	_, err := alerts.New(good())
	check(t, err)
}
