package eventstest

import (
	"slices"

	"gatebook/events"
)

// Samples are drafts of every kind: for each at least a minimal one, with nothing
// that may be left out, and a full one, with everything set. Their bytes are
// golden: samples are added at the end of a kind's list and never changed.
func Samples() []events.Draft {
	var drafts []events.Draft
	for _, s := range slices.Concat(agentSamples(), roundSamples(), callSamples(), reviewSamples(), engineSamples(), assetSamples()) {
		drafts = append(drafts, s.drafts()...)
	}
	return drafts
}

// sample is one kind's events: a minimal one and full ones.
type sample struct {
	agent   events.AgentID
	minimal events.Event
	full    []events.Event
}

func (s sample) drafts() []events.Draft {
	drafts := []events.Draft{Draft(1, s.agent, s.minimal)}
	for i, e := range s.full {
		d := Draft(2+i, s.agent, e)
		d.Actor = [...]events.Actor{
			{Kind: events.ActorPerson, ID: "ada"}, {Kind: events.ActorAgent, ID: "alice"}, {Kind: events.ActorChannel, ID: "chat"},
		}[i%3]
		d.Cause = ID[events.EventID](1)
		d.Catalog = Digest(1)
		d.Trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		drafts = append(drafts, d)
	}
	return drafts
}

const agent events.AgentID = "alice"

// sealed is what a personal field looks like once it is sealed.
func sealed() events.Personal {
	return events.Personal{Enc: events.Sealed{KeyID: "k1", Nonce: "bm9uY2U=", Ciphertext: "Y2lwaGVydGV4dA=="}}
}

// odd is text that needs escaping somewhere: a quotation mark, a backslash, a line
// break, a tab, an escape character, HTML, a line separator, a bidirectional
// override, a letter outside ASCII and one outside the basic plane.
const odd = "a \"b\" \\ c\n\t\x1b[31m <&> \u2028 \u202e é 𝄞"

func mac(n int) events.MAC { return events.MAC(Digest(n)) }

func agentSamples() []sample {
	return []sample{
		{agent, events.AgentEnrolled{Role: "writer", Key: "UA"}, []events.Event{
			events.AgentEnrolled{Role: "writer", Parent: "boss", Runtime: "claude", Key: "UA"},
		}},
		{agent, events.AgentReleased{}, []events.Event{events.AgentReleased{Reason: odd}}},
		{agent, events.ProfileSet{}, []events.Event{events.ProfileSet{Profile: "owner"}}},
		{agent, events.ProfileDefaulted{Round: ID[events.RoundID](3), Asked: "x", Reason: "r"}, []events.Event{
			events.ProfileDefaulted{Round: ID[events.RoundID](3), Asked: odd, Reason: "not declared"},
		}},
		{agent, events.ChildDeclared{Parent: "boss", Call: ID[events.CallID](7)}, []events.Event{
			events.ChildDeclared{Parent: "boss", Call: ID[events.CallID](7), Allow: "reading", Deny: "writes"},
		}},
		{agent, events.ChildRevoked{Parent: "boss", Call: ID[events.CallID](7)}, []events.Event{
			events.ChildRevoked{Parent: "boss", Call: ID[events.CallID](7), Reason: odd},
		}},
		{agent, events.TrashDecided{Entries: 1, Bytes: 2, Age: 3, Size: 4}, []events.Event{
			events.TrashDecided{
				Entries: 6, Bytes: 1 << 40, ByAge: 3, BySize: 2, Again: 1, Others: 1,
				First: ID[events.CallID](7), Last: ID[events.CallID](8), Age: 2_592_000_000_000, Size: 1 << 30,
			},
		}},
		{agent, events.TrashEmptied{Entries: 1, Bytes: 2, Duration: 3}, []events.Event{
			events.TrashEmptied{Entries: 5, Bytes: 1 << 39, Duration: 7, Error: odd},
		}},
		{agent, events.ConversationOpened{Conversation: ID[events.ConversationID](4)}, []events.Event{
			events.ConversationOpened{Conversation: ID[events.ConversationID](4), Channel: "chat", Fresh: true},
		}},
		{agent, events.ConversationClosed{Conversation: ID[events.ConversationID](4)}, []events.Event{
			events.ConversationClosed{Conversation: ID[events.ConversationID](4), Reason: "done"},
		}},
	}
}

func roundSamples() []sample {
	full := events.RoundBegun{
		Round: ID[events.RoundID](3), Conversation: ID[events.ConversationID](4), Channel: "chat",
		HandleHash: Digest(5), Principal: events.Principal{ID: "guest", Kind: events.PrincipalUser},
		Sender: events.Plain(odd), Requested: "guest", Effective: "guest", Task: events.Plain("answer"),
		Model: events.Model{Name: "m-1", Known: "claimed"}, CausedBy: ID[events.RoundID](6), Timeout: 3_600_000_000,
	}
	erasable := full
	erasable.Sender, erasable.Task = sealed(), sealed()
	job := events.RoundBegun{
		Round: ID[events.RoundID](3), Conversation: ID[events.ConversationID](4), HandleHash: Digest(5),
		Principal: events.Principal{ID: "nightly", Kind: events.PrincipalInternal}, Job: "nightly", Timeout: 1,
	}
	return []sample{
		{agent, events.RoundBegun{
			Round: ID[events.RoundID](3), Conversation: ID[events.ConversationID](4), HandleHash: Digest(5),
			Principal: events.Principal{ID: "engine", Kind: events.PrincipalInternal}, Timeout: 1,
		}, []events.Event{full, erasable, job}},
		{agent, events.RoundTainted{Round: ID[events.RoundID](3), Call: ID[events.CallID](7)}, []events.Event{
			events.RoundTainted{Round: ID[events.RoundID](3), Call: ID[events.CallID](7)},
		}},
		{agent, events.RoundEnded{Round: ID[events.RoundID](3), End: events.RoundCompleted}, []events.Event{
			events.RoundEnded{Round: ID[events.RoundID](3), End: events.RoundFailed, Reason: odd},
		}},
	}
}

func callSamples() []sample {
	return []sample{
		{agent, events.CallDecided{
			Call: ID[events.CallID](7), Tool: events.ToolKey{Owner: "builtin", Name: "file.read"}, Verdict: events.Allow,
		}, []events.Event{decided(events.Plain(odd)), decided(sealed()), granted(), ofChild(), staged(), touching()}},
		{agent, events.CallReleased{Call: ID[events.CallID](7), Round: ID[events.RoundID](3)}, []events.Event{
			events.CallReleased{Call: ID[events.CallID](7), Round: ID[events.RoundID](3)},
			events.CallReleased{
				Call: ID[events.CallID](7), Round: ID[events.RoundID](3), Review: ID[events.ReviewID](6), Tier: events.Reversible, Profile: "work",
				Facts: events.CallFacts{
					Phase: 2, Role: "worker", RoleVersion: 4, SessionProfile: "owner", LongtimeProfile: "base", RoundOpen: true, HandleMatched: true,
					Used: 1, ChildAllow: "reading", ChildDeny: "writes", Ancestors: "boss (role planner, longtime work, left -, denied -)",
					CausedBy: ID[events.RoundID](6), CreateOnly: true, Staged: 1, SameStaged: ID[events.CallID](5), NoRoom: true,
				},
			},
		}},
		{agent, events.CallCompleted{
			Call: ID[events.CallID](7), Round: ID[events.RoundID](3), Status: events.StatusOK, Executor: events.ByEngine,
		}, []events.Event{completed(events.Plain(odd)), completed(sealed())}},
		{agent, events.UsageRecorded{
			Round: ID[events.RoundID](3), Message: "msg_1", Source: events.ActorAgent, Known: "claimed",
		}, []events.Event{
			events.UsageRecorded{
				Round: ID[events.RoundID](3), Message: odd, Model: "m-1", Source: events.ActorChannel, Known: "claimed",
				Tokens: events.Tokens{
					Input: events.AmountOf(27), CachedInput: events.AmountOf(events.MaxAmount),
					CacheWrite: events.AmountOf(10), Output: events.AmountOf(47),
				},
				Cost: events.AmountOf(1_500_000), Currency: "EUR",
			},
			events.UsageRecorded{
				Round: ID[events.RoundID](3), Message: "msg_2", Model: "m-2", Source: events.ActorAgent, Known: "claimed",
				Tokens: events.Tokens{Input: events.AmountOf(900), CachedInput: events.AmountOf(0)}, Currency: "EUR",
			},
		}},
	}
}

func decided(text events.Personal) events.CallDecided {
	return events.CallDecided{
		Call: ID[events.CallID](7), Round: ID[events.RoundID](3), Conversation: ID[events.ConversationID](4),
		Step: 2, Key: "k-1", Tool: events.ToolKey{Owner: "mcp", Name: "deploy"}, Definition: Digest(8),
		Arguments: events.Arguments{Text: text, Truncated: true, Redacted: true, Size: 9000, MAC: mac(9), Blob: Digest(10)},
		Verdict:   events.Deny, Layer: events.LayerRole, Rule: "writer/deploy", Reason: "not granted",
		Tier: events.Privileged, Profile: "owner", Principal: events.Principal{ID: "ada", Kind: events.PrincipalUser},
		Asset: "mcp:deploy", Reserved: 1_500_000,
		Facts: events.CallFacts{
			Phase: 2, Role: "writer", RoleVersion: 3, SessionProfile: "owner", LongtimeProfile: "base",
			RoundOpen: true, HandleMatched: true,
		},
	}
}

// granted is a call that a grant with limits covers.
func granted() events.CallDecided {
	return events.CallDecided{
		Call: ID[events.CallID](7), Round: ID[events.RoundID](3), Conversation: ID[events.ConversationID](4),
		Step: 2, Tool: events.ToolKey{Owner: "builtin", Name: "file.write"}, Verdict: events.Allow, Tier: events.Reversible,
		Facts: events.CallFacts{Phase: 2, Used: 3, CreateOnly: true},
	}
}

// staged is a call that cannot wait for a person as well.
func staged() events.CallDecided {
	d := granted()
	d.Verdict, d.Layer, d.Rule, d.Reason = events.Deny, events.LayerStaging, "same", "waits already"
	d.Facts = events.CallFacts{Phase: 2, Staged: 20, SameStaged: ID[events.CallID](5), NoRoom: true}
	return d
}

// touching is a call of two paths.
func touching() events.CallDecided {
	d := granted()
	d.Arguments.Paths = "notes/a.md\nnotes/b.md"
	return d
}

// ofChild is a call of a child in a round that a round of its parent caused.
func ofChild() events.CallDecided {
	d := granted()
	d.Facts = events.CallFacts{Phase: 2, ChildAllow: "reading", ChildDeny: "writes", Ancestors: "boss (role planner, longtime work, left -, denied -)", CausedBy: ID[events.RoundID](6)}
	return d
}

func completed(preview events.Personal) events.CallCompleted {
	return events.CallCompleted{
		Call: ID[events.CallID](7), Round: ID[events.RoundID](3), Status: events.StatusDenied,
		Layer: events.LayerReview, Rule: "review", Reason: "no", Duration: 1500,
		Result: events.Result{
			Size: 12, MAC: mac(11), Preview: preview, Redacted: true, Truncated: true, Blob: Digest(12),
		},
		Error: odd, Executor: events.ByClient,
	}
}

func reviewSamples() []sample {
	review, call := ID[events.ReviewID](6), ID[events.CallID](4)
	return []sample{
		{agent, events.ReviewRequested{Review: review, Call: call, Round: ID[events.RoundID](3), MAC: events.MAC(Digest(1)), Expires: Time(9)}, []events.Event{
			events.ReviewRequested{Review: review, Call: call, Round: ID[events.RoundID](5), MAC: events.MAC(Digest(2)), Expires: Time(99)},
		}},
		{agent, events.ReviewApproved{Review: review, Call: call, MAC: events.MAC(Digest(1)), Shown: Digest(1)}, []events.Event{
			events.ReviewApproved{Review: review, Call: call, MAC: events.MAC(Digest(2)), Definition: Digest(4), Shown: Digest(2), Base: Digest(3)},
			events.ReviewApproved{Review: review, Call: call, MAC: events.MAC(Digest(2)), Shown: Digest(2), Via: "telegram"},
			events.ReviewApproved{Review: review, Call: call, MAC: events.MAC(Digest(2)), Shown: Digest(2), More: 1},
		}},
		{agent, events.ReviewRefused{Review: review, Call: call, MAC: events.MAC(Digest(1))}, []events.Event{
			events.ReviewRefused{Review: review, Call: call, MAC: events.MAC(Digest(2)), Reason: odd},
			events.ReviewRefused{Review: review, Call: call, MAC: events.MAC(Digest(2)), Reason: "no", Via: "telegram"},
		}},
		{agent, events.ReviewExpired{Review: review, Call: call}, []events.Event{
			events.ReviewExpired{Review: review, Call: ID[events.CallID](5)},
		}},
		{agent, events.ReviewCancelled{Review: review, Call: call, Reason: "r"}, []events.Event{
			events.ReviewCancelled{Review: review, Call: call, Rule: "released", Reason: odd},
		}},
	}
}

func engineSamples() []sample {
	return []sample{
		{"", events.EngineStarted{Incarnation: ID[events.Incarnation](0), Version: "v0"}, []events.Event{
			events.EngineStarted{Incarnation: ID[events.Incarnation](0), Version: "v1.2.3", After: 1 << 53},
		}},
		{"", events.CatalogLoaded{Digest: Digest(1), Size: 1}, []events.Event{
			events.CatalogLoaded{Digest: Digest(1), Size: 4096, ApprovedBy: "ada", Widens: true},
		}},
		{"", events.PhaseChanged{Phase: 1}, []events.Event{events.PhaseChanged{Phase: 3}}},
		{"", events.ClockJumped{From: Time(1), Wall: Time(2)}, []events.Event{
			events.ClockJumped{From: Time(1), Wall: Time(2), Accepted: true},
		}},
		{"", events.AlertRaised{Alert: "a", Reason: "r"}, []events.Event{
			events.AlertRaised{Alert: "disk", Of: "data folder", Reason: odd},
		}},
		{"", events.AlertDelivered{Alert: ID[events.EventID](1), To: "ops"}, []events.Event{
			events.AlertDelivered{Alert: ID[events.EventID](1), To: odd},
			events.AlertDelivered{Alert: ID[events.EventID](1), To: "ops", Part: 1, Failed: odd},
		}},
		{"", events.JobRan{Job: "scrub"}, []events.Event{events.JobRan{Job: "scrub", Duration: 7, Error: odd}}},
		{"", events.JobMissed{Job: "scrub", Due: Time(3)}, []events.Event{events.JobMissed{Job: "scrub", Due: Time(4)}}},
		{"", events.IntakeRefused{Reason: "busy", Count: 1, Second: Time(3)}, []events.Event{
			events.IntakeRefused{Reason: odd, Count: 1 << 62, Second: Time(4)},
		}},
		{"", events.AccessRefused{Account: "AGENTS", Client: "c", Action: "publish", Subject: "ev.>", Count: 1}, []events.Event{
			events.AccessRefused{Account: "AGENTS", Client: odd, Action: "subscribe", Subject: "*", Count: 2},
		}},
		{"", events.SubjectErased{KeyID: "k1"}, []events.Event{events.SubjectErased{KeyID: "k1"}}},
	}
}

func assetSamples() []sample {
	id := ID[events.AssetID](6)
	return []sample{
		{"", events.AssetRegistered{
			Asset: id, Type: events.AssetTool, Owner: "mailer", Name: "send", Version: Digest(1), Tier: events.Privileged, State: events.AssetStateBlocked,
		}, []events.Event{
			events.AssetRegistered{
				Asset: id, Type: events.AssetTool, Owner: "mailer", Name: odd, Version: Digest(2), Tier: events.Reversible,
				State: events.AssetStateProvisional, Expires: Time(99), Call: ID[events.CallID](4),
			},
			events.AssetRegistered{
				Asset: id, Type: "skill", Owner: "alice", Name: "tidy", Version: Digest(2), Tier: events.Privileged, State: events.AssetStateBlocked,
				Call: ID[events.CallID](4), Commit: "4f0c2d0f7a2d8f4a3f3b0f8f9c1d2e3f4a5b6c7d", Document: "skills/tidy.md",
			},
			events.AssetRegistered{
				Asset: id, Type: "skill", Owner: "alice", Name: "tidy", Version: Digest(2), Tier: events.Privileged, State: events.AssetStateBlocked,
				Call: ID[events.CallID](4), Commit: "4f0c2d0f7a2d8f4a3f3b0f8f9c1d2e3f4a5b6c7d", Document: "skills/tidy.md", Text: Digest(4),
			},
		}},
		{"", events.AssetApproved{Asset: id, Version: Digest(1), Shown: Digest(3)}, []events.Event{
			events.AssetApproved{Asset: id, Version: Digest(1), Shown: Digest(3), Replaces: ID[events.AssetID](5)},
		}},
		{"", events.AssetRefused{Asset: id}, []events.Event{events.AssetRefused{Asset: id, Reason: odd}}},
		{"", events.AssetExpired{Asset: id}, []events.Event{events.AssetExpired{Asset: id}}},
		{"", events.AssetRetiered{Asset: id, Tier: events.Privileged, State: events.AssetStateBlocked}, []events.Event{
			events.AssetRetiered{Asset: id, Tier: events.Reversible, State: events.AssetStateApproved},
		}},
	}
}
