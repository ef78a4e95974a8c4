package main

import (
	"testing"

	"gatebook/events"
	"gatebook/policy"
)

// Whatever layer refused: those before it passed, those after it were not asked,
// and each says what it saw.
func TestExplainFollowsTheGate(t *testing.T) {
	order := policy.Layers()
	for at := range len(order) + 1 {
		var d events.CallDecided
		if at < len(order) {
			d.Layer = order[at]
		}
		got := gateAnswers(d)
		if len(got) != len(order) {
			t.Fatalf("%q: %+v", d.Layer, got)
		}
		for i, l := range got {
			want := layerPassed
			switch {
			case i == at:
				want = layerRefused
			case i > at:
				want = layerUnasked
			}
			if l.Layer != order[i] || l.Answer != want || l.Saw == "" {
				t.Errorf("%q refused, layer %d: %+v", d.Layer, i, l)
			}
		}
	}
	got := gateAnswers(events.CallDecided{Layer: "later"})
	if last := got[len(got)-1]; last != (layerAnswer{Layer: "later", Answer: layerRefused}) || got[0].Answer != layerUnasked {
		t.Errorf("a layer that this program does not have: %+v", got)
	}
}
