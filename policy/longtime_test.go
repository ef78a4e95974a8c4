package policy

import (
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
)

// decideFor begins a round for the sender anna, who may ask for a profile, and
// decides one call in it.
func decideFor(t *rapid.T, c *Compiled, asked, longtime, tool string) events.CallDecided {
	t.Helper()
	wish := wish()
	wish.Profile = asked
	agent := AgentFacts{Enrolled: true, Longtime: longtime}
	d := BeginRound(c, wish, RoundBeginFacts{Agent: agent})
	if d.Refusal != nil {
		t.Fatalf("%+v", d.Refusal)
	}
	f := facts()
	f.Agent, f.Round.Session = agent, d.Events[1].(events.RoundBegun).Effective
	return DecideCall(c, request(tool), f).Decided
}

func withSender(c Catalog, profile string) Catalog {
	ch := c.Channels["terminal"]
	ch.Senders = map[string]Sender{"anna": {Principal: "anna", Kind: events.PrincipalUser, Profile: profile}}
	c.Channels = map[events.ChannelID]Channel{"terminal": ch}
	return c
}

var (
	profileNames = []string{"", NoProfile, "work", "guest", "writer", "nothing"}
	drawProfile  = rapid.SampledFrom(profileNames)
)

func mustCompile(t *rapid.T, c Catalog) *Compiled {
	t.Helper()
	out, err := Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The session profile covers the longtime one, which decides only where the
// round has none and nothing was asked for.
func TestSessionCoversLongtime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cat := drawCatalog(t)
		profile, asked := drawProfile.Draw(t, "profile"), drawProfile.Draw(t, "asked")
		one, other := drawProfile.Draw(t, "longtime"), drawProfile.Draw(t, "other longtime")
		tool := rapid.SampledFrom([]string{"file.read", "file.write", "file.list"}).Draw(t, "tool")
		c := mustCompile(t, withSender(cat, profile))
		a, b := decideFor(t, c, asked, one, tool), decideFor(t, c, asked, other, tool)
		if profile == "" && asked == "" {
			if a.Profile != orNone(one) || a.Facts.SessionProfile != "" {
				t.Fatalf("longtime %q: %+v", one, a)
			}
			return
		}
		if a.Verdict != b.Verdict || a.Profile != b.Profile || a.Facts.SessionProfile == "" {
			t.Fatalf("longtime %q gives %+v, %q gives %+v", one, a, other, b)
		}
	})
}

// What is not said to widen never allows a sender more than before, whatever the
// longtime profile is.
func TestASenderGetsNoMoreUnlessItWidens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cat := drawCatalog(t)
		from, to := drawProfile.Draw(t, "from"), drawProfile.Draw(t, "to")
		before, after := mustCompile(t, withSender(cat, from)), mustCompile(t, withSender(cat, to))
		changes := Compare(before, after)
		if (len(changes) == 0) != (from == to) || (len(changes) == 0) != (before.Digest() == after.Digest()) {
			t.Fatalf("from %q to %q: %+v", from, to, changes)
		}
		if Widens(changes) {
			return
		}
		tool := rapid.SampledFrom([]string{"file.read", "file.write", "file.list"}).Draw(t, "tool")
		for _, asked := range profileNames {
			for _, longtime := range profileNames {
				was, is := decideFor(t, before, asked, longtime, tool), decideFor(t, after, asked, longtime, tool)
				if was.Verdict != events.Allow && is.Verdict == events.Allow {
					t.Fatalf("from %q to %q allows more, asked %q, longtime %q: %+v", from, to, asked, longtime, changes)
				}
			}
		}
	})
}
