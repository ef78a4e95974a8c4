package main

import (
	"context"
	"os"
	"time"

	"github.com/go-json-experiment/json/jsontext"

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
