package intake

import (
	"context"
	"sync"
)

// queue holds the waiting messages of every identity and gives them out in turn:
// one message of one identity, then the next identity. While a worker has an
// identity's message nobody gets another of it, so its requests keep their order.
type queue struct {
	mostBytes int // that one identity may have waiting

	mu     sync.Mutex
	lines  map[string]*line
	turns  []string      // identities with a message and no worker, in order
	signal chan struct{} // one token while turns is not empty
}

type line struct {
	waiting []Message
	bytes   int
	taken   bool
}

func newQueue(mostBytes int) *queue {
	return &queue{mostBytes: mostBytes, lines: map[string]*line{}, signal: make(chan struct{}, 1)}
}

// push adds a message, or says that its sender has too much waiting: most
// messages, or the queue's bytes.
func (q *queue) push(who string, m Message, most int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[who]
	if l == nil {
		l = &line{}
		q.lines[who] = l
	}
	if len(l.waiting) >= most || l.bytes+len(m.Data) > q.mostBytes {
		return false
	}
	l.waiting = append(l.waiting, m)
	l.bytes += len(m.Data)
	if len(l.waiting) == 1 && !l.taken {
		q.turn(who)
	}
	return true
}

// turn lines who up; the lock is held.
func (q *queue) turn(who string) {
	q.turns = append(q.turns, who)
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// next waits for the next message in turn. done MUST be called for who.
func (q *queue) next(ctx context.Context) (who string, m Message, ok bool) {
	for {
		if who, m, ok := q.take(); ok {
			return who, m, true
		}
		select {
		case <-q.signal:
		case <-ctx.Done():
			return "", Message{}, false
		}
	}
}

func (q *queue) take() (string, Message, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		return "", Message{}, false
	}
	who := q.turns[0]
	q.turns = q.turns[1:]
	l := q.lines[who]
	m := l.waiting[0]
	l.waiting[0] = Message{}
	l.waiting = l.waiting[1:]
	l.bytes -= len(m.Data)
	l.taken = true
	if len(q.turns) > 0 {
		select { // another worker can go on
		case q.signal <- struct{}{}:
		default:
		}
	}
	return who, m, true
}

// done says that the worker is finished with who's message.
func (q *queue) done(who string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[who]
	l.taken = false
	if len(l.waiting) > 0 {
		q.turn(who)
		return
	}
	delete(q.lines, who)
}
