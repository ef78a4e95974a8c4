package main

import "slices"

// mutant is a small change that a test must see.
type mutant struct {
	name  string
	means string // what the product would do
	file  string // from the root of the repository
	// old stands in the file exactly once; new takes its place.
	old, new string
	pkg      string
	test     string // pattern of the test that must go red
}

// table is every mutant there is.
var table = slices.Concat(gate, gatekeeper)

// gate are those of the rules of calls, those of one package beside each other.
var gate = []mutant{
	// Profiles and rounds.
	{
		name: "shared-view-of-agent", means: "the rounds of one agent share a session profile",
		file: "handlers/engine/call.go", old: "\tf.Round = roundFacts(round)\n",
		new: `	f.Round = roundFacts(round)
	if page, err := projections.Rounds(c.tx, projections.RoundFilter{Agent: k.Request.Agent, OpenOnly: true, Limit: 1}); err == nil && len(page.Rows) > 0 {
		f.Round.Session = page.Rows[0].Session
	}
`, pkg: "./handlers/engine", test: "TestProfilesOfConversationsNeverCross",
	},
	{
		name: "shared-view-of-all", means: "the rounds of all agents share a session profile",
		file: "handlers/engine/call.go", old: "\tf.Round = roundFacts(round)\n",
		new: `	f.Round = roundFacts(round)
	if page, err := projections.Rounds(c.tx, projections.RoundFilter{OpenOnly: true, Limit: 1}); err == nil && len(page.Rows) > 0 {
		f.Round.Session = page.Rows[0].Session
	}
`, pkg: "./handlers/engine", test: "TestProfilesOfAgentsNeverCross",
	},
	{
		name: "create-only-not-passed", means: "a tool does not hear that it may replace nothing",
		file: "handlers/engine/runner.go", old: "CreateOnly: d.Facts.CreateOnly", new: "CreateOnly: false",
		pkg: "./handlers/engine", test: "TestCreateOnlyReachesTheTool",
	},
	{
		name: "release-keeps-rounds", means: "the rounds of a released agent stay open",
		file: "handlers/engine/admin.go", old: "closeReleased{agent}, endReviews{agent: agent})", new: "endReviews{agent: agent})",
		pkg: "./handlers/engine", test: "TestReleaseForgetsBothProfiles",
	},
	{
		name: "release-keeps-longtime", means: "a released agent keeps its longtime profile",
		file: "projections/agents.go", old: "f.agent.Released, f.agent.Longtime = true, \"\"", new: "f.agent.Released = true",
		pkg: "./handlers/engine", test: "TestReleaseForgetsBothProfiles",
	},
	{
		name: "longtime-not-kept", means: "the end of a round takes the longtime profile away",
		file: "projections/rounds.go", old: "\tf.agent.OpenRounds--\n", new: "\tf.agent.OpenRounds--\n\tf.agent.Longtime = \"\"\n",
		pkg: "./handlers/engine", test: "TestLongtimeProfileIsKept",
	},
	{
		name: "end-does-not-clear", means: "the session profile of a round that ended counts in the next one",
		file: "projections/rounds.go", old: "\tf.agent.OpenRounds--\n", new: "\tf.agent.OpenRounds--\n\tf.agent.Longtime = round.Session\n",
		pkg: "./handlers/engine", test: "TestEveryEndClearsTheSessionProfile",
	},
	{
		name: "ended-round-goes-on", means: "calls are allowed in a round that ended",
		file: "policy/call.go", old: "if !g.facts.Round.Open && !g.release {", new: "if false {",
		pkg: "./handlers/engine", test: "TestEveryEndClearsTheSessionProfile",
	},
	{
		name: "call-without-round", means: "a call that names no round is not asked for one",
		file: "policy/call.go", old: "\tfor _, l := range gateLayers {\n\t\tfor _, question",
		new: "\tfor _, l := range gateLayers {\n\t\tif l.layer == events.LayerRound && g.req.Round == \"\" {\n\t\t\tcontinue\n\t\t}\n\t\tfor _, question",
		pkg: "./handlers/engine", test: "TestNoCallWithoutARound",
	},
	{
		name: "handle-ignored", means: "the id of a round is enough to call in it",
		file: "policy/call.go", old: "g.matched = mine && sameHandle(req.HandleHash, f.Round.HandleHash)", new: "g.matched = mine",
		pkg: "./policy", test: "TestForeignRoundsLearnAndTakeNothing",
	},
	{
		name: "undeclared-longtime", means: "a longtime profile may be one that is not declared",
		file: "policy/enrolment.go", old: "!declared && profile != \"\"", new: "!declared && false",
		pkg: "./policy", test: "TestWhatPeopleMayDo",
	},
	{
		name: "undeclared-session", means: "a session profile that is not declared is taken as it is",
		file: "policy/round.go", old: undeclared, new: "return asked, \"\"",
		pkg: "./policy", test: "TestWhoTalks",
	},
	{
		name: "misspelling-keeps-profile", means: "asking for a misspelt profile gives the one that the sender had before",
		file: "policy/round.go", old: undeclared, new: "return most, \"\"",
		pkg: "./handlers/engine", test: "TestUnknownSessionProfileIsNone",
	},
	{
		name: "requested-ignored", means: "who asks for less gets the most that can be asked for",
		file: "policy/round.go", old: "\treturn asked, \"\"\n}", new: "\treturn most, \"\"\n}",
		pkg: "./policy", test: "TestWhoTalks",
	},
	{
		name: "precedence-swapped", means: "the longtime profile covers that of the session",
		file: "policy/call.go", old: "name := session\n\tif name == \"\" {\n\t\tname = longtime", new: "name := longtime\n\tif name == \"\" {\n\t\tname = session",
		pkg: "./policy", test: "TestSessionCoversLongtime",
	},

	// Who talks.
	{
		name: "guest-is-mapped", means: "somebody unknown is taken for a sender of the catalog",
		file: "policy/round.go", old: "if s, ok := ch.Senders[sender]; ok {", new: "for _, s := range ch.Senders {",
		pkg: "./policy", test: "TestWhoTalks",
	},
	{
		name: "guest-is-internal", means: "a guest of a channel counts as the engine itself",
		file: "policy/round.go", old: "Kind: kind}, orNone(", new: "Kind: cmp.Or(events.PrincipalInternal, kind)}, orNone(",
		pkg: "./policy", test: "TestWhoTalks",
	},

	// Rules.
	{
		name: "baseline-skipped", means: "what the baseline denies is not looked at",
		file: "policy/call.go", old: "refuseBaseline, refuseContent,", new: "refuseContent,",
		pkg: "./policy", test: "TestDenyWinsInEveryOrder",
	},
	{
		name: "content-skipped", means: "content rules are not looked at",
		file: "policy/call.go", old: "refuseBaseline, refuseContent,", new: "refuseBaseline,",
		pkg: "./policy", test: "TestContentRules",
	},
	{
		name: "private-ignored", means: "private tools are for everybody",
		file: "policy/call.go", old: ", refusePrivate}", new: "}",
		pkg: "./policy", test: "TestPrivateToolsAreForTheEngineItself",
	},
	{
		name: "principal-skipped", means: "the policies for who talks are not looked at",
		file: "policy/call.go", old: "{refusePrincipal}", new: "{}",
		pkg: "./policy", test: "TestPrincipalPolicies",
	},
	{
		name: "profile-deny-ignored", means: "what a profile allows wins over what it denies",
		file: "policy/call.go", old: "profile.deny.denial(g); l != nil {", new: "profile.deny.denial(g); l != nil && false {",
		pkg: "./policy", test: "TestDenyWinsInEveryOrder",
	},
	{
		name: "exact-by-prefix", means: "an exact grant takes arguments that only begin like its own",
		file: "policy/rule.go", old: "len(l.Exact) > 0 && !bytes.Equal(l.Exact, g.req.Args):",
		new: "len(l.Exact) > 0 && !bytes.HasPrefix(g.req.Args, l.Exact[:len(l.Exact)-1]):",
		pkg: "./policy", test: "TestGrantLimits",
	},
	{
		name: "paths-by-any", means: "one path that is granted is enough, whatever the other ones are",
		file: "policy/rule.go", old: "return len(list) > 0 && !slices.ContainsFunc(list, outside)",
		new: "return slices.ContainsFunc(list, func(p paths.Path) bool { return !outside(p) })",
		pkg: "./policy", test: "TestEveryPathMustBeGranted",
	},
	{
		name: "max-per-round-off-by-one", means: "a round has one call more than it may",
		file: "policy/rule.go", old: ">= int64(l.MaxPerRound)", new: "> int64(l.MaxPerRound)",
		pkg: "./policy", test: "TestGrantLimits",
	},

	// Children.
	{
		name: "session-leaks-to-child", means: "a round of a child that its parent did not cause has the profile that the parent's round has",
		file: "policy/child.go", old: "\t\tup.facts.Round.Session = \"\" // it is not a round of its own\n", new: "",
		pkg: "./policy", test: "TestChildRights",
	},
	{
		name: "cleared-longtime-lives-on", means: "an agent above counts with a longtime profile that it has not any more",
		file: "policy/child.go", old: "= cause.Principal, cause.Channel, cause.Session", new: "= cause.Principal, cause.Channel, up.facts.Round.Session",
		pkg: "./policy", test: "TestChildRights",
	},
	{
		name: "child-denials-lost", means: "what the parent of an agent above denies that one is not denied below",
		file: "handlers/engine/child.go", old: "ChildDeny: row.ChildDeny,", new: "",
		pkg: "./handlers/engine", test: "TestDenialsReachGrandchildren",
	},
	{
		name: "job-forgotten-by-restart", means: "a job that has run is due again after a restart",
		file: "policy/round.go", old: "} else if at != 0 {", new: "} else if at >= began {",
		pkg: "./handlers/engine", test: "TestJobsOverARestart",
	},
	{
		name: "cause-passes-nothing", means: "a round that a guest's caused has the child's own profile",
		file: "policy/round.go", old: "return principal, c.profileInEffect(f.Cause.Session, f.Causing.Longtime), nil", new: "return principal, \"\", nil",
		pkg: "./policy", test: "TestRoundsOfTheEngine",
	},
	{
		name: "ancestors-skipped", means: "a child is asked nothing of those above it",
		file: "policy/call.go", old: "{refuseAncestors, refuseChildPolicy}", new: "{refuseChildPolicy}",
		pkg: "./policy", test: "TestRightsNeverExceedAnAncestors",
	},
	{
		name: "child-policy-skipped", means: "what a parent leaves its child is not looked at",
		file: "policy/call.go", old: "{refuseAncestors, refuseChildPolicy}", new: "{refuseAncestors}",
		pkg: "./policy", test: "TestChildRights",
	},
	{
		name: "only-the-parent-is-asked", means: "of several agents above only the nearest counts",
		file: "policy/child.go", old: "{\"\", refuseAncestors}, ", new: "",
		pkg: "./policy", test: "TestRightsNeverExceedAnAncestors",
	},
	{
		name: "cause-not-in-conditions", means: "a condition over who talks does not see who talked in the cause",
		file: "policy/child.go", old: "\tup.above, up.seen, up.createOnly = true, nil, false\n", new: "\tup.above, up.createOnly = true, false\n",
		pkg: "./policy", test: "TestConditionsHoldDownTheLine",
	},
	{
		name: "user-of-child-is-user", means: "who talks to a child is taken for a user of an agent of the catalog",
		file: "policy/round.go", old: "\t\tprincipal.Kind = events.PrincipalSubAgent\n", new: "",
		pkg: "./policy", test: "TestRoundsOfTheEngine",
	},
	{
		name: "revoked-child-stays", means: "a revoked child keeps what it had running and open",
		file: "handlers/engine/child.go", old: "\t\t\te.afterRelease(r.Request.Child)\n", new: "",
		pkg: "./cmd/gatebook", test: "TestRevokedChildrenAreGone",
	},
	{
		name: "restore-from-anywhere", means: "a thing is restored from a place that a rule denies",
		file: "handlers/tools/workspace/trash.go", old: "if err := may(original); err != nil {", new: "if err := may(original); false && err != nil {",
		pkg: "./cmd/gatebook", test: "TestOneRuleForEveryTool",
	},
	{
		name: "withdrawn-wish-begins", means: "a round begins that its call has given up",
		file: "handlers/engine/offer.go", old: "if !r.settled.CompareAndSwap(false, true) {\n\t\t\te.offers.putBack", new: "if r.settled.Store(true); false {\n\t\t\te.offers.putBack",
		pkg: "./handlers/engine", test: "TestWithdrawnWish",
	},

	// Calls that wait for a person.
	{
		name: "release-not-asked", means: "the gate is not asked again when a person has approved",
		file: "handlers/engine/staged.go", old: "again = policy.ReleaseCall(c.catalog, k.Request, facts)\n",
		new: "again = events.CallDecided{Call: row.Call, Round: row.Round, Verdict: events.Allow}\n",
		pkg: "./handlers/engine", test: "TestStagedCallDoesNotRun",
	},
	{
		name: "reading-key-approves", means: "the reading key of an approver approves, too",
		file: "policy/review.go", old: "case !c.mayApprove(act.By, act.Approves):", new: "case !c.mayApprove(act.By, true):",
		pkg: "./handlers/engine", test: "TestWhoDecides",
	},
	{
		name: "unseen-approved", means: "what was not seen can be approved",
		file: "policy/review.go", old: "case act.Shown != act.Now:", new: "case false:",
		pkg: "./handlers/engine", test: "TestWhoDecides",
	},
	{
		name: "expired-approved", means: "a review can be approved after its time",
		file: "policy/review.go", old: "f.State == events.ReviewStateOpen && !f.open(now):", new: "f.Expires == 0:",
		pkg: "./policy", test: "TestReviewExpiry",
	},
	{
		name: "child-does-not-wait", means: "a child does at once what the agent above must ask for",
		file: "policy/review.go", old: "range g.facts.Agent.Ancestors {", new: "range g.facts.Agent.Ancestors[:0] {",
		pkg: "./policy", test: "TestWhatWaits",
	},
	{
		name: "wait-before-deny", means: "a content rule that lets wait hides one that denies",
		file: "policy/content.go", old: "case found && !r.stages:", new: "case found && !r.stages && g.found == nil:",
		pkg: "./policy", test: "TestWhatWaits",
	},
	{
		name: "masked-arguments-run", means: "a call runs after a restart with what the book has in the place of a secret",
		file: "policy/review.go", old: "case d.Arguments.Redacted:", new: "case false:",
		pkg: "./handlers/engine", test: "TestStagedOverARestart",
	},
	{
		name: "approved-at-the-start", means: "a start ends a call that a person lets go on meanwhile",
		file: "handlers/engine/start.go", old: "rows[0].Opened() > o.upTo", new: "rows[0].Seq > o.upTo",
		pkg: "./handlers/engine", test: "TestApprovedAtTheStart",
	},
	{
		name: "stale-not-seen", means: "an approved call runs whatever it finds",
		file: "handlers/tools/file/preview.go", old: "if now.base != env.Base {", new: "if false {",
		pkg: "./handlers/tools/file", test: "TestStale",
	},

	// Usage, counts and the trash.
	{
		name: "agent-corrects-channel", means: "an agent changes what a channel reported of its usage",
		file: "policy/usage/usage.go", old: `case same.Source == events.ActorChannel && r.Channel == "":`, new: "case false:",
		pkg: "./policy/usage", test: "TestRecordAgain",
	},
	{
		name: "unpriced-is-free", means: "tokens of a kind without a price cost nothing",
		file: "policy/price/price.go", old: "!k.tokens.Known || k.tokens.N != 0 && !k.rate.Known", new: "!k.tokens.Known",
		pkg: "./policy/price", test: "TestCost",
	},
	{
		name: "usage-counted-twice", means: "a later report of a message is added to the former",
		file: "projections/usage.go", old: "t.Usage = countIn(t.Usage, former, -1)", new: "_ = former",
		pkg: "./projections", test: "TestUsageTotalsEqualTheMessages",
	},
	{
		name: "edge-of-an-hour", means: "a count takes the whole hour that a range of time cuts",
		file: "projections/totals.go", old: "if since != 0 && hourOf(since) != since {", new: "if false {",
		pkg: "./projections", test: "TestTotalsAreTheCalls",
	},
	{
		name: "running-not-counted", means: "a count leaves out the calls that have not ended",
		file: "projections/totals.go", old: "errors.Join(c.count(), c.open())", new: "c.count()",
		pkg: "./projections", test: "TestTotalsAreTheCalls",
	},
	{
		name: "purge-in-place", means: "a kill leaves half an entry of the trash that looks whole",
		file: "handlers/tools/workspace/purge.go", old: `if e.Call != "" && !e.Begun {`, new: "if false {",
		pkg: "./handlers/tools/workspace", test: "TestPurgeKilled",
	},
	{
		name: "moved-too-deep", means: "a folder goes where calls cannot name what is below it",
		file: "handlers/tools/workspace/transfer.go", old: "if depth <= len(components(from)) {", new: "if true {",
		pkg: "./handlers/tools/workspace", test: "TestNothingGetsTooDeep",
	},
	{
		name: "damage-for-the-asker", means: "an engine decides on a book that a rebuild found damaged",
		file: "handlers/views/builder.go", old: "b.cfg.Damaged(err)", new: "_ = err",
		pkg: "./handlers/views", test: "TestOldViewsStay",
	},
	{
		name: "claimed-first", means: "what an agent claimed keeps its channel's report out",
		file: "policy/usage/usage.go", old: `r.Channel != "" && same.Source == events.ActorAgent && same.Round != r.Round`, new: "false",
		pkg: "./policy/usage", test: "TestRecordAgain",
	},
	{
		name: "handle-as-a-key", means: "the book holds the handle of another round",
		file: "handlers/engine/facts.go", old: "if found || err != nil {\n\t\t\t\treturn found, err", new: "if err != nil {\n\t\t\t\treturn found, err",
		pkg: "./handlers/engine", test: "TestNoHandleInTheBook",
	},
	{
		name: "trash-without-a-record", means: "what is due of a trash goes although nothing was decided",
		file: "cmd/gatebook/cleanup.go", old: "errors.Is(err, errNotDecided) {\n\t\t\treturn false",
		new: "errors.Is(err, errNotDecided) {\n\t\t\terr, decided.Entries = nil, entries",
		pkg: "./cmd/gatebook", test: "TestTrashNeedsARecord",
	},
	{
		name: "trash-from-the-young", means: "the youngest of a trash that is too large go first",
		file: "policy/trash/trash.go", old: "cmp.Compare(x.Time, y.Time)", new: "cmp.Compare(y.Time, x.Time)",
		pkg: "./policy/trash", test: "TestChoose",
	},
	{
		name: "old-rows-loaded", means: "of two values of a row the older one gets into the views",
		file: "infra/pebblekv/load.go", old: "cmp.Compare(a.layer, b.layer)", new: "cmp.Compare(b.layer, a.layer)",
		pkg: "./infra/pebblekv", test: "TestCrashClones",
	},
	{
		name: "tombstones-hidden", means: "what was deleted is there again in views that were loaded",
		file: "infra/pebblekv/load.go", old: "opt.WritingToLowestLevel = false", new: "opt.WritingToLowestLevel = true",
		pkg: "./infra/pebblekv", test: "TestLoader",
	},
	{
		name: "rows-unsettled", means: "a transaction does not see what the one before it set",
		file: "projections/store.go", old: "_ = m.tx.settle()", new: "_ = m.tx",
		pkg: "./projections", test: "TestMemo",
	},
	{
		name: "memory-of-the-discarded", means: "rows of a transaction that never was are remembered",
		file: "projections/store.go", old: "\tclear(t.rows)\n\tclear(t.older)\n", new: "",
		pkg: "./projections", test: "TestMemo",
	},

	// What only the rules of the repository see.
	{
		name: "rule-in-a-handler", means: "a handler decides by a profile",
		file: "handlers/engine/call.go", old: "\tf.Agent = agent\n",
		new: "\tf.Agent = agent\n\tif f.Round.Session != \"\" {\n\t\tf.Agent.Longtime = \"\"\n\t}\n",
		pkg: "./scripts", test: "TestHandlers",
	},
}

// undeclared is how an undeclared session profile is answered.
const undeclared = `return NoProfile, "the catalog declares no profile of this name; names are exact, case included"`
