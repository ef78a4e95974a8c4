package jetlog

import (
	"fmt"
	"strings"

	"gatebook/events"

	"github.com/nats-io/nats.go"
)

// headerRoom is more than the headers of any message take: three names, three
// values of at most 64 bytes, the first line.
const headerRoom = 512

// group is what goes to the server in one go: pipelined singles, or the members
// of one atomic batch.
type group struct {
	records []events.Record
	atomic  bool
	sent    int // of an atomic batch: the first members, which the server has already
}

// plan divides decisions into groups. Everything is checked here, before the
// first byte is sent.
func plan(decisions [][]events.Record, maxPayload int64) ([]group, error) {
	var all []events.Record
	singles := true
	for i, decision := range decisions {
		if err := checkDecision(decision, maxPayload); err != nil {
			return nil, fmt.Errorf("decision %d: %w", i, err)
		}
		all = append(all, decision...)
		singles = singles && len(decision) <= 1
	}
	if len(all) == 0 {
		return nil, nil
	}
	if singles && len(all) <= events.MaxSingles {
		return []group{{records: all}}, nil
	}
	return batches(decisions), nil
}

// batches fills one batch after the other with whole decisions.
func batches(decisions [][]events.Record) []group {
	var groups []group
	var batch []events.Record
	size := 0
	for _, decision := range decisions {
		n := bodies(decision)
		if len(batch)+len(decision) > events.MaxBatchEvents || size+n > events.MaxBatchBytes {
			groups = append(groups, group{records: batch, atomic: len(batch) > 1})
			batch, size = nil, 0
		}
		batch = append(batch, decision...)
		size += n
	}
	return append(groups, group{records: batch, atomic: len(batch) > 1})
}

func checkDecision(decision []events.Record, maxPayload int64) error {
	for _, r := range decision {
		if n := len(r.Body); n > events.MaxEvent || int64(n)+headerRoom > maxPayload {
			return fmt.Errorf("%w: a record of %d bytes; the book takes %d, the server %d with headers",
				events.ErrTooLarge, n, events.MaxEvent, maxPayload)
		}
		if !isSubject(r.Subject) {
			return fmt.Errorf("%w: %s is no subject of the book", events.ErrID, events.Quote(r.Subject))
		}
	}
	if n := bodies(decision); len(decision) > events.MaxBatchEvents || n > events.MaxBatchBytes {
		return fmt.Errorf("%w: %d records of %d bytes, at most %d of %d",
			events.ErrTooLarge, len(decision), n, events.MaxBatchEvents, events.MaxBatchBytes)
	}
	return nil
}

func bodies(records []events.Record) int {
	n := 0
	for _, r := range records {
		n += len(r.Body)
	}
	return n
}

// isSubject tells whether s is a literal subject of the book. The server would
// take ev.main.> as a literal, too.
func isSubject(s string) bool {
	rest, ok := strings.CutPrefix(s, strings.TrimSuffix(events.SubjectPattern, ">"))
	tokens := strings.Split(rest, ".")
	for _, token := range tokens {
		ok = ok && token != "" && strings.Trim(token, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
	}
	return ok && len(tokens) == 3
}

// messages makes the messages of g that are not sent yet. Each has a reply of its
// own. id names the group in headers and is never used again.
func (g group) messages(id string, after events.Seq, reply func() string) []*nats.Msg {
	out := make([]*nats.Msg, len(g.records)-g.sent)
	for i := g.sent; i < len(g.records); i++ {
		r := g.records[i]
		var header nats.Header
		if g.atomic {
			header = batchHeader(id, i, len(g.records), after)
		} else {
			header = singleHeader(id, i, len(g.records), after)
		}
		m := &nats.Msg{Subject: r.Subject, Header: header, Data: r.Body}
		if g.answered(i) {
			m.Reply = reply()
		}
		out[i-g.sent] = m
	}
	return out
}

// answered says which messages the server answers: every single, and of a batch the
// first, where it was not sent ahead, and the last. Those between would only say that
// they are staged, or why not, and then the last is refused too.
func (g group) answered(i int) bool { return !g.atomic || i == 0 || i == len(g.records)-1 }

// answers is how many answers come.
func (g group) answers() int {
	switch {
	case !g.atomic:
		return len(g.records)
	case g.sent > 0:
		return 1
	}
	return min(2, len(g.records))
}

// singleHeader makes the server store single i only after sequence after+i, and
// only if what is stored there is single i-1. Without the second condition single
// i would be stored behind another writer's record in the place of single i-1.
func singleHeader(id string, i, n int, after events.Seq) nats.Header {
	header := nats.Header{headerExpected: {fmt.Sprint(after + events.Seq(i))}}
	if i > 0 {
		header[headerPrevious] = []string{fmt.Sprint(id, "-", i-1)}
	}
	if i < n-1 {
		header[headerID] = []string{fmt.Sprint(id, "-", i)}
	}
	return header
}

func batchHeader(id string, i, n int, after events.Seq) nats.Header {
	header := nats.Header{headerBatch: {id}, headerMember: {fmt.Sprint(i + 1)}}
	if i == 0 {
		header[headerExpected] = []string{fmt.Sprint(after)}
	}
	if i == n-1 {
		header[headerCommit] = []string{"1"}
	}
	return header
}
