package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/infra/config"
	"gatebook/policy"
)

type checkAnswer struct {
	File   string        `json:"file"`
	Valid  bool          `json:"valid"`
	Digest events.Digest `json:"digest,omitzero"`
	Faults []checkFault  `json:"faults"`
}

type checkFault struct {
	Line int    `json:"line"`
	Col  int    `json:"col"`
	Text string `json:"text"`
}

func (a *App) checkCommand() *cobra.Command {
	var schema bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Look for faults in a catalog file, without an engine",
		Long: `Read a catalog file as the engine does and print every fault on a line of its
own, with file, line and column. Without FILE it is the data folder's.

--schema prints the JSON Schema of the file instead, for editors.

  gatebook check draft.yaml
  gatebook check --schema >catalog.schema.json`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, given []string) error {
			if schema {
				return a.printSchema(given)
			}
			if len(given) > 0 {
				return a.check(given[0])
			}
			if _, err := a.folder(); errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return a.check(filepath.Join(a.flags.dir, config.FileName))
		},
	}
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of the catalog file")
	return cmd
}

func (a *App) printSchema(given []string) error {
	if len(given) > 0 {
		return usageError{errors.New("--schema takes no FILE: it prints the schema of every catalog")}
	}
	text, err := config.Schema(toolNames(a.Extra)...)
	if err != nil {
		return err
	}
	_, err = a.Out.Write(text)
	return err
}

func (a *App) check(file string) error {
	out := checkAnswer{File: file, Faults: []checkFault{}}
	c, _, err := config.Load(file, toolNames(a.Extra)...)
	if err == nil {
		var compiled *policy.Compiled
		if compiled, err = policy.Compile(c, toolNames(a.Extra)...); err == nil {
			out.Valid, out.Digest = true, compiled.Digest()
		}
	}
	faults := faultsIn(err)
	if err != nil && len(faults) == 0 {
		return err
	}
	for _, f := range faults {
		out.Faults = append(out.Faults, checkFault{f.Line, f.Col, f.Text})
		if !a.flags.json {
			fmt.Fprintln(a.Out, f.Error())
		}
	}
	switch {
	case a.flags.json:
		err = errors.Join(a.printJSON(out), saidUnless(out.Valid))
	case out.Valid:
		fmt.Fprintf(a.Out, "%s is valid; its digest is %s\n", events.Escape(file), out.Digest)
	default:
		err = errSaid
	}
	return err
}

func saidUnless(yes bool) error {
	if yes {
		return nil
	}
	return errSaid
}

// faultsIn finds every fault in a tree of errors, in order.
func faultsIn(err error) []*config.Fault {
	switch e := err.(type) { // one step only: the tree is walked here
	case *config.Fault:
		return []*config.Fault{e}
	case interface{ Unwrap() error }:
		return faultsIn(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*config.Fault
		for _, inner := range e.Unwrap() {
			all = append(all, faultsIn(inner)...)
		}
		return all
	}
	return nil
}
