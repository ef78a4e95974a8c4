package telegram

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"gatebook/events"
)

var (
	annaAlone  = place{11, 11}
	bertAlone  = place{22, 22}
	annaGroup  = place{-5, 11}
	bertGroup  = place{-5, 22}
	stranger   = place{33, 33}
	inTheGroup = place{-5, 33}
)

func TestPendingShowApproveByText(t *testing.T) {
	w := newWorld(t)
	id := w.review("agent alice\ntool file.write\n{\"path\":\"a.txt\"}")
	w.run()
	listed := w.ask(annaAlone, "/pending")
	if want := "/show_" + string(id); !strings.Contains(listed.text, want) || !strings.Contains(listed.text, `alice: file.write\u202e, until 2026-03-01 13:00:00 UTC`) {
		t.Fatalf("pending says %q", listed.text)
	}
	if got := w.ask(annaAlone, "/approve "+string(id)); !strings.HasPrefix(got.text, "look first with /show "+string(id)) {
		t.Fatalf("an approval without a look: %q", got.text)
	}
	shown := w.ask(annaAlone, "/show_"+string(id))
	if !strings.Contains(shown.text, `{"path":"a.txt"}`) || shown.preview != `{"is_disabled":true}` || shown.mode != "" || len(shown.buttons) != 2 {
		t.Fatalf("shown %+v", shown)
	}
	if got := w.ask(annaAlone, "/approve "+string(id)); got.text != "approved: "+string(id) {
		t.Fatalf("approve says %q", got.text)
	}
	if got := w.ask(annaAlone, "/approve "+string(id)); !strings.HasPrefix(got.text, "look first") {
		t.Fatalf("the look was good twice: %q", got.text)
	}
	want := fmt.Sprintf("anna %s true %.8s ", id, w.reviews[id].Digest)
	if got := w.made(); len(got) != 1 || got[0] != want {
		t.Fatalf("decisions %q, want %q", got, want)
	}
}

func TestRefuseByText(t *testing.T) {
	w := newWorld(t)
	id := w.review("x")
	w.run()
	if got := w.ask(annaAlone, "/refuse "+string(id)); !strings.HasPrefix(got.text, "say why") {
		t.Fatalf("no reason: %q", got.text)
	}
	if got := w.ask(annaAlone, "/refuse@gatebot "+string(id)+"  not this\nfile "); got.text != "refused: "+string(id) {
		t.Fatalf("refuse says %q", got.text)
	}
	if got := w.ask(annaAlone, "/refuse "+string(id)+" again"); !strings.HasPrefix(got.text, "no: it is decided already") {
		t.Fatalf("refuse again says %q", got.text)
	}
	if got := w.made(); got[0] != "anna "+string(id)+" false  not this\nfile" {
		t.Fatalf("decisions %q", got)
	}
}

// A look is of this person, in this chat, at this review, and of the last time.
func TestApproveNeedsTheOwnLook(t *testing.T) {
	w := newWorld(t)
	id, other := w.review("x"), w.review("y")
	b := w.run()
	look := func(p place, id events.ReviewID) { w.ask(p, "/show "+string(id)) }
	for _, c := range []struct {
		name   string
		before func()
	}{
		{"another's", func() { look(bertGroup, id) }},
		{"in another chat", func() { look(annaAlone, id) }},
		{"at another review", func() { look(annaGroup, other) }},
		{"of what has expired since", func() {
			w.do(func() {
				r := w.reviews[id]
				r.Expires = events.InstantOf(w.clock.Add(5 * time.Minute))
				w.reviews[id] = r
			})
			look(annaGroup, id)
			w.do(func() {
				r := w.reviews[id]
				r.Expires = events.InstantOf(w.clock.Add(5 * time.Hour))
				w.reviews[id] = r
			})
			w.pass(6 * time.Minute)
		}},
		{"too old", func() { look(annaGroup, id); w.pass(16 * time.Minute) }},
		{"after the approval was written", func() {
			look(annaGroup, id)
			w.do(func() { w.messages -= 10 })
		}},
		{"elided since", func() {
			look(annaGroup, id)
			w.do(func() { r := w.reviews[id]; r.Elided = true; w.reviews[id] = r })
			look(annaGroup, id)
			w.do(func() { r := w.reviews[id]; r.Elided = false; w.reviews[id] = r })
		}},
		{"not to be shown since", func() {
			look(annaGroup, id)
			w.do(func() { w.showing = func(context.Context, events.PersonID) error { return &Refused{"no"} } })
			look(annaGroup, id)
			w.do(func() { w.showing = nil })
		}},
		{"forgotten with a thousand later ones", func() {
			look(annaGroup, id)
			w.ask(annaGroup, "/help") // the look is kept before the next request is worked on
			for i := range maxSights {
				b.sights.keep(&sight{place: place{1, int64(i)}, review: id, expires: 1 << 60, approve: fmt.Sprint("a", i), refuse: fmt.Sprint("r", i)})
			}
		}},
	} {
		c.before()
		if got := w.ask(annaGroup, "/approve "+string(id)); !strings.HasPrefix(got.text, "look first") {
			t.Errorf("%s: %q", c.name, got.text)
		}
		w.pass(time.Minute)
	}
	if got := w.made(); len(got) != 0 {
		t.Fatalf("decisions %q", got)
	}
	if n, words := b.sights.order.Len(), len(b.sights.words); n > maxSights || words > 2*maxSights {
		t.Fatalf("%d looks and %d words are kept", n, words)
	}
}

func TestApproveTakesNothingButAnID(t *testing.T) {
	w := newWorld(t)
	id := w.review("x")
	w.run()
	w.ask(annaAlone, "/show "+string(id))
	for i, bad := range []string{
		"/approve " + string(id) + " --as bob", "/approve " + string(id) + " " + string(w.reviews[id].Digest), "/approve",
		"/approve " + strings.ToLower(string(id)), "/approve " + string(id)[:25], "/approve " + string(id) + "0", "/approve --as bob",
		"/approve\u00a0" + string(id), "/approve " + string(id) + "\u200b", "/approve_" + string(id), "/Approve " + string(id), "approve " + string(id),
		"/approve@GateBot@x " + string(id), "/show " + string(id)[:20], "/show_" + strings.ToLower(string(id)), "/refuse x y", "/show " + string(id) + " full",
	} {
		if i%6 == 5 {
			w.pass(10 * time.Second)
		}
		if strings.Contains(bad, "@x") { // for another bot: no answer
			w.write(annaAlone, bad, "")
			continue
		}
		if got := w.ask(annaAlone, bad); len(got.buttons) > 0 || strings.HasPrefix(got.text, "approved") {
			t.Errorf("%q: %+v", bad, got)
		}
	}
	if got := w.made(); len(got) != 0 {
		t.Fatalf("decisions %q", got)
	}
}

func TestButtons(t *testing.T) {
	w := newWorld(t)
	yes, no := w.review("x"), w.review("y")
	w.run()
	shown := w.ask(bertAlone, "/show "+string(yes))
	w.press(bertAlone, shown.buttons["Approve"], "q1", shown.id)
	if got := w.toast("q1"); got != "approved: "+string(yes) {
		t.Fatalf("the button says %q", got)
	}
	w.after(shown.n, bertAlone.chat)
	w.mu.Lock()
	if len(w.edited) != 1 || w.edited[0] != shown.id {
		t.Errorf("buttons taken from %v, want %d", w.edited, shown.id)
	}
	w.mu.Unlock()
	shown = w.ask(bertAlone, "/show "+string(no))
	w.press(bertAlone, shown.buttons["Refuse"], "q2", shown.id)
	if got := w.toast("q2"); got != "refused: "+string(no) {
		t.Fatalf("the button says %q", got)
	}
	// Both buttons of a message are used up by one.
	w.press(bertAlone, shown.buttons["Approve"], "q3", shown.id)
	if got := w.toast("q3"); !strings.Contains(got, "not valid any more") {
		t.Fatalf("the other button says %q", got)
	}
	got := w.made()
	if len(got) != 2 || !strings.HasPrefix(got[0], "bert "+string(yes)+" true "+string(w.reviews[yes].Digest)[:8]) ||
		!strings.HasPrefix(got[1], "bert "+string(no)+" false ") {
		t.Fatalf("decisions %q", got)
	}
}

func TestButtonsThatAreNotValid(t *testing.T) {
	w := newWorld(t)
	id := w.review("x")
	w.run()
	first := w.ask(bertGroup, "/show "+string(id))
	for i, word := range []string{first.buttons["Approve"] + "A", "", string(id), "approve:" + string(id), strings.Repeat("A", 500), "\u202e", first.buttons["Approve"][:31]} {
		query := fmt.Sprint("forged", i)
		w.press(bertGroup, word, query, first.id)
		if got := w.toast(query); got != "this button is not valid any more; /show it again" {
			t.Errorf("%q: %q", word, got)
		}
	}
	w.pass(time.Minute)
	w.press(annaGroup, first.buttons["Approve"], "another's", first.id)
	if got := w.toast("another's"); !strings.Contains(got, "not valid") {
		t.Errorf("another's button: %q", got)
	}
	w.press(bertAlone, first.buttons["Approve"], "elsewhere", first.id)
	if got := w.toast("elsewhere"); !strings.Contains(got, "not valid") {
		t.Errorf("from another chat: %q", got)
	}
	second := w.ask(bertGroup, "/show "+string(id))
	w.press(bertGroup, first.buttons["Approve"], "earlier", first.id)
	if got := w.toast("earlier"); !strings.Contains(got, "not valid") {
		t.Errorf("of an earlier look: %q", got)
	}
	w.pass(15 * time.Minute)
	w.press(bertGroup, second.buttons["Approve"], "expired", second.id)
	if got := w.toast("expired"); !strings.Contains(got, "not valid") {
		t.Errorf("expired: %q", got)
	}
	if got := w.made(); len(got) != 0 {
		t.Fatalf("decisions %q", got)
	}
}

func TestAButtonManyTimesDecidesOnce(t *testing.T) {
	w := newWorld(t)
	id := w.review("x")
	b := w.run()
	shown := w.ask(annaAlone, "/show "+string(id))
	w.ask(annaAlone, "/help") // the look is kept before the next request is worked on
	// At once, past the queue, as if nothing put the presses of one person in order.
	in := incoming{place: annaAlone, press: &press{query: "q", word: shown.buttons["Approve"]}}
	done := make(chan struct{})
	for range 20 {
		go func() { b.pressed(t.Context(), anna, in); done <- struct{}{} }()
	}
	for range 20 {
		<-done
	}
	if got := w.made(); len(got) != 1 {
		t.Fatalf("decisions %q", got)
	}
}

// What is not seen whole, and as it is, has no button to approve it.
func TestWhatCannotBeApprovedHere(t *testing.T) {
	fits := strings.Repeat("x", 3800)
	for _, c := range []struct {
		name    string
		change  func(*Shown)
		rewrite func(string) string
		says    string
		buttons int
	}{
		{name: "whole", change: func(s *Shown) { s.Text = fits }, says: "To let it run once", buttons: 2},
		{name: "elided", change: func(s *Shown) { s.Elided = true }, says: "gatebook show --full", buttons: 1},
		{name: "masked", change: func(s *Shown) { s.Masked = true }, says: "masked", buttons: 1},
		{name: "without a digest", change: func(s *Shown) { s.Digest = "" }, says: "could be looked at", buttons: 1},
		{name: "too long", change: func(s *Shown) { s.Text = fits + fits }, says: "gatebook show --full", buttons: 1},
		{name: "too long in UTF-16", change: func(s *Shown) { s.Text = strings.Repeat("😀", 2000) }, says: "gatebook show --full", buttons: 1},
		{name: "too long once escaped", change: func(s *Shown) { s.Text = strings.Repeat("\u202e", 900) }, says: "gatebook show --full", buttons: 1},
		{name: "decided", change: func(s *Shown) { s.Open = false }, says: "Nothing is to be decided"},
		{name: "expired", change: func(s *Shown) { s.Expires = 1 }, says: "expired"},
		{name: "changed on the way", change: func(*Shown) {}, rewrite: func(s string) string { return strings.ReplaceAll(s, "a", "") }, says: "To let it run once", buttons: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			id := w.review("what it is about")
			w.do(func() { r := w.reviews[id]; c.change(&r); w.reviews[id] = r; w.rewrite = c.rewrite })
			w.run()
			shown := w.ask(annaAlone, "/show "+string(id))
			if !strings.Contains(shown.text, c.says) || len(shown.buttons) != c.buttons {
				t.Fatalf("shown with %v: %q", shown.buttons, shown.text)
			}
			approves := c.name == "whole"
			if _, has := shown.buttons["Approve"]; has != approves && c.rewrite == nil {
				t.Fatalf("there are the buttons %v", shown.buttons)
			}
			if c.rewrite != nil {
				if got := w.after(shown.n, annaAlone.chat); !strings.Contains(got.text, "Telegram has changed this text") {
					t.Fatalf("it says %q", got.text)
				}
				w.press(annaAlone, shown.buttons["Approve"], "q", shown.id)
				w.toast("q")
			}
			if got := w.ask(annaAlone, "/approve "+string(id)); strings.HasPrefix(got.text, "approved") != approves {
				t.Fatalf("approve says %q", got.text)
			}
			if got := w.made(); (len(got) > 0) != approves {
				t.Fatalf("decisions %q", got)
			}
		})
	}
}

func TestHostileTextStandsEscaped(t *testing.T) {
	w := newWorld(t)
	id := w.review("{\"path\":\"\u202etxt.elif\",\"b\":\"a\u200bb\",\"c\":\"x\x1b[1A\x1b[K\",\"d\":\"\u061c\u2066\ufeff\u2800\"}\n+\tb\r\n\xff")
	b := w.run()
	got := w.ask(annaAlone, "/show "+string(id)).text
	for _, want := range []string{`\u202etxt.elif`, `a\u200bb`, `x\x1b[1A`, `\u061c\u2066\ufeff\u2800`, "+\\tb\\r\n", "WARNING: there are characters"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if hides(got) || strings.Contains(got, "\t") {
		t.Errorf("raw: %q", got)
	}
	if err := b.Send(t.Context(), 77, "alert \u202e"+strings.Repeat("😀", 4000)); err != nil {
		t.Fatal(err)
	}
	alert := w.after(0, 77).text
	if !strings.HasPrefix(alert, `alert \u202e😀`) || !strings.HasSuffix(alert, "😀\n… (cut)") || units(alert) < 4095 {
		t.Errorf("sent %d units: %.60q", units(alert), alert)
	}
}

func TestStrangersGetNoAnswer(t *testing.T) {
	w := newWorld(t)
	id := w.review("x")
	w.run()
	shown := w.ask(annaAlone, "/show "+string(id))
	const from = `,"from":{"id":11},"chat":{"id":11,"type":"private"},"date":1,"message_id":3,"text":"/help"`
	// What came before has been looked at when this is answered.
	fences := 0
	fence := func() { w.ask(bertAlone, "/help"); fences++ }
	w.write(stranger, "/approve "+string(id), "")
	w.write(inTheGroup, "/help", "")
	w.press(stranger, shown.buttons["Approve"], "q", 1)
	fence()
	w.pass(time.Second)
	w.press(place{44, 44}, shown.buttons["Approve"], "q", 1)
	w.press(place{0, 11}, shown.buttons["Approve"], "q", 1)
	for _, more := range []string{
		`,"forward_origin":{"type":"user","date":1,"sender_user":{"id":11}}`, `,"via_bot":{"id":9,"is_bot":true}`,
		`,"sender_chat":{"id":11,"type":"channel"}`, `,"edit_date":5`, `,"is_automatic_forward":true`, `,"business_connection_id":"b"`,
	} {
		w.pass(time.Second)
		w.write(annaAlone, "/approve "+string(id), more)
		fence()
	}
	w.raw(`{"update_id":%d,"message":{"message_id":1,"date":1,"from":{"id":66,"is_bot":true},"chat":{"id":66,"type":"private"},"text":"/help"}}`)
	fence()
	w.pass(time.Second)
	w.raw(`{"update_id":%d,"callback_query":{"id":"q","from":{"id":66,"is_bot":true},"data":"x","message":{"message_id":1,"date":1,"chat":{"id":66}}}}`)
	for _, kind := range []string{"edited_message", "channel_post", "edited_channel_post", "business_message"} {
		w.pass(time.Second)
		w.raw(`{"update_id":%d,"` + kind + `":{` + from[1:] + `}}`)
		fence()
	}
	// Without a user, and kinds that were not asked for.
	w.raw(`{"update_id":%d,"channel_post":{"chat":{"id":11,"type":"channel"},"date":1,"text":"/help"}}`)
	w.raw(`{"update_id":%d,"poll":{"id":"1"}}`)
	fence()
	if w.count() != 1+fences {
		t.Errorf("strangers were answered: %v", w.sent)
	}
	w.see(func() {
		if len(w.toasts) != 0 || len(w.decisions) != 0 {
			t.Errorf("answers %v, decisions %v", w.toasts, w.decisions)
		}
	})
	want := []string{"33 33 a message", "-5 33 a message", "44 44 a button", "0 11 a button", "11 11 a forwarded message", "11 11 a message by way of a bot",
		"11 11 a message as a chat", "11 11 an edited message", "11 11 a forwarded message", "11 11 a business message", "66 66 a message of a bot", "66 66 a button",
		"11 11 an edited message", "11 11 a channel post", "11 11 a channel post", "11 11 a business message"}
	w.await("all are recorded", func() bool { return len(w.strange) >= len(want) })
	w.mu.Lock()
	defer w.mu.Unlock()
	if fmt.Sprint(w.strange) != fmt.Sprint(want) {
		t.Errorf("recorded %q\nwant     %q", w.strange, want)
	}
}

func TestGroupsAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.write(annaGroup, "how are you", "")
	w.write(annaGroup, "/help@OtherBot", "")
	if got := w.ask(annaGroup, "/help@GATEBOT"); got.text != help || w.count() != 1 {
		t.Errorf("sent %v", w.sent)
	}
	if got := w.ask(annaAlone, "how are you"); got.text != "I know commands only: /help" {
		t.Errorf("sent %q", got.text)
	}
}

func TestAFloodIsBounded(t *testing.T) {
	w := newWorld(t)
	asked, still := 0, w.clock
	w.showing = func(context.Context, events.PersonID) error { w.do(func() { asked++ }); return &Refused{"no"} }
	cfg := w.config()
	cfg.Now = func() time.Time { return still }
	b, _ := w.start(cfg)
	for range 300 {
		w.write(annaAlone, "/show 01JZ0000000000000000000000", "")
		w.write(stranger, "/help", "")
	}
	w.await("all have come", func() bool { return len(w.updates) == 0 })
	w.await("what may be is worked on", func() bool { return asked >= burst })
	w.ask(bertAlone, "/help")
	w.await("the stranger is recorded", func() bool { return len(w.strange) > 0 })
	w.mu.Lock()
	defer w.mu.Unlock()
	if asked != burst || len(w.strange) != 1 {
		t.Errorf("%d of 300 commands were worked on, want %d; a stranger was recorded %d times", asked, burst, len(w.strange))
	}
	if got := b.Status().Dropped; got != 600-burst-1 {
		t.Errorf("%d dropped", got)
	}
}

func TestOneSlowPersonHoldsUpNobody(t *testing.T) {
	w := newWorld(t)
	id := w.review("x")
	free := make(chan struct{})
	w.showing = func(ctx context.Context, who events.PersonID) error {
		if who == anna {
			select {
			case <-free:
			case <-ctx.Done():
				return fmt.Errorf("the store at /secret/path: %w", ctx.Err())
			}
		}
		return nil
	}
	cfg := w.config()
	_, stop := w.start(cfg)
	w.write(annaAlone, "/show "+string(id), "")
	if got := w.ask(bertAlone, "/show "+string(id)); len(got.buttons) != 2 {
		t.Fatalf("shown %+v", got)
	}
	close(free)
	w.after(1, annaAlone.chat)
	stop()
	// A time limit ends it too.
	w.do(func() { free = make(chan struct{}) })
	cfg.DeskTime = time.Millisecond
	b, _ := w.start(cfg)
	if got := w.ask(annaAlone, "/show "+string(id)); got.text != "it cannot be shown: there was no answer in time" {
		t.Errorf("sent %q", got.text)
	}
	if err := b.Run(t.Context()); !errors.Is(err, ErrRunning) {
		t.Errorf("a second Run: %v", err)
	}
}

func TestInnerFaultsStayInside(t *testing.T) {
	w := newWorld(t)
	id := w.review("x")
	w.run()
	w.ask(annaAlone, "/show "+string(id))
	fault := errors.New("inner words")
	w.do(func() { w.deciding = func(context.Context) error { return fault } })
	got := w.ask(annaAlone, "/approve "+string(id))
	if strings.Contains(got.text, "inner") || !strings.HasPrefix(got.text, "not approved as far as is known: something failed inside") {
		t.Errorf("sent %q", got.text)
	}
	w.do(func() { w.deciding = nil; w.showing = func(context.Context, events.PersonID) error { return fault } })
	if got := w.ask(annaAlone, "/show "+string(id)); strings.Contains(got.text, "inner") {
		t.Errorf("sent %q", got.text)
	}
	// A desk that shows another review than was asked for has a fault too.
	w.do(func() {
		w.showing = nil
		r := w.reviews[id]
		r.Review = "01JZ0000000000000000000009"
		w.reviews[id] = r
	})
	if got := w.ask(annaAlone, "/show "+string(id)); len(got.buttons) != 0 || !strings.HasPrefix(got.text, "it cannot be shown") {
		t.Errorf("sent %+v", got)
	}
	w.see(func() {
		if len(w.internal) != 3 || !errors.Is(w.internal[0], fault) {
			t.Errorf("faults %v", w.internal)
		}
	})
	// The look was used up by the try.
	if got := w.ask(annaAlone, "/approve "+string(id)); !strings.HasPrefix(got.text, "look first") {
		t.Errorf("sent %q", got.text)
	}
}

func TestStopsWhileTheDeskWorks(t *testing.T) {
	w := newWorld(t)
	id := w.review("x")
	ended := false
	w.deciding = func(ctx context.Context) error {
		<-ctx.Done()
		for range 1000 {
			runtime.Gosched()
		}
		w.do(func() { ended = true })
		return ctx.Err()
	}
	_, stop := w.start(w.config())
	w.write(annaAlone, "/refuse "+string(id)+" no", "")
	w.await("the desk is asked", func() bool { return len(w.decisions) == 1 })
	w.write(annaAlone, "/refuse "+string(id)+" no, again", "")
	w.await("it waits", func() bool { return len(w.updates) == 0 })
	stop()
	w.see(func() {
		if !ended {
			t.Error("Run has ended before the desk")
		}
	})
	if got := w.made(); len(got) != 1 {
		t.Errorf("the desk is asked after the end: %q", got)
	}
}
