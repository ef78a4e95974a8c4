package main

import "github.com/spf13/cobra"

// agentsCommand is agent list where people look for what they can read.
func (a *App) agentsCommand() *cobra.Command {
	cmd := a.agentListCommand()
	cmd.Use = "agents"
	cmd.Long = `List the agents that you may observe, released ones too.

  gatebook agents --json`
	return cmd
}
