package engine_test

import (
	"context"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/tools"
	"gatebook/policy"
)

// told notes under another text that its run may replace nothing.
type told struct{ named }

func (n told) Run(ctx context.Context, env tools.Env, args tools.Args) (jsontext.Value, error) {
	if env.CreateOnly {
		args = args.(string) + ", new files only"
	}
	return n.named.Run(ctx, env, args)
}

// A grant of new files only is the tool's to keep: it must hear of it, and only
// where it is so.
func TestCreateOnlyReachesTheTool(t *testing.T) {
	h := newHouse(t)
	h.catalog = withProfiles(t, func(c *policy.Catalog) {
		c.Roles["worker"] = policy.Role{Version: 1, Grants: []policy.Rule{{Tool: "file.read"}, {Tool: "file.write", CreateOnly: true}}}
	})
	h.start()
	p := h.party(t, "alice")
	r := p.begin(owner, "", "")
	for tool, suffix := range map[string]string{"file.read": "", "file.write": ", new files only"} {
		a, _ := p.ask(func(answer engine.Answer) engine.Command {
			c := p.call(r, tool)(answer).(*engine.Call)
			c.Tool.Tool = told{named{h.probe, tool}}
			return c
		}).(engine.CallAnswer)
		if runs := h.probe.count(p.text(r, tool) + suffix); a.Status != events.StatusOK || runs != 1 {
			t.Errorf("%s ran %d times as %q: %+v", tool, runs, suffix, a)
		}
	}
	h.close()
}
