package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"gatebook/handlers/people"
	"gatebook/infra/config"
	"gatebook/infra/datadir"
)

func (a *App) catalogCommand() *cobra.Command {
	cmd := group(&cobra.Command{Use: "catalog", Short: "Compare the catalog file with what is in force, approve it, or print an example"})
	cmd.AddCommand(a.catalogDiffCommand(), a.catalogApproveCommand(), a.catalogExampleCommand())
	return cmd
}

func (a *App) catalogExampleCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "example",
		Short: "Print a catalog with nine roles, to take from",
		Long: `Print a commented catalog with the roles of a team of agents, each with limits, and
what is around them. It is valid, and changes nothing.

  gatebook catalog example >draft.yaml`,
		Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Out.Write(config.Example())
			return err
		},
	}
}

func (a *App) catalogDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff",
		Short: "Show what the catalog file would change",
		Long: `Show what gatebook.yaml would change. A line that begins with + gives more than
is in force. The exit code is 0 where nothing differs and 1 where something does.

  gatebook catalog diff`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.asActing(func(p *acting) error { return a.catalogDiff(cmd.Context(), p) })
		},
	}
}

// asActing runs do as the person of the keys folder.
func (a *App) asActing(do func(*acting) error) error {
	p, err := a.acting()
	if err != nil {
		return err
	}
	defer p.close()
	return do(p)
}

func (a *App) catalogDiff(ctx context.Context, p *acting) error {
	d, err := p.diff(ctx)
	if err != nil {
		return err
	}
	if a.flags.json {
		if err := a.printJSON(d); err != nil || d.Fault == "" && len(d.Changes) == 0 {
			return err
		}
		return errSaid
	}
	switch {
	case d.Fault != "":
		return errors.New(d.Fault)
	case len(d.Changes) == 0:
		fmt.Fprintln(a.Out, "the catalog file is what is in force")
		return nil
	}
	if err := a.printChanges(d); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "\nto put it in force: %s\n", p.approveCommand(d.Widens))
	return errSaid
}

func (a *App) printChanges(d people.CatalogAnswer) error {
	var rows [][]string
	for _, c := range d.Changes {
		mark := ""
		if c.Widens {
			mark = "+"
		}
		rows = append(rows, []string{mark, c.Text})
	}
	return a.table([]string{"", "CHANGE (+ gives more than is in force)"}, rows)
}

func (a *App) catalogApproveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "approve",
		Short: "Put the catalog file in force",
		Long: `Show what gatebook.yaml changes and put it in force. What gives more than is in
force takes an approver's passphrase; what only gives less, an operator. A file
with a fault is refused as a whole, and what was in force stays. So is one that
the key you use would no longer work in: that takes another approver.

  gatebook catalog approve`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.asActing(func(p *acting) error { return a.catalogApprove(cmd.Context(), p) })
		},
	}
}

func (a *App) catalogApprove(ctx context.Context, p *acting) error {
	unlock, err := lockCatalog(ctx, p.dir, a.Err)
	if err != nil {
		return err
	}
	defer unlock()
	d, err := p.diff(ctx)
	if err != nil {
		return err
	}
	out := catalogChange{Entry: "catalog", File: p.dir.Catalog(), InForce: true, Catalog: d.File}
	switch {
	case d.Fault != "":
		return fmt.Errorf("the catalog file is refused as a whole, and what was in force stays: %s", d.Fault)
	case len(d.Changes) == 0:
		return a.sayChange(out, "the catalog file is in force")
	case !a.flags.json:
		if err := a.printChanges(d); err != nil {
			return err
		}
	}
	done, err := p.loadFile(ctx, d)
	if err != nil {
		return err
	}
	out.Seq = done.Seq
	return a.sayChange(out, "the catalog file is in force")
}

// lockCatalog keeps the commands that change the catalog file apart, from the
// edit to its approval. The file itself is replaced, so the lock is another one.
func lockCatalog(ctx context.Context, dir *datadir.Dir, say io.Writer) (unlock func(), err error) {
	path := filepath.Join(dir.Path(), "gatebook.yaml.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the catalog file: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for said := false; ; said = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock the catalog file: %w", err), f.Close())
		}
		if !said {
			fmt.Fprintln(say, "gatebook: waiting for another command that changes the catalog")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		}
	}
}

// readCatalog is the text of the catalog file; whether it is valid is found when
// it is edited.
func readCatalog(dir *datadir.Dir) ([]byte, error) {
	_, data, err := config.Load(dir.Catalog())
	if data == nil {
		return nil, err
	}
	return data, nil
}

func (a *App) phaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "phase 1|2",
		Short: "Set the phase: 1 only tools that read, 2 all tools",
		Long: `Set the most that is offered to anybody: 1 is only tools that read, 2 is all.
Raising it takes an approver's passphrase. The catalog's own phase is a bound
too: the lower of the two is in force.

  gatebook phase 1`,
		Args:      args(cobra.ExactArgs(1)),
		ValidArgs: []string{"1", "2"},
		RunE: func(cmd *cobra.Command, given []string) error {
			phase := map[string]int{"1": 1, "2": 2}[given[0]]
			if phase == 0 {
				return usageError{errors.New("want phase 1 (only tools that read) or 2 (all tools)")}
			}
			return a.asActing(func(p *acting) error { return a.phase(cmd.Context(), p, phase) })
		},
	}
}

func (a *App) phase(ctx context.Context, p *acting, phase int) error {
	before, err := p.phaseInForce(ctx)
	if err != nil {
		return err
	}
	done, err := p.act(ctx, "phase", phase > before, people.ActRequest{Phase: phase})
	if err != nil {
		return err
	}
	after, err := p.phaseInForce(ctx)
	if err != nil {
		return err
	}
	if after != phase && !a.flags.json {
		fmt.Fprintf(a.Err, "gatebook: the catalog's own phase is lower, so phase %d stays in force\n", after)
	}
	return a.sayDone(done, fmt.Sprintf("the phase is %d", phase))
}

func (p *acting) phaseInForce(ctx context.Context) (int, error) {
	c, err := p.view(ctx)
	if err != nil {
		return 0, err
	}
	var h people.HealthAnswer
	err = c.ask(ctx, "health", struct{}{}, &h)
	return h.Phase, err
}
