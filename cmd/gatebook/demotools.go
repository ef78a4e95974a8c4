package main

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime/pprof"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/policy"
)

// The tools of the demonstration and of measurements. No ordinary engine has
// them.

// waitTool does nothing for a while.
type waitTool struct{}

type waitArgs struct {
	Millis int64 `json:"ms"`
}

// Definition is the tool's.
func (waitTool) Definition() tools.Definition {
	return tools.Definition{
		Name: "demo.wait", Description: "Waits for a number of milliseconds.",
		Schema: jsontext.Value(`{"type":"object","properties":{"ms":{"type":"integer","minimum":0}},"required":["ms"],"additionalProperties":false}`),
	}
}

// Tier is read_only: it does nothing.
func (waitTool) Tier() events.Tier { return events.ReadOnly }

// Decode reads {"ms": n}.
func (waitTool) Decode(raw jsontext.Value) (tools.Decoded, error) {
	var args waitArgs
	if err := json.Unmarshal(raw, &args, json.RejectUnknownMembers(true)); err != nil || args.Millis < 0 {
		return tools.Decoded{}, &policy.Malformed{Field: "ms", Reason: "want a number of milliseconds"}
	}
	return tools.Decoded{Args: args}, nil
}

// Run waits.
func (waitTool) Run(ctx context.Context, _ tools.Env, args tools.Args) (jsontext.Value, error) {
	timer := time.NewTimer(time.Duration(args.(waitArgs).Millis) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return jsontext.Value(`{"waited":true}`), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// noneTool does nothing at all.
type noneTool struct{}

// Definition is the tool's.
func (noneTool) Definition() tools.Definition {
	return tools.Definition{
		Name: "demo.none", Description: "Does nothing.",
		Schema: jsontext.Value(`{"type":"object","additionalProperties":false}`),
	}
}

// Tier is read_only: it does nothing.
func (noneTool) Tier() events.Tier { return events.ReadOnly }

// Decode takes {}.
func (noneTool) Decode(raw jsontext.Value) (tools.Decoded, error) {
	var args struct{}
	if err := json.Unmarshal(raw, &args, json.RejectUnknownMembers(true)); err != nil {
		return tools.Decoded{}, &policy.Malformed{Field: "args", Reason: "want {}"}
	}
	return tools.Decoded{Args: args}, nil
}

// Run does nothing.
func (noneTool) Run(context.Context, tools.Env, tools.Args) (jsontext.Value, error) {
	return jsontext.Value(`{}`), nil
}

// actTool does nothing either, as a privileged tool that is not built in.
type actTool struct{ noneTool }

// Owner is demo.
func (actTool) Owner() string { return "demo" }

// Definition is the tool's.
func (actTool) Definition() tools.Definition {
	d := noneTool{}.Definition()
	d.Name = "act"
	return d
}

// Tier is privileged, so that a person must approve it.
func (actTool) Tier() events.Tier { return events.Privileged }

func demoTools() []tools.Tool { return []tools.Tool{waitTool{}, noneTool{}, actTool{}} }

// demoEngineCommand is serve with the tools of the demonstration. It is what
// demo and scripts/bench start as a process of its own.
func (a *App) demoEngineCommand() *cobra.Command {
	var singles, child bool
	var profile string
	cmd := &cobra.Command{
		Use: "engine", Short: "Run an engine with the demonstration's tools", Hidden: true, Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := context.WithCancel(cmd.Context())
			defer stop()
			if child {
				// Ends with this process at the latest.
				go func() {
					_, _ = io.Copy(io.Discard, a.In)
					stop()
				}()
			}
			a.Extra = demoTools()
			return profiled(profile, func() error {
				return a.serve(ctx, serveOptions{smallDisk: true, singles: singles})
			})
		},
	}
	cmd.Flags().BoolVar(&singles, "one-fsync-per-event", false, "append without batches, to measure what they bring")
	cmd.Flags().BoolVar(&child, "until-input-ends", false, "stop when the standard input ends: with the process that started this one")
	cmd.Flags().StringVar(&profile, "cpuprofile", "", "write a CPU profile to this file at the end")
	return cmd
}

// profiled runs do and writes its CPU profile to the file, where one is named.
func profiled(path string, do func() error) (err error) {
	if path == "" {
		return do()
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return do()
}

// oneByOne appends every event on its own, with one fsync each: the yardstick
// of group commit. It does not keep a decision whole, so it is for measurements
// only.
type oneByOne struct{ currentBook }

// Ahead does nothing: singles cannot be prepared.
func (oneByOne) Ahead(events.Seq, [][]events.Record) {}

// Append sends pipelined singles.
func (o oneByOne) Append(ctx context.Context, after events.Seq, decisions [][]events.Record) error {
	var singles [][]events.Record
	for _, d := range decisions {
		for _, r := range d {
			singles = append(singles, []events.Record{r})
		}
	}
	for len(singles) > 0 {
		n := min(len(singles), events.MaxSingles)
		if err := o.currentBook.Append(ctx, after, singles[:n]); err != nil {
			return err
		}
		after += events.Seq(n)
		singles = singles[n:]
	}
	return nil
}
