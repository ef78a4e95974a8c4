package main

import "github.com/spf13/cobra"

// commands are the subcommands, each in the file of its name.
func (a *App) commands() []*cobra.Command {
	return []*cobra.Command{
		a.initCommand(), a.serveCommand(), a.demoCommand(),
		a.agentCommand(), a.channelCommand(), a.personCommand(), a.catalogCommand(), a.checkCommand(),
		a.roundCommand(), a.callCommand(), a.phaseCommand(),
		a.pendingCommand(), a.showCommand(), a.approveCommand(), a.refuseCommand(),
		a.auditCommand(), a.receiptsCommand(), a.agentsCommand(), a.explainCommand(), a.replayCommand(),
		a.doctorCommand(), a.rebuildCommand(), a.verifyCommand(), a.versionCommand(),
	}
}
