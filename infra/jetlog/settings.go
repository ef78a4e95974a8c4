package jetlog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gatebook/events"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const incarnationKey = "gatebook_incarnation"

// settings are the book's, by the server's names. A setting that is not here
// must be absent or zero: that covers mirror, sources, republish, transform,
// rollup, time to live, schedules, counters, and whatever a newer server invents.
// The ids that chain singles need no memory of duplicates, so its window is the
// smallest that the server takes.
func settings(stream string) map[string]any {
	return map[string]any{
		"name":                 stream,
		"subjects":             []string{events.SubjectPattern},
		"retention":            "limits",
		"storage":              "file",
		"num_replicas":         1,
		"compression":          "s2",
		"discard":              "new",
		"max_consumers":        -1,
		"max_msgs":             -1,
		"max_bytes":            -1,
		"max_age":              0,
		"max_msgs_per_subject": -1,
		"max_msg_size":         -1,
		"duplicate_window":     100_000_000, // ns
		"deny_delete":          true,
		"deny_purge":           true,
		"allow_rollup_hdrs":    false,
		"allow_direct":         true,
		"allow_atomic":         true,
	}
}

// free settings say nothing about what is kept.
func free(name string) bool { return name == "description" || name == "metadata" }

func (l *Log) create(ctx context.Context, inc events.Incarnation) error {
	if _, err := events.ParseULID[events.Incarnation](string(inc)); err != nil {
		return fmt.Errorf("incarnation: %w", err)
	}
	want := settings(l.stream)
	want["metadata"] = map[string]string{incarnationKey: string(inc)}
	var answer streamInfo
	if err := l.request(ctx, apiCreate, want, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error.refusal()
	}
	return nil
}

// checkSettings compares what the stream has with what the book wants, names
// every difference, and gives the incarnation.
func checkSettings(stream string, have map[string]jsontext.Value) (events.Incarnation, error) {
	want := settings(stream)
	var wrong []string
	names := maps.Clone(want)
	for name := range have {
		names[name] = nil
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if w, h := canonical(want[name]), canonical(have[name]); !free(name) && w != h {
			wrong = append(wrong, fmt.Sprintf("%s is %s, want %s", name, h, w))
		}
	}
	inc, err := incarnation(have["metadata"])
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	if len(wrong) > 0 {
		return "", fmt.Errorf("%w: %s", events.ErrSettings, strings.Join(wrong, "; "))
	}
	return inc, nil
}

// canonical spells a setting so that equal ones are equal text. Everything that
// stands for "not set" is "none".
func canonical(setting any) string {
	text, err := json.Marshal(setting, json.Deterministic(true))
	if err != nil {
		return "unreadable"
	}
	v := jsontext.Value(text)
	if err := v.Canonicalize(); err != nil {
		return "unreadable"
	}
	switch s := string(v); s {
	case "null", "false", "0", `""`, "{}", "[]":
		return "none"
	default:
		return s
	}
}

func incarnation(metadata jsontext.Value) (events.Incarnation, error) {
	keys := map[string]string{}
	if len(metadata) > 0 {
		if err := json.Unmarshal(metadata, &keys); err != nil {
			return "", fmt.Errorf("metadata cannot be read: %w", err)
		}
	}
	for key := range keys {
		if key != incarnationKey && !strings.HasPrefix(key, "_nats.") {
			return "", fmt.Errorf("metadata has %s, want only %s", events.Quote(key), incarnationKey)
		}
	}
	inc, err := events.ParseULID[events.Incarnation](keys[incarnationKey])
	if err != nil {
		return "", fmt.Errorf("metadata %s: %w", incarnationKey, err)
	}
	return inc, nil
}
