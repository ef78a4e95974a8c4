// Package people answers what people's programs ask (view.<person>.…) and takes
// their acts (control.<person>.… with the reading key, review.<person>.… with the
// approving one).
//
// Start with [New] and hand every message to [Handler.Handle].
//
// What the package promises: who asks is the subject token that the server
// enforced, and so is which of the two keys came; an answer goes only under that
// key's own inbox; what a supervisor may not observe looks exactly like what
// does not exist; every list states the sequence that it is true at.
//
// DESIGN, section 7, writes the subjects without the person's token. Without it
// the engine could not know who asks, because a reply subject is whatever the
// sender says; so the token is there, as it is for agents and channels.
//
// Concurrency: Handle is safe for concurrent use; it waits for the store, and for
// the loop while that is behind.
package people

import (
	"context"
	"strings"

	"gatebook/events"
	"gatebook/handlers/alerts"
	"gatebook/handlers/engine"
	"gatebook/handlers/health"
	"gatebook/handlers/install"
	"gatebook/handlers/integrity"
	"gatebook/handlers/strictjson"
	"gatebook/handlers/telegram"
	"gatebook/handlers/tools"
	"gatebook/handlers/upstream"
	"gatebook/handlers/views"
	"gatebook/policy"
	"gatebook/projections"
)

// Message is a request as it came from the bus.
type Message struct {
	Subject string
	Reply   string
	Data    []byte
}

// Loop is what the handler needs of the engine.
type Loop interface {
	Submit(context.Context, engine.Command) error
	Catalog() *policy.Compiled
	Health() *health.State
	Staged(context.Context, events.CallID) (engine.StagedCall, error)
	Waiting() int
}

// Config is what a handler needs; every field is required.
type Config struct {
	Loop  Loop
	Store projections.Store
	Book  func() events.Log
	Tools interface {
		Names() []string
		Lookup(name string) (tools.Entry, bool)
	}
	// Blob reads what an event names.
	Blob func(events.Digest) ([]byte, error)
	// Views builds the views anew.
	Views interface {
		Start() error
		Status() views.Status
	}
	// CatalogFile reads and checks the file of the data folder.
	CatalogFile func() (*policy.Compiled, error)
	// Scrub is how far the background check of the book is.
	Scrub func() integrity.Position
	// Redact masks the secrets in people's texts before an event has them.
	Redact interface{ Text(string) (string, bool) }
	Send   func(subject string, answer any)
	About  About
	// Warnings are what an operator should know of this run, as of now.
	Warnings func() []string
	// Alerts is how it stands with those who are told of what happens.
	Alerts func() []alerts.Status
	// Installed is how it stands with the folders of what was proposed and approved.
	Installed func() []install.Status
	// Servers is how it stands with the servers of the catalog.
	Servers func() []upstream.Status
	// Bot is how the bot for approvers is doing, where there is one.
	Bot func() (telegram.Status, bool)
	// Process measures the engine's own process.
	Process func() Process
}

// About is what does not change while an engine runs.
type About struct {
	Version     string             `json:"version"`
	Writer      events.WriterID    `json:"writer"`
	Incarnation events.Incarnation `json:"incarnation"`
}

// Handler answers people.
type Handler struct {
	cfg   Config
	views map[string]func(request) any
	acts  map[string]func(request) any
}

// request is one question or act of a person.
type request struct {
	ctx      context.Context
	person   events.PersonID
	approves bool
	via      string // the surface, where it is not the bus
	data     []byte
	answer   engine.Answer
}

// New prepares a handler.
func New(cfg Config) *Handler {
	h := &Handler{cfg: cfg}
	h.views = map[string]func(request) any{
		"audit": h.audit, "totals": h.totals, "call": h.call, "receipts": h.receipts, "rounds": h.rounds,
		"agents": h.agents, "health": h.health, "catalog": h.catalog, "reviews": h.reviews, "review": h.review,
		"book": h.book, "usage": h.usage, "rebuild": h.rebuildStatus, "assets": h.assets, "asset": h.asset, "asset.content": h.assetContent,
	}
	h.acts = map[string]func(request) any{
		"catalog": h.loadCatalog, "agent.release": h.releaseAgent, "phase": h.setPhase,
		"profile": h.setProfile, "clock.accept": h.acceptClock, "approve": h.approve, "refuse": h.refuseReview,
		"rebuild": h.rebuild, "asset.register": h.registerAsset,
	}
	for _, verb := range []string{engine.AssetApprove, engine.AssetRefuse, engine.AssetRollback, engine.AssetRetier} {
		h.acts["asset."+verb] = func(r request) any { return h.decideAsset(r, verb) }
	}
	return h
}

// Subjects lists what Handle answers, for the endpoints of a NATS service.
func (h *Handler) Subjects() []string {
	var all []string
	for name := range h.views {
		all = append(all, "view.*."+name)
	}
	for name := range h.acts {
		all = append(all, "control.*."+name, "review.*."+name)
	}
	return all
}

// Handle answers one message. A reply subject outside of the sender's own inbox
// would speak with the engine's voice to somebody else: nothing is answered, and
// the attempt is recorded.
func (h *Handler) Handle(ctx context.Context, m Message) {
	kind, rest, _ := strings.Cut(m.Subject, ".")
	who, name, _ := strings.Cut(rest, ".")
	r := request{ctx: ctx, person: events.PersonID(who), approves: kind == "review", data: m.Data}
	if !underOne(m.Reply, inboxes(kind, who)) {
		_ = h.cfg.Loop.Submit(ctx, engine.Note{Fact: events.AccessRefused{
			Account: string(policy.AccountPeople), Client: who, Action: "reply", Subject: h.text(m.Reply, events.MaxName), Count: 1,
		}})
		return
	}
	r.answer = func(v any) { h.cfg.Send(m.Reply, v) }
	known := h.views
	if kind != "view" {
		known = h.acts
	}
	do, ok := known[name]
	if !ok {
		r.answer(no("unknown_verb", "no such request: "+events.Quote(m.Subject)))
		return
	}
	if v := do(r); v != nil {
		r.answer(v)
	}
}

// inboxes are where an answer may go: both keys ask for views, one key each acts.
func inboxes(kind, who string) []string {
	switch kind {
	case "control":
		return []string{policy.InboxOf(who)}
	case "review":
		return []string{policy.ApproveInboxOf(who)}
	}
	return []string{policy.InboxOf(who), policy.ApproveInboxOf(who)}
}

func underOne(reply string, inboxes []string) bool {
	for _, in := range inboxes {
		if len(reply) > len(in) && strings.HasPrefix(reply, in) {
			return true
		}
	}
	return false
}

// maxReason bounds a person's reason, in bytes; policy may cut more.
const maxReason = 1 << 10

// text is what an event may have of a foreign text: masked, then cut.
func (h *Handler) text(s string, most int) string {
	masked, _ := h.cfg.Redact.Text(s)
	return events.Cut(masked, most)
}

func no(code, reason string) engine.Refused {
	return engine.Refused{Error: engine.Problem{Code: code, Reason: reason}}
}

// decode reads a request strictly; an empty one is the zero value.
func decode(data []byte, into any) any {
	if len(data) == 0 {
		return nil
	}
	if bad := strictjson.Decode(data, into); bad != nil {
		return no("invalid", bad.Error())
	}
	return nil
}

// observable says which agents the person may see.
func (h *Handler) observable(who events.PersonID) func(events.AgentID) bool {
	c := h.cfg.Loop.Catalog()
	return func(a events.AgentID) bool { return policy.MayObserve(c, who, a) }
}

// hidden says that a list was asked for an agent, or the agent of a round, that
// the person may not see: it is then empty without a look at the rows, so that
// neither its length, its cursor nor its time tells whether there is one.
func (h *Handler) hidden(v projections.Reader, who events.PersonID, agent events.AgentID, round events.RoundID) (bool, error) {
	may := h.observable(who)
	if agent != "" && !may(agent) {
		return true, nil
	}
	if round == "" {
		return false, nil
	}
	row, found, err := projections.RoundByID(v, round)
	return !found || !may(row.Agent), err
}

// read runs a query on one consistent state.
func (h *Handler) read(query func(projections.Reader) (any, error)) any {
	snap := h.cfg.Store.Snapshot()
	defer snap.Close()
	v, err := query(snap)
	if err != nil {
		return no("unreadable", "the views cannot be read: "+err.Error())
	}
	return v
}
