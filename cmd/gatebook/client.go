package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/infra/datadir"
	"gatebook/infra/identity"
	"gatebook/policy"
)

// answerTime is how long a command waits for the engine.
const answerTime = 2 * time.Minute

// client is a connection to the engine with one credential.
type client struct {
	conn   *nats.Conn
	prefix string // of its subjects: "view.anna.", "intent.alice."
	key    events.PublicKey
}

// connect reaches the engine of a folder with a key, which comes from the file.
func connect(dir *datadir.Dir, key *identity.Key, file, inbox string, more ...nats.Option) (*nats.Conn, error) {
	addr, err := dir.ReadAddress()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: none ever ran on %s: start one with gatebook serve", errUnreachable, dir.Path())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	opts := append(identity.Options(key, inbox), nats.Timeout(3*time.Second), nats.NoReconnect())
	conn, err := nats.Connect("nats://"+addr, append(opts, more...)...)
	if errors.Is(err, nats.ErrAuthorization) {
		return nil, fmt.Errorf("the engine at %s %w in %s: it is not in the catalog in force, or was released", addr, errUnknownKey, file)
	}
	if err != nil {
		return nil, fmt.Errorf("%w at %s: start it with gatebook serve (%w)", errUnreachable, addr, err)
	}
	return conn, nil
}

// errUnknownKey says that the engine takes no connection with the key.
var errUnknownKey = errors.New("does not know the key")

// otherKeys says after an unknown key of a person how another one is named.
func otherKeys(err error, who events.PersonID, people *identity.People) error {
	if !errors.Is(err, errUnknownKey) {
		return err
	}
	err = fmt.Errorf("%w\n--keys names another folder of keys, --as another person whose keys it holds", err)
	if path := people.ApprovePath(who); exists(path) {
		err = fmt.Errorf("%w\nthe approving key of %s in %s is another key, and is not tried in its place", err, who, path)
	}
	return err
}

// ask sends a request and decodes the answer into what is given. A refusal is an
// error.
func (c *client) ask(ctx context.Context, verb string, request, answer any) error {
	raw, err := c.request(ctx, verb, request)
	if err != nil {
		return err
	}
	var no engine.Refused
	if json.Unmarshal(raw, &no) == nil && no.Error.Code != "" {
		return &problem{no.Error}
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("the engine's answer cannot be read; is it of another version? %w", err)
	}
	return nil
}

func (c *client) request(ctx context.Context, verb string, request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, answerTime)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The server says so beside the request when it did not take it.
	c.conn.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			cancel(errNotAllowed)
		}
	})
	m, err := c.conn.RequestWithContext(ctx, c.prefix+verb, body)
	switch {
	case errors.Is(context.Cause(ctx), errNotAllowed):
		return nil, errNotAllowed
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrConnectionClosed):
		return nil, fmt.Errorf("%w: it took no request (%w)", errUnreachable, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return nil, fmt.Errorf("%w: no answer within %s", errUnreachable, answerTime)
	case err != nil:
		return nil, err
	}
	return m.Data, nil
}

func (c *client) close() { c.conn.Close() }

// errNotAllowed says that the server did not let the request pass.
var errNotAllowed = errors.New("this credential may not ask that; see people in the catalog")

// problem is a refusal as an error.
type problem struct{ engine.Problem }

func (p *problem) Error() string { return p.Code + ": " + p.Reason }

// person is who acts: --as, or the one whose key is in the keys folder.
func (a *App) person() (events.PersonID, *identity.People, error) {
	people, dir, err := a.people()
	if err != nil {
		return "", nil, err
	}
	if a.flags.as != "" {
		id, err := events.ParsePersonID(a.flags.as)
		if err != nil {
			return "", nil, usageError{err}
		}
		people, err = a.keysOf(id, people, dir)
		return id, people, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, err
	}
	var found []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".nk"); ok {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return "", nil, fmt.Errorf("there is no person's key in %s: gatebook serve makes yours at the first start; --keys names another folder", dir)
	case 1:
		return events.PersonID(found[0]), people, nil
	}
	return "", nil, usageError{fmt.Errorf("%s holds keys of several people (%s): say who acts with --as", dir, strings.Join(found, ", "))}
}

// keysOf are the keys of a named person: among one's own, or in the folder below
// where person add makes those of others.
func (a *App) keysOf(id events.PersonID, own *identity.People, dir string) (*identity.People, error) {
	if exists(own.KeyPath(id)) {
		return own, nil
	}
	theirs, err := identity.NewPeople(filepath.Join(dir, string(id)), a.WorkFactor)
	if err == nil && !exists(theirs.KeyPath(id)) {
		err = fmt.Errorf("there is no key of %s: neither %s nor %s is there; --keys names another folder", id, own.KeyPath(id), theirs.KeyPath(id))
	}
	return theirs, err
}

// reader connects with a person's key to read and operate. kind is "view" or
// "control".
func (a *App) reader(kind string) (*client, error) {
	dir, err := a.folder()
	if err != nil {
		return nil, err
	}
	who, people, err := a.person()
	if err != nil {
		return nil, err
	}
	key, err := people.Load(who)
	if err != nil {
		return nil, err
	}
	conn, err := connect(dir, key, people.KeyPath(who), policy.InboxOf(string(who)))
	if err != nil {
		return nil, otherKeys(err, who, people)
	}
	return &client{conn, kind + "." + string(who) + ".", key.Public()}, nil
}

// errNoApprovingKey says that the acting person's keys hold none.
var errNoApprovingKey = errors.New("no approving key")

// approver connects with a person's approving key; it asks for the passphrase.
// needs says who may do what is wanted, for those who hold no such key.
func (a *App) approver(ctx context.Context, needs string) (*client, error) {
	dir, err := a.folder()
	if err != nil {
		return nil, err
	}
	who, people, err := a.person()
	if err != nil {
		return nil, err
	}
	path := people.ApprovePath(who)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this takes %s: the keys of %s hold %w (looked for %s)", needs, who, errNoApprovingKey, path)
	}
	pass, err := identity.Passphrase(ctx, a.Getenv, a.Terminal, who, false)
	if err != nil {
		return nil, err
	}
	defer clear(pass)
	key, err := people.LoadApprove(who, pass)
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	conn, err := connect(dir, key, path, policy.ApproveInboxOf(string(who)))
	if err != nil {
		return nil, err
	}
	return &client{conn, "review." + string(who) + ".", key.Public()}, nil
}

// agent connects with the key of an agent of the folder.
func (a *App) agent(id events.AgentID, more ...nats.Option) (*client, error) {
	dir, err := a.folder()
	if err != nil {
		return nil, err
	}
	path := identity.AgentKey(dir.Keys(), id)
	key, err := identity.LoadKey(path)
	if err != nil {
		return nil, fmt.Errorf("the key of agent %s: %w", id, err)
	}
	conn, err := connect(dir, key, path, policy.InboxOf(string(id)), more...)
	if err != nil {
		return nil, err
	}
	return &client{conn, "intent." + string(id) + ".", key.Public()}, nil
}

// channel connects with the key of a channel of the folder.
func (a *App) channel(id events.ChannelID) (*client, error) {
	dir, err := a.folder()
	if err != nil {
		return nil, err
	}
	path := identity.ChannelKey(dir.Keys(), id)
	key, err := identity.LoadKey(path)
	if err != nil {
		return nil, fmt.Errorf("the key of channel %s: %w", id, err)
	}
	conn, err := connect(dir, key, path, policy.InboxOf(string(id)))
	if err != nil {
		return nil, err
	}
	return &client{conn, "channel." + string(id) + ".", key.Public()}, nil
}
