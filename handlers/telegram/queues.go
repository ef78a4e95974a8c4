package telegram

import "sync"

// queues works on the requests of each place one after the other, and on those of
// different places at the same time. Safe for concurrent use; a goroutine lives while
// its place has requests.
type queues struct {
	mu      sync.Mutex
	waiting map[place][]func()
	workers sync.WaitGroup
}

func newQueues() *queues { return &queues{waiting: map[place][]func(){}} }

// add says whether there was room.
func (q *queues) add(p place, job func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	jobs, working := q.waiting[p]
	if len(jobs) >= maxQueued || !working && len(q.waiting) >= maxBusy {
		return false
	}
	q.waiting[p] = append(jobs, job)
	if !working {
		q.workers.Go(func() { q.work(p) })
	}
	return true
}

func (q *queues) work(p place) {
	for {
		job := q.next(p)
		if job == nil {
			return
		}
		job()
	}
}

// next takes the next request; nil where there is none, and then p is idle.
func (q *queues) next(p place) func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	jobs := q.waiting[p]
	if len(jobs) == 0 {
		delete(q.waiting, p)
		return nil
	}
	q.waiting[p] = jobs[1:]
	return jobs[0]
}

// wait waits until all is worked on. Nothing may be added meanwhile.
func (q *queues) wait() { q.workers.Wait() }
