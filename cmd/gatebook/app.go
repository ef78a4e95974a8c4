package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gatebook/events"
	"gatebook/handlers/integrity"
	"gatebook/handlers/tools"
	"gatebook/infra/datadir"
	"gatebook/infra/identity"
)

// The exit codes.
const (
	exitYes = iota
	exitNo
	exitUsage
	exitUnreachable
	exitDamage
)

// App is the program with everything that it takes from outside.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Terminal identity.Terminal
	// Columns is how wide the terminal is that Out is, 0 where it is none; nil is
	// no terminal either.
	Columns func() int
	Random  io.Reader
	Now     func() time.Time
	// WorkFactor of new passphrases; 0 is the usual one. The demo and tests use
	// less; no flag does.
	WorkFactor int
	// Extra are tools beside the built-in ones, for the demo and measurements.
	Extra []tools.Tool

	flags globalFlags
}

// globalFlags are the flags of every command.
type globalFlags struct {
	dir, keys, as string
	json, utc     bool
}

// NewApp is the program as people run it.
func NewApp() *App {
	return &App{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		Terminal: identity.ControllingTerminal(), Random: rand.Reader, Now: time.Now,
		Columns: func() int { return terminalColumns(os.Stdout) },
	}
}

// Run runs one command line and returns its exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errSaid) {
		fmt.Fprintln(a.Err, "gatebook: "+err.Error())
		if exitCode(err) == exitDamage {
			fmt.Fprintln(a.Err, "gatebook: "+a.afterDamage())
		}
	}
	return exitCode(err)
}

// afterDamage is the next step of somebody who hears of damage.
func (a *App) afterDamage() string {
	return fmt.Sprintf("copy %s before you do anything else; %s says what the folder shows; then see %q in the README",
		shellWord(a.flags.dir), a.command("doctor"), "Damage, and exit codes")
}

// errSaid ends a command whose answer was already printed.
var errSaid = errors.New("refused")

// usageError is a command line that cannot be meant.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// errUnreachable says that no engine answers.
var errUnreachable = errors.New("the engine is not reachable")

// exitCode is the one place that maps errors to exit codes.
func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitYes
	case errors.As(err, &usage), errors.Is(err, identity.ErrNoPassphrase):
		return exitUsage
	case errors.Is(err, errUnreachable):
		return exitUnreachable
	case errors.Is(err, integrity.ErrDamage):
		return exitDamage
	}
	return exitNo
}

func (a *App) root() *cobra.Command {
	root := group(&cobra.Command{
		Use:           "gatebook",
		Short:         "The gate that every tool call of an AI agent passes, and the book of what happened",
		SilenceErrors: true, SilenceUsage: true,
		Version: version(),
	})
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", plainFlagError(err), cmd.CommandPath())}
	})
	f := root.PersistentFlags()
	f.StringVar(&a.flags.dir, "dir", ".gatebook", "the data folder")
	f.StringVar(&a.flags.keys, "keys", "", "the folder of people's keys (default $XDG_CONFIG_HOME/gatebook)")
	f.StringVar(&a.flags.as, "as", "", "the person to act as, where the keys folder holds several")
	f.BoolVar(&a.flags.json, "json", false, "print JSON with stable field names")
	f.BoolVar(&a.flags.utc, "utc", false, "print times in UTC")
	for _, c := range a.commands() {
		root.AddCommand(c)
	}
	strictDefaults(root)
	completeNoFiles(root)
	return root
}

// plainFlagError says what a flag wants, where the library tells what it tried.
func plainFlagError(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	want := map[string]string{"int": "a whole number", "int64": "a whole number", "uint64": "a whole number, 0 or more", "bool": "true or false"}
	flag := bad.GetFlag()
	if want[flag.Value.Type()] == "" {
		return err
	}
	return fmt.Errorf("--%s %s: want %s", flag.Name, events.Quote(bad.GetValue()), want[flag.Value.Type()])
}

// args turns cobra's complaint about arguments into a usage error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := check(cmd, given); err != nil {
			return usageError{fmt.Errorf("%w; usage: %s", err, cmd.UseLine())}
		}
		return nil
	}
}

// people is the folder of people's keys.
func (a *App) people() (*identity.People, string, error) {
	dir := a.flags.keys
	if dir == "" {
		var err error
		if dir, err = identity.DefaultKeysDir(a.Getenv); err != nil {
			return nil, "", err
		}
	}
	dir, err := absolute(dir)
	if err != nil {
		return nil, "", err
	}
	p, err := identity.NewPeople(dir, a.WorkFactor)
	return p, dir, err
}

// folder opens the data folder; only init, serve and demo make one.
func (a *App) folder() (*datadir.Dir, error) {
	dir, err := datadir.Open(a.flags.dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no data folder at %s: gatebook serve and gatebook init make one, --dir names another (%w)", a.flags.dir, err)
	}
	return dir, err
}

// commands are the subcommands, each in the file of its name.
func (a *App) commands() []*cobra.Command {
	return []*cobra.Command{
		a.initCommand(), a.serveCommand(), a.demoCommand(),
		a.agentCommand(), a.channelCommand(), a.personCommand(), a.catalogCommand(), a.checkCommand(),
		a.roundCommand(), a.callCommand(), a.phaseCommand(),
		a.pendingCommand(), a.showCommand(), a.approveCommand(), a.refuseCommand(),
		a.assetsCommand(), a.assetCommand(), a.alertsCommand(),
		a.auditCommand(), a.receiptsCommand(), a.agentsCommand(), a.explainCommand(), a.replayCommand(),
		a.doctorCommand(), a.rebuildCommand(), a.verifyCommand(), a.versionCommand(),
	}
}
