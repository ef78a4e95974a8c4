package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"gatebook/events"
	"gatebook/handlers/people"
)

// testFollow starts to follow while an agent calls in a loop: every call is
// printed, in order; one that still ran has a second line, none has three.
func testFollow(t *testing.T, h *testFolder, alice *agentAtWork) {
	alice.beginRound(h, "follow me")
	round := string(alice.r.Round)
	const before, total = 30, 120
	half, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := range total {
			if i == before {
				close(half)
			}
			if _, err := alice.call("file.write", fmt.Sprintf(`{"path":"f%d.txt","content":"x"}`, i), ""); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	<-half
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	lines, narrow := new(printed), new(printed)
	codes := make(chan int, 2)
	for out, more := range map[*printed]string{lines: "--limit=1000", narrow: "--status=ok"} {
		go func() {
			codes <- h.app(out, new(printed)).Run(ctx, []string{
				"--dir", h.dir, "audit", "--follow", "--json", "--limit=1000", "--round", round, more,
			})
		}()
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	last := audited(t, h, "--round", round, "--limit", "1").Calls[0]
	want := fmt.Sprintf(`"completed_seq":%d,`, last.CompletedSeq)
	lines.wait(t, want)
	narrow.wait(t, want)
	stop()
	for range 2 {
		if code := <-codes; code != exitYes {
			t.Errorf("follow ended with exit code %d", code)
		}
	}
	wantFollowed(t, lines.String(), total, true)
	wantFollowed(t, narrow.String(), total, false)
	out := h.must("audit", "--round", round, "--limit", "1000")
	if strings.Count(out, "\n") != total+1 {
		t.Errorf("the list has %d lines", strings.Count(out, "\n"))
	}
}

func wantFollowed(t *testing.T, text string, total int, running bool) {
	t.Helper()
	first := map[events.CallID]people.Entry{}
	var last events.Seq
	ends := 0
	for line := range strings.Lines(text) {
		var e people.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		was, again := first[e.Call]
		switch {
		case again && (was.Status != "" || e.Status == ""):
			t.Errorf("call %s was printed twice: %q, then %q", e.Call, was.Status, e.Status)
		case !again && running && e.Seq < last:
			t.Errorf("sequence %d after %d", e.Seq, last)
		case !running && e.Status != events.StatusOK:
			t.Errorf("with --status ok: %q", e.Status)
		}
		first[e.Call] = e
		last = max(last, e.Seq)
		if e.Status == events.StatusOK {
			ends++
		}
	}
	if len(first) != total || ends != total {
		t.Errorf("%d calls and %d ends were printed, want %d of each", len(first), ends, total)
	}
}

// When the engine stops, it says so, and who follows hears it and how to go on.
func TestFollowEnds(t *testing.T) {
	h := newFolder(t)
	e := startEngine(t, h)
	lines, said, ended := new(printed), new(printed), make(chan int, 1)
	go func() { ended <- h.app(lines, said).Run(t.Context(), []string{"--dir", h.dir, "audit", "--follow"}) }()
	lines.wait(t, "VERDICT")
	if text := e.errs.String(); strings.Contains(text, "stopp") {
		t.Error(text)
	}
	stopped(t, e)
	if text := e.errs.String(); !strings.HasSuffix(text, "gatebook: stopping; tools that run have up to 10s to end\ngatebook: stopped\n") {
		t.Error(text)
	}
	want := "Once it runs again (gatebook --dir " + shellWord(h.dir) + " serve), the same command with --after "
	if code := <-ended; code != exitUnreachable || !strings.Contains(said.String(), "the engine stopped") || !strings.Contains(said.String(), want) {
		t.Errorf("exit code %d, %s", code, said)
	}
}

// A follower that goes on after a stop of the engine, with a burst behind it, has every
// call once.
func TestFollowGoesOn(t *testing.T) {
	h := newFolder(t)
	var all string
	after, total := "1", 0
	for run, calls := range []int{3, 250} {
		e := startEngine(t, h)
		alice := connectAgent(t, h, "alice")
		alice.beginRound(h, "go on")
		burst := func(n int) {
			for i := range n {
				if _, err := alice.call("file.write", fmt.Sprintf(`{"path":"r%d-%d.txt","content":"x"}`, run, i), ""); err != nil {
					t.Fatal(err)
				}
			}
			total += n
		}
		burst(calls)
		lines, said, ended := new(printed), new(printed), make(chan int, 1)
		go func() {
			ended <- h.app(lines, said).Run(t.Context(), []string{"--dir", h.dir, "audit", "--follow", "--json", "--after", after})
		}()
		burst(5)
		last := audited(t, h, "--limit", "1").Calls[0]
		lines.wait(t, fmt.Sprintf(`"completed_seq":%d,`, last.CompletedSeq))
		stopped(t, e)
		if code := <-ended; code != exitUnreachable {
			t.Errorf("exit code %d, %s", code, said)
		}
		all += lines.String()
		_, text, _ := strings.Cut(said.String(), "--after ")
		after, _, _ = strings.Cut(text, " ")
	}
	wantFollowed(t, all, total, true)
}

// What goes on after a stop begins before the first call whose end was not told.
func TestFollowResumesBeforeOpenCalls(t *testing.T) {
	f := &follower{last: 90, open: map[events.Seq]string{}}
	if got := f.resume(); got != 90 {
		t.Errorf("with nothing open: %d", got)
	}
	f.open[57], f.open[80] = "a", "b"
	if got := f.resume(); got != 56 {
		t.Errorf("with open calls: %d, want 56", got)
	}
}
