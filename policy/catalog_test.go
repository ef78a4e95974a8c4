package policy

import (
	"errors"
	"strings"
	"testing"

	"gatebook/events"
)

func TestCompileFaults(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*Catalog)
		want string // paths with a fault, in order
	}{
		{"control", func(*Catalog) {}, ""},
		{"nobody at all", func(c *Catalog) { *c = Catalog{Schema: 1} }, ""},
		{"schema", func(c *Catalog) { c.Schema = 2 }, "schema"},
		{"phase", func(c *Catalog) { c.Phase = 3 }, "phase"},
		{"negative phase", func(c *Catalog) { c.Phase = -1 }, "phase"},
		{"unknown tools, all reported", func(c *Catalog) {
			c.Scopes["files"] = Scope{[]string{"file.read", "file.Read", "shell"}}
			c.Roles["worker"] = Role{Grants: []Rule{{Tool: "file.read"}, {Tool: "x"}}}
		}, "scopes.files.tools.1 scopes.files.tools.2 roles.worker.grants.1.tool"},
		{"unknown scopes", func(c *Catalog) {
			c.Profiles["work"] = Profile{Scopes: []string{"gone"}, Tools: []string{"none"}}
			c.Roles["worker"] = Role{Grants: []Rule{{Scope: "gone"}}}
		}, "profiles.work.scopes.0 profiles.work.tools.0 roles.worker.grants.0.scope"},
		{"a grant of both and of nothing", func(c *Catalog) {
			c.Roles["worker"] = Role{Grants: []Rule{{Tool: "file.read", Scope: "files"}, {}}}
		}, "roles.worker.grants.0 roles.worker.grants.1"},
		{"unknown role", func(c *Catalog) { c.Agents["bob"] = Agent{Role: "", Key: key(2)} }, "agents.bob.role"},
		{"unknown profiles", func(c *Catalog) {
			ch := c.Channels["bot"]
			ch.Guest.Profile = "Guest"
			ch.Senders = map[string]Sender{"x": {"x", events.PrincipalUser, "gone"}}
			c.Channels["bot"] = ch
		}, "channels.bot.senders.x.profile channels.bot.guest.profile"},
		{"unknown agent of a channel", func(c *Catalog) {
			c.Channels["bot"] = Channel{Key: key(4), Agents: []string{"carl"}}
		}, "channels.bot.agents.0"},
		{"* with others", func(c *Catalog) {
			c.Channels["bot"] = Channel{Key: key(4), Agents: []string{"bob", "*"}}
			c.People["sven"] = Person{Key: key(8), ObservableAgents: []string{"*", "Bob"}}
		}, "channels.bot.agents.1 people.sven.observable_agents.0 people.sven.observable_agents.1"},
		{"O-R25 none declared", func(c *Catalog) { c.Profiles["none"] = Profile{} }, "profiles.none"},
		{"O-R25 reserved and malformed names", func(c *Catalog) {
			c.Profiles["human"], c.Profiles["Default "] = Profile{}, Profile{}
			c.Roles["engine"] = Role{}
			c.Agents["admin"], c.Agents["a b"] = Agent{Role: "reader", Key: key(20)}, Agent{Role: "reader", Key: key(21)}
		}, "profiles.Default  profiles.human roles.engine agents.a b agents.admin"},
		{"kinds that cannot come over a channel", func(c *Catalog) {
			c.Channels["bot"] = Channel{Key: key(4), Guest: Guest{Kind: "internal"}, Senders: map[string]Sender{
				"a": {"a", events.PrincipalSelf, ""}, "b": {"b", "", ""}, "c": {"c", events.PrincipalSubAgent, ""}, "d": {"d", "human", ""},
			}}
		}, "channels.bot.senders.a.kind channels.bot.senders.b.kind channels.bot.senders.c.kind channels.bot.senders.d.kind channels.bot.guest.kind"},
		{"principals", func(c *Catalog) {
			c.Channels["bot"] = Channel{Key: key(4), Senders: map[string]Sender{
				"a": {"terminal-guest", events.PrincipalUser, ""}, "b": {"system", events.PrincipalUser, ""}, "c": {"", events.PrincipalUser, ""},
			}}
		}, "channels.bot.senders.a.principal channels.bot.senders.b.principal channels.bot.senders.c.principal"},
		{"senders that nobody can tell apart", func(c *Catalog) {
			c.Channels["bot"] = Channel{Key: key(4), Senders: map[string]Sender{"an\u200bna": {"a", events.PrincipalUser, ""}}}
		}, "channels.bot.senders.an\u200bna"},
		{"one key for two entries", func(c *Catalog) { c.Channels["bot"] = Channel{Key: key(1)} }, "channels.bot.key"},
		{"one key for a person's two", func(c *Catalog) { c.People["anna"] = Person{Key: key(5), ApproveKey: key(5)} }, "people.anna.approve_key"},
		{"malformed keys", func(c *Catalog) {
			c.Agents["bob"] = Agent{Role: "reader", Key: key(2)[:55]}
			c.People["olga"] = Person{Key: "S" + key(7)[1:], ApproveKey: key(9) + "A"}
			c.People["sven"] = Person{Key: events.PublicKey(strings.ToLower(string(key(8))))}
		}, "agents.bob.key people.olga.key people.olga.approve_key people.sven.key"},
		{"an approver without the key", func(c *Catalog) { c.People["olga"] = Person{Key: key(7), Approver: true} }, "people.olga.approver"},
		{"negative limits", func(c *Catalog) { c.Limits = Limits{-1, -1, -1, -1, -1, -1, -1} },
			"limits.round_timeout limits.tool_time limits.review_time limits.trash_age limits.trash_size limits.queued_calls limits.running_tools"},
		{"limits beyond what the canonical form holds", func(c *Catalog) { c.Limits = Limits{RoundTimeout: 1 << 60, TrashSize: 1 << 60} }, "limits.round_timeout limits.trash_size"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := sample()
			tc.edit(&c)
			_, err := Compile(c)
			if (err != nil) != errors.Is(err, ErrCatalog) {
				t.Fatalf("error %v", err)
			}
			if got := strings.Join(faultPaths(err), " "); got != tc.want {
				t.Errorf("faults at %q, want %q\n%v", got, tc.want, err)
			}
		})
	}
}

func faultPaths(err error) []string {
	switch e := err.(type) {
	case *Fault:
		return []string{e.Path}
	case interface{ Unwrap() []error }:
		var out []string
		for _, inner := range e.Unwrap() {
			out = append(out, faultPaths(inner)...)
		}
		return out
	}
	return nil
}

func TestCanonicalForm(t *testing.T) {
	c := compiled(t)
	again, err := ParseCatalog(c.Canonical())
	if err != nil {
		t.Fatal(err)
	}
	second, err := Compile(again)
	if err != nil || second.Digest() != c.Digest() || c.Digest() != events.DigestOf(c.Canonical()) {
		t.Fatalf("digest %s after a round trip %s, %v", c.Digest(), second.Digest(), err)
	}
	const want = `{"phase":1,"schema":1}`
	bare := compiled(t, func(x *Catalog) {
		*x = Catalog{Schema: 1, Roles: map[string]Role{}, Limits: Limits{RoundTimeout: DefaultRoundTimeout, QueuedCalls: 64}}
	})
	if got := string(bare.Canonical()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if l := bare.Limits(); l != (Limits{DefaultRoundTimeout, DefaultToolTime, 64, 16, DefaultReviewTime, DefaultTrashAge, DefaultTrashSize}) {
		t.Errorf("limits %+v", l)
	}
	for _, bad := range []string{"", "{}x", `{"schema":1,"phase":1}`, `{"phase":1,"schema":1,"schema":1}`, `{"Schema":1}`, `{"phase":1,"schema":1,"more":1}`, `{"phase":1.0,"schema":1}`} {
		if _, err := ParseCatalog([]byte(bad)); !errors.Is(err, ErrCatalog) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A compiled catalog does not change with the value that it was made of.
func TestCompileCopies(t *testing.T) {
	src := sample()
	c, err := Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	src.Scopes["files"].Tools[0] = "shell"
	src.Roles["worker"] = Role{}
	src.Agents["eve"] = Agent{Role: "worker", Key: key(30)}
	if again, err := Compile(c.Catalog()); err != nil || again.Digest() != c.Digest() {
		t.Error("a change of the source reached the compiled catalog")
	}
}

func TestBuiltins(t *testing.T) {
	list := Builtins()
	for i, b := range list {
		if got, ok := LookupBuiltin(b.Name); !ok || got != b {
			t.Errorf("%s: %+v", b.Name, got)
		}
		if i > 0 && list[i-1].Name >= b.Name {
			t.Errorf("%s is out of order", b.Name)
		}
	}
	if _, ok := LookupBuiltin("File.read"); ok {
		t.Error("names are exact")
	}
	if list[0].Name = "x"; builtins[0].Name == "x" {
		t.Error("a caller can change the closed list")
	}
}
