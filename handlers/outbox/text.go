package outbox

import (
	"cmp"
	"fmt"
	"strings"

	"gatebook/projections"
)

// Kinds of alerts that Watch raises.
const (
	kindExpires  = "asset_expires"
	kindDigest   = "digest"
	kindDegraded = "degraded"
	kindDamage   = "damage"
	kindOver     = "recovered"
)

// TextOf is what an alert says, in lines for people, each a sentence.
func TextOf(a projections.AlertRow) string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch a.Kind {
	case projections.AlertAssetBlocked:
		say("A call of %s by %s was refused: %s.", a.Name, cmp.Or(string(a.Agent), "nobody known"), strings.TrimSuffix(a.Reason, "."))
	case projections.AlertAssetProvisional:
		say("%s called %s, which nobody has decided about. It is reversible and runs for seven days.", a.Agent, a.Name)
		say("gatebook asset show %s", a.Of)
	case projections.AlertAssetCreated:
		say("%s is on record, %s and blocked, version %s.", a.Name, a.Tier, a.Version)
		if a.Commit != "" {
			say("Commit %s, document %s.", a.Commit, a.Document)
		}
		say("gatebook asset show %s", a.Of)
	case projections.AlertReviewWaits:
		say("A call of %s by %s waits for a person: %s.", a.Name, a.Of, strings.TrimSuffix(a.Reason, "."))
		say("gatebook pending")
	default:
		say("%s", cmp.Or(a.Reason, a.Kind))
		if a.Of != "" && a.Kind != kindExpires {
			say("It is about %s.", a.Of)
		}
	}
	return strings.Join(lines, "\n")
}
