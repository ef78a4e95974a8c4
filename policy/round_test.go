package policy

import (
	"strings"
	"testing"

	"gatebook/events"
)

func wish() RoundRequest {
	return RoundRequest{
		Channel: "terminal", Agent: "alice", Round: "R9", NewConversation: "V9", Sender: "anna",
		HandleHash: handle, Task: "tidy up", Model: "m-1",
	}
}

// begun is the round that wish asks for.
func begun() RoundFacts {
	return RoundFacts{
		Round: "R5", Agent: "alice", Channel: "terminal", Conversation: "V1", HandleHash: handle, Open: true,
		Session: "work", Principal: events.Principal{ID: "anna", Kind: events.PrincipalUser},
	}
}

func TestBeginRound(t *testing.T) {
	open := func(_ *Catalog, r *RoundRequest, f *RoundBeginFacts) {
		r.Conversation = "V1"
		f.Conversation = ConversationFacts{Conversation: "V1", Agent: "alice", Channel: "terminal"}
	}
	for _, tc := range []struct {
		name string
		edit func(*Catalog, *RoundRequest, *RoundBeginFacts)
		want string // kinds of events, or the refusal's code, or the round that is repeated
	}{
		{"control: new conversation", func(*Catalog, *RoundRequest, *RoundBeginFacts) {}, "conversation.opened round.begun"},
		{"control: going on", open, "round.begun"},
		{"unknown agent", func(_ *Catalog, r *RoundRequest, _ *RoundBeginFacts) { r.Agent = "carl" }, "unknown_agent"},
		{"released agent", func(_ *Catalog, _ *RoundRequest, f *RoundBeginFacts) { f.Agent.Enrolled = false }, "unknown_agent"},
		{"another channel's agent", func(_ *Catalog, r *RoundRequest, _ *RoundBeginFacts) { r.Channel = "bot" }, "unknown_agent"},
		{"unknown channel", func(_ *Catalog, r *RoundRequest, _ *RoundBeginFacts) { r.Channel = "sms" }, "not_allowed"},
		{"handle hash malformed", func(_ *Catalog, r *RoundRequest, _ *RoundBeginFacts) { r.HandleHash = "AB" }, "invalid"},
		{"sender not UTF-8", func(_ *Catalog, r *RoundRequest, _ *RoundBeginFacts) { r.Sender = "\xff" }, "invalid"},
		{"task too long", func(_ *Catalog, r *RoundRequest, _ *RoundBeginFacts) { r.Task = strings.Repeat("x", MaxTask+1) }, "invalid"},
		{"old conversation as fresh", func(c *Catalog, r *RoundRequest, f *RoundBeginFacts) { open(c, r, f); r.Fresh = true }, "invalid"},
		{"no such conversation", func(_ *Catalog, r *RoundRequest, _ *RoundBeginFacts) { r.Conversation = "V1" }, "unknown_conversation"},
		{"another agent's conversation", func(c *Catalog, r *RoundRequest, f *RoundBeginFacts) { open(c, r, f); f.Conversation.Agent = "bob" }, "unknown_conversation"},
		{"another channel's conversation", func(c *Catalog, r *RoundRequest, f *RoundBeginFacts) { open(c, r, f); f.Conversation.Channel = "bot" }, "unknown_conversation"},
		{"closed conversation", func(c *Catalog, r *RoundRequest, f *RoundBeginFacts) { open(c, r, f); f.Conversation.Closed = true }, "unknown_conversation"},
		{"one open round per conversation", func(c *Catalog, r *RoundRequest, f *RoundBeginFacts) {
			open(c, r, f)
			f.Conversation.OpenRound = "R5"
		}, "round_open R5"},
		{"repeat", func(_ *Catalog, _ *RoundRequest, f *RoundBeginFacts) { f.SameHandle = begun() }, "= R5"},
		{"repeat in the same conversation", func(_ *Catalog, r *RoundRequest, f *RoundBeginFacts) {
			f.SameHandle, r.Conversation = begun(), "V1"
		}, "= R5"},
		{"handle of the owner's round, from a visitor", func(_ *Catalog, r *RoundRequest, f *RoundBeginFacts) {
			f.SameHandle, r.Sender = begun(), "visitor"
		}, "conflict R5"},
		{"handle of a round with more rights than asked for", func(_ *Catalog, r *RoundRequest, f *RoundBeginFacts) {
			f.SameHandle, r.Profile = begun(), "none"
		}, "conflict R5"},
		{"handle of a round of another conversation", func(_ *Catalog, r *RoundRequest, f *RoundBeginFacts) {
			f.SameHandle, r.Conversation = begun(), "V2"
		}, "conflict R5"},
		{"handle of a round that ended, with other rights", func(_ *Catalog, r *RoundRequest, f *RoundBeginFacts) {
			f.SameHandle, r.Profile = begun(), "none"
			f.SameHandle.Open = false
		}, "conflict"},
		{"handle of another agent's round", func(_ *Catalog, _ *RoundRequest, f *RoundBeginFacts) {
			f.SameHandle = RoundFacts{Round: "R5", Agent: "bob", Channel: "terminal", HandleHash: handle, Open: true}
		}, "conflict"},
		{"handle of another channel's round", func(_ *Catalog, _ *RoundRequest, f *RoundBeginFacts) {
			f.SameHandle = RoundFacts{Round: "R5", Agent: "alice", Channel: "bot", HandleHash: handle, Open: true}
		}, "conflict"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, req, f := sample(), wish(), RoundBeginFacts{Agent: AgentFacts{Enrolled: true}}
			tc.edit(&c, &req, &f)
			if got := outcome(BeginRound(compiled(t, func(x *Catalog) { *x = c }), req, f)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if d := BeginRound(nil, wish(), RoundBeginFacts{}); d.Refusal == nil {
		t.Error("a round without a catalog")
	}
}

func outcome(d RoundDecision) string {
	if d.Refusal != nil {
		return strings.TrimSpace(string(d.Refusal.Code) + " " + string(d.Refusal.Round))
	}
	if len(d.Events) == 0 {
		return "= " + string(d.Round)
	}
	var kinds []string
	for _, e := range d.Events {
		kinds = append(kinds, string(e.Kind()))
	}
	return strings.Join(kinds, " ")
}

func TestUnknownAndForeignAgentsReadTheSame(t *testing.T) {
	req, f := wish(), RoundBeginFacts{Agent: AgentFacts{Enrolled: true}}
	req.Channel, req.Agent = "bot", "alice"
	foreign := BeginRound(compiled(t), req, f).Refusal.Reason
	f.Agent.Enrolled = false
	gone := BeginRound(compiled(t, func(c *Catalog) { delete(c.Agents, "alice") }), req, f).Refusal.Reason
	if foreign != gone {
		t.Errorf("%q and %q", foreign, gone)
	}
}

// The truth table of who talks over a channel, and of the session profile.
func TestWhoTalks(t *testing.T) {
	user, group := events.PrincipalUser, events.PrincipalGroup
	for _, tc := range []struct {
		name            string
		channel         events.ChannelID
		agent           events.AgentID
		sender, asked   string
		principal       string
		kind            events.PrincipalKind
		effective       string
		defaulted       bool
		requestedCutoff bool
	}{
		{name: "mapped user", channel: "terminal", agent: "alice", sender: "anna", principal: "anna", kind: user, effective: "work"},
		{name: "mapped group", channel: "terminal", agent: "alice", sender: "team", principal: "team", kind: group, effective: "guest"},
		{name: "mapped without a profile", channel: "terminal", agent: "alice", sender: "mute", principal: "mute", kind: user, effective: ""},
		{name: "mapped to none", channel: "terminal", agent: "alice", sender: "still", principal: "still", kind: user, effective: "none"},
		{name: "mapped without a profile asks for none", channel: "terminal", agent: "alice", sender: "mute", asked: "none", principal: "mute", kind: user, effective: "none"},
		{name: "mapped without a profile asks for what allows nothing", channel: "terminal", agent: "alice", sender: "mute", asked: "nothing", principal: "mute", kind: user, effective: "nothing"},
		{name: "mapped without a profile asks for more", channel: "terminal", agent: "alice", sender: "mute", asked: "guest", principal: "mute", kind: user, effective: "none", defaulted: true},
		{name: "mapped without a profile asks for the longtime one", channel: "terminal", agent: "alice", sender: "mute", asked: "work", principal: "mute", kind: user, effective: "none", defaulted: true},
		{name: "mapped without a profile, misspelt", channel: "terminal", agent: "alice", sender: "mute", asked: "Guest", principal: "mute", kind: user, effective: "none", defaulted: true},
		{name: "unmapped", channel: "terminal", agent: "alice", sender: "eve", principal: "terminal-guest", kind: user, effective: "guest"},
		{name: "no sender", channel: "terminal", agent: "alice", principal: "terminal-guest", kind: user, effective: "guest"},
		{name: "O-R13 sender in other case", channel: "terminal", agent: "alice", sender: "Anna", principal: "terminal-guest", kind: user, effective: "guest"},
		{name: "a sender with a space", channel: "terminal", agent: "alice", sender: "anna ", principal: "terminal-guest", kind: user, effective: "guest"},
		{name: "a sender that looks like another", channel: "terminal", agent: "alice", sender: "\u0430nna", principal: "terminal-guest", kind: user, effective: "guest"},
		{name: "a sender with nothing to see in it", channel: "terminal", agent: "alice", sender: "an\u200bna", principal: "terminal-guest", kind: user, effective: "guest"},
		{name: "a sender in another composition", channel: "terminal", agent: "alice", sender: "a\u006e\u0303na", principal: "terminal-guest", kind: user, effective: "guest"},
		{name: "a sender with a line break", channel: "terminal", agent: "alice", sender: "anna\n", principal: "terminal-guest", kind: user, effective: "guest"},
		{name: "O-R22 a sender named like a principal kind", channel: "terminal", agent: "alice", sender: "internal", principal: "terminal-guest", kind: user, effective: "guest"},
		{name: "guest of a group channel without a profile", channel: "bot", agent: "bob", sender: "anna", principal: "bot-guest", kind: group, effective: "none"},
		{name: "asks for the own profile", channel: "terminal", agent: "alice", sender: "anna", asked: "work", principal: "anna", kind: user, effective: "work"},
		{name: "asks for less", channel: "terminal", agent: "alice", sender: "anna", asked: "guest", principal: "anna", kind: user, effective: "guest"},
		{name: "asks for none", channel: "terminal", agent: "alice", sender: "anna", asked: "none", principal: "anna", kind: user, effective: "none"},
		{name: "asks for more", channel: "terminal", agent: "alice", sender: "team", asked: "work", principal: "team", kind: group, effective: "none", defaulted: true},
		{name: "asks for something else", channel: "terminal", agent: "alice", sender: "team", asked: "writer", principal: "team", kind: group, effective: "none", defaulted: true},
		{name: "guest asks for more", channel: "bot", agent: "bob", asked: "guest", principal: "bot-guest", kind: group, effective: "none", defaulted: true},
		{name: "O-R13 zeptoclaw#671 alow", channel: "terminal", agent: "alice", sender: "anna", asked: "alow", principal: "anna", kind: user, effective: "none", defaulted: true},
		{name: "O-R13 space", channel: "terminal", agent: "alice", sender: "anna", asked: " work", principal: "anna", kind: user, effective: "none", defaulted: true},
		{name: "O-R13 upper case", channel: "terminal", agent: "alice", sender: "anna", asked: "WORK", principal: "anna", kind: user, effective: "none", defaulted: true},
		{name: "O-R13 zero width", channel: "terminal", agent: "alice", sender: "anna", asked: "work\u200b", principal: "anna", kind: user, effective: "none", defaulted: true},
		{name: "O-R13 null", channel: "terminal", agent: "alice", sender: "anna", asked: "null", principal: "anna", kind: user, effective: "none", defaulted: true},
		{name: "O-R14 broken", channel: "terminal", agent: "alice", sender: "anna", asked: strings.Repeat("{", 999), principal: "anna", kind: user, effective: "none", defaulted: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := wish()
			req.Channel, req.Agent, req.Sender, req.Profile = tc.channel, tc.agent, tc.sender, tc.asked
			d := BeginRound(compiled(t), req, RoundBeginFacts{Agent: AgentFacts{Enrolled: true, Longtime: "work"}})
			want := "conversation.opened round.begun"
			if tc.defaulted {
				want += " profile.defaulted"
			}
			if got := outcome(d); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
			begun := d.Events[1].(events.RoundBegun)
			if begun.Principal != (events.Principal{ID: tc.principal, Kind: tc.kind}) || begun.Effective != tc.effective {
				t.Errorf("principal %+v, effective %q", begun.Principal, begun.Effective)
			}
			if begun.Timeout != DefaultRoundTimeout || begun.Model != (events.Model{Name: "m-1", Known: "claimed"}) || len(begun.Requested) > events.MaxName {
				t.Errorf("%+v", begun)
			}
		})
	}
}

func TestEndRound(t *testing.T) {
	round := RoundFacts{Round: "R1", Agent: "alice", Channel: "terminal", HandleHash: handle, Open: true}
	for _, tc := range []struct {
		name string
		edit func(*RoundEndRequest, *RoundFacts)
		want string
	}{
		{"control", func(*RoundEndRequest, *RoundFacts) {}, "round.ended"},
		{"no such round", func(_ *RoundEndRequest, f *RoundFacts) { *f = RoundFacts{} }, "no_round"},
		{"another channel's", func(r *RoundEndRequest, _ *RoundFacts) { r.Channel = "bot" }, "no_round"},
		{"no channel", func(r *RoundEndRequest, f *RoundFacts) { r.Channel, f.Channel = "", "" }, "no_round"},
		{"wrong handle", func(r *RoundEndRequest, _ *RoundFacts) { r.HandleHash = otherHandle }, "no_round"},
		{"twice", func(_ *RoundEndRequest, f *RoundFacts) { f.Open = false }, "round_ended R1"},
		{"only the engine times out", func(r *RoundEndRequest, _ *RoundFacts) { r.End = events.RoundTimedOut }, "invalid"},
		{"unknown end", func(r *RoundEndRequest, _ *RoundFacts) { r.End = "" }, "invalid"},
	} {
		req, f := RoundEndRequest{Channel: "terminal", Round: "R1", HandleHash: handle, End: events.RoundFailed}, round
		tc.edit(&req, &f)
		if got := outcome(EndRound(req, f)); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
	round.Deadline = 10
	if e := TimeoutRound(round, 9).Events; e != nil {
		t.Errorf("before its deadline: %+v", e)
	}
	if e := TimeoutRound(round, 10).Events; len(e) != 1 || e[0].(events.RoundEnded).End != events.RoundTimedOut {
		t.Errorf("%+v", e)
	}
	round.Open = false
	if e := TimeoutRound(round, 10).Events; e != nil {
		t.Errorf("a round ended twice: %+v", e)
	}
}

func TestMayAttach(t *testing.T) {
	round := RoundFacts{Round: "R1", Agent: "alice", HandleHash: handle, Open: true}
	for _, tc := range []struct {
		name   string
		agent  events.AgentID
		handle events.Digest
		edit   func(*RoundFacts)
		want   string
	}{
		{"control", "alice", handle, func(*RoundFacts) {}, ""},
		{"wrong handle", "alice", otherHandle, func(*RoundFacts) {}, "no_round"},
		{"another agent's", "bob", handle, func(*RoundFacts) {}, "no_round"},
		{"no such round", "alice", handle, func(f *RoundFacts) { *f = RoundFacts{} }, "no_round"},
		{"nothing on both sides", "", "", func(f *RoundFacts) { *f = RoundFacts{Open: true} }, "no_round"},
		{"ended", "alice", handle, func(f *RoundFacts) { f.Open = false }, "round_ended"},
	} {
		f, got := round, ""
		tc.edit(&f)
		if no := MayAttach(tc.agent, tc.handle, f); no != nil {
			got = string(no.Code)
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
	if e := AbandonRound(round).Events; len(e) != 1 || e[0].(events.RoundEnded).End != events.RoundCancelled {
		t.Errorf("%+v", e)
	}
}

// selfish is the sample with an agent that begins its rounds by itself.
func selfish(c *Catalog) {
	c.Agents["solo"] = Agent{Role: "worker", Key: key(9), SelfRounds: true}
	terminal := c.Channels["terminal"]
	terminal.Agents = []string{"alice", "bob"}
	c.Channels["terminal"] = terminal
}

func TestSelfRounds(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*Catalog, *RoundRequest, *RoundBeginFacts)
		want string
	}{
		{"control: new conversation", func(*Catalog, *RoundRequest, *RoundBeginFacts) {}, "conversation.opened round.begun"},
		{"control: its own conversation", func(_ *Catalog, r *RoundRequest, f *RoundBeginFacts) {
			r.Conversation, f.Conversation = "V1", ConversationFacts{Conversation: "V1", Agent: "solo"}
		}, "round.begun"},
		{"a conversation that a channel began", func(_ *Catalog, r *RoundRequest, f *RoundBeginFacts) {
			r.Conversation, f.Conversation = "V1", ConversationFacts{Conversation: "V1", Agent: "solo", Channel: "terminal"}
		}, "unknown_conversation"},
		{"an agent that may not", func(_ *Catalog, r *RoundRequest, _ *RoundBeginFacts) { r.Agent = "alice" }, "not_allowed"},
		{"an agent that is not there", func(_ *Catalog, r *RoundRequest, _ *RoundBeginFacts) { r.Agent = "carl" }, "not_allowed"},
		{"released", func(_ *Catalog, _ *RoundRequest, f *RoundBeginFacts) { f.Agent.Enrolled = false }, "not_allowed"},
		{"a sender claimed", func(_ *Catalog, r *RoundRequest, _ *RoundBeginFacts) { r.Sender = "anna" }, "invalid"},
		{"a profile claimed", func(_ *Catalog, r *RoundRequest, _ *RoundBeginFacts) { r.Profile = "work" }, "invalid"},
		{"a channel claimed", func(_ *Catalog, r *RoundRequest, _ *RoundBeginFacts) { r.Channel = "terminal" }, "invalid"},
		{"repeat", func(_ *Catalog, _ *RoundRequest, f *RoundBeginFacts) {
			f.SameHandle = RoundFacts{
				Round: "R5", Agent: "solo", Conversation: "V1", HandleHash: handle, Open: true,
				Principal: events.Principal{ID: "solo", Kind: events.PrincipalSelf},
			}
		}, "= R5"},
		{"the handle of a round that a channel began", func(_ *Catalog, _ *RoundRequest, f *RoundBeginFacts) {
			f.SameHandle = begun()
			f.SameHandle.Agent = "solo"
		}, "conflict"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, f := sample(), RoundBeginFacts{Agent: AgentFacts{Enrolled: true}}
			selfish(&c)
			req := RoundRequest{Self: true, Agent: "solo", Round: "R9", NewConversation: "V9", HandleHash: handle, Task: "tidy up"}
			tc.edit(&c, &req, &f)
			d := BeginRound(compiled(t, func(x *Catalog) { *x = c }), req, f)
			if got := outcome(d); got != tc.want {
				t.Fatalf("%s, want %s", got, tc.want)
			}
			for _, e := range d.Events {
				if r, ok := e.(events.RoundBegun); ok && (r.Principal != events.Principal{ID: "solo", Kind: events.PrincipalSelf} || r.Effective != "" || r.Channel != "") {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

func TestEndSelfRound(t *testing.T) {
	own := RoundFacts{
		Round: "R5", Agent: "solo", Conversation: "V1", HandleHash: handle, Open: true,
		Principal: events.Principal{ID: "solo", Kind: events.PrincipalSelf},
	}
	channels := begun()
	channels.Agent = "solo"
	for _, tc := range []struct {
		name  string
		round RoundFacts
		req   RoundEndRequest
		want  string
	}{
		{"control: its own", own, RoundEndRequest{Self: true, Agent: "solo"}, "round.ended"},
		{"another agent's", own, RoundEndRequest{Self: true, Agent: "alice"}, "no_round"},
		{"one that a channel began for it", channels, RoundEndRequest{Self: true, Agent: "solo"}, "no_round"},
		{"a channel, an agent's own", own, RoundEndRequest{Channel: "terminal"}, "no_round"},
		{"a channel without a name", own, RoundEndRequest{}, "no_round"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.req.Round, tc.req.HandleHash, tc.req.End = "R5", handle, events.RoundCompleted
			if got := outcome(EndRound(tc.req, tc.round)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// The linter refuses what would let an agent go on with what a guest asked for.
func TestNoChannelServesASelfishAgent(t *testing.T) {
	for name, agents := range map[string][]string{"by name": {"solo"}, "with all others": {"*"}} {
		c := sample()
		selfish(&c)
		terminal := c.Channels["terminal"]
		terminal.Agents = agents
		c.Channels["terminal"] = terminal
		if _, err := Compile(c); err == nil || !strings.Contains(err.Error(), "agents.solo.self_rounds") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A call in a round that the agent began by itself: the longtime profile decides,
// private tools are not for it, and it ends with the catalog's word.
func TestCallsInSelfRounds(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*Catalog, *CallFacts)
		want string
	}{
		{"control", func(*Catalog, *CallFacts) {}, "allow  "},
		{"no longtime profile", func(_ *Catalog, f *CallFacts) { f.Agent.Longtime = "" }, "deny profile profile"},
		{"a private tool", func(c *Catalog, _ *CallFacts) { c.Tools = map[string]Tool{"file.write": {Private: true}} }, "deny baseline private"},
		{"a policy for the kind", func(c *Catalog, _ *CallFacts) {
			c.Principals.Kinds = map[events.PrincipalKind]Policy{events.PrincipalSelf: {Deny: []Rule{{Tool: "file.write"}}}}
		}, "deny principal deny"},
		{"a policy for the agent as who talks", func(c *Catalog, _ *CallFacts) {
			c.Principals.IDs = map[string]Policy{"solo": {Deny: []Rule{{Tool: "file.write"}}}}
		}, "deny principal deny"},
		{"the catalog does not say so any more", func(c *Catalog, _ *CallFacts) { c.Agents["solo"] = Agent{Role: "worker", Key: key(9)} }, "deny principal self"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, f := sample(), facts()
			selfish(&c)
			f.Round.Agent, f.Round.Channel, f.Round.Session = "solo", "", ""
			f.Round.Principal = events.Principal{ID: "solo", Kind: events.PrincipalSelf}
			tc.edit(&c, &f)
			req := request("file.write", "a")
			req.Agent = "solo"
			if got := verdict(DecideCall(compiled(t, func(x *Catalog) { *x = c }), req, f).Decided); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}
