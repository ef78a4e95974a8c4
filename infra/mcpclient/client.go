package mcpclient

import (
	"context"
	"encoding/json" // the SDK's types are made for it
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatebook/events"
)

// Bounds.
const (
	MaxTools      = 512
	maxDefinition = 64 << 10 // bytes of one tool
	maxLine       = 4 << 20  // bytes of what it says at once
	maxSaid       = 4 << 10  // bytes of its standard error that are kept
	endWait       = 2 * time.Second
)

var (
	// ErrGone is for a process that ended, or whose connection did.
	ErrGone = errors.New("the server is gone")
	// ErrTooMuch is for a server that says more than is taken.
	ErrTooMuch = errors.New("the server says too much")
)

// Launch says what to start.
type Launch struct {
	Command []string // the whole path of the program, and its arguments
	Env     []string // all of its environment
	// Changed is called when the server says that its tools have changed. It MUST NOT block.
	Changed func()
}

// Tool is one tool as the server defines it.
type Tool struct {
	Name, Title, Description   string
	Input, Output, Annotations jsontext.Value
	ReadOnly, Destructive      *bool // its hints; nil for nothing
}

// Client is a running server. Safe for concurrent use.
type Client struct {
	cmd     *exec.Cmd
	session *mcp.ClientSession
	said    *tail
	done    chan struct{} // closed when the process is gone
	err     error         // of the process; read after done
	end     sync.Once
}

// Start starts the program and greets it. The end of ctx ends that, and not the program
// after it.
func Start(ctx context.Context, l Launch) (*Client, error) {
	c := &Client{cmd: exec.Command(l.Command[0], l.Command[1:]...), said: &tail{}, done: make(chan struct{})}
	c.cmd.Env, c.cmd.Dir, c.cmd.Stderr = l.Env, "/", c.said
	c.cmd.WaitDelay = endWait // somebody else may hold its standard error
	inGroup(c.cmd)
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not a pipe of the command's: that one is closed under the reader when it ends.
	out, w := io.Pipe()
	c.cmd.Stdout = w
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	go func() {
		c.err = c.cmd.Wait()
		_ = w.CloseWithError(io.EOF)
		close(c.done)
	}()
	options := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	if l.Changed != nil {
		options.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) { l.Changed() }
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "gatebook", Version: "1"}, options)
	c.session, err = client.Connect(ctx, &mcp.IOTransport{Reader: out, Writer: in, MaxLineLength: maxLine}, nil)
	if err != nil {
		c.kill()
		return nil, c.failed(fmt.Errorf("greet the server: %w", err))
	}
	return c, nil
}

// failed adds to an error what the process said last, where it is gone.
func (c *Client) failed(err error) error {
	select {
	case <-c.done:
	default:
		return err
	}
	text := c.said.last()
	if c.err != nil {
		text = strings.TrimSpace(c.err.Error() + ": " + text)
	}
	return fmt.Errorf("%w (%w; %s)", err, ErrGone, events.Escape(text))
}

// Done is closed when the process is gone.
func (c *Client) Done() <-chan struct{} { return c.done }

// Said is the end of what the process wrote to its standard error.
func (c *Client) Said() string { return c.said.last() }

// Tools asks for all tools. Those whose definition is too large are left out, and named.
func (c *Client) Tools(ctx context.Context) (all []Tool, left []string, err error) {
	for t, err := range c.session.Tools(ctx, nil) {
		if err != nil {
			return nil, nil, c.failed(fmt.Errorf("ask for its tools: %w", err))
		}
		if len(all)+len(left) >= MaxTools {
			return nil, nil, fmt.Errorf("%w: more than %d tools", ErrTooMuch, MaxTools)
		}
		one, err := toolOf(t)
		if err != nil {
			left = append(left, fmt.Sprintf("%s: %v", events.Quote(t.Name), err))
			continue
		}
		all = append(all, one)
	}
	return all, left, nil
}

func toolOf(t *mcp.Tool) (Tool, error) {
	one := Tool{Name: t.Name, Title: t.Title, Description: t.Description}
	size := len(t.Name) + len(t.Title) + len(t.Description)
	for _, part := range []struct {
		of   any
		into *jsontext.Value
	}{{t.InputSchema, &one.Input}, {t.OutputSchema, &one.Output}, {annotations(t), &one.Annotations}} {
		if part.of == nil {
			continue
		}
		raw, err := json.Marshal(part.of)
		if err != nil {
			return Tool{}, err
		}
		*part.into = raw
		size += len(raw)
	}
	if t.Name == "" || len(t.Name) > events.MaxName || size > maxDefinition {
		return Tool{}, fmt.Errorf("%w: its definition has %d bytes and its name %d", ErrTooMuch, size, len(t.Name))
	}
	if a := t.Annotations; a != nil {
		one.Destructive = a.DestructiveHint
		if a.ReadOnlyHint {
			one.ReadOnly = &a.ReadOnlyHint
		}
	}
	return one, nil
}

// annotations is untyped nil where there are none.
func annotations(t *mcp.Tool) any {
	if t.Annotations == nil {
		return nil
	}
	return t.Annotations
}

// Result is what a call gave: everything that the server answered, and whether it says
// that the tool failed.
type Result struct {
	Raw    jsontext.Value
	Failed bool
	Text   string // of a failure, for the agent
}

// Call calls a tool by its raw name. args is a JSON object.
func (c *Client) Call(ctx context.Context, name string, args jsontext.Value) (Result, error) {
	got, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
	if err != nil {
		select {
		case <-c.done:
			err = c.failed(err)
		default:
			if errors.Is(err, mcp.ErrConnectionClosed) {
				err = fmt.Errorf("%w: %w", ErrGone, err)
			}
		}
		return Result{}, err
	}
	got.Meta = nil // of the protocol, not of the tool
	raw, err := json.Marshal(got)
	if err != nil {
		return Result{}, fmt.Errorf("read the answer: %w", err)
	}
	r := Result{Raw: raw, Failed: got.IsError}
	for _, part := range got.Content {
		if text, ok := part.(*mcp.TextContent); ok && r.Failed {
			r.Text = strings.TrimSpace(r.Text + "\n" + text.Text)
		}
	}
	return r, nil
}

// Close ends the process and waits for it. Calls that run end with [ErrGone].
func (c *Client) Close() {
	c.end.Do(func() {
		closed := make(chan struct{})
		go func() { // by the end of its input
			_ = c.session.Close()
			close(closed)
		}()
		if !c.within(endWait) {
			terminate(c.cmd)
			if !c.within(endWait) {
				c.kill()
			}
		}
		endGroup(c.cmd) // what it has started
		<-c.done
		<-closed
	})
}

func (c *Client) within(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
}

// kill ends the process by force and waits for it.
func (c *Client) kill() {
	endGroup(c.cmd)
	<-c.done
}

// tail keeps the end of what is written to it. Safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	all []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, p...)
	if over := len(t.all) - maxSaid; over > 0 {
		t.all = append(t.all[:0], t.all[over:]...)
	}
	return len(p), nil
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(t.all)), "\uFFFD")
}
