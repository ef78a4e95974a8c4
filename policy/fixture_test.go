package policy

import (
	"fmt"
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/policy/paths"
)

const (
	handle      = events.Digest("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	otherHandle = events.Digest("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
)

// key gives a public key of the right form for a number.
func key(n int) events.PublicKey {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	return events.PublicKey("U" + strings.Repeat("A", 53) + string(alphabet[n/32%32]) + string(alphabet[n%32]))
}

func sample() Catalog {
	six := []string{"file.list", "file.read", "file.write", "file.delete", "file.trash", "file.restore"}
	var grants []Rule
	for _, t := range six {
		grants = append(grants, Rule{Tool: t})
	}
	return Catalog{
		Schema: 1, Phase: 2,
		Scopes:   map[string]Scope{"files": {Tools: six}, "reading": {Tools: []string{"file.list", "file.read"}}},
		Profiles: map[string]Profile{"work": {Scopes: []string{"files"}}, "guest": {Scopes: []string{"reading"}}, "writer": {Tools: []string{"file.write"}}, "nothing": {}},
		Roles:    map[string]Role{"worker": {Version: 3, Grants: grants}, "reader": {Version: 1, Grants: []Rule{{Scope: "reading"}}}},
		Agents:   map[events.AgentID]Agent{"alice": {Role: "worker", Key: key(1)}, "bob": {Role: "reader", Key: key(2)}},
		Channels: map[events.ChannelID]Channel{
			"terminal": {Key: key(3), Agents: []string{"*"}, Guest: Guest{Profile: "guest"}, Senders: map[string]Sender{
				"anna": {Principal: "anna", Kind: events.PrincipalUser, Profile: "work"},
				"team": {Principal: "team", Kind: events.PrincipalGroup, Profile: "guest"},
				// mute has no profile of its own, still has one that allows nothing.
				"mute":  {Principal: "mute", Kind: events.PrincipalUser},
				"still": {Principal: "still", Kind: events.PrincipalUser, Profile: NoProfile},
			}},
			"bot": {Key: key(4), Agents: []string{"bob"}, Guest: Guest{Kind: events.PrincipalGroup}},
		},
		People: map[events.PersonID]Person{
			"anna": {Key: key(5), ApproveKey: key(6), Approver: true, Supervisor: true, Operator: true, ObservableAgents: []string{"*"}},
			"olga": {Key: key(7), Operator: true},
			"sven": {Key: key(8), Supervisor: true, ObservableAgents: []string{"bob"}},
		},
	}
}

// compiled is the sample, changed by edits.
func compiled(t testing.TB, edits ...func(*Catalog)) *Compiled {
	t.Helper()
	c := sample()
	for _, edit := range edits {
		edit(&c)
	}
	out, err := Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func request(tool string, named ...string) CallRequest {
	req := CallRequest{
		Call: "C1", Agent: "alice", Round: "R1", HandleHash: handle, Key: "k1",
		Tool:      events.ToolKey{Owner: events.OwnerBuiltin, Name: tool},
		Arguments: events.Arguments{Text: events.Plain(`{"path":"a"}`), MAC: "m1", Size: 12},
	}
	for _, p := range named {
		parsed, err := paths.Parse(p)
		if err != nil {
			panic(err)
		}
		req.Paths = append(req.Paths, parsed)
	}
	return req
}

func facts() CallFacts {
	return CallFacts{
		Agent: AgentFacts{Enrolled: true, Longtime: "work"},
		Round: RoundFacts{
			Round: "R1", Agent: "alice", Conversation: "V1", Channel: "terminal", HandleHash: handle, Open: true,
			Session: "work", Principal: events.Principal{ID: "anna", Kind: events.PrincipalUser}, Steps: 4,
		},
		Tool: ToolFacts{Known: true, Definition: "d1"},
	}
}

func verdict(d events.CallDecided) string {
	return fmt.Sprintf("%s %s %s", d.Verdict, d.Layer, d.Rule)
}

func mustPath(t interface{ Fatal(...any) }, raw string) paths.Path {
	p, err := paths.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
