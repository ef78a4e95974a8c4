package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gatebook/handlers/tools/workspace"
	"gatebook/infra/config"
	"gatebook/policy"
	"gatebook/projections"
)

// Words of the catalog file for the shell to complete.

func agentsOf(c policy.Catalog) []string   { return sorted(c.Agents) }
func rolesOf(c policy.Catalog) []string    { return sorted(c.Roles) }
func channelsOf(c policy.Catalog) []string { return sorted(c.Channels) }

// principalsOf are those that the catalog knows: of channels, with their guests, of
// jobs, and of policies.
func principalsOf(c policy.Catalog) []string {
	all := sorted(c.Principals.IDs)
	for id, ch := range c.Channels {
		all = append(all, string(id)+"-guest")
		for _, s := range ch.Senders {
			all = append(all, s.Principal)
		}
	}
	for id := range c.Jobs {
		all = append(all, id+"-job")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// these are words that no catalog changes.
func these(words func() []string) func(policy.Catalog) []string {
	return func(policy.Catalog) []string { return words() }
}

func profilesOf(c policy.Catalog) []string { return append(sorted(c.Profiles), policy.NoProfile) }

// toolsOf are the tools that an engine of this program has; the catalog may name
// some that are not there yet.
func (a *App) toolsOf(policy.Catalog) []string {
	names := toolNames(registered(workspace.New(a.flags.dir), nil, nil, a.Extra))
	slices.Sort(names)
	return names
}

func sorted[K ~string, V any](m map[K]V) []string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, string(k))
	}
	return all
}

// complete offers words for the first argument, the second, and so on.
func (a *App) complete(words ...func(policy.Catalog) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(given) >= len(words) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.words(words[len(given)]), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag offers words for a flag of cmd, which has it.
func (a *App) completeFlag(cmd *cobra.Command, flag string, words func(policy.Catalog) []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.words(words), cobra.ShellCompDirectiveNoFileComp
	})
}

// completeNothing keeps the shell from offering the names of files for flags that
// take none.
func completeNothing(cmd *cobra.Command, flags ...string) {
	for _, flag := range flags {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	}
}

// completeFields offers what is not in the list yet.
func completeFields(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	at := strings.LastIndexByte(typed, ',') + 1
	var words []string
	for _, f := range projections.Fields() {
		if !slices.Contains(strings.Split(typed[:at], ","), string(f)) {
			words = append(words, typed[:at]+string(f))
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// words reads the catalog file; a file that is missing or broken is empty.
func (a *App) words(of func(policy.Catalog) []string) []string {
	var c policy.Catalog
	if dir, err := a.folder(); err == nil {
		c, _, _ = config.Load(dir.Catalog(), toolNames(a.Extra)...)
	}
	return of(c)
}
