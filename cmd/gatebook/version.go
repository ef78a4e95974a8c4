package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionCommand is --version for those who type it as a command.
func (a *App) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if a.flags.json {
				return a.printJSON(map[string]string{"version": version()})
			}
			_, err := fmt.Fprintln(a.Out, "gatebook version "+version())
			return err
		},
	}
}

// serviceVersion is the version of the NATS service, which must be semantic.
const serviceVersion = "0.1.0"

// version is what built the binary: the release, and the commit where known.
func version() string {
	v := serviceVersion
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += "+" + s.Value[:12]
			}
		}
	}
	return v
}
