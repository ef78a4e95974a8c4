package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/tools"
	"gatebook/policy"
	"gatebook/projections"
)

// What a round of each profile may do, by the tools that run when all are tried.
// No two are alike, so that what a call may do tells by which profile it was judged.
const (
	ownerTools    = "file.read file.write"
	guestTools    = "file.read"
	longtimeTools = "file.list"
	newTools      = "file.list file.read"
)

// tried are the tools that a round tries.
var tried = strings.Fields("file.list file.read file.write")

// The senders of the channel: one with the profile owner, one that nobody knows, and
// one without a profile, so that the agent's longtime profile decides.
const (
	owner  = "anna"
	guest  = "somebody"
	absent = "mute"
)

// withProfiles is the fixture's catalog with three agents and profiles that differ.
func withProfiles(tb testing.TB, edits ...func(*policy.Catalog)) *policy.Compiled {
	c := catalog(tb).Catalog()
	key := func(letter string) events.PublicKey { return events.PublicKey("U" + strings.Repeat(letter, 55)) }
	c.Profiles = map[string]policy.Profile{
		"owner": {Tools: strings.Fields(ownerTools)}, "guest": {Tools: strings.Fields(guestTools)},
		"night": {Tools: strings.Fields(longtimeTools)},
	}
	c.Scopes = map[string]policy.Scope{"tried": {Tools: tried}}
	c.Roles = map[string]policy.Role{"worker": {Version: 1, Grants: []policy.Rule{{Scope: "tried"}}}}
	c.Agents = map[events.AgentID]policy.Agent{
		"alice": {Role: "worker", Key: key("B")}, "bob": {Role: "worker", Key: key("G")}, "carol": {Role: "worker", Key: key("H")},
	}
	ch := c.Channels["terminal"]
	ch.Senders = map[string]policy.Sender{
		owner:  {Principal: "anna", Kind: events.PrincipalUser, Profile: "owner"},
		absent: {Principal: "mute", Kind: events.PrincipalUser},
	}
	c.Channels = map[events.ChannelID]policy.Channel{"terminal": ch}
	for _, edit := range edits {
		edit(&c)
	}
	out, err := policy.Compile(c)
	must(tb, err)
	return out
}

// profileHouse is a running house of that catalog. Each of its agents has the
// longtime profile night.
func profileHouse(t *testing.T) *house {
	h := newHouse(t)
	h.catalog = withProfiles(t)
	h.start()
	for agent := range h.catalog.Catalog().Agents {
		h.party(t, agent).longtime("night")
	}
	return h
}

// named is the house's probe under the name of a built-in tool.
type named struct {
	*probe
	name string
}

func (n named) Definition() tools.Definition {
	return tools.Definition{Name: n.name, Description: "counts", Schema: jsontext.Value(`{}`)}
}

// party is an agent and its channel, as one test sees them.
type party struct {
	t     *testing.T
	h     *house
	agent events.AgentID
	turn  int // rounds begun
}

func (h *house) party(t *testing.T, agent events.AgentID) *party {
	return &party{t: t, h: h, agent: agent}
}

// turn is one round of a party.
type turn struct {
	engine.RoundAnswer
	handle string
	tries  int
}

// ask submits and waits. Parties work beside each other in goroutines, where a test
// cannot be ended: they note what is wrong and go on.
func (p *party) ask(make func(engine.Answer) engine.Command) any { return p.wait(p.send(make)) }

func (p *party) send(make_ func(engine.Answer) engine.Command) <-chan any {
	answer := make(chan any, 1)
	if err := p.h.engine.Submit(p.t.Context(), make_(func(v any) { answer <- v })); err != nil {
		answer <- err
	}
	return answer
}

func (p *party) wait(answer <-chan any) any {
	ctx, stop := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer stop()
	select {
	case v := <-answer:
		return v
	case <-ctx.Done():
		return fmt.Errorf("no answer: %w", ctx.Err())
	}
}

// begin begins a round of a conversation; without one, of a new one.
func (p *party) begin(sender, profile string, conversation events.ConversationID) *turn {
	p.t.Helper()
	p.turn++
	r := &turn{handle: fmt.Sprintf("%s %s %d", p.t.Name(), p.agent, p.turn)}
	v := p.ask(func(a engine.Answer) engine.Command {
		return &engine.BeginRound{Answer: a, Request: policy.RoundRequest{
			Channel: "terminal", Agent: p.agent, Sender: sender, Profile: profile, Conversation: conversation, HandleHash: hashOf(r.handle),
		}}
	})
	var ok bool
	if r.RoundAnswer, ok = v.(engine.RoundAnswer); !ok || r.Repeated {
		p.t.Errorf("begin of %s for %s: %+v", p.agent, sender, v)
	}
	return r
}

func (p *party) end(r *turn, how events.RoundEnd) {
	p.t.Helper()
	v := p.ask(func(a engine.Answer) engine.Command {
		return &engine.EndRound{Answer: a, Request: policy.RoundEndRequest{
			Channel: "terminal", Round: r.Round, HandleHash: hashOf(r.handle), End: how,
		}}
	})
	if a, ok := v.(engine.RoundAnswer); !ok || a.End != how {
		p.t.Errorf("end: %+v", v)
	}
}

// tries calls every tool of tried once in each round, the rounds by turns, and gives
// those that ran in each. What was answered and what ran must agree.
func (p *party) tries(rounds ...*turn) []string {
	p.t.Helper()
	answers := map[string]<-chan any{}
	for _, r := range rounds {
		r.tries++
	}
	for _, tool := range tried {
		for _, r := range rounds {
			answers[p.text(r, tool)] = p.send(p.call(r, tool))
		}
	}
	out := make([]string, len(rounds))
	for i, r := range rounds {
		var ran []string
		for _, tool := range tried {
			v := p.wait(answers[p.text(r, tool)])
			a, _ := v.(engine.CallAnswer)
			runs, want := p.h.probe.count(p.text(r, tool)), 0
			if a.Status == events.StatusOK {
				ran, want = append(ran, tool), 1
			} else if a.Status != events.StatusDenied {
				p.t.Errorf("%s of %s: %+v", tool, p.agent, v)
			}
			if runs != want {
				p.t.Errorf("%s of %s ran %d times, and the answer was %s", tool, p.agent, runs, a.Status)
			}
		}
		out[i] = strings.Join(ran, " ")
	}
	return out
}

func (p *party) text(r *turn, tool string) string {
	return fmt.Sprintf("%s %s %s %d", p.agent, r.handle, tool, r.tries)
}

func (p *party) call(r *turn, tool string) func(engine.Answer) engine.Command {
	text := p.text(r, tool)
	impl := named{p.h.probe, tool}
	entry, err := tools.NewEntry(impl)
	must(p.t, err)
	args := jsontext.Value(fmt.Sprintf(`{"text":%q}`, text))
	return func(a engine.Answer) engine.Command {
		return &engine.Call{
			Answer: a, Known: true, Tool: entry, Args: text,
			Request: policy.CallRequest{
				Agent: p.agent, Round: r.Round, HandleHash: hashOf(r.handle), Tool: events.ToolKey{Owner: events.OwnerBuiltin, Name: tool},
				Args: args, Arguments: events.Arguments{Text: events.Plain(string(args)), Size: int64(len(args)), MAC: testMAC(args)},
			},
		}
	}
}

// may fails unless exactly these tools ran.
func (p *party) may(r *turn, want, when string) {
	p.t.Helper()
	if got := p.tries(r)[0]; got != want {
		p.t.Errorf("%s, %s: %q ran, want %q", p.agent, when, got, want)
	}
}

func (p *party) longtime(profile string) any {
	p.t.Helper()
	return p.ask(func(a engine.Answer) engine.Command {
		return &engine.SetLongtime{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Agent: p.agent, Profile: profile}
	})
}

// roundsOfEach is how many rounds an agent has in a test of crossing.
const roundsOfEach = 200

// Profiles of agents that work at once never cross: what a call may do is what its
// own round may, whatever rounds of others are open and whatever the round before
// could.
func TestProfilesOfAgentsNeverCross(t *testing.T) {
	h := profileHouse(t)
	var all sync.WaitGroup
	for agent, as := range map[events.AgentID]struct{ sender, tools string }{
		"alice": {guest, guestTools}, "bob": {owner, ownerTools}, "carol": {guest, guestTools},
	} {
		all.Go(func() {
			p, conversation := h.party(t, agent), events.ConversationID("")
			for i := 0; i < roundsOfEach && !t.Failed(); i++ {
				r := p.begin(as.sender, "", conversation)
				conversation = r.Conversation
				p.may(r, as.tools, fmt.Sprint("round ", i))
				p.end(r, events.RoundCompleted)
			}
		})
	}
	all.Wait()
	h.finish()
}

// Profiles of two conversations of one agent never cross: the owner's and the
// guest's round are open together and their calls alternate.
func TestProfilesOfConversationsNeverCross(t *testing.T) {
	h := profileHouse(t)
	p := h.party(t, "alice")
	var ofOwner, ofGuest events.ConversationID
	for i := 0; i < roundsOfEach && !t.Failed(); i++ {
		mine, other := p.begin(owner, "", ofOwner), p.begin(guest, "", ofGuest)
		ofOwner, ofGuest = mine.Conversation, other.Conversation
		if got := p.tries(mine, other); got[0] != ownerTools || got[1] != guestTools {
			t.Errorf("rounds %d: %q ran for the owner and the guest", i, got)
		}
		first, second, rest := mine, other, guestTools
		if i%2 == 1 {
			first, second, rest = other, mine, ownerTools
		}
		p.end(first, events.RoundCompleted)
		p.may(second, rest, fmt.Sprint("the round that is left, ", i))
		p.end(second, events.RoundFailed)
	}
	h.finish()
}

// finish is close without a rebuild, which takes longer than so many calls.
func (h *house) finish() {
	h.drain()
	h.checkBook()
	must(h.tb, h.store.Close())
}

// However a round ends, its session profile ends with it: nothing is left of it for
// a call of that round, and in the next one the longtime profile counts.
func TestEveryEndClearsTheSessionProfile(t *testing.T) {
	by := func(how events.RoundEnd) func(*party, *turn) { return func(p *party, r *turn) { p.end(r, how) } }
	for name, end := range map[string]func(*party, *turn){
		"completed": by(events.RoundCompleted), "failed": by(events.RoundFailed), "cancelled": by(events.RoundCancelled),
		"timed out": func(p *party, r *turn) { p.h.clock.pass(61 * time.Minute) },
		"gone": func(p *party, r *turn) {
			p.ask(func(a engine.Answer) engine.Command {
				return &engine.Attach{Agent: p.agent, Round: r.Round, HandleHash: hashOf(r.handle), Answer: a}
			})
			must(p.t, p.h.engine.Submit(p.t.Context(), engine.Disconnected{Agent: p.agent}))
			p.longtime("night") // is decided after it
			p.h.clock.pass(31 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := profileHouse(t)
			p := h.party(t, "alice")
			r := p.begin(owner, "", "")
			p.may(r, ownerTools, "before the end")
			end(p, r)
			for range 3000 {
				if _, ended := h.roundEnd(r.Round); ended {
					break
				}
				yield(t)
			}
			p.may(r, "", "in the round that ended")
			p.may(p.begin(absent, "", r.Conversation), longtimeTools, "in the round after it")
			h.close()
		})
	}
}

// A session profile that is not declared is none, and the book says so. It is not
// the one of the round before, and not the most that the sender could have.
func TestUnknownSessionProfileIsNone(t *testing.T) {
	h := profileHouse(t)
	p := h.party(t, "alice")
	before := p.begin(owner, "", "")
	p.may(before, ownerTools, "before")
	p.end(before, events.RoundCompleted)
	for _, asked := range []string{"Owner", "owner ", "ownеr", "day"} {
		for _, sender := range []string{owner, absent} {
			r := p.begin(sender, asked, before.Conversation)
			p.may(r, "", sender+" asking for "+asked)
			if d := h.defaulted(r.Round); d.Asked != asked || d.Reason == "" {
				t.Errorf("%s asking for %q: the book says %+v", sender, asked, d)
			}
			p.end(r, events.RoundCompleted)
		}
	}
	narrower := p.begin(owner, policy.NoProfile, before.Conversation)
	p.may(narrower, "", "asking for none")
	h.close()
}

func (h *house) defaulted(round events.RoundID) events.ProfileDefaulted {
	for _, e := range h.book() {
		if d, ok := e.Event.(events.ProfileDefaulted); ok && d.Round == round {
			return d
		}
	}
	return events.ProfileDefaulted{}
}

// What a round asks for and may have is what it gets, not the most it could ask for.
func TestRequestedProfileCounts(t *testing.T) {
	h := profileHouse(t)
	p := h.party(t, "alice")
	p.may(p.begin(owner, "guest", ""), guestTools, "the owner asking for less")
	p.may(p.begin(guest, "owner", ""), "", "a guest asking for more")
	h.close()
}

// No call without a round, whatever the longtime profile allows.
func TestNoCallWithoutARound(t *testing.T) {
	h := profileHouse(t)
	p := h.party(t, "alice")
	open := p.begin(absent, "", "")
	p.may(open, longtimeTools, "in its round")
	for name, r := range map[string]*turn{
		"no round": {}, "no handle": {RoundAnswer: open.RoundAnswer}, "another handle": {RoundAnswer: open.RoundAnswer, handle: "guess"},
		"no round, a handle": {handle: open.handle, tries: 10},
	} {
		p.may(r, "", name)
	}
	h.party(t, "bob").may(open, "", "the round of another agent")
	h.close()
}

// A longtime profile outlives rounds and restarts. One that is not declared is an
// error and changes nothing.
func TestLongtimeProfileIsKept(t *testing.T) {
	h := profileHouse(t)
	p := h.party(t, "alice")
	check := func(when string) {
		t.Helper()
		r := p.begin(absent, "", "")
		p.may(r, longtimeTools, when)
		p.end(r, events.RoundCompleted)
		other := p.begin(owner, "", r.Conversation)
		p.may(other, ownerTools, "the owner's round "+when)
		p.end(other, events.RoundFailed)
	}
	check("at first")
	check("after rounds")
	for _, name := range []string{"Night", "night ", "day"} {
		if v, ok := p.longtime(name).(engine.Refused); !ok || v.Error.Code != string(policy.CodeUnknownProfile) {
			t.Errorf("longtime %q: %+v", name, v)
		}
	}
	check("after names that are not declared")
	h.crash()
	h.start()
	check("after a crash")
	h.close()
}

// A released agent keeps neither profile.
func TestReleaseForgetsBothProfiles(t *testing.T) {
	h := profileHouse(t)
	p := h.party(t, "alice")
	session, night := p.begin(owner, "", ""), p.begin(absent, "", "")
	p.may(session, ownerTools, "before the release")
	p.may(night, longtimeTools, "before the release")
	p.ask(func(a engine.Answer) engine.Command {
		return &engine.ReleaseAgent{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Agent: "alice"}
	})
	p.may(session, "", "after the release, with a session profile")
	p.may(night, "", "after the release, with the longtime profile")
	for _, r := range []*turn{session, night} {
		if _, ended := h.roundEnd(r.Round); !ended {
			t.Errorf("round %s is open after the release", r.Round)
		}
	}
	snap := h.store.Snapshot()
	row, found, err := projections.AgentByID(snap, "alice")
	snap.Close()
	if must(t, err); !found || row.Longtime != "" {
		t.Errorf("the released agent: %+v", row)
	}
	h.party(t, "bob").may(h.party(t, "bob").begin(absent, "", ""), longtimeTools, "another agent")
	h.close()
}

// A profile that a catalog adds is there for every agent at once, in the next
// round, without a restart.
func TestNewProfileIsThereAtOnce(t *testing.T) {
	h := profileHouse(t)
	next := withProfiles(t, func(c *policy.Catalog) {
		c.Profiles["new"] = policy.Profile{Tools: strings.Fields(newTools)}
		c.Channels["terminal"].Senders["nora"] = policy.Sender{Principal: "nora", Kind: events.PrincipalUser, Profile: "new"}
	})
	agents := []events.AgentID{"alice", "bob", "carol"}
	for _, agent := range agents {
		p := h.party(t, agent)
		p.may(p.begin("nora", "", ""), guestTools, "before: somebody unknown")
	}
	p := h.party(t, "alice")
	if v, ok := p.ask(func(a engine.Answer) engine.Command {
		return &engine.LoadCatalog{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Next: next}
	}).(engine.Done); !ok || !v.Changed {
		t.Fatalf("the catalog: %+v", v)
	}
	for _, agent := range agents {
		p := h.party(t, agent)
		p.turn = 1
		p.may(p.begin("nora", "", ""), newTools, "as session profile")
		if v, ok := p.longtime("new").(engine.Done); !ok || !v.Changed {
			t.Errorf("longtime: %+v", v)
		}
		p.may(p.begin(absent, "", ""), newTools, "as longtime profile")
	}
	h.close()
}
