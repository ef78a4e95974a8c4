// Command gatebook is the gate that every tool call of an AI agent passes, and
// the book in which the gate writes down what happened.
//
// Start with App in app.go; each subcommand is a file. engine runs: serve.go
// starts a node (node.go), which opens the stores (stores.go) and the bus
// (bus.go) and wires the handlers to them. Everything else is a client
// (client.go) of a running engine.
//
// What the command promises: exit codes 0 yes, 1 refused or not found, 2 usage,
// 3 engine not reachable, 4 evidence of damage; --json with stable names on
// every reading command; whatever an agent, a server or a site wrote is escaped
// for terminals. Dependency: cobra, for help, flags and completions.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := NewApp().Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

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
