package harness

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"gatebook/events"
	"gatebook/infra/config"
	"gatebook/infra/datadir"
	"gatebook/infra/identity"
	"gatebook/policy"
)

// ChannelID is the channel that brings the rounds.
const ChannelID = events.ChannelID("bench")

// Setup is what a folder is made of.
type Setup struct {
	Binary string
	// Dir is where the folder is made, and beside it the keys of its person.
	Dir string
	// Command starts the engine.
	Command []string
	// Agents is how many there are. They have the role Role; everybody who talks
	// over the channel has the profile of that name.
	Agents int
	Role   string
	// ExtraTools are the tools that the engine has beside the built-in ones.
	ExtraTools []string
	// More is what the catalog of a new folder lacks.
	More []Insert
}

// Insert is text that goes below a line of the catalog.
type Insert struct{ Below, Text string }

// AgentID names the agent i.
func AgentID(i int) events.AgentID { return events.AgentID(fmt.Sprintf("agent-%03d", i)) }

// Folder is a data folder whose catalog with all agents is in force.
type Folder struct {
	Path   string
	Agents []*identity.Key
	// Home is where its person's keys are, as XDG_CONFIG_HOME names it.
	Home    string
	setup   Setup
	bringer *identity.Key // of the channel
	person  events.PersonID
	keys    string // the folder of the person's keys
}

// MakeFolder makes the folder as a person would: init, then a first start, then
// a changed catalog and its approval.
func MakeFolder(ctx context.Context, setup Setup) (f *Folder, err error) {
	f = &Folder{Path: filepath.Join(setup.Dir, "template"), Home: filepath.Join(setup.Dir, "home"), setup: setup}
	pass := make([]byte, 16)
	if _, err := io.ReadFull(rand.Reader, pass); err != nil {
		return nil, err
	}
	pass = []byte(hex.EncodeToString(pass))
	if err := os.Mkdir(f.Home, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(f.Home, "passphrase")
	if err := os.WriteFile(file, append(pass, '\n'), 0o600); err != nil {
		return nil, err
	}
	if err := f.init(ctx, file); err != nil {
		return nil, err
	}
	e, err := Start(ctx, setup.Binary, f.Path, setup.Command...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Stop()) }()
	digest, err := f.writeCatalog()
	if err != nil {
		return nil, err
	}
	return f, f.approve(ctx, e, pass, digest)
}

// init runs gatebook init.
func (f *Folder) init(ctx context.Context, passFile string) error {
	cmd := exec.CommandContext(ctx, f.setup.Binary, "init", "--dir", f.Path, "--json")
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+f.Home, identity.PassphraseFile+"="+passFile)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("gatebook init: %w: %s", err, complaint.Bytes())
	}
	var made struct {
		Dir    string          `json:"dir"`
		Person events.PersonID `json:"person"`
		Keys   string          `json:"keys"`
	}
	if err := json.Unmarshal(out, &made); err != nil {
		return fmt.Errorf("gatebook init: %w", err)
	}
	f.person, f.keys = made.Person, made.Keys
	return nil
}

// Run runs a command of gatebook on an engine of this folder, or of a copy of it, as its
// person, and gives what it printed.
func (f *Folder) Run(ctx context.Context, e *Engine, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, f.setup.Binary, append(args[:len(args):len(args)], "--dir", e.Folder)...)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+f.Home, identity.PassphraseFile+"="+filepath.Join(f.Home, "passphrase"))
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("gatebook %s: %w: %s", args[0], err, complaint.Bytes())
	}
	return out, nil
}

// writeCatalog adds the role, the profile, the channel and the agents, and gives
// the digest of what it wrote.
func (f *Folder) writeCatalog() (events.Digest, error) {
	dir, err := datadir.Open(f.Path, false)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(dir.Catalog())
	if err != nil {
		return "", err
	}
	for _, m := range f.setup.More {
		if bytes.Count(text, []byte(m.Below)) != 1 {
			return "", fmt.Errorf("the catalog that gatebook init made has not one line %q", m.Below)
		}
		text = bytes.Replace(text, []byte(m.Below), []byte(m.Below+m.Text), 1)
	}
	if f.bringer, err = identity.CreateKey(identity.ChannelKey(dir.Keys(), ChannelID), rand.Reader); err != nil {
		return "", err
	}
	text, err = config.AddChannel(text, ChannelID, policy.Channel{
		Key: f.bringer.Public(), Agents: []string{"*"}, Guest: policy.Guest{Profile: f.setup.Role},
	}, f.setup.ExtraTools...)
	for i := 0; i < f.setup.Agents && err == nil; i++ {
		text, err = f.addAgent(text, dir, AgentID(i))
	}
	if err != nil {
		return "", err
	}
	c, err := config.Parse(config.FileName, text, f.setup.ExtraTools...)
	if err != nil {
		return "", err
	}
	compiled, err := policy.Compile(c, f.setup.ExtraTools...)
	if err != nil {
		return "", err
	}
	return compiled.Digest(), config.Write(dir.Catalog(), text)
}

func (f *Folder) addAgent(text []byte, dir *datadir.Dir, id events.AgentID) ([]byte, error) {
	key, err := identity.CreateKey(identity.AgentKey(dir.Keys(), id), rand.Reader)
	if err != nil {
		return nil, err
	}
	f.Agents = append(f.Agents, key)
	return config.AddAgent(text, id, policy.Agent{Role: f.setup.Role, Key: key.Public()}, f.setup.ExtraTools...)
}

// approve puts the catalog file in force with the person's approving key.
func (f *Folder) approve(ctx context.Context, e *Engine, pass []byte, digest events.Digest) error {
	people, err := identity.NewPeople(f.keys, 0)
	if err != nil {
		return err
	}
	key, err := people.LoadApprove(f.person, pass)
	if err != nil {
		return err
	}
	defer key.Wipe()
	conn, err := nats.Connect("nats://"+e.Addr, append(identity.Options(key, policy.ApproveInboxOf(string(f.person))), nats.NoReconnect())...)
	if err != nil {
		return fmt.Errorf("connect to approve: %w", err)
	}
	defer conn.Close()
	var done struct {
		Seq events.Seq `json:"seq"`
	}
	return Ask(ctx, conn, "review."+string(f.person)+".catalog", map[string]any{"digest": digest}, &done)
}

// Ask sends a request and decodes the answer.
func Ask(ctx context.Context, conn *nats.Conn, subject string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, AnswerTime)
	defer stop()
	m, err := conn.RequestWithContext(ctx, subject, body)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	if bytes.HasPrefix(m.Data, []byte(`{"error"`)) {
		return fmt.Errorf("%s: refused: %s", subject, m.Data)
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	return nil
}

// Channel connects as the channel that brings the rounds.
func (f *Folder) Channel(e *Engine) (*nats.Conn, error) {
	inbox := policy.InboxOf(string(ChannelID))
	conn, err := nats.Connect("nats://"+e.Addr, append(identity.Options(f.bringer, inbox), nats.NoReconnect())...)
	if err != nil {
		return nil, fmt.Errorf("connect the channel: %w", err)
	}
	return conn, nil
}

// Reader connects as the person, to read, and gives the beginning of the subjects to
// ask.
func (f *Folder) Reader(e *Engine) (*nats.Conn, string, error) {
	people, err := identity.NewPeople(f.keys, 0)
	if err != nil {
		return nil, "", err
	}
	key, err := people.Load(f.person)
	if err != nil {
		return nil, "", err
	}
	conn, err := nats.Connect("nats://"+e.Addr, append(identity.Options(key, policy.InboxOf(string(f.person))), nats.NoReconnect())...)
	if err != nil {
		return nil, "", fmt.Errorf("connect to read: %w", err)
	}
	return conn, "view." + string(f.person) + ".", nil
}

// CopyTo copies the folder, with the modes of its files.
func (f *Folder) CopyTo(dir, name string) (string, error) {
	to := filepath.Join(dir, name)
	err := filepath.WalkDir(f.Path, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(f.Path, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Mkdir(filepath.Join(to, below), info.Mode().Perm())
		case !info.Mode().IsRegular():
			return nil
		}
		return copyFile(path, filepath.Join(to, below), info)
	})
	return to, err
}

func copyFile(from, to string, info fs.FileInfo) error {
	raw, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, raw, info.Mode().Perm())
	}
	if err == nil {
		err = os.Chtimes(to, time.Time{}, info.ModTime())
	}
	return err
}
