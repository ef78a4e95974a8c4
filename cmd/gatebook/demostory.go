package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/policy/paths"
)

// tell runs the story.
func (d *demo) tell(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{
		d.open, d.work, d.refusals, d.sameKey, d.trash, d.crash, d.after, d.closeRounds, d.read, d.verify,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) open(ctx context.Context) error {
	d.say("\n1. An engine starts. It alone writes in the book.")
	if err := d.startEngine(ctx); err != nil {
		return err
	}
	d.say("\n2. A channel says who is talking; the catalog says what that allows.\n   anna, the owner, talks to assistant and planner; a visitor to desk.")
	var err error
	if d.parts[string(terminalChannel)], err = d.start(ctx, "the channel", "channel", string(terminalChannel)); err != nil {
		return err
	}
	for _, id := range demoAgents() {
		if d.parts[string(id)], err = d.start(ctx, string(id), "agent", string(id)); err != nil {
			return err
		}
		sender, task := "anna", "plan the party"
		if id == demoDesk {
			sender, task = "visitor", "a question"
		}
		var r engine.RoundAnswer
		if err := d.ask(ctx, string(terminalChannel), demoOrder{Verb: "begin", Agent: id}, roundBegin{Sender: sender, Task: task}, &r); err != nil {
			return err
		}
		d.say("  %-10s round for %s: %s is %s (%s), profile %s", terminalChannel, id, sender, r.Principal, r.Kind, r.Profile)
	}
	return d.attach(ctx)
}

// attach tells the engine which process serves each round.
func (d *demo) attach(ctx context.Context) error {
	for _, id := range demoAgents() {
		var r engine.RoundAnswer
		if err := d.ask(ctx, string(id), demoOrder{Verb: "attach"}, struct{}{}, &r); err != nil {
			return err
		}
	}
	return nil
}

// demoCall is the body of a call without round and handle.
type demoCall struct {
	Tool string         `json:"tool,omitzero"`
	Args jsontext.Value `json:"args,omitzero"`
	Key  string         `json:"key,omitzero"`
}

// call lets an agent call a tool and says what came of it.
func (d *demo) call(ctx context.Context, who events.AgentID, tool, arguments, key string) (engine.CallAnswer, error) {
	q := demoCall{Tool: tool, Args: jsontext.Value(arguments), Key: key}
	d.sayAsked(who, q)
	var c engine.CallAnswer
	if err := d.ask(ctx, string(who), demoOrder{Verb: "call"}, q, &c); err != nil {
		return c, err
	}
	d.calls[c.Call] = true
	d.sayAnswer(c)
	return c, nil
}

func (d *demo) sayAsked(who events.AgentID, q demoCall) {
	key := ""
	if q.Key != "" {
		key = " with the key " + q.Key
	}
	d.say("  %-10s %s %s%s", who, q.Tool, q.Args, key)
}

func (d *demo) sayAnswer(c engine.CallAnswer) {
	text := string(c.Status)
	if c.Replayed {
		text += ", as recorded"
	}
	if c.Layer != "" {
		text += " by layer " + string(c.Layer)
	}
	if why := cmp.Or(c.Reason, c.Error); why != "" {
		text += ": " + events.Escape(why)
	} else if len(c.Result) > 0 {
		text += ": " + escapeLines(string(c.Result))
	}
	d.say("%13s-> %s", "", text)
}

// expect is a call whose answer must be a certain sight.
func (d *demo) expect(ctx context.Context, who events.AgentID, tool, arguments, key, sight string, holds func(engine.CallAnswer) bool) error {
	c, err := d.call(ctx, who, tool, arguments, key)
	if err != nil {
		return err
	}
	return d.saw(sight, holds(c))
}

func demoRefused(status events.Status, layer events.Layer, rule string) func(engine.CallAnswer) bool {
	return func(c engine.CallAnswer) bool {
		return c.Status == status && c.Layer == layer && (rule == "" || c.Rule == rule) && c.Reason != ""
	}
}

func demoOK(c engine.CallAnswer) bool { return c.Status == events.StatusOK }

const (
	demoFile    = "party/guests.txt"
	demoContent = "Ada, Grace"
	demoWrite   = `{"path":"party/guests.txt","content":"Ada, Grace"}`
	demoPath    = `{"path":"party/guests.txt"}`
)

// holds says whether the assistant's file is there with its content.
func (d *demo) holds() bool {
	folder, err := paths.FolderOf(demoAssistant)
	if err != nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join(d.dir.Path(), folder.String(), demoFile))
	return err == nil && string(text) == demoContent
}

func (d *demo) work(ctx context.Context) error {
	d.say("\n3. Agents work on files. Each call is decided and written down before it runs.")
	if _, err := d.call(ctx, demoAssistant, "file.write", demoWrite, ""); err != nil {
		return err
	}
	if _, err := d.call(ctx, demoDesk, "file.list", `{}`, ""); err != nil {
		return err
	}
	return d.expect(ctx, demoAssistant, "file.read", demoPath, "", sawWork, func(c engine.CallAnswer) bool {
		return demoOK(c) && d.holds()
	})
}

func (d *demo) refusals(ctx context.Context) error {
	d.say("\n4. The gate refuses, says which layer did and why, and writes that down too.")
	for _, r := range []struct {
		who             events.AgentID
		tool, arguments string
		sight           string
		holds           func(engine.CallAnswer) bool
	}{
		{demoDesk, "file.write", `{"path":"hello.txt","content":"hi"}`, sawGuest, demoRefused(events.StatusDenied, events.LayerProfile, "profile")},
		{demoPlanner, "file.delete", demoPath, sawRole, demoRefused(events.StatusDenied, events.LayerRole, "grant")},
		{demoAssistant, "file.read", `{"path":"../../gatebook.yaml"}`, sawOutside, demoRefused(events.StatusDenied, events.LayerRole, "workspace")},
		{demoAssistant, "file.shred", demoPath, sawUnknown, demoRefused(events.StatusNotFound, events.LayerTool, "unknown")},
		{demoAssistant, "file.write", `{"path":"a.txt","contents":"a"}`, sawMalformed, demoRefused(events.StatusRejected, events.LayerDecode, "contents")},
	} {
		if err := d.expect(ctx, r.who, r.tool, r.arguments, "", r.sight, r.holds); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) sameKey(ctx context.Context) error {
	d.say("\n5. A call with a key runs once, however often it is sent.")
	const plan = `{"path":"plan.txt","content":"cake"}`
	first, err := d.call(ctx, demoPlanner, "file.write", plan, "plan")
	if err != nil {
		return err
	}
	err = d.expect(ctx, demoPlanner, "file.write", plan, "plan", sawReplay, func(c engine.CallAnswer) bool {
		return demoOK(first) && demoOK(c) && c.Replayed && c.Call == first.Call
	})
	if err != nil {
		return err
	}
	return d.expect(ctx, demoPlanner, "file.write", `{"path":"plan.txt","content":"soup"}`, "plan", sawOtherBody,
		demoRefused(events.StatusRejected, events.LayerRound, "key"))
}

func (d *demo) trash(ctx context.Context) error {
	d.say("\n6. What is deleted is in the trash, and comes back.")
	gone, err := d.call(ctx, demoAssistant, "file.delete", demoPath, "")
	if err != nil {
		return err
	}
	err = d.expect(ctx, demoAssistant, "file.trash", `{}`, "", sawTrash, func(c engine.CallAnswer) bool {
		return demoOK(gone) && demoOK(c) && !d.holds() && strings.Contains(string(c.Result), string(gone.Call))
	})
	if err != nil {
		return err
	}
	return d.expect(ctx, demoAssistant, "file.restore", `{"id":"`+string(gone.Call)+`"}`, "", sawRestore, func(c engine.CallAnswer) bool {
		return demoOK(c) && d.holds()
	})
}

// The call that the crash interrupts: half a minute, which nobody waits for.
func demoSlow() demoCall {
	return demoCall{Tool: "demo.wait", Args: jsontext.Value(`{"ms":25000}`), Key: "slow"}
}

func (d *demo) crash(ctx context.Context) error {
	d.say("\n7. The engine is killed while a tool runs.")
	c, err := d.app.reader("view")
	if err != nil {
		return err
	}
	defer c.close()
	feed, err := c.conn.SubscribeSync("audit." + string(demoPlanner) + ".allow")
	if err == nil {
		err = c.conn.Flush()
	}
	if err != nil {
		return fmt.Errorf("subscribe the feed: %w", err)
	}
	d.sayAsked(demoPlanner, demoSlow())
	body, err := json.Marshal(demoSlow())
	if err != nil {
		return err
	}
	if err := d.parts[string(demoPlanner)].send(demoOrder{Verb: "call", Body: body}); err != nil {
		return err
	}
	running, err := nextNotice(ctx, feed)
	if err != nil {
		return err
	}
	d.calls[running.Call] = true
	d.say("  feed       %s runs as call %s", running.Tool, running.Call)
	if err := d.engine.kill(); err != nil {
		return err
	}
	d.say("  engine     killed with SIGKILL")
	var none engine.CallAnswer
	err = d.answer(ctx, string(demoPlanner), &none)
	d.say("%13s-> no answer: the connection is gone", "")
	return d.saw(sawKill, running.Tool == demoSlow().Tool && errors.Is(err, errUnreachable))
}

func nextNotice(ctx context.Context, feed *nats.Subscription) (engine.Notice, error) {
	var n engine.Notice
	m, err := feed.NextMsgWithContext(ctx)
	if err != nil {
		return n, fmt.Errorf("wait for the feed: %w", err)
	}
	return n, json.Unmarshal(m.Data, &n)
}

func (d *demo) after(ctx context.Context) error {
	d.say("\n8. A new engine reads the book. What it cannot know it calls unknown, and runs nothing again.")
	if err := d.startEngine(ctx); err != nil {
		return err
	}
	if err := d.attach(ctx); err != nil {
		return err
	}
	slow := demoSlow()
	d.say("  %-10s asks how the call with the key %s ended", demoPlanner, slow.Key)
	var out engine.CallAnswer
	if err := d.ask(ctx, string(demoPlanner), demoOrder{Verb: "outcome"}, demoCall{Key: slow.Key}, &out); err != nil {
		return err
	}
	d.sayAnswer(out)
	if err := d.saw(sawLost, out.Status == events.StatusUnknown && d.calls[out.Call]); err != nil {
		return err
	}
	err := d.expect(ctx, demoPlanner, slow.Tool, string(slow.Args), slow.Key, sawNoSecond, func(c engine.CallAnswer) bool {
		return c.Status == events.StatusUnknown && c.Replayed && c.Call == out.Call
	})
	if err != nil {
		return err
	}
	err = d.expect(ctx, demoPlanner, "file.read", `{"path":"plan.txt"}`, "", sawGoesOn, demoOK)
	d.result.Recovered = err == nil
	return err
}

func (d *demo) closeRounds(ctx context.Context) error {
	d.say("\n9. The channel ends the rounds, and the owner reads the book.\n")
	for _, id := range demoAgents() {
		var r engine.RoundAnswer
		if err := d.ask(ctx, string(terminalChannel), demoOrder{Verb: "end", Agent: id}, struct{}{}, &r); err != nil {
			return err
		}
	}
	return nil
}
