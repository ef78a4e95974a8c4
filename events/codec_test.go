package events_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/events/eventstest"

	"pgregory.net/rapid"
)

func enrolled(t testing.TB) events.Record {
	d := eventstest.Draft(1, "alice", events.AgentEnrolled{Role: "writer", Parent: "boss", Key: "UA"})
	d.Cause, d.Catalog = eventstest.ID[events.EventID](0), eventstest.Digest(1)
	return eventstest.Encode(t, d)
}

func TestStrictDecode(t *testing.T) {
	good := enrolled(t)
	id := string(eventstest.ID[events.EventID](1))
	if _, err := events.Decode(good); err != nil {
		t.Fatal(err)
	}
	replace := func(old, new string) func(*events.Record) {
		return func(r *events.Record) {
			if !bytes.Contains(r.Body, []byte(old)) {
				t.Fatalf("no %s in %s", old, r.Body)
			}
			r.Body = bytes.Replace(r.Body, []byte(old), []byte(new), 1)
		}
	}
	for _, row := range []struct {
		name   string
		change func(*events.Record)
		want   error
	}{
		{"unknown field of the envelope", replace(`"data":`, `"x":1,"data":`), events.ErrMalformed},
		{"unknown field of the data", replace(`"role":`, `"x":1,"role":`), events.ErrMalformed},
		{"wrong case of a key", replace(`"role"`, `"Role"`), events.ErrMalformed},
		{"wrong case of a key of the envelope", replace(`"actor"`, `"ACTOR"`), events.ErrMalformed},
		{"duplicate key", replace(`"role":`, `"role":"a","role":`), events.ErrMalformed},
		{"duplicate key of the envelope", replace(`"actor":`, `"actor":"engine","actor":`), events.ErrMalformed},
		{"trailing data", func(r *events.Record) { r.Body = append(r.Body, "{}"...) }, events.ErrMalformed},
		{"trailing line break", func(r *events.Record) { r.Body = append(r.Body, '\n') }, events.ErrNotCanonical},
		{"nothing", func(r *events.Record) { r.Body = nil }, events.ErrMalformed},
		{"no object", func(r *events.Record) { r.Body = []byte("null") }, events.ErrMalformed},
		{"an array", func(r *events.Record) { r.Body = []byte("[]") }, events.ErrMalformed},
		{"cut", func(r *events.Record) { r.Body = r.Body[:len(r.Body)-1] }, events.ErrMalformed},
		{"not UTF-8", replace("writer\",\"p", "\xff\",\"p"), events.ErrMalformed},
		{"unknown kind", replace("gatebook.agent.enrolled.v1", "gatebook.agent.promoted.v1"), events.ErrUnknownKind},
		{"kind of somebody else", replace("gatebook.agent.", "other.agent."), events.ErrUnknownKind},
		{"future schema", replace("enrolled.v1", "enrolled.v2"), events.ErrUnknownKind},
		{"schema zero", replace("enrolled.v1", "enrolled.v0"), events.ErrUnknownKind},
		{"schema with a zero before it", replace("enrolled.v1", "enrolled.v01"), events.ErrUnknownKind},
		{"schema with a sign", replace("enrolled.v1", "enrolled.v+1"), events.ErrUnknownKind},
		{"no schema", replace("enrolled.v1", "enrolled"), events.ErrUnknownKind},
		{"another kind's data", replace("agent.enrolled", "agent.released"), events.ErrMalformed},
		{"ULID in lower case", replace(id, strings.ToLower(id)), events.ErrID},
		{"ULID out of range", replace(id, "8"+id[1:]), events.ErrID},
		{"no id", replace(id, ""), events.ErrID},
		{"cause that is no ULID", replace(string(eventstest.ID[events.EventID](0)), "x"), events.ErrID},
		{"catalog that is no digest", replace(string(eventstest.Digest(1)), "x"), events.ErrID},
		{"read from another agent's subject", func(r *events.Record) { r.Subject = "ev.main.agent.bob.agent_enrolled" }, events.ErrMalformed},
		{"read from another kind's subject", func(r *events.Record) { r.Subject = "ev.main.agent.alice.agent_released" }, events.ErrMalformed},
		{"read from nowhere", func(r *events.Record) { r.Subject = "" }, events.ErrMalformed},
		{"another agent in the envelope", replace("agent/alice", "agent/bob"), events.ErrMalformed},
		{"another entity in the envelope", replace("agent/alice", "engine/alice"), events.ErrMalformed},
		{"no agent in the envelope", replace("agent/alice", "agent"), events.ErrMalformed},
		{"empty agent in the envelope", replace("agent/alice", "agent/"), events.ErrMalformed},
		{"agent that cannot be one", replace("agent/alice", "agent/a.b"), events.ErrID},
		{"foreign source", replace("/gatebook/main", "/gatebook/other"), events.ErrMalformed},
		{"other version of the envelope", replace(`"1.0"`, `"0.3"`), events.ErrMalformed},
		{"other content type", replace("application/json", "text/json"), events.ErrMalformed},
		{"actor of no kind", replace(`"engine"`, `"root"`), events.ErrMalformed},
		{"actor without id", replace(`"engine"`, `"person:"`), events.ErrMalformed},
		{"engine with id", replace(`"engine"`, `"engine:x"`), events.ErrMalformed},
		{"time with a zone", replace(`679901Z`, `679901+00:00`), events.ErrInstant},
		{"time with nine digits", replace(`679901Z`, `679901000Z`), events.ErrInstant},
		{"whitespace", replace(`{"role"`, `{ "role"`), events.ErrNotCanonical},
		{"whitespace of the envelope", replace(`,"actor"`, `, "actor"`), events.ErrNotCanonical},
		{"other order", replace(`"role":"writer","parent":"boss"`, `"parent":"boss","role":"writer"`), events.ErrNotCanonical},
		{"escaped without need", replace("writer", `\u0077riter`), events.ErrNotCanonical},
		{"empty field that is left out", replace(`"key":"UA"`, `"runtime":"","key":"UA"`), events.ErrNotCanonical},
		{"null", replace(`"writer",`, `null,`), events.ErrNotCanonical},
		{"oversized", func(r *events.Record) { r.Body = append(r.Body, bytes.Repeat([]byte(" "), events.MaxEvent)...) }, events.ErrTooLarge},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := events.Record{Seq: 9, Subject: good.Subject, Body: bytes.Clone(good.Body)}
			row.change(&r)
			got, err := events.Decode(r)
			if !errors.Is(err, row.want) {
				t.Errorf("decode: %v, want: %v", err, row.want)
			}
			if got != (events.Recorded{}) {
				t.Errorf("decode gives a part: %+v", got)
			}
		})
	}
}

func TestSizeLimit(t *testing.T) {
	if _, err := events.Decode(eventstest.Sized(t, 1, events.MaxEvent)); err != nil {
		t.Error(err)
	}
	d, err := events.Decode(eventstest.Sized(t, 1, events.MaxEvent))
	if err != nil {
		t.Fatal(err)
	}
	released := d.Event.(events.AgentReleased)
	released.Reason += "x"
	if _, err := events.Encode(eventstest.Draft(1, "alice", released)); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("encode: %v", err)
	}
}

// What could not be read again must not be written.
func TestEncodeRefuses(t *testing.T) {
	good := eventstest.Draft(1, "alice", events.ProfileSet{})
	for _, row := range []struct {
		name   string
		change func(*events.Draft)
		want   error
	}{
		{"no event", func(d *events.Draft) { d.Event = nil }, events.ErrUnknownKind},
		{"a pointer", func(d *events.Draft) { d.Event = &events.ProfileSet{} }, events.ErrMalformed},
		{"no id", func(d *events.Draft) { d.ID = "" }, events.ErrID},
		{"no writer", func(d *events.Draft) { d.Writer = "" }, events.ErrID},
		{"cause that is no ULID", func(d *events.Draft) { d.Cause = "x" }, events.ErrID},
		{"catalog that is no digest", func(d *events.Draft) { d.Catalog = "x" }, events.ErrID},
		{"agent that cannot be one", func(d *events.Draft) { d.Agent = "a.b" }, events.ErrID},
		{"no actor", func(d *events.Draft) { d.Actor = events.Actor{} }, events.ErrMalformed},
		{"actor without id", func(d *events.Draft) { d.Actor = events.Actor{Kind: events.ActorPerson} }, events.ErrMalformed},
		{"engine with id", func(d *events.Draft) { d.Actor = events.Actor{Kind: events.ActorEngine, ID: "x"} }, events.ErrMalformed},
		{"a year of five digits", func(d *events.Draft) { d.Time = 1 << 60 }, events.ErrInstant},
		{"half sealed", func(d *events.Draft) {
			d.Event = events.CallDecided{Arguments: events.Arguments{Text: events.Personal{Enc: events.Sealed{KeyID: "k"}}}}
		}, events.ErrPersonal},
		{"sealed and plain", func(d *events.Draft) {
			d.Event = events.RoundBegun{Task: events.Personal{Text: "x", Enc: events.Sealed{KeyID: "k", Nonce: "n", Ciphertext: "c"}}}
		}, events.ErrPersonal},
	} {
		d := good
		row.change(&d)
		if rec, err := events.Encode(d); !errors.Is(err, row.want) || rec.Body != nil {
			t.Errorf("%s: %v, want: %v", row.name, err, row.want)
		}
	}
	notText := good
	notText.Event = events.ProfileSet{Profile: "\xff"}
	if _, err := events.Encode(notText); err == nil {
		t.Error("text that is not UTF-8 was encoded")
	}
}

func TestEncodeThenDecode(t *testing.T) {
	samples := eventstest.Samples()
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(samples).Draw(t, "sample")
		n := rapid.IntRange(0, 1<<40).Draw(t, "n")
		d.ID, d.Writer = eventstest.ID[events.EventID](n), eventstest.ID[events.WriterID](n+1)
		d.Time = events.Instant(rapid.Int64Range(-1<<55, 1<<55).Draw(t, "time"))
		d.Trace = rapid.String().Draw(t, "trace")
		d.Agent = events.AgentID(rapid.StringMatching(`([a-z0-9][a-z0-9_-]{0,62})?`).Draw(t, "agent"))
		if _, err := events.ParseAgentID(string(d.Agent)); err != nil && d.Agent != "" {
			t.Skip("reserved")
		}
		switch e := d.Event.(type) {
		case events.CallDecided:
			e.Arguments.Text = personal(t)
			e.Reserved, e.Step = rapid.Int64().Draw(t, "reserved"), rapid.Int64().Draw(t, "step")
			e.Reason = rapid.String().Draw(t, "reason")
			d.Event = e
		case events.CallCompleted:
			e.Result.Preview, e.Error = personal(t), rapid.String().Draw(t, "error")
			d.Event = e
		case events.RoundBegun:
			e.Sender, e.Task = personal(t), personal(t)
			d.Event = e
		case events.AlertRaised:
			e.Reason = rapid.String().Draw(t, "reason")
			d.Event = e
		}
		rec, err := events.Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		rec.Seq = events.Seq(n)
		got, err := events.Decode(rec)
		if err != nil || got.Draft != d || got.Seq != rec.Seq {
			t.Fatalf("%v\n%+v\n%+v", err, got, d)
		}
	})
}

func personal(t *rapid.T) events.Personal {
	if rapid.Bool().Draw(t, "sealed") {
		text := rapid.StringMatching(`[A-Za-z0-9+/]{1,20}`)
		return events.Personal{Enc: events.Sealed{KeyID: text.Draw(t, "kid"), Nonce: text.Draw(t, "nonce"), Ciphertext: text.Draw(t, "ciphertext")}}
	}
	return events.Plain(rapid.String().Draw(t, "text"))
}

// Whatever decodes re-encodes to the same bytes and the same subject.
func FuzzRoundTrip(f *testing.F) {
	for _, d := range eventstest.Samples() {
		rec := eventstest.Encode(f, d)
		f.Add(rec.Subject, rec.Body)
	}
	f.Fuzz(func(t *testing.T, subject string, body []byte) {
		got, err := events.Decode(events.Record{Seq: 1, Subject: subject, Body: body})
		if err != nil {
			return
		}
		again, err := events.Encode(got.Draft)
		if err != nil || again.Subject != subject || !bytes.Equal(again.Body, body) || again.ID != got.ID {
			t.Fatalf("%v\n%s\n%s", err, body, again.Body)
		}
	})
}

// calls are the events that a book is mostly made of, every field set.
func calls(b *testing.B) (drafts []events.Draft, records []events.Record) {
	for _, kind := range []events.Kind{events.KindCallDecided, events.KindCallCompleted} {
		d := samplesOf(kind)[1]
		drafts, records = append(drafts, d), append(records, eventstest.Encode(b, d))
	}
	return drafts, records
}

func BenchmarkEncode(b *testing.B) {
	drafts, _ := calls(b)
	for _, d := range drafts {
		b.Run(string(d.Event.Kind()), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := events.Encode(d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	drafts, records := calls(b)
	for i, r := range records {
		b.Run(string(drafts[i].Event.Kind()), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := events.Decode(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
