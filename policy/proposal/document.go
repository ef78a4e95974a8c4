package proposal

import (
	"fmt"
	"strings"
	"time"

	"gatebook/events"
)

// Proposal is what an agent proposes by one call.
type Proposal struct {
	Kind    events.AssetType
	Agent   events.AgentID
	Name    string // a file's, with slashes
	Content string
	// Text is what the agent says about it, for the people who decide.
	Text string

	Call  events.CallID
	Round events.RoundID
	Time  events.Instant
}

// Version is the digest of the content, which an approval is for.
func (p Proposal) Version() events.Digest { return events.DigestOf([]byte(p.Content)) }

// Path is where the content goes in the repository.
func (p Proposal) Path(s Settings) string {
	return s.Kinds[p.Kind].folder(p.Kind) + "/" + string(p.Agent) + "/" + p.Name
}

// DocumentPath is where its document goes.
func (p Proposal) DocumentPath(s Settings) string { return p.Path(s) + suffix }

// BadName says why nothing may be proposed under a name, beside what no path of a
// repository may be; empty where it may. What is called like a document would take the
// place of one, and a backtick would end the name in a document.
func BadName(name string) string {
	switch {
	case name == "":
		return "is missing"
	case len(name) > MaxName:
		return fmt.Sprintf("has %d bytes, at most %d", len(name), MaxName)
	case strings.HasSuffix(strings.ToLower(name), suffix):
		return "ends like the document of a proposal"
	case strings.Contains(name, "`"):
		return "holds a backtick"
	}
	return ""
}

// Branch is the proposal's own: one for each call.
func (p Proposal) Branch() string {
	return "proposals/" + string(p.Agent) + "/" + strings.ToLower(string(p.Call))
}

// Message is that of the commit.
func (p Proposal) Message() string {
	return fmt.Sprintf("Propose %s %s\n\nBy agent %s; nobody has approved it.\n\nCall: %s\nRound: %s\nVersion: %s\n",
		p.Kind, p.Name, p.Agent, p.Call, p.Round, p.Version())
}

// Document is for the people who decide. What the agent says is quoted line by line, so
// that it cannot be taken for what the engine says.
func (p Proposal) Document(s Settings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Proposal: %s `%s`\n\n", p.Kind, p.Name)
	b.WriteString("Nobody has approved it. Nothing loads it before a person does.\n\n")
	for _, row := range [][2]string{
		{"File", p.Path(s)},
		{"Version", string(p.Version())},
		{"Size", fmt.Sprintf("%d bytes", len(p.Content))},
		{"Agent", string(p.Agent)},
		{"Call", string(p.Call)},
		{"Round", string(p.Round)},
		{"Time", p.Time.Time().UTC().Format(time.RFC3339)},
	} {
		fmt.Fprintf(&b, "- %s: `%s`\n", row[0], row[1])
	}
	b.WriteString("\n## What the agent says about it\n\n")
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\t", "    ").Replace(strings.TrimRight(p.Text, "\r\n"))
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(strings.TrimRight("> "+events.Escape(line), " ") + "\n")
	}
	return b.String()
}
