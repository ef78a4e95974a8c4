package jetlog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gatebook/events"
	"gatebook/events/eventstest"

	"github.com/nats-io/nats.go/jetstream"
)

// book is a stream with the book's settings, written down once more.
func book() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "BOOK_main", Subjects: []string{"ev.main.>"}, Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
		Replicas: 1, MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1,
		Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true, Compression: jetstream.S2Compression,
		AllowDirect: true, AllowAtomicPublish: true, Duplicates: 100 * time.Millisecond,
		Metadata: map[string]string{"gatebook_incarnation": string(eventstest.ID[events.Incarnation](7))},
	}
}

func TestSettings(t *testing.T) {
	nc := connect(t, startServer(t, nil))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		set  func(*jetstream.StreamConfig)
		want []string // in the error; none: the settings are right
	}{
		{"the book's", func(*jetstream.StreamConfig) {}, nil},
		{"a description", func(c *jetstream.StreamConfig) { c.Description = "ours" }, nil},
		{"O-E02 argo-events#3150 discard old", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, []string{`discard is "old", want "new"`}},
		{"O-E02 nats-server#2795 at most 3 messages", func(c *jetstream.StreamConfig) { c.MaxMsgs = 3 }, []string{"max_msgs is 3, want -1"}},
		{"O-E02 an age limit", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, []string{"max_age is 3600000000000, want none"}},
		{"O-E02 delete allowed", func(c *jetstream.StreamConfig) { c.DenyDelete = false }, []string{"deny_delete is none, want true"}},
		{"O-E02 purge allowed", func(c *jetstream.StreamConfig) { c.DenyPurge = false }, []string{"deny_purge is none, want true"}},
		{"O-E02 O-E14 rollup", func(c *jetstream.StreamConfig) { c.AllowRollup, c.DenyPurge = true, false }, []string{"allow_rollup_hdrs is true, want none", "deny_purge"}},
		{"O-E15 nats-server#3595 a byte limit", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, []string{"max_bytes"}},
		{"O-E15 nats-server#5526 other subjects", func(c *jetstream.StreamConfig) { c.Subjects = []string{"ev.main.>", "x"} }, []string{`subjects is ["ev.main.>","x"], want ["ev.main.>"]`}},
		{"a limit per subject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }, []string{"max_msgs_per_subject"}},
		{"a message size", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 5 }, []string{"max_msg_size"}},
		{"interest retention", func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }, []string{"retention"}},
		{"memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, []string{"storage"}},
		{"no compression", func(c *jetstream.StreamConfig) { c.Compression = jetstream.NoCompression }, []string{"compression"}},
		{"no direct get", func(c *jetstream.StreamConfig) { c.AllowDirect = false }, []string{"allow_direct"}},
		{"no atomic publish", func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false }, []string{"allow_atomic"}},
		{"republish", func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: ">", Destination: "copy.>"}
		}, []string{"republish"}},
		{"a transform", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "ev.main.>", Destination: "ev.main.x.>"}
		}, []string{"subject_transform"}},
		{"sources", func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "OTHER"}} }, []string{"sources"}},
		{"a mirror", func(c *jetstream.StreamConfig) {
			*c = jetstream.StreamConfig{Name: c.Name, Metadata: c.Metadata, Mirror: &jetstream.StreamSource{Name: "OTHER"}}
		}, []string{"mirror is", "subjects is none"}},
		{"time to live", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true }, []string{"allow_msg_ttl"}},
		{"counters", func(c *jetstream.StreamConfig) {
			c.AllowMsgCounter, c.Discard = true, jetstream.DiscardOld
		}, []string{"allow_msg_counter", "discard"}},
		{"schedules", func(c *jetstream.StreamConfig) {
			c.AllowMsgSchedules, c.Discard, c.DenyPurge = true, jetstream.DiscardOld, false
		}, []string{"allow_msg_schedules", "allow_rollup_hdrs"}},
		{"fast batches", func(c *jetstream.StreamConfig) { c.AllowBatchPublish = true }, []string{"allow_batched"}},
		{"no acknowledgements", func(c *jetstream.StreamConfig) { c.NoAck = true }, []string{"no_ack"}},
		{"a first sequence", func(c *jetstream.StreamConfig) { c.FirstSeq = 9 }, []string{"first_seq"}},
		{"stored later", func(c *jetstream.StreamConfig) {
			c.PersistMode, c.AllowAtomicPublish = jetstream.AsyncPersistMode, false
		}, []string{"persist_mode", "allow_atomic"}},
		{"no incarnation", func(c *jetstream.StreamConfig) { c.Metadata = nil }, []string{"gatebook_incarnation"}},
		{"an incarnation that is none", func(c *jetstream.StreamConfig) {
			c.Metadata = map[string]string{"gatebook_incarnation": "x"}
		}, []string{"gatebook_incarnation", "ULID"}},
		{"foreign metadata", func(c *jetstream.StreamConfig) { c.Metadata["x"] = "y" }, []string{`metadata has "x"`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := book()
			row.set(&cfg)
			if _, err := js.CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			l, err := Open(t.Context(), nc, making())
			if err == nil {
				err = l.Close()
			} else if !errors.Is(err, events.ErrSettings) {
				t.Errorf("open: %v, want ErrSettings", err)
			}
			if (err == nil) != (row.want == nil) {
				t.Errorf("open: %v", err)
			}
			for _, want := range row.want {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("open: %v\nwant it to say: %s", err, want)
				}
			}
			if err := js.DeleteStream(t.Context(), cfg.Name); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// What Open makes is what Open wants, and it changes nothing that is there.
func TestOpenTwice(t *testing.T) {
	nc := connect(t, startServer(t, nil))
	first := openLog(t, nc, making())
	again := making()
	again.Incarnation = eventstest.ID[events.Incarnation](8)
	for _, l := range []*Log{first, openLog(t, nc, again), openLog(t, nc, Config{})} {
		st, err := l.State(t.Context())
		if err != nil || st.Incarnation != making().Incarnation {
			t.Errorf("state: %+v, %v", st, err)
		}
	}
}

func TestOpenWrong(t *testing.T) {
	nc := connect(t, startServer(t, nil))
	for _, row := range []struct {
		name string
		cfg  Config
		want error
	}{
		{"O-E17 no stream", Config{}, ErrNoStream},
		{"no stream, so no answer from the book", Config{}, events.ErrUnavailable},
		{"a pattern as a name", Config{Stream: "BOOK.*", Create: true}, events.ErrSettings},
		{"no incarnation", Config{Create: true}, events.ErrID},
	} {
		if _, err := Open(t.Context(), nc, row.cfg); !errors.Is(err, row.want) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}
