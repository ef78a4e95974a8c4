package events

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/oklog/ulid/v2"
)

// ErrID marks a malformed identifier. The wrapping error names the rule and
// shows the value escaped.
var ErrID = errors.New("malformed id")

// Seq is a position in the book, from 1. It is the only order of events;
// 0 means "before the first".
type Seq uint64

type (
	// AgentID names an agent; see [ParseAgentID].
	AgentID string
	// ChannelID names a channel, by the same rule as an agent.
	ChannelID string
	// PersonID names a person, by the same rule as an agent.
	PersonID string
	// EventID is the ULID of one event.
	EventID string
	// WriterID is the ULID of one run of the engine.
	WriterID string
	// Incarnation is the ULID made with the data folder.
	Incarnation string
	// ConversationID is a ULID.
	ConversationID string
	// RoundID is a ULID.
	RoundID string
	// CallID is a ULID, made by the engine.
	CallID string
	// ReviewID is a ULID, made by the engine.
	ReviewID string
	// AssetID is a ULID, made by the engine, of one version of an asset.
	AssetID string
	// Digest is a SHA-256 in 64 lower-case hexadecimal digits.
	Digest string
	// MAC is an HMAC-SHA256 under a key of the data folder, written like a
	// [Digest]. It tells equal arguments apart from different ones to whoever
	// holds the key, and nothing to anybody else.
	MAC string
	// PublicKey is an nkey public key in its usual text form.
	PublicKey string
)

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// ReservedNames can never be the id of an agent, a channel or a person:
// in a record they would read as somebody else.
func ReservedNames() []string {
	return []string{"human", "system", "engine", "approver", "operator", "channel", "admin", "gatebook"}
}

func checkName(what, s string) error {
	if !nameForm.MatchString(s) {
		return fmt.Errorf("%w: %s %s: want a lower-case letter or digit, then at most 62 of a-z 0-9 _ -", ErrID, what, Quote(s))
	}
	for _, r := range ReservedNames() {
		if s == r {
			return fmt.Errorf("%w: %s %q is a reserved name", ErrID, what, s)
		}
	}
	return nil
}

// ParseAgentID checks that s may name an agent: [a-z0-9][a-z0-9_-]{0,62} and
// not one of [ReservedNames]. Such an id is safe as a subject token and as a
// folder name on every OS but for device names, which the file tools refuse.
func ParseAgentID(s string) (AgentID, error) { return AgentID(s), checkName("agent", s) }

// ParseChannelID is [ParseAgentID] for channels.
func ParseChannelID(s string) (ChannelID, error) { return ChannelID(s), checkName("channel", s) }

// ParsePersonID is [ParseAgentID] for people.
func ParsePersonID(s string) (PersonID, error) { return PersonID(s), checkName("person", s) }

// ULIDForm is any identifier written as a canonical ULID.
type ULIDForm interface {
	EventID | WriterID | Incarnation | ConversationID | RoundID | CallID | ReviewID | AssetID
}

// ParseULID takes a ULID in its canonical spelling only: 26 characters, upper
// case, in range.
func ParseULID[T ULIDForm](s string) (T, error) {
	u, err := ulid.ParseStrict(s)
	if err != nil {
		return "", fmt.Errorf("%w: %s is not a ULID: want 26 characters of 0-9 and A-Z without I, L, O and U, the first at most 7", ErrID, Quote(s))
	}
	if u.String() != s {
		return "", fmt.Errorf("%w: %s is not written as a ULID is (upper case)", ErrID, Quote(s))
	}
	return T(s), nil
}

// DigestOf is the SHA-256 of data.
func DigestOf(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest(hex.EncodeToString(sum[:]))
}

// ParseDigest takes 64 lower-case hexadecimal digits.
func ParseDigest(s string) (Digest, error) {
	if len(s) != 64 || strings.Trim(s, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%w: %s is not a digest of 64 lower-case hexadecimal digits", ErrID, Quote(s))
	}
	return Digest(s), nil
}
