package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/policy"
	"gatebook/policy/upstream"
)

// ErrGone is for a server that ended while it was asked.
var ErrGone = errors.New("the server is gone")

func cmpText(a, b string) int { return cmp.Compare(a, b) }

// runner keeps one server running.
type runner struct {
	m     *Manager
	id    string
	spec  spec
	stop  context.CancelFunc
	ended chan struct{} // closed when nothing of it runs

	mu      sync.Mutex
	server  Server // nil while it does not run
	offered int
	left    []string
	failure string
}

func (m *Manager) start(id string, s spec) *runner {
	ctx, stop := context.WithCancel(context.Background()) // the manager ends it
	r := &runner{m: m, id: id, spec: s, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		defer stop()
		r.run(ctx)
	}()
	return r
}

// run starts the server again and again until ctx ends.
func (r *runner) run(ctx context.Context) {
	wait := firstWait
	for ctx.Err() == nil {
		long := time.NewTimer(steady)
		err := r.once(ctx)
		if ctx.Err() != nil {
			return
		}
		r.m.cfg.Log("warn", fmt.Sprintf("server %s: %v", r.id, err))
		r.note(nil, err)
		if !long.Stop() { // it has passed
			wait = firstWait
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
		wait = min(2*wait, longWait)
	}
}

// once starts the server and serves until it ends.
func (r *runner) once(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	launch := Launch{Command: r.spec.server.Command, Env: r.spec.server.Environment(r.spec.phase), Changed: func() {
		select {
		case changed <- struct{}{}:
		default: // it will be asked already
		}
	}}
	for _, name := range slices.Sorted(maps.Keys(r.spec.server.Secrets)) {
		text, err := r.m.cfg.Secret(r.spec.server.Secrets[name])
		if err != nil {
			return fmt.Errorf("its variable %s: %w", name, err)
		}
		if launch.Env == nil {
			launch.Env = map[string]string{}
		}
		launch.Env[name] = text
	}
	greeting, stop := context.WithTimeout(ctx, startTime)
	defer stop()
	server, err := r.m.cfg.Start(greeting, launch)
	if err != nil {
		return err
	}
	defer func() {
		r.note(nil, nil)
		server.Close()
	}()
	r.note(server, nil)
	for {
		rest := time.NewTimer(listTime)
		if err := r.offer(ctx, server); err != nil {
			return err
		}
		if err := until(ctx, server, changed); err != nil {
			return err
		}
		if err := until(ctx, server, rest.C); err != nil {
			return err
		}
	}
}

// until waits for c, no longer than the server runs.
func until[T any](ctx context.Context, server Server, c <-chan T) error {
	select {
	case <-c:
		return nil
	case <-server.Done():
		return errors.New("it ended")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note says what runs now, and why nothing does; a failure stays until it runs again.
func (r *runner) note(server Server, failure error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = server
	switch {
	case server != nil:
		r.failure = ""
	case failure != nil:
		text := failure.Error()
		r.failure = events.Cut(text, maxFailure)
	}
}

func (r *runner) status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{Server: r.id, State: "running", Asset: r.spec.asset, Tools: r.offered, Left: slices.Clone(r.left), Failure: r.failure, Trusted: r.spec.server.Trusted, ReadOnly: r.spec.phase < 2}
	if r.server == nil {
		s.State = "not running"
	}
	return s
}

// offer asks the server for its tools and offers them in the place of those before.
func (r *runner) offer(ctx context.Context, server Server) error {
	ctx, stop := context.WithTimeout(ctx, startTime)
	defer stop()
	all, left, err := server.Tools(ctx)
	if err != nil {
		return err
	}
	times := map[string]int{}
	for _, t := range all {
		times[t.Name]++
	}
	var offered []tools.Tool
	for _, t := range all {
		one := &tool{r, t}
		switch _, err := tools.NewEntry(one); {
		case times[t.Name] > 1: // which of them would be called nobody could say
			left = append(left, events.Quote(t.Name)+": it is there twice")
		case err != nil:
			left = append(left, events.Quote(t.Name)+": "+err.Error())
		default:
			offered = append(offered, one)
		}
	}
	if err := r.m.cfg.Offer(r.id, offered...); err != nil {
		return err
	}
	slices.Sort(left)
	left = slices.Compact(left)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(left) > 0 && !slices.Equal(left, r.left) {
		r.m.cfg.Log("warn", fmt.Sprintf("server %s: not offered: %s", r.id, strings.Join(left, "; ")))
	}
	r.offered, r.left = len(offered), left
	return nil
}

func (r *runner) now() Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server
}

// tool is one tool of a server.
type tool struct {
	of *runner
	Tool
}

// Owner is the server's id.
func (t *tool) Owner() string { return t.of.id }

// Tier is what the server says, as far as that counts.
func (t *tool) Tier() events.Tier { return upstream.Tier(t.of.spec.server.Trusted, t.Hints) }

// Definition implements [tools.Tool].
func (t *tool) Definition() tools.Definition { return t.Tool.Definition }

// Decode takes an object; what is in it the server looks at.
func (t *tool) Decode(raw jsontext.Value) (tools.Decoded, error) {
	if raw.Kind() != '{' {
		return tools.Decoded{}, &policy.Malformed{Field: "args", Reason: "want an object"}
	}
	return tools.Decoded{Args: raw.Clone()}, nil
}

// Run implements [tools.Tool].
func (t *tool) Run(ctx context.Context, _ tools.Env, args tools.Args) (jsontext.Value, error) {
	raw, ok := args.(jsontext.Value)
	server := t.of.now()
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: these are arguments of another tool", t.Name)
	case server == nil:
		return nil, fmt.Errorf("the server %s does not run now; nothing was done, and it is started again by itself", t.of.id)
	}
	got, err := server.Call(ctx, t.Name, raw)
	switch {
	case errors.Is(err, ErrGone):
		return nil, fmt.Errorf("the server %s ended while the call ran: %w", t.of.id, tools.ErrUnknown)
	case err != nil:
		return nil, err
	case got.Failed:
		return nil, errors.New(cmp.Or(got.Text, "the tool says that it failed, and not why"))
	}
	return got.Raw, nil
}
