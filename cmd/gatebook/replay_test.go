package main

import (
	"fmt"
	"strings"
	"testing"

	"gatebook/events"
)

// A story of a book with an event that cannot be read is told up to that event, and says
// which one it is.
func TestReplayOfATornBook(t *testing.T) {
	h := newHouse(t, t.TempDir(), nil, "alice")
	_, stop := h.openUntil()
	alice, r := h.agent("alice"), h.begin("alice")
	alice.mustCall(t, r, "demo.none", `{}`)
	stop()
	n := h.node(false)
	book := n.stores.book()
	state, err := book.State(t.Context())
	check(t, err)
	bad := events.Record{ID: "01ZZZZZZZZZZZZZZZZZZZZZZZZ", Subject: "ev.main.engine._.engine_started", Body: []byte(`{"torn":`)}
	check(t, book.Append(t.Context(), state.Last, [][]events.Record{{bad}}))
	check(t, n.close())
	app, out, errs := *h.app, new(printed), new(printed)
	app.Out, app.Err = out, errs
	code := app.Run(t.Context(), []string{"--dir", h.dir.Path(), "replay", "--stopped"})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if code != exitDamage || len(lines) != int(state.Last) || !strings.Contains(errs.String(), fmt.Sprint(state.Last+1)) {
		t.Errorf("exit code %d, %d lines of %d, %s", code, len(lines), state.Last, errs)
	}
}
