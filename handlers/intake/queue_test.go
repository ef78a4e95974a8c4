package intake

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// One identity's messages come in the order they were pushed, identities come in
// turn, nothing is lost, and nobody has more waiting than the bound.
func TestQueueProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := newQueue(1000)
		model := map[string][]string{} // accepted and not yet taken
		taken := map[string]bool{}
		order := []string{} // identities in the order that their turn was due
		due := func(who string) {
			if len(model[who]) > 0 && !taken[who] {
				order = append(order, who)
			}
		}
		n := 0
		rt.Repeat(map[string]func(*rapid.T){
			"push": func(rt *rapid.T) {
				who := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "who")
				n++
				text := fmt.Sprint(n)
				ok := q.push(who, Message{Data: []byte(text)}, 5)
				if want := len(model[who]) < 5; ok != want {
					rt.Fatalf("push for %s with %d waiting: %v", who, len(model[who]), ok)
				}
				if ok {
					model[who] = append(model[who], text)
					if len(model[who]) == 1 {
						due(who)
					}
				}
			},
			"take": func(rt *rapid.T) {
				who, m, ok := q.take()
				if ok != (len(order) > 0) {
					rt.Fatalf("take: %v with %d due", ok, len(order))
				}
				if !ok {
					return
				}
				if who != order[0] || string(m.Data) != model[who][0] {
					rt.Fatalf("took %s %s, due %s %v", who, m.Data, order[0], model[order[0]])
				}
				order, model[who], taken[who] = order[1:], model[who][1:], true
			},
			"done": func(rt *rapid.T) {
				for who, is := range taken {
					if is {
						q.done(who)
						taken[who] = false
						due(who)
						return
					}
				}
			},
		})
	})
}

func TestQueueBytes(t *testing.T) {
	q := newQueue(10)
	if !q.push("a", Message{Data: make([]byte, 10)}, 100) || q.push("a", Message{Data: make([]byte, 1)}, 100) {
		t.Error("the bound on bytes does not hold")
	}
	if !q.push("b", Message{Data: make([]byte, 10)}, 100) {
		t.Error("one identity's bytes must not count for another")
	}
}

// Every message reaches exactly one of many workers, and none sleeps while
// messages wait.
func TestQueueWorkers(t *testing.T) {
	const agents, each = 20, 50
	q := newQueue(1 << 20)
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	got := map[string][]string{}
	var workers, all sync.WaitGroup
	all.Add(agents * each)
	for range 4 {
		workers.Go(func() {
			for {
				who, m, ok := q.next(ctx)
				if !ok {
					return
				}
				mu.Lock()
				got[who] = append(got[who], string(m.Data))
				mu.Unlock()
				q.done(who)
				all.Done()
			}
		})
	}
	for i := range each {
		for a := range agents {
			if !q.push(fmt.Sprint(a), Message{Data: []byte(fmt.Sprint(i))}, each) {
				t.Fatal("refused below the bound")
			}
		}
	}
	all.Wait()
	stop()
	workers.Wait()
	for who, texts := range got {
		for i, text := range texts {
			if text != fmt.Sprint(i) {
				t.Fatalf("agent %s: message %d is %s", who, i, text)
			}
		}
	}
}
