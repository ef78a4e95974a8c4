package main

import (
	"context"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gatebook/events"
	"gatebook/infra/config"
	"gatebook/infra/datadir"
	"gatebook/infra/identity"
)

// Who is in the demonstration.
const (
	demoPerson    = events.PersonID("owner")
	demoAssistant = events.AgentID("assistant") // serves the owner
	demoDesk      = events.AgentID("desk")      // serves guests
	demoPlanner   = events.AgentID("planner")   // serves the owner, in another role
)

func demoAgents() []events.AgentID { return []events.AgentID{demoAssistant, demoDesk, demoPlanner} }

// demoWorkFactor makes the passphrase cheap: it lives as long as the folder.
const demoWorkFactor = 10

//go:embed demo.yaml
var demoCatalog string

// demoFolder makes a data folder below temp, with all keys and a catalog that
// its person has approved, and gives the program as that person has it.
func (a *App) demoFolder(ctx context.Context, temp string) (*App, *datadir.Dir, error) {
	pass := filepath.Join(temp, "passphrase")
	secret := make([]byte, 16)
	if _, err := io.ReadFull(a.Random, secret); err != nil {
		return nil, nil, fmt.Errorf("make a passphrase: %w", err)
	}
	if err := os.WriteFile(pass, []byte(hex.EncodeToString(secret)), 0o600); err != nil {
		return nil, nil, err
	}
	own := *a
	own.Getenv = func(name string) string {
		if name == identity.PassphraseFile {
			return pass
		}
		return ""
	}
	own.WorkFactor, own.Extra = demoWorkFactor, demoTools()
	own.flags.dir, own.flags.keys, own.flags.as = filepath.Join(temp, "data"), filepath.Join(temp, "keys"), string(demoPerson)
	dir, _, err := own.makeFolder(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("make the folder: %w", err)
	}
	return &own, dir, own.demoDeclare(ctx, dir)
}

// demoDeclare puts the demonstration's catalog in the place of the usual first
// one, and approves it.
func (a *App) demoDeclare(ctx context.Context, dir *datadir.Dir) error {
	people, _, err := a.people()
	if err != nil {
		return err
	}
	pass, err := identity.Passphrase(ctx, a.Getenv, a.Terminal, demoPerson, false)
	if err != nil {
		return err
	}
	defer clear(pass)
	approve, err := people.LoadApprove(demoPerson, pass)
	if err != nil {
		return err
	}
	defer approve.Wipe()
	read, err := people.Load(demoPerson)
	if err != nil {
		return err
	}
	channel, err := identity.LoadKey(identity.ChannelKey(dir.Keys(), terminalChannel))
	if err != nil {
		return err
	}
	keys := []string{
		"APPROVE-KEY-OF-PERSON", string(approve.Public()),
		"KEY-OF-PERSON", string(read.Public()), "KEY-OF-CHANNEL", string(channel.Public()),
	}
	for _, id := range demoAgents() {
		key, err := identity.CreateKey(identity.AgentKey(dir.Keys(), id), a.Random)
		if err != nil {
			return err
		}
		keys = append(keys, "KEY-OF-"+string(id), string(key.Public()))
	}
	if err := config.Write(dir.Catalog(), []byte(strings.NewReplacer(keys...).Replace(demoCatalog))); err != nil {
		return err
	}
	return a.approveFirst(dir, demoPerson, approve)
}
