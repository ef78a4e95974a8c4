package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
	"gatebook/infra/config"
	"gatebook/infra/datadir"
	"gatebook/infra/identity"
	"gatebook/policy"
)

// acting is a person at work: who they are, and their connections with either
// key. It belongs to one goroutine.
type acting struct {
	app *App
	dir *datadir.Dir
	who events.PersonID
	// file is the catalog file as it stands, empty where it has faults. The
	// person's entry in it only helps to choose the key that will do; what a key
	// may do is the engine's to say.
	file    policy.Catalog
	entry   policy.Person
	read    *client
	approve *client // nil until asked for
}

// acting connects with the reading key. Everybody has one, so an engine that is
// not there is found before anything is changed.
func (a *App) acting() (*acting, error) {
	dir, err := a.folder()
	if err != nil {
		return nil, err
	}
	who, _, err := a.person()
	if err != nil {
		return nil, err
	}
	read, err := a.reader("view")
	if err != nil {
		return nil, err
	}
	p := &acting{app: a, dir: dir, who: who, read: read}
	if p.file, _, err = config.Load(dir.Catalog(), toolNames(a.Extra)...); err == nil {
		p.entry = p.file.People[who]
	} else {
		// The engine says what is wrong with the file where that matters.
		p.entry = policy.Person{Approver: true, Supervisor: true, Operator: true}
	}
	return p, nil
}

func (p *acting) close() {
	p.read.close()
	if p.approve != nil {
		p.approve.close()
	}
}

// as is the same connection for another kind of request.
func (p *acting) as(c *client, kind string) *client {
	return &client{c.conn, kind + "." + string(p.who) + ".", c.key}
}

// view is a connection that may read.
func (p *acting) view(ctx context.Context) (*client, error) {
	if p.entry.Supervisor || p.entry.Operator || p.entry.Approver {
		return p.read, nil
	}
	c, err := p.approver(ctx, "a supervisor, an operator, or an approver with their approving key")
	if err != nil {
		return nil, err
	}
	return p.as(c, "view"), nil
}

// approver is the connection with the approving key; the first use asks for the
// passphrase. needs is as for [App.approver].
func (p *acting) approver(ctx context.Context, needs string) (*client, error) {
	var err error
	if p.approve == nil {
		p.approve, err = p.app.approver(ctx, needs)
	}
	return p.approve, err
}

// act sends an act, with the approving key where it needs one or where the
// person is no operator.
func (p *acting) act(ctx context.Context, verb string, approves bool, q people.ActRequest) (engine.Done, error) {
	c, err := p.actor(ctx, approves)
	if err != nil {
		return engine.Done{}, err
	}
	var done engine.Done
	err = c.ask(ctx, verb, q, &done)
	return done, err
}

// actor is the connection that an act goes by.
func (p *acting) actor(ctx context.Context, approves bool) (*client, error) {
	switch {
	case approves:
		return p.approver(ctx, "an approver with their approving key")
	case !p.entry.Operator:
		return p.approver(ctx, "an operator, or an approver with their approving key")
	}
	return p.as(p.read, "control"), nil
}

// loadFile puts the compared catalog file in force, unless the keys that are used
// for it would no longer work then: who locks themselves out could not undo it.
func (p *acting) loadFile(ctx context.Context, d people.CatalogAnswer) (engine.Done, error) {
	file, err := compileFile(p.dir, toolNames(p.app.Extra))
	if err != nil {
		return engine.Done{}, err
	}
	if file.Digest() != d.File {
		return engine.Done{}, fmt.Errorf("%s was changed meanwhile: see %s", p.dir.Catalog(), p.app.command("catalog diff"))
	}
	own := file.Catalog().People[p.who]
	if err := p.keeps("key", own.Key, p.read); err != nil {
		return engine.Done{}, err
	}
	if _, err := p.actor(ctx, d.Widens); err != nil {
		return engine.Done{}, err
	}
	if p.approve != nil {
		if err := p.keeps("approve_key", own.ApproveKey, p.approve); err != nil {
			return engine.Done{}, err
		}
	}
	// The digest is of the file that was compared: another one is refused.
	return p.act(ctx, "catalog", d.Widens, people.ActRequest{Digest: d.File})
}

func (p *acting) keeps(field string, next events.PublicKey, used *client) error {
	if next == used.key {
		return nil
	}
	return fmt.Errorf("the catalog file would lock you out, and nothing was approved: its people.%s.%s is not the key that you use\nput %s back there in %s; where it shall change, another approver must run %s",
		p.who, field, used.key, p.dir.Catalog(), p.app.command("catalog approve"))
}

// diff compares the catalog file with what is in force.
func (p *acting) diff(ctx context.Context) (people.CatalogAnswer, error) {
	var d people.CatalogAnswer
	c, err := p.view(ctx)
	if err != nil {
		return d, err
	}
	err = c.ask(ctx, "catalog", struct{}{}, &d)
	return d, err
}

// findAgent looks an agent up; found is false also for one that the person may
// not observe.
func (p *acting) findAgent(ctx context.Context, id events.AgentID) (row people.Agent, found bool, err error) {
	if !p.entry.Supervisor {
		return row, false, nil
	}
	return findAgent(ctx, p.read, id)
}

func findAgent(ctx context.Context, c *client, id events.AgentID) (row people.Agent, found bool, err error) {
	for after := id[:len(id)-1]; ; { // every id from here on, in order
		var page people.AgentsAnswer
		if err := c.ask(ctx, "agents", people.ListRequest{After: after}, &page); err != nil {
			return row, false, err
		}
		for _, row := range page.Agents {
			if row.Agent == id {
				return row, true, nil
			}
		}
		if page.Next == "" || page.Next >= id {
			return row, false, nil
		}
		after = page.Next
	}
}

// catalogChange is how one change of the catalog file went.
type catalogChange struct {
	Entry   string        `json:"entry"`
	File    string        `json:"file"`
	Changed bool          `json:"changed"` // the file
	InForce bool          `json:"in_force"`
	Catalog events.Digest `json:"catalog,omitzero"`
	Seq     events.Seq    `json:"seq,omitzero"`
	// Waits says why the change is not in force, and Next what puts it there.
	Waits string `json:"waits,omitzero"`
	Next  string `json:"next,omitzero"`
	// Withdraw says how to take back an addition that waits.
	Withdraw string `json:"withdraw,omitzero"`

	widens bool // an operator alone cannot put it in force
}

// change edits one entry of the catalog file and puts exactly that in force,
// where the person can; else it waits for an approver. also are the texts of
// changes elsewhere that come with it.
func (p *acting) change(ctx context.Context, entry string, edit func([]byte) ([]byte, error), also ...string) (catalogChange, error) {
	out := catalogChange{Entry: entry, File: p.dir.Catalog()}
	unlock, err := lockCatalog(ctx, p.dir, p.app.Err)
	if err != nil {
		return out, err
	}
	defer unlock()
	out.Changed, err = editCatalog(p.dir, edit)
	if errors.Is(err, fs.ErrExist) {
		return out, fmt.Errorf("%s is in %s already, and not the same: change it there, then %s", entry, out.File, p.app.command("catalog approve"))
	}
	if err != nil {
		return out, err
	}
	err = p.putInForce(ctx, &out, also)
	if errors.Is(err, identity.ErrNoPassphrase) || errors.Is(err, errNoApprovingKey) {
		out.Waits, err = err.Error(), nil // nobody here can approve
	}
	if out.Waits != "" || err != nil && (out.Changed || out.widens) {
		out.Next = p.approveCommand(out.widens)
	}
	if err != nil && out.Next != "" {
		err = fmt.Errorf("%w\nthe change is in %s and waits for: %s", err, out.File, out.Next)
	}
	return out, err
}

// add is change for a new entry. While it waits it can be taken back, and what it
// gives or returns says how.
func (p *acting) add(ctx context.Context, entry string, edit func([]byte) ([]byte, error)) (catalogChange, error) {
	out, err := p.change(ctx, entry, edit)
	if out.Next == "" {
		return out, err
	}
	out.Withdraw = "take " + entry + " out of " + out.File
	if id, ok := strings.CutPrefix(entry, "agents."); ok && (p.entry.Operator || p.entry.Approver) {
		out.Withdraw = p.app.command("agent release " + id)
	}
	if err != nil {
		err = fmt.Errorf("%w\nto take it back: %s", err, out.Withdraw)
	}
	return out, err
}

// approveCommand is the command that puts the catalog file in force: of the acting
// person, or, where they are no approver and it takes one, of anybody's keys.
func (p *acting) approveCommand(widens bool) string {
	if widens && !p.entry.Approver {
		return p.app.theirCommand("catalog approve")
	}
	return p.app.command("catalog approve")
}

func editCatalog(dir *datadir.Dir, edit func([]byte) ([]byte, error)) (changed bool, err error) {
	data, err := readCatalog(dir)
	if err != nil {
		return false, err
	}
	next, err := edit(data)
	if err != nil || string(next) == string(data) {
		return false, err
	}
	return true, config.Write(dir.Catalog(), next)
}

// putInForce approves the file, if nothing differs but the entry and what is also
// changed with it.
func (p *acting) putInForce(ctx context.Context, out *catalogChange, also []string) error {
	d, err := p.diff(ctx)
	if err != nil {
		return err
	}
	out.Catalog, out.widens = d.File, d.Widens
	switch {
	case d.Fault != "":
		return errors.New(d.Fault)
	case len(d.Changes) == 0:
		out.InForce = true
		return nil
	case d.Widens && !p.entry.Approver:
		out.Waits = string(p.who) + " is no approver"
		return nil
	case hidden(d.Changes):
		out.Waits = "what else the file changes is not shown to " + string(p.who) + ", who has no right to that in the catalog in force"
		return nil
	case !onlyBelow(d.Changes, out.Entry, also):
		out.Waits = "the file has other changes too, and an approval would put all of them in force; see " + p.app.command("catalog diff")
		return nil
	}
	done, err := p.loadFile(ctx, d)
	out.InForce, out.Seq = err == nil, done.Seq
	return err
}

// hidden says that the changes are only counted for a person who may not see them.
func hidden(changes []people.Change) bool {
	return slices.ContainsFunc(changes, func(c people.Change) bool { return c.Path == "" })
}

func onlyBelow(changes []people.Change, entry string, also []string) bool {
	for _, c := range changes {
		if c.Path != entry && !strings.HasPrefix(c.Path, entry+".") && !slices.Contains(also, c.Text) {
			return false
		}
	}
	return true
}

// sayChange prints how a change went; done is what holds once it is in force. A
// change that waits is an error: what follows would count on it.
func (a *App) sayChange(out catalogChange, done string) error {
	if a.flags.json {
		return errors.Join(a.printJSON(out), saidUnless(out.InForce))
	}
	switch {
	case out.InForce && !out.Changed && out.Seq == 0:
		fmt.Fprintf(a.Out, "nothing changed: %s\n", done)
	case out.InForce:
		fmt.Fprintf(a.Out, "%s (event %d)\n", done, out.Seq)
	default:
		fmt.Fprintf(a.Out, "%s is in %s and waits for an approver (%s)\nto put it in force, an approver runs: %s\n", out.Entry, out.File, out.Waits, out.Next)
		if out.Withdraw != "" {
			fmt.Fprintf(a.Out, "to take it back: %s\n", out.Withdraw)
		}
		return errSaid
	}
	return nil
}
