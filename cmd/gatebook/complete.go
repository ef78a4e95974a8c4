package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"gatebook/handlers/tools/workspace"
	"gatebook/infra/config"
	"gatebook/policy"
)

// Words of the catalog file for the shell to complete.

func agentsOf(c policy.Catalog) []string   { return sorted(c.Agents) }
func rolesOf(c policy.Catalog) []string    { return sorted(c.Roles) }
func channelsOf(c policy.Catalog) []string { return sorted(c.Channels) }

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

// words reads the catalog file; a file that is missing or broken is empty.
func (a *App) words(of func(policy.Catalog) []string) []string {
	var c policy.Catalog
	if dir, err := a.folder(); err == nil {
		c, _, _ = config.Load(dir.Catalog(), toolNames(a.Extra)...)
	}
	return of(c)
}
