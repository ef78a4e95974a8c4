package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
	"gatebook/infra/datadir"
)

// demoTime bounds the whole demonstration, so that it cannot hang.
const demoTime = 2 * time.Minute

func (a *App) demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole in a few seconds: agents, refusals, a crash, and the proof",
		Long: `Run an engine, a channel and three agents as processes of their own in a temporary
folder: they work on files, are refused, call again, and see the engine killed in
the middle of a call. Then read the book. No network, and nothing is left behind.
It ends with 1 and says what was missing where it did not see all that it shows.

  gatebook demo
  gatebook demo --json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A reader that goes away must not end it before it has cleaned up.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGPIPE)
			defer stop()
			return a.demo(ctx)
		},
	}
	cmd.AddCommand(a.demoEngineCommand(), a.demoChannelCommand(), a.demoAgentCommand())
	return cmd
}

// What the demonstration must see to succeed, in the order of its story.
const (
	sawWork      = "agents that write and read files"
	sawGuest     = "the refusal of a guest's write"
	sawRole      = "the refusal of a tool that the role does not grant"
	sawOutside   = "the refusal of a path outside the workspace"
	sawUnknown   = "the refusal of an unknown tool"
	sawMalformed = "the refusal of a malformed call"
	sawReplay    = "the recorded answer to the same key"
	sawOtherBody = "the refusal of another call under the same key"
	sawTrash     = "a file in the trash"
	sawRestore   = "a file restored from the trash"
	sawKill      = "an engine killed while a tool ran"
	sawLost      = "the interrupted call as unknown"
	sawNoSecond  = "that the interrupted call ran only once"
	sawGoesOn    = "work that goes on after the restart"
	sawAudit     = "every call in the audit"
	sawReceipts  = "a receipt of every round"
	sawTree      = "that the tree verifies"
)

func demoSights() []string {
	return []string{
		sawWork, sawGuest, sawRole, sawOutside, sawUnknown, sawMalformed, sawReplay, sawOtherBody, sawTrash, sawRestore,
		sawKill, sawLost, sawNoSecond, sawGoesOn, sawAudit, sawReceipts, sawTree,
	}
}

// demoResult is what demo --json prints.
type demoResult struct {
	Calls     int          `json:"calls"`
	ByStatus  demoStatuses `json:"by_status"`
	Receipts  int          `json:"receipts"`
	Unknown   int          `json:"unknown"`
	Recovered bool         `json:"recovered"` // calls went on after the crash
	Verify    demoVerify   `json:"verify"`
}

// demoStatuses are how many calls ended so.
type demoStatuses struct {
	OK        int `json:"ok"`
	Error     int `json:"error"`
	Denied    int `json:"denied"`
	Rejected  int `json:"rejected"`
	NotFound  int `json:"not_found"`
	Cancelled int `json:"cancelled"`
	Expired   int `json:"expired"`
	Unknown   int `json:"unknown"`
}

func (s *demoStatuses) count(status events.Status) {
	by := map[events.Status]*int{
		events.StatusOK: &s.OK, events.StatusError: &s.Error, events.StatusDenied: &s.Denied, events.StatusRejected: &s.Rejected,
		events.StatusNotFound: &s.NotFound, events.StatusCancelled: &s.Cancelled, events.StatusExpired: &s.Expired, events.StatusUnknown: &s.Unknown,
	}
	if n := by[status]; n != nil {
		*n++
	}
}

type demoVerify struct {
	OK   bool       `json:"ok"`
	Size events.Seq `json:"size"`
	Root string     `json:"root"`
}

// demo is one run of the demonstration; it belongs to one goroutine.
type demo struct {
	app    *App // as the demonstration's person has it
	quiet  bool
	dir    *datadir.Dir
	engine *demoProcess
	parts  map[string]*demoProcess // the channel and the agents, by id
	all    []*demoProcess          // that were started
	calls  map[events.CallID]bool  // that were answered
	seen   []string
	result demoResult
}

func (a *App) demo(ctx context.Context) error {
	begun := a.Now()
	asked := ctx // ends with Ctrl-C
	ctx, stop := context.WithTimeoutCause(ctx, demoTime, fmt.Errorf("the demonstration took more than %s", demoTime))
	defer stop()
	temp, err := os.MkdirTemp("", "gatebook-demo-")
	if err != nil {
		return err
	}
	d := &demo{quiet: a.flags.json, parts: map[string]*demoProcess{}, calls: map[events.CallID]bool{}}
	err = d.prepare(ctx, a, temp)
	if err == nil {
		err = d.tell(ctx)
	}
	stop() // ends every process that still runs
	for _, p := range d.all {
		_ = p.wait()
	}
	err = errors.Join(err, os.RemoveAll(temp))
	if err != nil && asked.Err() != nil && !exists(temp) {
		return errors.New("interrupted; the demonstration's processes are ended and its folder is deleted")
	}
	if err != nil {
		return d.failed(err)
	}
	if missing := d.missing(); len(missing) > 0 {
		return d.failed(errors.New("it ended too early"))
	}
	if a.flags.json {
		return a.printJSON(d.result)
	}
	d.say("\nDone in %s; the folder is deleted. Next: gatebook serve", a.Now().Sub(begun).Round(10*time.Millisecond))
	return nil
}

// failed is a plain error, so that the exit code is 1 whatever went wrong.
func (d *demo) failed(err error) error {
	return fmt.Errorf("the demonstration failed: %v\nit did not see: %s", err, strings.Join(d.missing(), "; "))
}

func (d *demo) missing() []string {
	return slices.DeleteFunc(demoSights(), func(s string) bool { return slices.Contains(d.seen, s) })
}

func (d *demo) say(format string, given ...any) {
	if !d.quiet {
		fmt.Fprintf(d.app.Out, format+"\n", given...)
	}
}

// saw notes a sight, or fails where it is another one.
func (d *demo) saw(sight string, holds bool) error {
	if !holds {
		return fmt.Errorf("this is not %s", sight)
	}
	d.seen = append(d.seen, sight)
	return nil
}

func (d *demo) prepare(ctx context.Context, a *App, temp string) (err error) {
	d.app, d.dir, err = a.demoFolder(ctx, temp)
	if err != nil {
		d.app = a
		return err
	}
	d.say("Everything happens in %s and is deleted at the end.", temp)
	return nil
}

func (d *demo) start(ctx context.Context, name string, given ...string) (*demoProcess, error) {
	p, err := demoStart(ctx, d.dir.Path(), name, given...)
	if err == nil {
		d.all = append(d.all, p)
	}
	return p, err
}

// startEngine waits until the engine says that it is ready.
func (d *demo) startEngine(ctx context.Context) (err error) {
	if d.engine, err = d.start(ctx, "the engine", "engine", "--until-input-ends"); err != nil {
		return err
	}
	for {
		line, err := d.engine.line(ctx)
		if err != nil {
			return err
		}
		if ready, _, ok := strings.Cut(line, ", data folder"); ok {
			d.say("  engine     %s (process %d)", strings.TrimPrefix(ready, "gatebook is "), d.engine.cmd.Process.Pid)
			return nil
		}
	}
}

// ask sends an order and reads the engine's answer; a refusal is an error.
func (d *demo) ask(ctx context.Context, who string, o demoOrder, body, answer any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	o.Body = raw
	if err := d.parts[who].send(o); err != nil {
		return err
	}
	return d.answer(ctx, who, answer)
}

func (d *demo) answer(ctx context.Context, who string, answer any) error {
	reply, err := d.parts[who].receive(ctx)
	if err != nil {
		return err
	}
	var no engine.Refused
	if reply.Gone {
		return fmt.Errorf("%s: %w", who, errUnreachable)
	}
	if reply.Error != "" {
		return fmt.Errorf("%s: %s", who, events.Escape(reply.Error))
	}
	if json.Unmarshal(reply.Answer, &no) == nil && no.Error.Code != "" {
		return &problem{no.Error}
	}
	return json.Unmarshal(reply.Answer, answer)
}

func (d *demo) read(ctx context.Context) error {
	c, err := d.app.reader("view")
	if err != nil {
		return err
	}
	defer c.close()
	var audit people.AuditAnswer
	if err := c.ask(ctx, "audit", people.AuditRequest{Ascending: true}, &audit); err != nil {
		return err
	}
	if err := d.saw(sawAudit, d.countCalls(audit)); err != nil {
		return err
	}
	var receipts people.ReceiptsAnswer
	if err := c.ask(ctx, "receipts", people.ListRequest{}, &receipts); err != nil {
		return err
	}
	return errors.Join(d.sayAudit(audit), d.saw(sawReceipts, d.countReceipts(receipts)), d.sayReceipts(receipts))
}

// countCalls says whether the audit has exactly the calls that were answered,
// and the interrupted one, each with its end.
func (d *demo) countCalls(audit people.AuditAnswer) bool {
	for _, e := range audit.Calls {
		if !d.calls[e.Call] || e.Status == "" {
			return false
		}
		d.result.ByStatus.count(e.Status)
	}
	d.result.Calls, d.result.Unknown = len(audit.Calls), d.result.ByStatus.Unknown
	return len(audit.Calls) == len(d.calls) && d.result.Unknown == 1
}

func (d *demo) countReceipts(receipts people.ReceiptsAnswer) bool {
	steps := int64(0)
	for _, r := range receipts.Receipts {
		steps += r.Steps
		if r.End != events.RoundCompleted {
			return false
		}
	}
	d.result.Receipts = len(receipts.Receipts)
	return len(receipts.Receipts) == len(demoAgents()) && steps == int64(d.result.Calls)
}

func (d *demo) verify(ctx context.Context) error {
	for _, p := range d.all {
		if p.over {
			continue // it was killed
		}
		if err := p.stop(); err != nil {
			return err
		}
	}
	tip, err := d.app.verify(ctx)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	d.result.Verify = demoVerify{OK: true, Size: tip.Size, Root: tip.Root.String()}
	d.say("\n10. The engine is stopped, and every event is compared with the tree.\n    the tree of %d events verifies, root %s", tip.Size, tip.Root)
	return d.saw(sawTree, tip.Size > events.Seq(d.result.Calls))
}

// sayAudit prints the calls in their order, and what of it is only shown with
// them: the call that nobody knows the end of.
func (d *demo) sayAudit(audit people.AuditAnswer) error {
	if d.quiet {
		return nil
	}
	var rows [][]string
	lost := ""
	for _, e := range audit.Calls {
		by := "-"
		if e.Layer != "" {
			by = string(e.Layer) + ": " + e.Rule
		}
		rows = append(rows, []string{
			string(e.Agent), fmt.Sprint(e.Step), e.Principal, e.Tool, clip(e.Args, 40), string(e.Verdict), string(e.Status), by,
		})
		if e.Status == events.StatusUnknown {
			lost = fmt.Sprintf("Call %s, %s of %s, is unknown: %s", e.Call, e.Tool, e.Agent, events.Escape(cmp.Or(e.Reason, e.Error)))
		}
	}
	err := d.app.table([]string{"AGENT", "STEP", "TALKING", "TOOL", "ARGUMENTS", "VERDICT", "STATUS", "REFUSED BY"}, rows)
	d.say("\n%s", lost)
	return err
}

func (d *demo) sayReceipts(receipts people.ReceiptsAnswer) error {
	if d.quiet {
		return nil
	}
	d.say("\nReceipts:\n")
	var rows [][]string
	for _, r := range slices.Backward(receipts.Receipts) {
		var counts []string
		for _, c := range r.ByStatus {
			counts = append(counts, fmt.Sprintf("%d %s", c.Calls, c.Status))
		}
		rows = append(rows, []string{
			string(r.Agent), r.Principal, string(r.Kind), r.Task, string(r.End), fmt.Sprint(r.Steps), strings.Join(counts, ", "), took(r.Duration),
		})
	}
	return d.app.table([]string{"AGENT", "TALKING", "KIND", "TASK", "END", "STEPS", "HOW THEY ENDED", "IN TOOLS"}, rows)
}
