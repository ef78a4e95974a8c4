package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/testscript"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/policy"
)

// Variables that a script sets for the engines that it starts.
const (
	testTools = "TEST_TOOLS" // a version of the tools of the owner mailer; empty: none
	testLater = "TEST_LATER" // how much later it is, as a duration
)

// mailTool is a tool that is not built in. It writes down that it ran.
type mailTool struct {
	name, version string
	tier          events.Tier
}

// mailTools are what the owner mailer offers in one version.
func mailTools(version string) []tools.Tool {
	if version == "" {
		return nil
	}
	return []tools.Tool{mailTool{"send", version, events.Privileged}, mailTool{"note", version, events.Reversible}}
}

func (mailTool) Owner() string { return "mailer" }

func (m mailTool) Tier() events.Tier { return m.tier }

func (m mailTool) Definition() tools.Definition {
	return tools.Definition{Name: m.name, Description: m.name + ", version " + m.version, Schema: jsontext.Value(`{"type":"object"}`)}
}

func (mailTool) Decode(raw jsontext.Value) (tools.Decoded, error) {
	if raw.Kind() != '{' {
		return tools.Decoded{}, &policy.Malformed{Field: "args", Reason: "want an object"}
	}
	return tools.Decoded{Args: raw.Clone()}, nil
}

func (m mailTool) Run(context.Context, tools.Env, tools.Args) (jsontext.Value, error) {
	f, err := os.OpenFile("ran.txt", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(m.name + " " + m.version + "\n")
	return jsontext.Value(`{"done":true}`), closed(f, err)
}

func closed(f *os.File, err error) error {
	if other := f.Close(); err == nil {
		return other
	}
	return err
}

// later is a clock that a script sets forward.
func later(by string) func() time.Time {
	d, err := time.ParseDuration(by)
	if err != nil {
		return time.Now
	}
	return func() time.Time { return time.Now().Add(d) }
}

// serveWebhook is "webhook FILE VARIABLE": it takes what is posted to an address, which it
// puts into the variable, and writes each body on a line of the file.
func serveWebhook(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: webhook FILE VARIABLE")
	}
	file := ts.MkAbs(args[0])
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		f, openErr := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil || openErr != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, err = fmt.Fprintf(f, "%s %s\n", r.Header.Get("X-Gatebook-Signature"), body)
		if closed(f, err) != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	ts.Defer(server.Close)
	ts.Setenv(args[1], server.URL+"/canary-in-the-path")
}

// waitTold is "told FILE PATTERN": it waits until a line of the file matches.
func waitTold(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: told FILE PATTERN")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	until(ts, "a line of "+args[0]+" matches "+args[1], func() bool {
		raw, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && pattern.Match(raw)
	})
}
