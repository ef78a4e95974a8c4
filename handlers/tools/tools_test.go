package tools_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/tools"
)

// builtin is a tool of the program.
type builtin struct{ name string }

func (b builtin) Definition() tools.Definition {
	return tools.Definition{Name: b.name, Schema: jsontext.Value(`{}`)}
}

func (builtin) Decode(jsontext.Value) (tools.Decoded, error) { return tools.Decoded{}, nil }

func (builtin) Run(context.Context, tools.Env, tools.Args) (jsontext.Value, error) { return nil, nil }

// owned is a tool of somebody else.
type owned struct {
	builtin
	owner string
}

func (o owned) Owner() string { return o.owner }

func of(owner, name string) tools.Tool { return owned{builtin{name}, owner} }

func TestOffer(t *testing.T) {
	r, err := tools.NewRegistry(builtin{"file.read"}, of("mailer", "send"))
	if err != nil {
		t.Fatal(err)
	}
	names := func(want ...string) {
		t.Helper()
		if got := r.Names(); !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
	}
	for _, row := range []struct {
		name  string
		owner string
		all   []tools.Tool
		err   error
		want  []string
	}{
		{"two tools", "a", []tools.Tool{of("a", "x"), of("a", "y")}, nil, []string{"a/x", "a/y"}},
		{"others in their place", "a", []tools.Tool{of("a", "y"), of("a", "z")}, nil, []string{"a/y", "a/z"}},
		{"O-R18 chuk-tool-processor#53: the same name of another owner", "b", []tools.Tool{of("b", "y")}, nil, []string{"a/y", "a/z", "b/y"}},
		{"O-R17 stella#2675: acme_ and status", "acme_", []tools.Tool{of("acme_", "status")}, nil, []string{"a/y", "a/z", "acme_/status", "b/y"}},
		{"O-R17 stella#2675: acme and _status", "acme", []tools.Tool{of("acme", "_status")}, nil, []string{"a/y", "a/z", "acme/_status", "acme_/status", "b/y"}},
		{"twice the same", "a", []tools.Tool{of("a", "x"), of("a", "x")}, fs.ErrExist, []string{"a/y", "a/z", "acme/_status", "acme_/status", "b/y"}},
		{"O-R16 qwen-code#10199: another's", "a", []tools.Tool{of("b", "x")}, fs.ErrInvalid, []string{"a/y", "a/z", "acme/_status", "acme_/status", "b/y"}},
		{"O-R16 qwen-code#10199: an owner of the program's", "mailer", []tools.Tool{of("mailer", "x")}, fs.ErrExist, []string{"a/y", "a/z", "acme/_status", "acme_/status", "b/y"}},
		{"a built-in one", events.OwnerBuiltin, []tools.Tool{builtin{"file.write"}}, fs.ErrExist, []string{"a/y", "a/z", "acme/_status", "acme_/status", "b/y"}},
		{"as if it were built in", "a", []tools.Tool{builtin{"file.write"}}, fs.ErrInvalid, []string{"a/y", "a/z", "acme/_status", "acme_/status", "b/y"}},
		{"O-R18 denkeeper#319: none any more", "a", nil, nil, []string{"acme/_status", "acme_/status", "b/y"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := r.Offer(row.owner, row.all...); !errors.Is(err, row.err) || (err == nil) != (row.err == nil) {
				t.Errorf("%v, want %v", err, row.err)
			}
			want := append(row.want, "file.read", "mailer/send")
			slices.Sort(want)
			names(want...)
			for _, name := range []string{"y", "status", "b/", "/y", "B/y", "b/y/"} { // O-R18: a name without its owner is none
				if _, found := r.Lookup(name); found {
					t.Errorf("there is a tool %q", name)
				}
			}
		})
	}
}

// Whoever looks sees all tools of an offer or none, whoever else offers.
func TestOfferTogether(t *testing.T) {
	r, err := tools.NewRegistry(builtin{"file.read"})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			owner := fmt.Sprint("o", i)
			for range 200 {
				if err := errors.Join(r.Offer(owner, of(owner, "x"), of(owner, "y")), r.Offer(owner)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 500 {
			if names := r.Names(); len(names)%2 != 1 {
				t.Errorf("half an offer: %q", names)
			}
		}
	})
	all.Wait()
}
