package alerts

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"gatebook/events"
)

// Formats of a destination.
const (
	FormatJSON  = "json"
	FormatSlack = "slack"
)

// message is the format "json"; the package comment documents it.
type message struct {
	ID    string         `json:"id"`
	Event events.EventID `json:"event"`
	Part  int            `json:"part"`
	Kind  string         `json:"kind"`
	Of    string         `json:"of"`
	Agent string         `json:"agent"`
	Text  string         `json:"text"`
	Count int64          `json:"count"`
	First events.Instant `json:"first"`
	Last  events.Instant `json:"last"`
	Seq   events.Seq     `json:"seq"`
}

type slackMessage struct {
	Text string `json:"text"`
}

// encode writes a in a format.
func encode(format string, a Alert) ([]byte, error) {
	if _, err := events.ParseULID[events.EventID](string(a.ID)); err != nil || a.Part < 0 {
		return nil, fmt.Errorf("its id is none: %w", events.ErrID)
	}
	m := message{
		ID: a.Key(), Event: a.ID, Part: a.Part, Kind: field(a.Kind), Of: field(a.Of), Agent: field(string(a.Agent)),
		Text: text(a), Count: a.Count, First: a.First, Last: a.Last, Seq: a.Seq,
	}
	if format == FormatSlack {
		return json.Marshal(slackMessage{Text: slackSigns.Replace(m.Text)})
	}
	return json.Marshal(m)
}

// field is one line of foreign text.
func field(s string) string { return bounded(events.Escape(events.Cut(s, maxField)), len(s), maxField) }

// text is a's text with every line escaped on its own. An alert without text still says
// what it is: some destinations refuse an empty one.
func text(a Alert) string {
	if strings.TrimSpace(a.Text) == "" {
		return strings.TrimSpace("alert " + a.Key() + ": " + field(a.Kind) + " " + field(a.Of))
	}
	lines := strings.Split(events.Cut(a.Text, maxText), "\n")
	for i, line := range lines {
		lines[i] = events.Escape(line)
	}
	return bounded(strings.Join(lines, "\n"), len(a.Text), maxText)
}

// bounded cuts s, which was made of size bytes, to most bytes, and says so where
// something is missing.
func bounded(s string, size, most int) string {
	if size <= most && len(s) <= most {
		return s
	}
	mark := "… (" + strconv.Itoa(size) + " bytes)"
	return events.Cut(s, most-len(mark)) + mark
}

// slackSigns takes from a text all that Slack, or a chat that reads the same shape,
// would act on. It makes a text at most five times as long, which is below the 40,000
// characters that Slack takes.
var slackSigns = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;",
	"@", "\uFF20", "://", "[:]//", "](", "] (",
)
