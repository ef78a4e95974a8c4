package engine_test

import "testing"

// What the loop itself costs for one agent alone: two decisions, two folds, one
// tool, over a log that takes no time.
func BenchmarkCall(b *testing.B) {
	h := newHouse(b)
	h.start()
	r := h.begin("one")
	for b.Loop() {
		h.call(r.Round, "one", "", "x")
	}
	h.drain()
	if err := h.store.Close(); err != nil {
		b.Fatal(err)
	}
}
