package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"gatebook/infra/datadir"
)

func (a *App) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Make a data folder and your keys, without running the engine",
		Long: `Make the data folder with a commented catalog, the keys of its first person
(approver, supervisor and operator in one), and that person's approval of the
first catalog. The passphrase comes from the terminal or from the file that
GATEBOOK_PASSPHRASE_FILE names.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := datadir.Open(a.flags.dir, false)
			if err == nil {
				if _, err := dir.ReadIncarnation(); err == nil {
					return fmt.Errorf("%s is a data folder already: run gatebook serve", dir.Path())
				}
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			dir, who, err := a.makeFolder(cmd.Context())
			if err != nil {
				return err
			}
			_, keys, err := a.people()
			if err != nil {
				return err
			}
			if a.flags.json {
				return a.printJSON(struct {
					Dir    string `json:"dir"`
					Person string `json:"person"`
					Keys   string `json:"keys"`
				}{dir.Path(), string(who), keys})
			}
			fmt.Fprintf(a.Out, "made %s; you are %s, your keys are in %s\nnext: %s\n", dir.Path(), who, keys, a.command("serve"))
			return nil
		},
	}
}
