package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/infra/config"
	"gatebook/infra/identity"
	"gatebook/policy"
)

func (a *App) personCommand() *cobra.Command {
	cmd := group(&cobra.Command{Use: "person", Short: "Add people"})
	cmd.AddCommand(a.personAddCommand())
	return cmd
}

func (a *App) personAddCommand() *cobra.Command {
	var entry policy.Person
	var key, approveKey string
	cmd := &cobra.Command{
		Use:   "add ID",
		Short: "Add a person to the catalog, and approve that where you can",
		Long: `Add a person's entry to gatebook.yaml and put exactly that change in force, as
agent add does.

The person's keys are made in a folder of their name below the keys folder, with
a passphrase of their own for an approver; the person works with --keys FOLDER,
or from here with --as ID.
Better: the person makes the keys, and you give only the public halves.

  gatebook person add bob --supervisor --observe alice
  gatebook person add bob --operator --key U...`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := events.ParsePersonID(given[0])
			if err != nil {
				return usageError{err}
			}
			if len(entry.ObservableAgents) > 0 && !entry.Supervisor {
				return usageError{errors.New("--observe is for a --supervisor")}
			}
			if approveKey != "" && key == "" {
				return usageError{errors.New("--approve-key needs --key")}
			}
			entry.Key, entry.ApproveKey = events.PublicKey(key), events.PublicKey(approveKey)
			return a.personAdd(cmd.Context(), id, entry)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&entry.Approver, "approver", false, "approves reviews, new agents, and changes that give more")
	f.BoolVar(&entry.Supervisor, "supervisor", false, "sees what the agents named by --observe do")
	f.BoolVar(&entry.Operator, "operator", false, "runs the engine, releases agents, lowers the phase")
	f.StringSliceVar(&entry.ObservableAgents, "observe", nil, `the agents that a supervisor sees; "*" is all of them`)
	f.StringVar(&key, "key", "", "the public key of a person who has keys")
	f.StringVar(&approveKey, "approve-key", "", "the public approving key of a person who has keys")
	a.completeFlag(cmd, "observe", agentsOf)
	return cmd
}

func (a *App) personAdd(ctx context.Context, id events.PersonID, entry policy.Person) error {
	p, err := a.acting()
	if err != nil {
		return err
	}
	defer p.close()
	if err := config.Replaceable(p.dir.Catalog()); err != nil {
		return err // before any key is made
	}
	folder := ""
	if entry.Key == "" {
		if folder, err = a.personKeys(ctx, id, &entry); err != nil {
			return err
		}
	}
	out, err := p.add(ctx, "people."+string(id), func(data []byte) ([]byte, error) {
		return config.AddPerson(data, id, entry, toolNames(a.Extra)...)
	})
	if err != nil {
		return err
	}
	if folder != "" {
		fmt.Fprintf(a.Err, "gatebook: the keys of %s are in %s; %[1]s names it with --keys, or --as %[1]s here\n", id, folder)
	}
	if !entry.Approver && !entry.Supervisor && !entry.Operator {
		fmt.Fprintf(a.Err, "gatebook: %s has no right yet: write approver, supervisor or operator: true below people.%[1]s in %s, then %s\n",
			id, out.File, a.command("catalog approve"))
	}
	return a.sayChange(out, fmt.Sprintf("person %s is in force", id))
}

// personKeys makes the keys of somebody else, or takes those that are there. They
// do not lie among one's own: whose key lies there says who acts.
func (a *App) personKeys(ctx context.Context, id events.PersonID, entry *policy.Person) (folder string, err error) {
	_, own, err := a.people()
	if err != nil {
		return "", err
	}
	folder = filepath.Join(own, string(id))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	people, err := identity.NewPeople(folder, a.WorkFactor)
	if err != nil {
		return "", err
	}
	read, err := orLoad(people.Create(id, a.Random))(func() (*identity.Key, error) { return people.Load(id) })
	if err != nil {
		return "", err
	}
	defer read.Wipe()
	entry.Key = read.Public()
	if !entry.Approver {
		return folder, nil
	}
	pass, err := identity.Passphrase(ctx, a.Getenv, a.Terminal, id, !exists(people.ApprovePath(id)))
	if err != nil {
		return "", err
	}
	defer clear(pass)
	approve, err := people.CreateApprove(id, pass, a.Random)
	if errors.Is(err, fs.ErrExist) {
		approve, err = people.LoadApprove(id, pass)
	}
	if err != nil {
		return "", err
	}
	defer approve.Wipe()
	entry.ApproveKey = approve.Public()
	return folder, nil
}
