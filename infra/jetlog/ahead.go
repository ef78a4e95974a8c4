package jetlog

import (
	"bytes"
	"context"
	"strconv"
	"sync"

	"gatebook/events"

	"github.com/nats-io/nats.go"
)

// ahead is what of the next append is with the server already: the first members of
// an atomic batch that nobody has committed. The server makes nothing of it part of
// the book before its last member comes, and forgets it after some seconds.
//
// A goroutine sends, so that a slow connection holds up nobody but the next append.
type ahead struct {
	hints chan hint // at most one; what does not fit is not sent ahead
	stop  context.CancelFunc
	done  chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex // held while a group is sent: messages of two never mix
	id      string     // of the batch; empty for none
	after   events.Seq
	records []events.Record // sent
	batches uint64          // begun
}

type hint struct {
	after     events.Seq
	decisions [][]events.Record
}

// Ahead is events.Log's. What the server made of it only the append tells.
func (l *Log) Ahead(after events.Seq, decisions [][]events.Record) {
	select {
	case l.ahead.hints <- hint{after, decisions}:
	default:
	}
}

// sendAhead sends what is hinted until it is stopped.
func (l *Log) sendAhead(ctx context.Context) {
	defer close(l.ahead.done)
	for {
		select {
		case h := <-l.ahead.hints:
			groups, err := plan(h.decisions, l.nc.MaxPayload())
			if err == nil && len(groups) > 0 && groups[0].atomic {
				l.sendFirst(h.after, groups[0].records)
			}
		case <-ctx.Done():
			return
		}
	}
}

// sendFirst sends what the server has not of all records but the last, which might be the
// one that commits.
func (l *Log) sendFirst(after events.Seq, records []events.Record) {
	a := &l.ahead
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.id != "" && (a.after != after || !begins(records, a.records)) {
		l.forget()
	}
	if a.id == "" {
		a.batches++
		a.id, a.after = l.id("a"+strconv.FormatUint(a.batches, 36)), after
	}
	for i := len(a.records); i < len(records)-1; i++ {
		m := &nats.Msg{Subject: records[i].Subject, Header: batchHeader(a.id, i, len(records), after), Data: records[i].Body}
		if l.nc.PublishMsg(m) != nil {
			l.forget()
			return
		}
		a.records = append(a.records, records[i])
	}
}

// take gives the batch that g goes on with, and how many of its records are sent.
// Whatever else was sent ahead is given up. The mutex is the caller's.
func (l *Log) take(after events.Seq, g group) (id string, sent int) {
	a := &l.ahead
	if a.id != "" && (!g.atomic || a.after != after || !begins(g.records, a.records)) {
		l.forget()
	}
	id, sent = a.id, len(a.records)
	a.id, a.records = "", nil
	return id, sent
}

// forget gives up what was sent ahead: a member out of order ends a batch at once.
// Where it does not arrive the server forgets the batch by itself. The mutex is the
// caller's.
func (l *Log) forget() {
	a := &l.ahead
	if len(a.records) > 0 {
		_ = l.nc.PublishMsg(&nats.Msg{Subject: a.records[0].Subject, Header: batchHeader(a.id, len(a.records)+1, len(a.records)+3, a.after)})
	}
	a.id, a.records = "", nil
}

// begins says whether all begins with first and goes on.
func begins(all, first []events.Record) bool {
	if len(all) <= len(first) {
		return false
	}
	for i, r := range first {
		if r.Subject != all[i].Subject || !bytes.Equal(r.Body, all[i].Body) {
			return false
		}
	}
	return true
}
