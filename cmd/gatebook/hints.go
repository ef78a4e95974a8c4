package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// command is a command line to show to people: it carries the flags that say
// which folders and which person this one is about.
func (a *App) command(rest string) string { return "gatebook" + a.where() + " " + rest }

// theirCommand is a command line for somebody else, with keys of their own.
func (a *App) theirCommand(rest string) string { return "gatebook" + a.whichFolder() + " " + rest }

func (a *App) whichFolder() string {
	if a.flags.dir == ".gatebook" {
		return ""
	}
	return " --dir " + shellWord(a.flags.dir)
}

func (a *App) where() string {
	where := a.whichFolder()
	if a.flags.keys != "" {
		where += " --keys " + shellWord(a.flags.keys)
	}
	if a.flags.as != "" {
		where += " --as " + shellWord(a.flags.as)
	}
	return where
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// shellWord is s as one word of a POSIX shell.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// group is a command that only has subcommands: alone it shows its help, and a
// word that is none of them is a usage error.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if len(given) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, given[0])
	}
	return cmd
}

func unknownCommand(cmd *cobra.Command, word string) error {
	hint := "see " + cmd.CommandPath() + " --help"
	if like := cmd.SuggestionsFor(word); len(like) > 0 {
		hint = "did you mean " + strings.Join(like, " or ") + "?"
	}
	return usageError{fmt.Errorf("unknown command %q for %q; %s", word, cmd.CommandPath(), hint)}
}

// strictDefaults makes help and completion, which cobra brings, refuse a word that
// is no command, as the others do.
func strictDefaults(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			for _, shell := range group(cmd).Commands() {
				shell.Args = args(cobra.NoArgs)
			}
		case "help":
			cmd.RunE = func(cmd *cobra.Command, given []string) error {
				about, rest, err := cmd.Root().Find(given)
				if err != nil {
					return usageError{err}
				}
				if len(rest) > 0 {
					return unknownCommand(about, rest[0])
				}
				about.InitDefaultHelpFlag()
				return about.Help()
			}
		}
	}
}
