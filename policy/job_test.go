package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gatebook/events"
)

func nightly(c *Catalog) {
	c.Jobs = map[string]Job{"nightly": {Agent: "alice", Every: 3_600_000_000, Task: "tidy up", Profile: "guest"}}
}

// Rounds that no channel begins: a cause and a job are facts, and nobody claims them.
func TestRoundsOfTheEngine(t *testing.T) {
	cause := func(r *RoundRequest, f *RoundBeginFacts) {
		*r = RoundRequest{Agent: "kid", Cause: "R1", Round: "R9", NewConversation: "V9", HandleHash: handle, Task: "tidy up"}
		f.Agent = AgentFacts{Known: true, Enrolled: true, Role: "worker", Parent: "boss"}
		f.Cause = RoundFacts{Round: "R1", Agent: "boss", Channel: "terminal", Open: true, Session: "guest", Principal: events.Principal{ID: "terminal-guest", Kind: events.PrincipalUser}}
		f.Causing = AgentFacts{Known: true, Enrolled: true, Longtime: "work"}
	}
	job := func(r *RoundRequest, f *RoundBeginFacts) {
		*r = RoundRequest{Agent: "alice", Job: "nightly", Round: "R9", NewConversation: "V9", HandleHash: handle, Task: "tidy up"}
		f.Agent = AgentFacts{Known: true, Enrolled: true, Longtime: "work"}
	}
	const began = "conversation.opened round.begun"
	for _, tc := range []struct {
		name string
		base func(*RoundRequest, *RoundBeginFacts)
		edit func(*RoundRequest, *RoundBeginFacts)
		want string // outcome; where it began: principal, kind and profile
	}{
		{"control: a cause", cause, nil, began + " boss sub_agent guest"},
		{"control: a job", job, nil, began + " nightly-job internal guest"},
		{"the parent's longtime profile is passed down", cause, func(_ *RoundRequest, f *RoundBeginFacts) { f.Cause.Session = "" }, began + " boss sub_agent work"},
		{"the parent's round has nothing to pass down", cause, func(_ *RoundRequest, f *RoundBeginFacts) { f.Cause.Session, f.Causing.Longtime = "", "" }, began + " boss sub_agent none"},
		{"a misspelt profile is passed down as none", cause, func(_ *RoundRequest, f *RoundBeginFacts) { f.Cause.Session = "Guest" }, began + " boss sub_agent none"},
		{"a round that has ended", cause, func(_ *RoundRequest, f *RoundBeginFacts) { f.Cause.Open = false }, "round_ended"},
		{"a round that there is not", cause, func(_ *RoundRequest, f *RoundBeginFacts) { f.Cause.Round = "" }, "round_ended"},
		{"another's child", cause, func(_ *RoundRequest, f *RoundBeginFacts) { f.Agent.Parent = "bob" }, "unknown_agent"},
		{"no child", cause, func(_ *RoundRequest, f *RoundBeginFacts) { f.Agent.Parent = "" }, "unknown_agent"},
		{"a revoked child", cause, func(_ *RoundRequest, f *RoundBeginFacts) { f.Agent.Enrolled = false }, "unknown_agent"},
		{"a cause with a sender", cause, func(r *RoundRequest, _ *RoundBeginFacts) { r.Sender = "anna" }, "invalid"},
		{"a cause with a profile", cause, func(r *RoundRequest, _ *RoundBeginFacts) { r.Profile = "work" }, "invalid"},
		{"a cause over a channel", cause, func(r *RoundRequest, _ *RoundBeginFacts) { r.Channel = "terminal" }, "invalid"},
		{"no such job", job, func(r *RoundRequest, _ *RoundBeginFacts) { r.Job = "Nightly" }, "not_allowed"},
		{"a job of another agent", job, func(r *RoundRequest, _ *RoundBeginFacts) { r.Agent = "bob" }, "not_allowed"},
		{"a job of an agent whose id a child has", job, func(_ *RoundRequest, f *RoundBeginFacts) { f.Agent.Parent = "boss" }, "not_allowed"},
		{"a job of a released agent", job, func(_ *RoundRequest, f *RoundBeginFacts) { f.Agent.Enrolled = false }, "not_allowed"},
		{"a child that begins by itself", cause, func(r *RoundRequest, _ *RoundBeginFacts) { r.Cause, r.Self = "", true }, "not_allowed"},
		{"a user's words to a child", cause, func(r *RoundRequest, _ *RoundBeginFacts) {
			r.Cause, r.Channel, r.Sender = "", "terminal", "anna"
		}, began + " anna sub_agent work"},
		{"a group's words to a child", cause, func(r *RoundRequest, _ *RoundBeginFacts) {
			r.Cause, r.Channel, r.Sender = "", "terminal", "team"
		}, began + " team sub_agent guest"},
		{"a stranger's words to a child", cause, func(r *RoundRequest, _ *RoundBeginFacts) { r.Cause, r.Channel = "", "terminal" }, began + " terminal-guest sub_agent guest"},
		{"words to the child over a channel that does not serve it", cause, func(r *RoundRequest, _ *RoundBeginFacts) { r.Cause, r.Channel = "", "bot" }, "unknown_agent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var req RoundRequest
			var f RoundBeginFacts
			tc.base(&req, &f)
			if tc.edit != nil {
				tc.edit(&req, &f)
			}
			d := BeginRound(compiled(t, family, nightly), req, f)
			got := outcome(d)
			if d.Refusal == nil {
				begun := d.Events[1].(events.RoundBegun)
				got += " " + begun.Principal.ID + " " + string(begun.Principal.Kind) + " " + begun.Effective
				if begun.CausedBy != req.Cause || begun.Job != req.Job {
					t.Errorf("begun %+v", begun)
				}
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	for _, req := range []RoundRequest{{Cause: "R1"}, {Job: "nightly"}} {
		req.Round, req.NewConversation, req.HandleHash = "R9", "V9", handle
		if BeginRound(nil, req, RoundBeginFacts{}).Refusal == nil {
			t.Errorf("without a catalog %+v begins", req)
		}
	}
}

// The agent ends what the engine began for it, and nothing of a channel's.
func TestEndEngineRound(t *testing.T) {
	round := RoundFacts{Round: "R1", Agent: "kid", HandleHash: handle, Open: true, Principal: events.Principal{ID: "boss", Kind: events.PrincipalSubAgent}}
	req := RoundEndRequest{Self: true, Agent: "kid", Round: "R1", HandleHash: handle, End: events.RoundCompleted}
	if got := outcome(EndRound(req, round)); got != "round.ended" {
		t.Errorf("its own: %s", got)
	}
	req.Agent = "boss"
	if got := outcome(EndRound(req, round)); got != "no_round" {
		t.Errorf("the parent: %s", got)
	}
}

func TestAcceptRound(t *testing.T) {
	enrolled := AgentFacts{Known: true, Enrolled: true}
	mine := RoundFacts{Round: "R1", Agent: "kid", HandleHash: handle, Open: true}
	with := func(edit func(*RoundFacts)) RoundFacts {
		r := mine
		edit(&r)
		return r
	}
	for name, tc := range map[string]struct {
		agent AgentFacts
		hash  events.Digest
		same  RoundFacts
		want  string
	}{
		"control":               {enrolled, handle, RoundFacts{}, ""},
		"after a lost answer":   {enrolled, handle, mine, "R1"},
		"handle of a channel's": {enrolled, handle, with(func(r *RoundFacts) { r.Channel = "terminal" }), "conflict"},
		"handle of another's":   {enrolled, handle, with(func(r *RoundFacts) { r.Agent = "alice" }), "conflict"},
		"released":              {AgentFacts{Known: true}, handle, RoundFacts{}, "unknown_agent"},
		"malformed":             {enrolled, "abc", RoundFacts{}, "invalid"},
	} {
		round, no := AcceptRound("kid", tc.agent, tc.hash, tc.same)
		got := string(round)
		if no != nil {
			got = string(no.Code)
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestJobsDue(t *testing.T) {
	const hour = events.Instant(time.Hour / time.Microsecond)
	c := compiled(t, nightly)
	for name, tc := range map[string]struct {
		now, last events.Instant
		want      string
	}{
		"never: since the engine began":               {100, 0, "due"},
		"never, for a whole period":                   {100 + hour, 0, "missed"},
		"a period late, but the engine was not there": {100 + hour - 1, 1, "due"},
		"before its time":                             {10 + hour - 1, 10, ""},
		"at its time":                                 {10 + hour, 10, "due"},
		"one instant before a whole period late":      {10 + 2*hour - 1, 10, "due"},
		"a whole period late":                         {10 + 2*hour, 10, "missed"},
		"the clock went back":                         {10, 10 + hour, ""},
	} {
		began := events.Instant(100)
		if tc.last == 1 {
			began = 50 + hour
		}
		due, err := c.JobsDue(tc.now, began, func(string) (events.Instant, error) { return tc.last, nil })
		got := ""
		if len(due) == 1 {
			if got = "due"; due[0].Missed {
				got = "missed"
			}
		}
		if err != nil || got != tc.want {
			t.Errorf("%s: %+v (%v), want %q", name, due, err, tc.want)
		}
	}
	broken := errors.New("broken")
	if _, err := c.JobsDue(1, 1, func(string) (events.Instant, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if due, err := (*Compiled)(nil).JobsDue(1, 1, nil); err != nil || due != nil {
		t.Errorf("without a catalog: %v, %v", due, err)
	}
}

func TestFaultsOfChildrenAndJobs(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*Catalog)
		want string
	}{
		"a role that is not there": {func(c *Catalog) { c.Roles["worker"] = Role{MayDeclare: []string{"reader", "Reader"}} }, "roles.worker.may_declare.1"},
		"a job of nobody":          {func(c *Catalog) { c.Jobs["nightly"] = Job{Agent: "carl", Every: minEvery, Task: "x"} }, "jobs.nightly.agent"},
		"too often":                {func(c *Catalog) { c.Jobs["nightly"] = Job{Agent: "bob", Every: minEvery - 1, Task: "x"} }, "jobs.nightly.every"},
		"without a task":           {func(c *Catalog) { c.Jobs["nightly"] = Job{Agent: "bob", Every: minEvery} }, "jobs.nightly.task"},
		"a misspelt profile":       {func(c *Catalog) { c.Jobs["nightly"] = Job{Agent: "bob", Every: minEvery, Task: "x", Profile: "Work"} }, "jobs.nightly.profile"},
		"a reserved name":          {func(c *Catalog) { c.Jobs["engine"] = Job{Agent: "bob", Every: minEvery, Task: "x"} }, "jobs.engine"},
		"a sender that is a job": {func(c *Catalog) {
			c.Channels["terminal"].Senders["job"] = Sender{Principal: "nightly-job", Kind: events.PrincipalUser}
		}, "channels.terminal.senders.job.principal"},
		"O-R13 a policy for a misspelt job": {func(c *Catalog) {
			c.Principals.IDs = map[string]Policy{"nightly-job": {Deny: []Rule{{Tool: "file.read"}}}, "nightli-job": {Deny: []Rule{{Tool: "file.read"}}}}
		}, "principals.ids.nightli-job"},
	} {
		c := sample()
		nightly(&c)
		tc.edit(&c)
		_, err := Compile(c)
		var fault *Fault
		if !errors.As(err, &fault) || fault.Path != tc.want {
			t.Errorf("%s: %v, want a fault at %s", name, err, tc.want)
		}
	}
}

func TestCompareChildrenAndJobs(t *testing.T) {
	for _, tc := range []struct {
		name   string
		after  func(*Catalog)
		want   string
		widens bool
	}{
		{"another role for children", func(c *Catalog) {
			c.Roles["worker"] = Role{Version: 3, Grants: c.Roles["worker"].Grants, MayDeclare: []string{"reader"}}
		}, "roles.worker.may_declare gains reader", true},
		{"a role less for children", func(c *Catalog) {
			c.Roles["planner"] = Role{Version: 1, Grants: c.Roles["planner"].Grants, MayDeclare: []string{"reader"}}
		}, "roles.planner.may_declare loses worker", false},
		{"an agent gets a role that has children", func(c *Catalog) { c.Agents["alice"] = Agent{Role: "planner", Key: key(1)} }, "agents.alice.role changed from worker to planner", true},
		{"an agent gets a role without", func(c *Catalog) { c.Agents["boss"] = Agent{Role: "worker", Key: key(20)} }, "agents.boss.role changed from planner to worker", false},
		{"a tool out of a scope that a parent may deny", func(c *Catalog) { c.Scopes["writes"] = Scope{Tools: []string{"file.write"}} }, "scopes.writes.tools loses file.delete", true},
		{"a job more", func(c *Catalog) { c.Jobs["more"] = Job{Agent: "bob", Every: minEvery, Task: "x"} }, "jobs.more added (agent bob", true},
		{"a job less", func(c *Catalog) { c.Jobs = nil }, "jobs.nightly removed", false},
		{"a job for another", func(c *Catalog) { j := c.Jobs["nightly"]; j.Agent = "bob"; c.Jobs["nightly"] = j }, "jobs.nightly.agent changed", true},
		{"another task", func(c *Catalog) { j := c.Jobs["nightly"]; j.Task = "mess up"; c.Jobs["nightly"] = j }, "jobs.nightly.task changed", true},
		{"more often", func(c *Catalog) { j := c.Jobs["nightly"]; j.Every--; c.Jobs["nightly"] = j }, "jobs.nightly.every changed", true},
		{"more seldom", func(c *Catalog) { j := c.Jobs["nightly"]; j.Every++; c.Jobs["nightly"] = j }, "jobs.nightly.every changed", false},
		{"a wider profile", func(c *Catalog) { j := c.Jobs["nightly"]; j.Profile = "work"; c.Jobs["nightly"] = j }, "jobs.nightly.profile changed", true},
		{"a narrower profile", func(c *Catalog) { j := c.Jobs["nightly"]; j.Profile = "nothing"; c.Jobs["nightly"] = j }, "jobs.nightly.profile changed", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, after := compiled(t, family, nightly), compiled(t, family, nightly, tc.after)
			changes := Compare(before, after)
			if !slices.ContainsFunc(changes, func(c Change) bool { return strings.HasPrefix(c.Text, tc.want) }) || Widens(changes) != tc.widens {
				t.Errorf("got %+v; want %q, widens %t", changes, tc.want, tc.widens)
			}
			checkLoad(t, before, after, tc.widens)
		})
	}
}
