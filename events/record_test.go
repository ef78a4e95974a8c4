package events_test

import (
	"bytes"
	"testing"

	"gatebook/events"
)

func TestLeaf(t *testing.T) {
	r := events.Record{Seq: 42, ID: "ignored", Subject: "ev.main.agent.alice.profile_set", Body: []byte("{}")}
	const want = "v1|01KEMBWC2ZNXFAN3BWFNGTXQ3F|42|ev.main.agent.alice.profile_set|44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
	leaf := events.Leaf("01KEMBWC2ZNXFAN3BWFNGTXQ3F", r)
	if string(leaf) != want {
		t.Errorf("leaf: %s, want %s", leaf, want)
	}
	for name, other := range map[string]events.Record{
		"sequence": {Seq: 43, Subject: r.Subject, Body: r.Body},
		"subject":  {Seq: 42, Subject: "ev.main.agent.bob.profile_set", Body: r.Body},
		"body":     {Seq: 42, Subject: r.Subject, Body: []byte("{ }")},
	} {
		if bytes.Equal(events.Leaf("01KEMBWC2ZNXFAN3BWFNGTXQ3F", other), leaf) {
			t.Errorf("another %s has the same leaf", name)
		}
	}
	if bytes.Equal(events.Leaf("01KEMBWC2ZNXFAN3BWFNGTXQ3G", r), leaf) {
		t.Error("another incarnation has the same leaf")
	}
}
