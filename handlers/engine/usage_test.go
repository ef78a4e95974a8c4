package engine_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/policy"
	"gatebook/policy/usage"
)

// reportUsage reports as alice, of a round of hers.
func (h *house) reportUsage(round events.RoundID, handle, message string) any {
	return h.ask(func(a engine.Answer) engine.Command {
		return &engine.RecordUsage{Answer: a, Report: usage.Report{
			Agent: "alice", Round: round, HandleHash: hashOf(handle), Message: message,
		}}
	})
}

// What is compared by its bytes cannot be masked, so it is refused where it holds the
// handle of a round, also of another one than it is about.
func TestNoHandleInTheBook(t *testing.T) {
	const handle, other = "0123456789abcdef0123456789abcdef", "ffffffffffffffffffffffffffffffff"
	h := newHouse(t)
	h.start()
	h.begin(handle)
	r := h.begin("two")
	for _, text := range []string{handle, "msg_" + handle, "abc" + handle + "0", strings.ToUpper(handle)} {
		if a := h.call(r.Round, "two", text, "x"); a.Status != events.StatusRejected || !strings.Contains(a.Reason, "handle") {
			t.Errorf("a call under %q: %+v", text, a)
		}
		if no, ok := h.reportUsage(r.Round, "two", text).(engine.Refused); !ok || no.Error.Code != string(policy.CodeInvalid) {
			t.Errorf("usage of %q: %+v", text, no)
		}
	}
	if a := h.call(r.Round, "two", other, "x"); a.Status != events.StatusOK {
		t.Errorf("what only looks like one, as a key: %+v", a)
	}
	if _, ok := h.reportUsage(r.Round, "two", other).(engine.UsageAnswer); !ok {
		t.Error("what only looks like one, as a message")
	}
	for _, e := range h.book() {
		raw, err := json.Marshal(e.Event)
		if err != nil || strings.Contains(strings.ToLower(string(raw)), handle) {
			t.Errorf("the book holds it: %s %v", raw, err)
		}
	}
	h.close()
}

// A report with a fault is counted, and is not taken for a reach for somebody's round.
func TestFaultyUsageIsNoReach(t *testing.T) {
	h := newHouse(t)
	h.start()
	r := h.begin("one")
	reached := func() (n int) {
		for _, e := range h.book() {
			if f, ok := e.Event.(events.AccessRefused); ok && f.Action == "usage" {
				n++
			}
		}
		return n
	}
	if no, ok := h.reportUsage(r.Round, "one", "").(engine.Refused); !ok || no.Error.Code != string(policy.CodeInvalid) || reached() != 0 {
		t.Errorf("without a message: %+v, %d times recorded as a reach", no, reached())
	}
	if no, ok := h.reportUsage(r.Round, "wrong", "m").(engine.Refused); !ok || no.Error.Code != string(policy.CodeNoRound) || reached() != 1 {
		t.Errorf("with a wrong handle: %+v, %d times recorded as a reach", no, reached())
	}
	for h.refusals("alice", string(policy.CodeInvalid)) == 0 && t.Context().Err() == nil {
		yield(t) // at the next tick
	}
	if n := h.refusals("alice", string(policy.CodeInvalid)); n != 1 {
		t.Errorf("%d refusals are counted", n)
	}
	h.close()
}
