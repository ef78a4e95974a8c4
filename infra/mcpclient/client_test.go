package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// mode makes this test binary a server.
const mode = "MCPCLIENT_TEST_MODE"

func TestMain(m *testing.M) {
	if how := os.Getenv(mode); how != "" {
		serve(how)
		return
	}
	goleak.VerifyTestMain(m)
}

func serve(how string) {
	switch how {
	case "mute":
		select {}
	case "ends":
		fmt.Fprintln(os.Stderr, "no \x1b[2Jlicence")
		os.Exit(3)
	case "long":
		fmt.Print(strings.Repeat("x", maxLine+1))
		select {}
	case "stays":
		signal.Ignore(syscall.SIGTERM)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	add := func(name string, annotations *mcp.ToolAnnotations, run func(context.Context, *mcp.CallToolRequest) (string, error)) {
		s.AddTool(&mcp.Tool{Name: name, Description: "does " + name, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: annotations},
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				text, err := run(ctx, req)
				if err != nil {
					text = err.Error()
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: err != nil}, nil
			})
	}
	no := false
	add("echo", &mcp.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &no}, func(_ context.Context, req *mcp.CallToolRequest) (string, error) {
		return string(req.Params.Arguments), nil
	})
	add("env", nil, func(context.Context, *mcp.CallToolRequest) (string, error) {
		return strings.Join(os.Environ(), "\n"), nil
	})
	add("fail", nil, func(context.Context, *mcp.CallToolRequest) (string, error) { return "", errors.New("it fails") })
	add("die", nil, func(context.Context, *mcp.CallToolRequest) (string, error) { os.Exit(7); return "", nil })
	add("wait", nil, func(ctx context.Context, _ *mcp.CallToolRequest) (string, error) { <-ctx.Done(); return "", ctx.Err() })
	add("more", nil, func(context.Context, *mcp.CallToolRequest) (string, error) {
		add("added", nil, func(context.Context, *mcp.CallToolRequest) (string, error) { return "", nil })
		return "", nil
	})
	add("ask", nil, func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
		got, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "may I?"})
		return fmt.Sprint(got), err
	})
	add("child", nil, func(context.Context, *mcp.CallToolRequest) (string, error) {
		cmd := exec.Command("/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done")
		err := cmd.Start()
		return fmt.Sprint(cmd.Process.Pid), err
	})
	switch how {
	case "many":
		for i := range MaxTools {
			add(fmt.Sprint("t", i), nil, nil)
		}
	case "large":
		s.AddTool(&mcp.Tool{Name: "large", Description: strings.Repeat("x", maxDefinition), InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	}
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	if how == "stays" {
		select {}
	}
}

func start(t *testing.T, how string, changed func()) (*Client, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	limit := 20 * time.Second
	if how == "mute" || how == "long" {
		limit = time.Second
	}
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	c, err := Start(ctx, Launch{Command: []string{self}, Env: []string{mode + "=" + how, "GREETING=hello"}, Changed: changed})
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func started(t *testing.T, how string) *Client {
	t.Helper()
	c, err := start(t, how, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func call(t *testing.T, c *Client, name string) (Result, error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	return c.Call(ctx, name, jsontext.Value(`{"a":"é"}`))
}

func names(t *testing.T, c *Client) (all []string) {
	t.Helper()
	got, _, err := c.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range got {
		all = append(all, one.Name)
	}
	slices.Sort(all)
	return all
}

func TestToolsAndCalls(t *testing.T) {
	c := started(t, "plain")
	if got := strings.Join(names(t, c), " "); got != "ask child die echo env fail more wait" {
		t.Errorf("it offers %s", got)
	}
	all, _, _ := c.Tools(t.Context())
	i := slices.IndexFunc(all, func(one Tool) bool { return one.Name == "echo" })
	if one := all[i]; one.ReadOnly == nil || !*one.ReadOnly || one.Destructive == nil || *one.Destructive || string(one.Input) != `{"type":"object"}` || one.Description != "does echo" {
		t.Errorf("echo is %+v", one)
	}
	if one := all[slices.IndexFunc(all, func(one Tool) bool { return one.Name == "env" })]; one.ReadOnly != nil || one.Destructive != nil || one.Annotations != nil {
		t.Errorf("env is %+v", one)
	}
	got, err := call(t, c, "echo")
	if err != nil || got.Failed || !strings.Contains(string(got.Raw), `{\"a\":\"é\"}`) {
		t.Errorf("%s, %v", got.Raw, err)
	}
	if got, err := call(t, c, "fail"); err != nil || !got.Failed || got.Text != "it fails" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := call(t, c, "none"); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("a tool that there is not: %v", err)
	}
}

// It gets what it is given, and nothing of the engine's.
func TestEnvironment(t *testing.T) {
	t.Setenv("CANARY", "secret")
	got, err := call(t, started(t, "plain"), "env")
	if err != nil || !strings.Contains(string(got.Raw), "GREETING=hello") || strings.Contains(string(got.Raw), "CANARY") {
		t.Errorf("%s, %v", got.Raw, err)
	}
}

// Nobody is asked for anything by a server.
func TestItMayNotAsk(t *testing.T) {
	if got, err := call(t, started(t, "plain"), "ask"); err == nil && !got.Failed {
		t.Errorf("it was answered: %s", got.Raw)
	}
}

func TestChanged(t *testing.T) {
	changed := make(chan struct{}, 9)
	c, err := start(t, "plain", func() { changed <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, c, "more"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Fatal("it does not say that its tools have changed")
	}
	if !slices.Contains(names(t, c), "added") {
		t.Error("there is no new tool")
	}
}

// A process that ends in the middle of a call leaves nobody to say what it did.
func TestGone(t *testing.T) {
	c := started(t, "plain")
	if _, err := call(t, c, "die"); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
	<-c.Done()
	if _, err := call(t, c, "echo"); !errors.Is(err, ErrGone) {
		t.Errorf("after its end: %v", err)
	}
}

// The end of a call's time is not the end of the server.
func TestCallTime(t *testing.T) {
	c := started(t, "plain")
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := c.Call(ctx, "wait", jsontext.Value(`{}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := call(t, c, "echo"); err != nil {
		t.Error(err)
	}
}

func TestBadServers(t *testing.T) {
	for _, row := range []struct {
		how, text string
		is        error
	}{
		{"mute", "", context.DeadlineExceeded},
		{"ends", `no \x1b[2Jlicence`, ErrGone},
		{"long", "", nil},
	} {
		t.Run(row.how, func(t *testing.T) {
			c, err := start(t, row.how, nil)
			if err == nil || c != nil || row.is != nil && !errors.Is(err, row.is) || !strings.Contains(err.Error(), row.text) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := Start(t.Context(), Launch{Command: []string{"/none/such"}}); err == nil {
		t.Error("what is not there starts")
	}
	if _, _, err := started(t, "many").Tools(t.Context()); !errors.Is(err, ErrTooMuch) {
		t.Errorf("too many tools: %v", err)
	}
	all, left, err := started(t, "large").Tools(t.Context())
	if err != nil || len(all) != 8 || len(left) != 1 || !strings.Contains(left[0], `"large"`) {
		t.Errorf("%d tools, without %q, %v", len(all), left, err)
	}
}

// Close ends who does not want to, and what it has started.
func TestClose(t *testing.T) {
	c := started(t, "stays")
	got, err := call(t, c, "child")
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscanf(got.Raw.String()[strings.Index(got.Raw.String(), `"text":"`)+8:], "%d", &pid); err != nil {
		t.Fatal(err)
	}
	c.Close()
	c.Close()
	for range 100 {
		if err = syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) || zombie(pid) {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Errorf("process %d is still there: %v", pid, err)
}

// zombie says that the process has ended and nobody has asked how.
func zombie(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(raw), ") ")
	return err == nil && strings.HasPrefix(after, "Z")
}
