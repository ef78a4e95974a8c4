package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"gatebook/handlers/people"
)

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
