package main

// gatekeeper are the mutants of what people decide about beside single calls.
var gatekeeper = []mutant{
	// Assets, approvers, and what people are told.
	{
		name: "second-grace", means: "every version of a reversible tool runs for seven days",
		file: "policy/asset/asset.go", old: "tier == events.Reversible && !f.Met:", new: "tier == events.Reversible:",
		pkg: "./policy/asset", test: "TestLifeOfAnAsset",
	},
	{
		name: "grace-by-timer", means: "an asset whose time is over runs until a timer has noticed",
		file: "policy/asset/asset.go", old: "f.State == events.AssetStateProvisional && !Over(f, m.Now):", new: "f.State == events.AssetStateProvisional:",
		pkg: "./policy/asset", test: "TestFirstCalls",
	},
	{
		name: "tool-lowers-itself", means: "a tool that was met as more than read_only runs without an asset once it says that it only reads",
		file: "policy/asset/asset.go", old: "if f.Met && f.State != events.AssetStateApproved {", new: "if f.Met && f.State == events.AssetStateApproved {",
		pkg: "./policy/asset", test: "TestFirstCalls",
	},
	{
		name: "raised-runs-on", means: "what was approved runs on after its tier rose",
		file: "policy/asset/asset.go", old: "\tif runs && rank(tier) > rank(f.Tier) {", new: "\tif runs && rank(tier) < rank(f.Tier) {",
		pkg: "./policy/asset", test: "TestFirstCalls",
	},
	{
		name: "assets-unasked", means: "whatever offers a tool runs",
		file: "policy/tool.go", old: "\tcase !g.asset.Runs:", new: "\tcase false:",
		pkg: "./handlers/engine", test: "TestAssetApprovedManyTimesAtOnce",
	},
	{
		name: "asset-unseen", means: "an asset is approved that nobody has looked at",
		file: "policy/asset.go", old: "\tcase act.Shown != act.Now:", new: "\tcase false:",
		pkg: "./handlers/engine", test: "TestWhoDecidesAboutAssets",
	},
	{
		name: "privileged-runs-at-once", means: "calls of a privileged tool do not wait where the catalog says nothing",
		file: "policy/review.go", old: "if g.tier == events.Privileged && g.c.catalog", new: "if false && g.c.catalog",
		pkg: "./policy", test: "TestPrivilegedCallsWait",
	},
	{
		name: "one-person-twice", means: "one approver is two",
		file: "policy/review.go", old: "counts && string(f.First) == act.By.ID", new: "false",
		pkg: "./policy", test: "TestTwoApprovers",
	},
	{
		name: "half-approval-of-another", means: "the second approver approves what the first did not see",
		file: "policy/review.go", old: "f.First != \"\" && f.FirstShown == act.Shown", new: "f.First != \"\"",
		pkg: "./policy", test: "TestTwoApprovers",
	},
	{
		name: "each-repeat-told", means: "ten thousand blocked attempts are ten thousand messages",
		file: "projections/alerts.go", old: "if found && !last.Over(f.rec.Time) {", new: "if found && last.Over(f.rec.Time) {",
		pkg: "./projections", test: "TestAlertsCollapse",
	},
	{
		name: "told-to-one-told-to-all", means: "an alert that one destination has got counts as told to the others",
		file: "projections/alerts.go", old: "withSeq(listKey(viewAlertTold, to), alert)", new: "withSeq(listKey(viewAlertTold, to[:0]), alert)",
		pkg: "./handlers/outbox", test: "TestRepeatsAreAHandful",
	},

	// Servers whose tools are offered.
	{
		name: "server-unapproved", means: "a server is started that nobody approved",
		file: "handlers/upstream/manager.go", old: "case row.State != events.AssetStateApproved:", new: "case row.State == events.AssetStateRefused:",
		pkg: "./handlers/upstream", test: "TestOnlyWhatIsApproved",
	},
	{
		name: "server-changes", means: "a server goes on running though the catalog starts it otherwise",
		file: "handlers/upstream/manager.go", old: "return s.version == t.version && s.phase", new: "return s.phase",
		pkg: "./handlers/upstream", test: "TestOnlyWhatIsApproved",
	},
	{
		name: "server-phase", means: "a server is not started anew for phase 1",
		file: "handlers/upstream/manager.go", old: "s.phase == t.phase && s.server", new: "s.server",
		pkg: "./handlers/upstream", test: "TestPhases",
	},
	{
		name: "last-tool-wins", means: "of two tools of one name one is offered",
		file: "handlers/upstream/runner.go", old: "case times[t.Name] > 1:", new: "case times[t.Name] > 2:",
		pkg: "./handlers/upstream", test: "TestOffers",
	},
	{
		name: "untrusted-hints", means: "what a server says of its tools lowers their tier though nobody trusts it",
		file: "policy/upstream/server.go", old: "case !trusted:", new: "case !trusted && h.ReadOnly == nil:",
		pkg: "./policy/upstream", test: "TestTier",
	},
	{
		name: "launch-without-env", means: "other variables of a server are not another version",
		file: "policy/upstream/server.go", old: "}{s.Command, s.Env, s.ReadOnlyEnv, s.Secrets}", new: "}{s.Command, nil, s.ReadOnlyEnv, s.Secrets}",
		pkg: "./policy/upstream", test: "TestLaunch",
	},
	{
		name: "offered-anew", means: "a call that was approved runs as a tool that was offered since",
		file: "handlers/engine/staged.go", old: "case now.Digest != k.Tool.Digest:", new: "case false:",
		pkg: "./handlers/engine", test: "TestToolIsOfferedAnew",
	},
	{
		name: "approved-for-nobody", means: "a call is released while the server of its tool does not run, and its approval is used up",
		file: "handlers/engine/staged.go", old: "if kept && k.Tool.Tool == (absent{}) {", new: "if false {",
		pkg: "./handlers/engine", test: "TestServerComesLater",
	},
	{
		name: "others-tools", means: "an owner offers a tool in another's name",
		file: "handlers/tools/tools.go", old: "err != nil || key.Owner != owner {", new: "err != nil {",
		pkg: "./handlers/tools", test: "TestOffer",
	},
	{
		name: "server-environment", means: "a server gets the engine's environment",
		file: "infra/mcpclient/client.go", old: "c.cmd.Env, c.cmd.Dir, c.cmd.Stderr = l.Env,", new: "c.cmd.Env, c.cmd.Dir, c.cmd.Stderr = append(c.cmd.Environ(), l.Env...),",
		pkg: "./infra/mcpclient", test: "TestEnvironment",
	},

	// What agents propose.
	{
		name: "propose-off", means: "agents propose though the catalog does not let them",
		file: "policy/tool.go", old: "&& !g.c.Proposals().On() {", new: "&& g.c == nil {",
		pkg: "./policy", test: "TestMayPropose",
	},
	{
		name: "proposed-runs", means: "what an agent proposed is not blocked",
		file: "policy/asset.go", old: "Tier: events.Privileged, State: events.AssetStateBlocked,", new: "Tier: events.Privileged, State: events.AssetStateApproved,",
		pkg: "./policy", test: "TestProposeAsset",
	},
	{
		name: "proposed-again", means: "what was refused can be proposed anew",
		file: "policy/asset.go", old: "\tcase f.Asset != \"\":\n\t\treturn nil, Proposed(f)\n", new: "",
		pkg: "./policy", test: "TestProposeAsset",
	},
	{
		name: "proposed-unread", means: "a commit that holds something else is put on record",
		file: "handlers/tools/propose/propose.go", old: "err == nil && string(got) != f.Content", new: "err == nil && string(got) == \"\"",
		pkg: "./handlers/tools/propose", test: "TestRefused",
	},
	{
		name: "propose-secret", means: "a secret is committed",
		file: "handlers/tools/propose/propose.go", old: "_, secret := t.cfg.Mask(text); secret", new: "_, secret := t.cfg.Mask(text); secret && most == 0",
		pkg: "./handlers/tools/propose", test: "TestDecode",
	},
	{
		name: "installs-all", means: "a version that nobody approved is loaded",
		file: "handlers/install/install.go", old: "if row.State == events.AssetStateApproved {", new: "if row.State != events.AssetStateRefused {",
		pkg: "./handlers/install", test: "TestOnlyWhatIsApproved",
	},
	{
		name: "installs-over", means: "what was changed by hand after the approval is loaded",
		file: "handlers/install/folder.go", old: "return err == nil && bytes.Equal(got, want)", new: "return err == nil && len(got) == len(bytes.Clone(want))",
		pkg: "./handlers/install", test: "TestByHand",
	},
	{
		name: "installs-through-links", means: "an approved file is written through a planted link",
		file: "handlers/install/folder.go", old: "info.Mode().IsRegular() && info.Size() == int64(len(want)) && f.holds(name, want)", new: "f.holds(name, want)",
		pkg: "./handlers/install", test: "TestByHand",
	},
}
