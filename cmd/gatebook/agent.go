package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/people"
	"gatebook/handlers/tools/workspace"
	"gatebook/infra/config"
	"gatebook/infra/identity"
	"gatebook/policy"
)

func (a *App) agentCommand() *cobra.Command {
	cmd := group(&cobra.Command{Use: "agent", Short: "Add, list and release agents, set their profile, make a child's key"})
	cmd.AddCommand(a.agentAddCommand(), a.agentKeyCommand(), a.agentListCommand(), a.agentReleaseCommand(), a.agentProfileCommand())
	return cmd
}

func (a *App) agentAddCommand() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "add ID --role ROLE",
		Short: "Add an agent to the catalog, and approve that where you can",
		Long: `Make the agent's key in the data folder, add its entry to gatebook.yaml, and put
exactly that change in force, which takes an approver's passphrase. For anybody
else the change waits, and the exit code is 1. The same command again changes
nothing.

  gatebook agent add alice --role worker`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := events.ParseAgentID(given[0])
			if err != nil {
				return usageError{err}
			}
			if role == "" {
				return usageError{errors.New("--role is missing: the roles are in the catalog file")}
			}
			return a.agentAdd(cmd.Context(), id, role)
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "a role of the catalog")
	a.completeFlag(cmd, "role", rolesOf)
	return cmd
}

func (a *App) agentAdd(ctx context.Context, id events.AgentID, role string) error {
	p, err := a.acting()
	if err != nil {
		return err
	}
	defer p.close()
	row, found, err := p.findAgent(ctx, id)
	if err != nil {
		return err
	}
	if found && row.Released {
		return fmt.Errorf("agent %s was released, and a released id is never given again: choose another", id)
	}
	if found && row.Parent != "" {
		return fmt.Errorf("agent %s is a child of %s, and stays one: choose another id", id, row.Parent)
	}
	if _, ok := p.file.Roles[role]; !ok && len(p.file.Roles) > 0 {
		return fmt.Errorf("the catalog has no role %s; it has %s", events.Quote(role), strings.Join(sorted(p.file.Roles), ", "))
	}
	out, err := p.add(ctx, "agents."+string(id), func(data []byte) ([]byte, error) {
		return p.withKey(identity.AgentKey(p.dir.Keys(), id), func(key events.PublicKey) ([]byte, error) {
			return config.AddAgent(data, id, policy.Agent{Role: role, Key: key}, toolNames(a.Extra)...)
		})
	})
	if err != nil {
		return err
	}
	if out.InForce { // the engine does so too, in a moment
		if err := workspace.New(p.dir.Path()).Furnish(ctx, id, role, "add"); err != nil {
			return fmt.Errorf("agent %s is enrolled, but its folder is not complete: %w", id, err)
		}
	}
	return a.sayChange(out, fmt.Sprintf("agent %s is enrolled with role %s", id, role))
}

// withKey gives edit the public half of a key file, which it makes where there
// is none; one that it made does not outlive a failed edit, and none is made for
// a catalog file that cannot be written.
func (p *acting) withKey(path string, edit func(events.PublicKey) ([]byte, error)) ([]byte, error) {
	if err := config.Replaceable(p.dir.Catalog()); err != nil {
		return nil, err
	}
	key, err := identity.CreateKey(path, p.app.Random)
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		key, err = identity.LoadKey(path)
	}
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	data, err := edit(key.Public())
	if err != nil && made {
		err = errors.Join(err, os.Remove(path))
	}
	return data, err
}

func (a *App) agentKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "key ID",
		Short: "Make the key pair of a child, and print its public key",
		Long: `Make a key pair in the data folder, for an agent whose parent then declares it by
child.declare, and print the public key. The same command again makes none and prints
the same. It changes no right of anybody.

  gatebook agent key kid`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, given []string) error {
			id, err := events.ParseAgentID(given[0])
			if err != nil {
				return usageError{err}
			}
			dir, err := a.folder()
			if err != nil {
				return err
			}
			path := identity.AgentKey(dir.Keys(), id)
			key, err := identity.CreateKey(path, a.Random)
			if errors.Is(err, fs.ErrExist) {
				key, err = identity.LoadKey(path)
			}
			if err != nil {
				return err
			}
			defer key.Wipe()
			if a.flags.json {
				return a.printJSON(agentKey{id, key.Public()})
			}
			fmt.Fprintln(a.Out, key.Public())
			return nil
		},
	}
}

type agentKey struct {
	Agent events.AgentID   `json:"agent"`
	Key   events.PublicKey `json:"key"`
}

func (a *App) agentListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the agents, released ones too",
		Long: `List the agents that you may observe, released ones too.

  gatebook agent list --json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.reader("view")
			if err != nil {
				return err
			}
			defer c.close()
			all := people.AgentsAnswer{Agents: []people.Agent{}}
			for after := events.AgentID(""); ; {
				var page people.AgentsAnswer
				if err := c.ask(cmd.Context(), "agents", people.ListRequest{After: after}, &page); err != nil {
					return err
				}
				all.Agents, all.AsOf = append(all.Agents, page.Agents...), page.AsOf
				if after = page.Next; after == "" {
					return a.printAgents(all)
				}
			}
		},
	}
}

func (a *App) printAgents(all people.AgentsAnswer) error {
	if a.flags.json {
		return a.printJSON(all)
	}
	var rows [][]string
	for _, g := range all.Agents {
		state := "enrolled"
		if g.Released {
			state = "released"
		}
		longtime := g.Longtime
		if longtime == "" {
			longtime = policy.NoProfile
		}
		rows = append(rows, []string{
			string(g.Agent), g.Role, orDash(string(g.Parent)), longtime, fmt.Sprint(g.OpenRounds), a.when(g.LastActivity), state,
		})
	}
	return a.table([]string{"AGENT", "ROLE", "PARENT", "LONGTIME", "OPEN ROUNDS", "LAST ACTIVITY", "STATE"}, rows)
}

func (a *App) agentProfileCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "profile ID PROFILE",
		Short: "Set an agent's longtime profile; none clears it",
		Long: `Set the profile that an agent has where a round brings none. Anything but "none"
takes an approver's passphrase.

  gatebook agent profile alice guest`,
		Args:              args(cobra.ExactArgs(2)),
		ValidArgsFunction: a.complete(agentsOf, profilesOf),
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := events.ParseAgentID(given[0])
			if err != nil {
				return usageError{err}
			}
			p, err := a.acting()
			if err != nil {
				return err
			}
			defer p.close()
			profile := given[1]
			done, err := p.act(cmd.Context(), "profile", p.entry.Approver && profile != policy.NoProfile, people.ActRequest{Agent: id, Profile: profile})
			if err != nil {
				return err
			}
			return a.sayDone(done, fmt.Sprintf("the longtime profile of agent %s is %s", id, profile))
		},
	}
}

// agentsCommand is agent list where people look for what they can read.
func (a *App) agentsCommand() *cobra.Command {
	cmd := a.agentListCommand()
	cmd.Use = "agents"
	cmd.Long = `List the agents that you may observe, released ones too.

  gatebook agents --json`
	return cmd
}
