package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/infra/datadir"
)

// demoOrder is what the demonstration tells a process of its own, in the place
// of a model or of somebody who types: one JSON value on its standard input.
type demoOrder struct {
	// Verb is begin or end for a channel; call, outcome or attach for an agent.
	Verb string `json:"verb"`
	// Agent is whose round a channel begins or ends.
	Agent events.AgentID `json:"agent,omitzero"`
	// Body is the request without round and handle: those are in the round's
	// file, which the channel writes and the agent reads.
	Body jsontext.Value `json:"body"`
}

// demoReply is what came of an order: the engine's answer, or why there is none.
type demoReply struct {
	Answer jsontext.Value `json:"answer,omitzero"`
	Error  string         `json:"error,omitzero"`
	Gone   bool           `json:"gone,omitzero"` // no engine answered
}

// demoPart is a process of the demonstration: what it does for an order.
type demoPart func(context.Context, demoOrder) (jsontext.Value, error)

// demoServe answers orders until the standard input ends. A process whose parent
// is gone so ends with it.
func (a *App) demoServe(ctx context.Context, do demoPart) error {
	in := jsontext.NewDecoder(a.In)
	for {
		var order demoOrder
		err := json.UnmarshalDecode(in, &order)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("an order of the demonstration: %w", err)
		}
		var reply demoReply
		if reply.Answer, err = do(ctx, order); err != nil {
			reply.Error, reply.Gone = err.Error(), errors.Is(err, errUnreachable)
		}
		raw, err := json.Marshal(reply)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.Out, "%s\n", raw); err != nil {
			return err
		}
	}
}

// demoLink is the one connection of a process; it is made anew where an engine
// was gone.
type demoLink struct {
	now  *client
	dial func() (*client, error)
}

func (l *demoLink) client() (*client, error) {
	if l.now != nil && !l.now.conn.IsClosed() {
		return l.now, nil
	}
	var err error
	l.now, err = l.dial()
	return l.now, err
}

func (l *demoLink) close() {
	if l.now != nil {
		l.now.close()
	}
}

// demoAgentCommand is the process of one agent. It knows of a round what the
// channel wrote in the round's file.
func (a *App) demoAgentCommand() *cobra.Command {
	return &cobra.Command{
		Use: "agent ID", Short: "Be an agent of the demonstration", Hidden: true, Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := agentFlag(given[0])
			if err != nil {
				return err
			}
			dir, err := a.folder()
			if err != nil {
				return err
			}
			link := &demoLink{dial: func() (*client, error) { return a.agent(id) }}
			defer link.close()
			return a.demoServe(cmd.Context(), func(ctx context.Context, o demoOrder) (jsontext.Value, error) {
				return demoAsk(ctx, link, dir, id, o)
			})
		},
	}
}

func demoAsk(ctx context.Context, link *demoLink, dir *datadir.Dir, id events.AgentID, o demoOrder) (jsontext.Value, error) {
	r, err := readRound(dir, id)
	if err != nil {
		return nil, err
	}
	request := map[string]jsontext.Value{}
	if err := json.Unmarshal(o.Body, &request); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"round": string(r.Round), "handle": r.Handle} {
		if request[name], err = jsontext.AppendQuote(nil, text); err != nil {
			return nil, err
		}
	}
	c, err := link.client()
	if err != nil {
		return nil, err
	}
	return c.request(ctx, o.Verb, request)
}

// demoChannelCommand is the process of a channel: it makes the handles and hands
// each to its agent in a file that only this user can read.
func (a *App) demoChannelCommand() *cobra.Command {
	return &cobra.Command{
		Use: "channel ID", Short: "Be a channel of the demonstration", Hidden: true, Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := events.ParseChannelID(given[0])
			if err != nil {
				return usageError{err}
			}
			dir, err := a.folder()
			if err != nil {
				return err
			}
			link := &demoLink{dial: func() (*client, error) { return a.channel(id) }}
			defer link.close()
			return a.demoServe(cmd.Context(), func(ctx context.Context, o demoOrder) (jsontext.Value, error) {
				c, err := link.client()
				if err != nil {
					return nil, err
				}
				if o.Verb == "begin" {
					return a.demoBegin(ctx, c, dir, id, o)
				}
				return demoEnd(ctx, c, dir, o)
			})
		},
	}
}

func (a *App) demoBegin(ctx context.Context, c *client, dir *datadir.Dir, id events.ChannelID, o demoOrder) (jsontext.Value, error) {
	var q roundBegin
	if err := json.Unmarshal(o.Body, &q, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	q.Agent = o.Agent
	r, err := newRound(id, a.Random)
	if err != nil {
		return nil, err
	}
	answer, err := askBegin(ctx, c, r, q)
	if err != nil {
		return nil, err
	}
	r.Round, r.Conversation = answer.Round, answer.Conversation
	if err := r.write(dir, o.Agent); err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

func demoEnd(ctx context.Context, c *client, dir *datadir.Dir, o demoOrder) (jsontext.Value, error) {
	r, err := readRound(dir, o.Agent)
	if err != nil {
		return nil, err
	}
	return c.request(ctx, "round.end", roundEnd{Round: r.Round, HandleHash: r.hash(), End: events.RoundCompleted})
}

// demoProcess is this program as another process of the demonstration. It ends
// when its standard input is closed, at the latest when ctx ends. It belongs to
// one goroutine.
type demoProcess struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // of its standard output; closed at its end
	says  *tail
	over  bool
}

// demoStart runs a hidden subcommand of demo on the data folder.
func demoStart(ctx context.Context, folder, name string, given ...string) (*demoProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = append([]string{os.Args[0], "--dir", folder, "demo"}, given...)
	p := &demoProcess{name: name, cmd: cmd, lines: make(chan string, 16), says: new(tail)}
	cmd.Stderr = p.says
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.read(ctx, out)
	return p, nil
}

// read hands the lines over until the process closes its output or ctx ends.
func (p *demoProcess) read(ctx context.Context, out io.Reader) {
	defer close(p.lines)
	scan := bufio.NewScanner(out)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		select {
		case p.lines <- scan.Text():
		case <-ctx.Done():
			return
		}
	}
}

// line is the next line that the process prints.
func (p *demoProcess) line(ctx context.Context) (string, error) {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", fmt.Errorf("the process of %s ended: %s", p.name, p.says)
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (p *demoProcess) send(o demoOrder) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintf(p.in, "%s\n", raw); err != nil {
		return fmt.Errorf("the process of %s takes no order: %w: %s", p.name, err, p.says)
	}
	return nil
}

func (p *demoProcess) receive(ctx context.Context) (demoReply, error) {
	var reply demoReply
	line, err := p.line(ctx)
	if err != nil {
		return reply, err
	}
	if err := json.Unmarshal([]byte(line), &reply); err != nil {
		return reply, fmt.Errorf("the process of %s printed no answer: %w", p.name, err)
	}
	return reply, nil
}

// kill is SIGKILL: the process can do nothing about it.
func (p *demoProcess) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	err := p.wait()
	state, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !state.Signaled() || state.Signal() != syscall.SIGKILL {
		return fmt.Errorf("the process of %s did not die of SIGKILL: %w", p.name, err)
	}
	return nil
}

// stop lets the process end by itself.
func (p *demoProcess) stop() error {
	if err := p.wait(); err != nil {
		return fmt.Errorf("the process of %s: %w: %s", p.name, err, p.says)
	}
	return nil
}

func (p *demoProcess) wait() error {
	if p.over {
		return nil
	}
	p.over = true
	err := p.in.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	for range p.lines { // until its output ends: only then may Wait close the pipe
	}
	return errors.Join(p.cmd.Wait(), err)
}

// tail keeps the end of what a process has to say. Safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if n := len(t.text); n > most {
		t.text = append([]byte(nil), t.text[n-most:]...)
	}
	return len(p), nil
}

// String is what was kept, for a terminal.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.text) == 0 {
		return "it said nothing"
	}
	var lines []string
	for line := range strings.Lines(string(t.text)) {
		lines = append(lines, events.Escape(strings.TrimSuffix(line, "\n")))
	}
	return strings.Join(lines, "\n")
}
