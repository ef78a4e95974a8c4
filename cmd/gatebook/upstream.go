package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/handlers/tools"
	"gatebook/handlers/upstream"
	"gatebook/infra/mcpclient"
	policyupstream "gatebook/policy/upstream"
)

// servers keeps the servers of the catalog in force running, and offers their tools.
func (n *node) upstreams(registry *tools.Registry) *upstream.Manager {
	return upstream.New(upstream.Config{
		Loop: n.engine, Store: n.stores.live, Offer: registry.Offer, Start: startServer, Secret: n.secretText, Log: n.logMasked,
	})
}

// assetDecided lets those look who act on what people decide about assets.
func (n *node) assetDecided() {
	n.loader.Wake()
	n.servers.Wake()
}

// logMasked logs what may hold what a server said.
func (n *node) logMasked(level, text string) {
	text, _ = n.masks.Text(text)
	n.cfg.log(level, text)
}

// handedDown are the variables of the engine that a server gets.
var handedDown = [...]string{"PATH", "HOME", "LANG", "TMPDIR"}

func startServer(ctx context.Context, l upstream.Launch) (upstream.Server, error) {
	env := map[string]string{}
	for _, name := range handedDown {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	maps.Copy(env, l.Env)
	launch := mcpclient.Launch{Command: l.Command, Changed: l.Changed}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		launch.Env = append(launch.Env, name+"="+env[name])
	}
	c, err := mcpclient.Start(ctx, launch)
	if err != nil {
		return nil, err
	}
	return mcpServer{c}, nil
}

// mcpServer is a server as the manager knows it.
type mcpServer struct{ *mcpclient.Client }

func (s mcpServer) Tools(ctx context.Context) ([]upstream.Tool, []string, error) {
	all, left, err := s.Client.Tools(ctx)
	out := make([]upstream.Tool, 0, len(all))
	for _, t := range all {
		out = append(out, upstream.Tool{
			Definition: tools.Definition{
				Name: t.Name, Title: t.Title, Description: t.Description, Schema: t.Input, Result: t.Output, Annotations: t.Annotations,
			},
			Hints: policyupstream.Hints{ReadOnly: t.ReadOnly, Destructive: t.Destructive},
		})
	}
	return out, left, err
}

func (s mcpServer) Call(ctx context.Context, name string, args jsontext.Value) (upstream.Result, error) {
	got, err := s.Client.Call(ctx, name, args)
	if errors.Is(err, mcpclient.ErrGone) {
		err = fmt.Errorf("%w: %w", upstream.ErrGone, err)
	}
	return upstream.Result{Raw: got.Raw, Failed: got.Failed, Text: got.Text}, err
}
