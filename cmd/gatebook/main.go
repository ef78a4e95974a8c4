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
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := NewApp().Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
