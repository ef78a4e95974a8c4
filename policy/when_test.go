package policy

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"gatebook/events"
)

// O-R12: a rule that goes wrong inside gives the narrowest result, with its own reason.
func TestWhenWhereARuleAllows(t *testing.T) {
	const args = `{"content":"secret-in-args","list":[1,2],"path":"a"}`
	huge := `{"list":[` + strings.TrimSuffix(strings.Repeat("1,", 60_000), ",") + `]}`
	for _, row := range []struct {
		name, when, args string
		want, reason     string
	}{
		{"true", `args.path == "a" && size(args.content) < 100`, args, "allow  ", ""},
		{"all that is known of the call", `tool == "file.write" && agent == "alice" && role == "worker" && channel == "terminal" && conversation == "V1" && principal.id == "anna" && principal.kind == "user" && profile == "work" && step == 5 && used == 0`, args, "allow  ", ""},
		{"false", `args.path == "b"`, args, "deny role when", `only so: when args.path == "b"; this one call`},
		{"a missing key", `args.nothing == 1`, args, "deny role when", "one is missing"},
		{"a key named by the arguments", `args[args.content] == 1`, args, "deny role when", "one is missing"},
		{"another type", `args.path < 3`, args, "deny role when", "of another type"},
		{"a division by zero", `1 / used == 1`, args, "deny role when", "arithmetic failed"},
		{"not a bool", `args.path`, args, "deny role when", "neither true nor false"},
		{"O-R12 a cost that is too high", `args.list.all(x, x == 1)`, huge, "deny role when", "costs more than a rule may"},
		{"arguments that are not known", `true`, "", "deny role when", "could not be looked at"},
		{"arguments that are no object", `true`, "[]", "deny role when", "could not be looked at"},
		{"arguments that are cut", `true`, `{"a":`, "deny role when", "could not be looked at"},
	} {
		for layer, edit := range map[string]func(*Catalog){
			"role":    grants(Rule{Tool: "file.write", When: row.when}),
			"profile": func(c *Catalog) { c.Profiles["work"] = Profile{Allow: []Rule{{Tool: "file.write", When: row.when}}} },
			"principal": func(c *Catalog) {
				c.Principals.IDs = map[string]Policy{"anna": {Only: []Rule{{Tool: "file.write", When: row.when}}}}
			},
		} {
			t.Run(row.name+" "+layer, func(t *testing.T) {
				got := askGate(t, "file.write", row.args, edit, facts(), "a")
				if want := strings.Replace(row.want, "role", layer, 1); verdict(got) != want {
					t.Errorf("%s, want %s (%s)", verdict(got), want, got.Reason)
				}
				if !strings.Contains(got.Reason, row.reason) && (layer == "role" || row.name != "false") {
					t.Errorf("it says %q, want %q", got.Reason, row.reason)
				}
				if strings.Contains(got.Reason, "secret-in-args") {
					t.Errorf("the arguments are in the reason: %q", got.Reason)
				}
			})
		}
	}
}

// Beside another grant that covers the call one without an answer does no harm.
func TestWhenBesideAnotherGrant(t *testing.T) {
	both := grants(Rule{Tool: "file.write", When: `args.missing == 1`}, Rule{Tool: "file.write", Paths: []string{"a"}})
	if got := askGate(t, "file.write", `{"path":"a"}`, both, facts(), "a"); got.Verdict != events.Allow {
		t.Errorf("%s: %s", verdict(got), got.Reason)
	}
}

func TestWhenWhereARuleDenies(t *testing.T) {
	const args = `{"content":"secret-in-args","path":"a"}`
	for _, row := range []struct {
		name, when, args string
		denied           bool
		reason           string
	}{
		{"true", `args.path == "a"`, args, true, `when args.path == "a"`},
		{"false", `args.path == "b"`, args, false, ""},
		{"a missing key", `args[args.content] == 1`, args, true, "one is missing"},
		{"a division by zero", `1 / used == 1`, args, true, "arithmetic failed"},
		{"not a bool", `args.path`, args, true, "neither true nor false"},
		{"O-R12 a cost that is too high", `args.content.matches("(x|y)*z")`, `{"content":"` + strings.Repeat("x", 600_000) + `"}`, true, "costs more than a rule may"},
		{"arguments that are not known", `false`, "", true, "could not be looked at"},
	} {
		deny := []Rule{{Tool: "file.write", Paths: []string{"**"}, When: row.when}}
		for layer, edit := range map[string]func(*Catalog){
			"baseline":  func(c *Catalog) { c.Baseline.Deny = deny },
			"profile":   func(c *Catalog) { c.Profiles["work"] = Profile{Tools: []string{"file.write"}, Deny: deny} },
			"principal": func(c *Catalog) { c.Principals.IDs = map[string]Policy{"anna": {Deny: deny}} },
		} {
			t.Run(row.name+" "+layer, func(t *testing.T) {
				got, want := askGate(t, "file.write", row.args, edit, facts(), "a"), "allow  "
				if row.denied {
					want = "deny " + layer + " deny"
				}
				if verdict(got) != want || !strings.Contains(got.Reason, row.reason) || strings.Contains(got.Reason, "secret-in-args") {
					t.Errorf("%s, want %s (%s)", verdict(got), want, got.Reason)
				}
			})
		}
	}
}

// O-R12: whatever a rule with an expression that gives no answer stands for, nothing
// is allowed by it.
func TestAnExpressionWithoutAnswerNeverAllows(t *testing.T) {
	failing := rapid.SampledFrom([]string{`args.missing == 1`, `1 / 0 == 1`, `args.path`, `args.path < 1`, `args.path.all(x, true)`})
	around := rapid.SampledFrom([]string{`%`, `!(%)`, `true && (%)`, `(%) || false`, `(%) ? true : true`, `!(!(%))`})
	rapid.Check(t, func(t *rapid.T) {
		expr := strings.Replace(around.Draw(t, "around"), "%", failing.Draw(t, "failing"), 1)
		rule := Rule{Tool: "file.write", When: expr}
		for name, edit := range map[string]func(*Catalog){
			"grant":   grants(rule),
			"allow":   func(c *Catalog) { c.Profiles["work"] = Profile{Allow: []Rule{rule}} },
			"only":    func(c *Catalog) { c.Principals.IDs = map[string]Policy{"anna": {Only: []Rule{rule}}} },
			"deny":    func(c *Catalog) { c.Baseline.Deny = []Rule{rule} },
			"deny it": func(c *Catalog) { c.Principals.IDs = map[string]Policy{"anna": {Deny: []Rule{rule}}} },
		} {
			c := sample()
			edit(&c)
			compiled, err := Compile(c)
			if err != nil {
				return // an expression that the checker refuses
			}
			req := request("file.write", "a")
			req.Args = jsontext.Value(`{"path":"a"}`)
			if got := DecideCall(compiled, req, facts()).Decided; got.Verdict == events.Allow {
				t.Fatalf("%s: %s allows", name, expr)
			}
		}
	})
}

// What an expression asks for by name must not be changed below it as if that were
// less: a role with less escapes a denial of the one before.
func TestExpressionsMakeAnotherNameAWidening(t *testing.T) {
	denied := func(when string) func(*Catalog) {
		return func(c *Catalog) { c.Baseline.Deny = []Rule{{Tool: "file.read", When: when}} }
	}
	role := func(c *Catalog) { c.Agents["alice"] = Agent{Role: "reader", Key: key(1)} }
	profile := func(c *Catalog) {
		anna := c.Channels["terminal"].Senders["anna"]
		anna.Profile = "guest"
		c.Channels["terminal"].Senders["anna"] = anna
	}
	gone := func(c *Catalog) { delete(c.Channels["terminal"].Senders, "anna") }
	for _, row := range []struct {
		name, when string
		edit       func(*Catalog)
		widens     bool
	}{
		{"a role of less", `role == "worker"`, role, true},
		{"a role of less, which nothing asks for", `profile == "work"`, role, false},
		{"a profile of less", `profile == "work"`, profile, true},
		{"a profile of less, which nothing asks for", `role == "worker"`, profile, false},
		{"a sender less, who is the guest then", `principal.id == "anna"`, gone, true},
		{"a sender less, which nothing asks for", `step > 3`, gone, false},
	} {
		before := compiled(t, denied(row.when))
		if got := Widens(Compare(before, compiled(t, denied(row.when), row.edit))); got != row.widens {
			t.Errorf("%s: widens %v", row.name, got)
		}
	}
}

// A rule that looks at the profile's name can make the profile of less the one of
// more, so that nobody gets another than the most by asking.
func TestExpressionsMakeAnotherProfileNotAsked(t *testing.T) {
	for _, row := range []struct {
		when, asked, effective string
		defaulted              bool
	}{
		{`profile == "work"`, "guest", "none", true},
		{`args.path == profile`, "guest", "none", true},
		{`profile == "work"`, "nothing", "none", true},
		{`profile == "work"`, "work", "work", false},
		{`profile == "work"`, "", "work", false},
		{`profile == "work"`, "none", "none", false},
		{`role == "worker"`, "guest", "guest", false},
	} {
		c := compiled(t, func(c *Catalog) { c.Baseline.Deny = []Rule{{Tool: "file.read", When: row.when}} })
		req := wish()
		req.Profile = row.asked
		d := BeginRound(c, req, RoundBeginFacts{Agent: AgentFacts{Enrolled: true}})
		if begun := d.Events[1].(events.RoundBegun); begun.Effective != row.effective || (len(d.Events) == 3) != row.defaulted {
			t.Errorf("%s, asked for %q: %q, %d events", row.when, row.asked, begun.Effective, len(d.Events))
		} else if row.defaulted && !strings.Contains(d.Events[2].(events.ProfileDefaulted).Reason, "name") {
			t.Errorf("%s: %+v", row.when, d.Events[2])
		}
	}
}

// A profile that loses a tool can come within the most that may be asked for. That is
// no widening because a rule that asks for its name gives nothing to who asks for it.
func TestALesserProfileGivesNothingByItsName(t *testing.T) {
	tools := func(tools ...string) *Compiled {
		return compiled(t, grants(Rule{Tool: "file.write", When: `profile == "x"`}), func(c *Catalog) {
			c.Profiles["x"] = Profile{Tools: tools}
			c.Profiles["most"] = Profile{Tools: []string{"file.read", "file.write"}}
			anna := c.Channels["terminal"].Senders["anna"]
			anna.Profile = "most"
			c.Channels["terminal"].Senders["anna"] = anna
		})
	}
	before, after := tools("file.read", "file.write", "file.delete"), tools("file.read", "file.write")
	if changes := Compare(before, after); len(changes) != 1 || changes[0].Text != "profiles.x.tools loses file.delete" || Widens(changes) {
		t.Errorf("%+v", changes)
	}
	for name, c := range map[string]*Compiled{"before": before, "after": after} {
		for _, asked := range []string{"", NoProfile, "most", "x"} {
			req := wish()
			req.Profile = asked
			f := facts()
			f.Round.Session = BeginRound(c, req, RoundBeginFacts{Agent: f.Agent}).Events[1].(events.RoundBegun).Effective
			call := request("file.write", "a")
			call.Args = jsontext.Value(`{"path":"a"}`)
			if got := DecideCall(c, call, f).Decided; got.Verdict != events.Deny {
				t.Errorf("%s, asked for %q: %s", name, asked, verdict(got))
			}
		}
	}
}

// Of two expressions nothing is known but whether they are the same text.
func TestChangesOfExpressions(t *testing.T) {
	rule := func(when string) Rule { return Rule{Tool: "file.read", When: when} }
	for _, row := range []struct {
		from, to          string
		granting, denying bool
	}{
		{"", "step < 9", false, true},
		{"step < 9", "", true, false},
		{"step < 9", "step < 8", true, true},
		{"step < 9", "step<9", true, true},
	} {
		deny := func(when string) func(*Catalog) {
			return func(c *Catalog) { c.Baseline.Deny = []Rule{rule(when)} }
		}
		granting := Widens(Compare(compiled(t, grants(rule(row.from))), compiled(t, grants(rule(row.to)))))
		denying := Widens(Compare(compiled(t, deny(row.from)), compiled(t, deny(row.to))))
		if row.granting != granting || row.denying != denying {
			t.Errorf("%q to %q: granting widens %v, denying %v", row.from, row.to, granting, denying)
		}
	}
	if got := (Rule{Tool: "file.read", When: "step\n< 9"}).String(); got != `tool file.read (when step\n< 9)` {
		t.Errorf("it reads %q", got)
	}
}
