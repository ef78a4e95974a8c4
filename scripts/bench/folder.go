package main

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

const (
	// agents is how many the folder has.
	agents = 256
	// channelID brings the rounds; everybody who talks over it has the profile
	// that allows the one tool.
	channelID = events.ChannelID("bench")
)

// extraTools are the tools that demo engine has beside the built-in ones.
var extraTools = []string{"demo.none", "demo.wait"}

// more is what the catalog of a new folder lacks, below the line that it stands
// below.
var more = []struct{ below, text string }{
	{"\nprofiles:\n", "  bench:\n    tools: [demo.none]\n"},
	{"\nroles:\n", "  bench:\n    version: 1\n    grants:\n      - tool: demo.none\n"},
}

func agentID(i int) events.AgentID { return events.AgentID(fmt.Sprintf("agent-%03d", i)) }

// template is a data folder whose catalog with all agents is in force. Each
// engine gets a copy.
type template struct {
	path    string
	agents  []*identity.Key
	bringer *identity.Key // of the channel
}

// makeTemplate makes the folder as a person would: init, then a first start, then
// a changed catalog and its approval.
func makeTemplate(ctx context.Context, b *bench) (t *template, err error) {
	t = &template{path: filepath.Join(b.dir, "template")}
	home := filepath.Join(b.dir, "home")
	pass := make([]byte, 16)
	if _, err := io.ReadFull(rand.Reader, pass); err != nil {
		return nil, err
	}
	pass = []byte(hex.EncodeToString(pass))
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(home, "passphrase")
	if err := os.WriteFile(file, append(pass, '\n'), 0o600); err != nil {
		return nil, err
	}
	who, keys, err := initFolder(ctx, b.binary, t.path, home, file)
	if err != nil {
		return nil, err
	}
	e, err := startEngine(ctx, b.binary, t.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.stop()) }()
	digest, err := t.writeCatalog()
	if err != nil {
		return nil, err
	}
	return t, approve(ctx, e, who, keys, pass, digest)
}

// initFolder runs gatebook init.
func initFolder(ctx context.Context, binary, path, home, passFile string) (who events.PersonID, keys string, err error) {
	init := exec.CommandContext(ctx, binary, "init", "--dir", path, "--json")
	init.Env = append(os.Environ(), "XDG_CONFIG_HOME="+home, identity.PassphraseFile+"="+passFile)
	var complaint bytes.Buffer
	init.Stderr = &complaint
	out, err := init.Output()
	if err != nil {
		return "", "", fmt.Errorf("gatebook init: %w: %s", err, complaint.Bytes())
	}
	var made struct {
		Dir    string          `json:"dir"`
		Person events.PersonID `json:"person"`
		Keys   string          `json:"keys"`
	}
	if err := json.Unmarshal(out, &made); err != nil {
		return "", "", fmt.Errorf("gatebook init: %w", err)
	}
	return made.Person, made.Keys, nil
}

// writeCatalog adds the role, the profile, the channel and the agents, and gives
// the digest of what it wrote.
func (t *template) writeCatalog() (events.Digest, error) {
	dir, err := datadir.Open(t.path, false)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(dir.Catalog())
	if err != nil {
		return "", err
	}
	for _, m := range more {
		if bytes.Count(text, []byte(m.below)) != 1 {
			return "", fmt.Errorf("the catalog that gatebook init made has not one line %q", m.below)
		}
		text = bytes.Replace(text, []byte(m.below), []byte(m.below+m.text), 1)
	}
	if t.bringer, err = identity.CreateKey(identity.ChannelKey(dir.Keys(), channelID), rand.Reader); err != nil {
		return "", err
	}
	text, err = config.AddChannel(text, channelID, policy.Channel{
		Key: t.bringer.Public(), Agents: []string{"*"}, Guest: policy.Guest{Profile: "bench"},
	}, extraTools...)
	for i := 0; i < agents && err == nil; i++ {
		text, err = t.addAgent(text, dir, agentID(i))
	}
	if err != nil {
		return "", err
	}
	c, err := config.Parse(config.FileName, text, extraTools...)
	if err != nil {
		return "", err
	}
	compiled, err := policy.Compile(c, extraTools...)
	if err != nil {
		return "", err
	}
	return compiled.Digest(), config.Write(dir.Catalog(), text)
}

func (t *template) addAgent(text []byte, dir *datadir.Dir, id events.AgentID) ([]byte, error) {
	key, err := identity.CreateKey(identity.AgentKey(dir.Keys(), id), rand.Reader)
	if err != nil {
		return nil, err
	}
	t.agents = append(t.agents, key)
	return config.AddAgent(text, id, policy.Agent{Role: "bench", Key: key.Public()}, extraTools...)
}

// approve puts the catalog file in force with the person's approving key.
func approve(ctx context.Context, e *engine, who events.PersonID, keys string, pass []byte, digest events.Digest) error {
	people, err := identity.NewPeople(keys, 0)
	if err != nil {
		return err
	}
	key, err := people.LoadApprove(who, pass)
	if err != nil {
		return err
	}
	defer key.Wipe()
	conn, err := nats.Connect("nats://"+e.addr, append(identity.Options(key, policy.ApproveInboxOf(string(who))), nats.NoReconnect())...)
	if err != nil {
		return fmt.Errorf("connect to approve: %w", err)
	}
	defer conn.Close()
	var done struct {
		Seq events.Seq `json:"seq"`
	}
	return ask(ctx, conn, "review."+string(who)+".catalog", map[string]any{"digest": digest}, &done)
}

// ask sends a request and decodes the answer.
func ask(ctx context.Context, conn *nats.Conn, subject string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, answerTime)
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

// channel connects as the channel that brings the rounds.
func (t *template) channel(e *engine) (*nats.Conn, error) {
	inbox := policy.InboxOf(string(channelID))
	conn, err := nats.Connect("nats://"+e.addr, append(identity.Options(t.bringer, inbox), nats.NoReconnect())...)
	if err != nil {
		return nil, fmt.Errorf("connect the channel: %w", err)
	}
	return conn, nil
}

// round is an open round.
type round struct {
	id     events.RoundID
	handle string
}

func beginRound(ctx context.Context, channel *nats.Conn, agent events.AgentID) (round, error) {
	raw := make([]byte, 16)
	if _, err := io.ReadFull(rand.Reader, raw); err != nil {
		return round{}, err
	}
	r := round{handle: hex.EncodeToString(raw)}
	var began struct {
		Round   events.RoundID `json:"round"`
		Profile string         `json:"profile"`
	}
	err := ask(ctx, channel, "channel."+string(channelID)+".round.begin", map[string]any{
		"agent": agent, "sender": "bench", "handle_hash": events.DigestOf([]byte(r.handle)), "task": "be measured",
	}, &began)
	r.id = began.Round
	return r, err
}

// copyTo copies the folder, with the modes of its files.
func (t *template) copyTo(dir, name string) (string, error) {
	to := filepath.Join(dir, name)
	err := filepath.WalkDir(t.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(t.path, path)
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
