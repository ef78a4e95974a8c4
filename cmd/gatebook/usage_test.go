package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
)

// A report comes from who has the round, in one strict form, and nothing that looks like
// a secret gets into the book with it.
func TestUsageOverTheBus(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice", "bob")
	n := h.open()
	r, other := h.begin("alice"), h.begin("bob")
	alice := h.agent("alice")
	terminal, err := h.app.channel("terminal")
	check(t, err)
	t.Cleanup(terminal.close)
	const secret = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz"
	agents := func(more string) string {
		return fmt.Sprintf(`{"round":%q,"handle":%q%s}`, r.Round, r.Handle, more)
	}
	channels := func(of roundFile, more string) string {
		return fmt.Sprintf(`{"round":%q,"handle_hash":%q%s}`, of.Round, of.hash(), more)
	}
	for _, row := range []struct {
		name, body string
		by         *client
		code       string // of the refusal
		events     int    // recorded
	}{
		{"O-C01 the start", agents(`,"message":"a","input":27,"cached_input":100,"cache_write":10,"output":1`), alice, "", 1},
		{"O-C01 the end", agents(`,"message":"a","input":27,"cached_input":100,"cache_write":10,"output":47`), alice, "", 1},
		{"O-C08 the end, delivered twice", agents(`,"message":"a","input":27,"cached_input":100,"cache_write":10,"output":47`), alice, "", 0},
		{"O-C05 an abort after the start", agents(`,"message":"b","input":900`), alice, "", 1},
		{"O-C05 an abort before it", agents(`,"message":"c","input":null`), alice, "", 1},
		{"of the channel", channels(r, `,"message":"d","model":"m","input":1,"cached_input":0,"cache_write":0,"output":1`), terminal, "", 1},
		{"the channel's stands", agents(`,"message":"d","input":0`), alice, "conflict", 0},
		{"of bob's round with alice's handle", strings.Replace(agents(`,"message":"e"`), string(r.Round), string(other.Round), 1), alice, "no_round", 0},
		{"of bob's round with bob's handle", fmt.Sprintf(`{"round":%q,"handle":%q,"message":"e"}`, other.Round, other.Handle), alice, "no_round", 0},
		{"of the channel with a wrong hash", strings.Replace(channels(r, `,"message":"e"`), string(r.hash()), string(other.hash()), 1), terminal, "no_round", 0},
		{"an agent in the form of a channel", channels(r, `,"message":"e"`), alice, "invalid", 0},
		{"a channel in the form of an agent", agents(`,"message":"e"`), terminal, "invalid", 0},
		{"no message", agents(`,"input":1`), alice, "invalid", 0},
		{"less than nothing", agents(`,"message":"e","input":-1`), alice, "invalid", 0},
		{"a fraction", agents(`,"message":"e","input":1.5`), alice, "invalid", 0},
		{"an exponent", agents(`,"message":"e","input":1e2`), alice, "invalid", 0},
		{"a text", agents(`,"message":"e","input":"1"`), alice, "invalid", 0},
		{"beyond an integer", agents(`,"message":"e","input":99999999999999999999`), alice, "invalid", 0},
		{"more than any model", agents(`,"message":"e","input":100000001`), alice, "invalid", 0},
		{"O-L10 a cost of its own", agents(`,"message":"e","cost":1`), alice, "invalid", 0},
		{"O-L10 a time of its own", agents(`,"message":"e","time":"2001-01-01T00:00:00Z"`), alice, "invalid", 0},
		{"O-L09 another agent", agents(`,"message":"e","agent":"bob"`), alice, "invalid", 0},
		{"a name twice", agents(`,"message":"e","message":"f"`), alice, "invalid", 0},
		{"a secret for a message", agents(`,"message":"` + secret + `"`), alice, "invalid", 0},
		{"the handle for a message", agents(`,"message":"` + r.Handle + `"`), alice, "invalid", 0},
		{"a secret for a model", agents(`,"message":"f","model":"` + secret + `"`), alice, "", 1},
		{"the handle for a model", agents(`,"message":"g","model":"` + r.Handle + `"`), alice, "", 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			before, _ := all[events.UsageRecorded](t, n)
			var no engine.Refused
			raw := row.by.raw(t, "usage", row.body)
			if err := json.Unmarshal(raw, &no); err != nil || no.Error.Code != row.code {
				t.Errorf("answered %s, want the code %q", raw, row.code)
			}
			after, of := all[events.UsageRecorded](t, n)
			if len(after) != len(before)+row.events {
				t.Fatalf("%d events more, want %d", len(after)-len(before), row.events)
			}
			if row.events > 0 && of[len(of)-1] != "alice" {
				t.Errorf("recorded about %s", of[len(of)-1])
			}
			for _, e := range after {
				if text := fmt.Sprint(e); strings.Contains(text, secret) || strings.Contains(text, r.Handle) {
					t.Errorf("the book has %s", text)
				}
			}
		})
	}
}

// Days are those of the zone, also where one has 23 or 25 hours.
func TestDays(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	check(t, err)
	now := time.Date(2026, 10, 26, 12, 0, 0, 0, zone)
	got, err := days(0, 0, now)
	check(t, err)
	if len(got) != 8 || got[7] != events.InstantOf(time.Date(2026, 10, 27, 0, 0, 0, 0, zone)) {
		t.Fatalf("%v", got)
	}
	for i := range 7 {
		want := 24 * time.Hour
		if i == 5 { // the 25th, when summer time ends
			want = 25 * time.Hour
		}
		if d := got[i+1].Sub(got[i]); d != want {
			t.Errorf("day %d has %s", i, d)
		}
	}
	since := events.InstantOf(time.Date(2026, 10, 20, 15, 0, 0, 0, zone))
	got, err = days(since, since.Add(time.Hour), now)
	if err != nil || len(got) != 2 || got[0] != since || got[1] != since.Add(time.Hour) {
		t.Errorf("an hour of a day: %v, %v", got, err)
	}
	if _, err := days(1, 0, now); err == nil {
		t.Error("all days since 1970 at once")
	}
}

// Sums by day say of which day they are, also where all is within one; sums that are
// left out are not left out in silence.
func TestSumsSayAll(t *testing.T) {
	var out, said strings.Builder
	a := &App{Out: &out, Err: &said, Now: func() time.Time { return time.Date(2026, 10, 26, 12, 0, 0, 0, time.UTC) }}
	for _, row := range []struct {
		by   string
		want []string
	}{
		{"day", []string{"DAY", "MESSAGES"}},
		{"day,model", []string{"DAY", "MODEL", "MESSAGES"}},
		{"model", []string{"MODEL", "MESSAGES"}},
	} {
		out.Reset()
		q, err := a.usageRequest(sumFlags{by: row.by, since: "2026-10-20T15:00:00Z", until: "2026-10-20T16:00:00Z"}, "")
		check(t, err)
		check(t, a.printSums(q, people.UsageAnswer{Usage: []people.Usage{{From: q.Periods[0], Until: q.Periods[1], Messages: 1}}}))
		head, first, _ := strings.Cut(out.String(), "\n")
		if got := strings.Fields(head)[:len(row.want)]; !slices.Equal(got, row.want) ||
			strings.HasPrefix(row.by, "day") != strings.HasPrefix(first, "2026-10-20") {
			t.Errorf("by %s within a day:\n%s", row.by, &out)
		}
	}
	rest := people.Usage{Messages: 7, Cost: events.AmountOf(1_500_000), Currency: "EUR"}
	check(t, a.printSums(sumRequest{}, people.UsageAnswer{Left: 3, Rest: []people.Usage{rest}}))
	if !strings.Contains(said.String(), "3 sums more, of 7 messages for 1.5 EUR:") {
		t.Errorf("of what is left out it says %q", &said)
	}
}
