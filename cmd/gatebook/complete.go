package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gatebook/handlers/tools/propose"
	"gatebook/handlers/tools/workspace"
	"gatebook/infra/config"
	"gatebook/policy"
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
	names := toolNames(registered(workspace.New(a.flags.dir), nil, nil, propose.New(propose.Config{}), a.Extra))
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

// completeNoFiles keeps the shell from offering the names of files where none is meant:
// for arguments, and for flags of a command that say nothing themselves.
func completeNoFiles(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.ValidArgsFunction == nil && cmd.Name() != "check" {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if _, own := cmd.GetFlagCompletionFunc(f.Name); !own && f.Name != "cpuprofile" {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions)
			}
		})
		completeNoFiles(cmd)
	}
}

// completeList offers words for a list with commas, but those that are in it already.
func completeList[W ~string](words []W) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		at := strings.LastIndexByte(typed, ',') + 1
		var more []string
		for _, w := range words {
			if !slices.Contains(strings.Split(typed[:at], ","), string(w)) {
				more = append(more, typed[:at]+string(w))
			}
		}
		return more, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// words reads the catalog file; a file that is missing or broken is empty.
func (a *App) words(of func(policy.Catalog) []string) []string {
	var c policy.Catalog
	if dir, err := a.folder(); err == nil {
		c, _, _ = config.Load(dir.Catalog(), toolNames(a.Extra)...)
	}
	return of(c)
}
