package events_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/events/eventstest"

	"pgregory.net/rapid"
)

func TestNames(t *testing.T) {
	const source = "O-E13 nats-architecture-and-design#236, rustgate#616"
	for _, row := range []struct {
		name, id string
		ok       bool
	}{
		{"a letter", "a", true},
		{"a digit first", "0a", true},
		{"all that is allowed", "a-b_c9", true},
		{"63 characters", strings.Repeat("a", 63), true},
		{"a reserved name is only part of it", "system2", true},
		{source + " dot", "a.b", false},
		{source + " star", "*", false},
		{source + " arrow", ">", false},
		{source + " space", "a b", false},
		{source + " empty", "", false},
		{source + " protocol", "a\r\nPUB x 1", false},
		{source + " dot first", ".a", false},
		{source + " 300 characters", strings.Repeat("a", 300), false},
		{source + " not ASCII", "é", false},
		{"64 characters", strings.Repeat("a", 64), false},
		{"line break behind", "a\n", false},
		{"zero byte", "a\x00", false},
		{"upper case", "Alice", false},
		{"dash first", "-a", false},
		{"underscore first", "_a", false},
		{"the token for no agent", "_", false},
		{"slash", "a/b", false},
		{"backslash", `a\b`, false},
		{"two dots", "..", false},
		{"a letter that looks like another", "аlice", false},
		{"O-L09 mcp_agent_mail#99 human", "human", false},
		{"O-L09 mcp_agent_mail#99 system", "system", false},
		{"O-L09 the-librarian#71 engine", "engine", false},
		{"O-L09 approver", "approver", false},
		{"O-L09 operator", "operator", false},
		{"O-L09 channel", "channel", false},
		{"O-L09 admin", "admin", false},
		{"O-L09 gatebook", "gatebook", false},
		{"O-L09 HumanOverseer", "HumanOverseer", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, agent := events.ParseAgentID(row.id)
			_, channel := events.ParseChannelID(row.id)
			_, person := events.ParsePersonID(row.id)
			for _, err := range []error{agent, channel, person} {
				if (err == nil) != row.ok || err != nil && !errors.Is(err, events.ErrID) {
					t.Errorf("%q: %v", row.id, err)
				}
				if err != nil && strings.ContainsAny(err.Error(), "\r\n\x00") {
					t.Errorf("%q is shown raw: %q", row.id, err)
				}
			}
		})
	}
}

// An id that is allowed is exactly one token of a subject, and the subject gives
// it back.
func TestNameIsOneToken(t *testing.T) {
	form := regexp.MustCompile(`^ev\.main\.agent\.([^. *>]+)\.profile_set$`)
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9._-]{0,70}`)).Draw(t, "id")
		subject, err := events.Draft{Meta: events.Meta{Agent: events.AgentID(id)}, Event: events.ProfileSet{}}.Subject()
		if _, bad := events.ParseAgentID(id); id != "" && (bad == nil) != (err == nil) {
			t.Fatalf("%q: as an id %v, in a subject %v", id, bad, err)
		}
		if err != nil {
			return
		}
		m := form.FindStringSubmatch(subject)
		if m == nil || m[1] != id && (id != "" || m[1] != "_") {
			t.Fatalf("%q is written to %q", id, subject)
		}
	})
}

func TestULID(t *testing.T) {
	good := string(eventstest.ID[events.EventID](5))
	if got, err := events.ParseULID[events.CallID](good); err != nil || string(got) != good {
		t.Errorf("%q: %v", got, err)
	}
	for _, bad := range []string{
		"", good[1:], good + "0", strings.ToLower(good), "8" + good[1:], "O" + good[1:], good[:25] + "U", good[:25] + "\n", " " + good[1:],
	} {
		if got, err := events.ParseULID[events.EventID](bad); !errors.Is(err, events.ErrID) || got != "" {
			t.Errorf("%q: %q, %v", bad, got, err)
		}
	}
}

func TestDigest(t *testing.T) {
	empty := "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := events.DigestOf(nil); string(got) != empty {
		t.Errorf("digest of nothing: %s", got)
	}
	if _, err := events.ParseDigest(empty); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", empty[1:], empty + "0", strings.ToUpper(empty), "g" + empty[1:], empty[:63] + "\n"} {
		if got, err := events.ParseDigest(bad); !errors.Is(err, events.ErrID) || got != "" {
			t.Errorf("%q: %q, %v", bad, got, err)
		}
	}
}

func TestSubject(t *testing.T) {
	for _, row := range []struct {
		draft events.Draft
		want  string
	}{
		{eventstest.Draft(1, "alice", events.CallDecided{}), "ev.main.agent.alice.call_decided"},
		{eventstest.Draft(1, "", events.EngineStarted{}), "ev.main.engine._.engine_started"},
		{eventstest.Draft(1, "alice", events.IntakeRefused{}), "ev.main.engine.alice.intake_refused"},
	} {
		if got, err := row.draft.Subject(); err != nil || got != row.want {
			t.Errorf("%s: %v, want %s", got, err, row.want)
		}
	}
	if _, err := (events.Draft{}).Subject(); !errors.Is(err, events.ErrUnknownKind) {
		t.Errorf("a draft without an event: %v", err)
	}
}
