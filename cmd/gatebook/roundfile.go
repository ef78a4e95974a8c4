package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"gatebook/events"
	"gatebook/infra/datadir"
)

// roundFile is the round that gatebook call uses for an agent. It holds the
// secret handle, so it is a file of mode 0600 and never part of a command line.
type roundFile struct {
	// Round is empty while it is not known whether the begin arrived: the same
	// handle then asks again, and the same begin gives the same round.
	Round        events.RoundID        `json:"round,omitzero"`
	Conversation events.ConversationID `json:"conversation,omitzero"`
	Handle       string                `json:"handle"`
	Channel      events.ChannelID      `json:"channel"`
}

func (r roundFile) hash() events.Digest { return events.DigestOf([]byte(r.Handle)) }

func roundPath(dir *datadir.Dir, agent events.AgentID) string {
	return filepath.Join(dir.Path(), "rounds", string(agent)+".json")
}

// newRound makes a handle of 128 random bits.
func newRound(channel events.ChannelID, random io.Reader) (roundFile, error) {
	raw := make([]byte, 16)
	if _, err := io.ReadFull(random, raw); err != nil {
		return roundFile{}, fmt.Errorf("make a handle: %w", err)
	}
	return roundFile{Handle: hex.EncodeToString(raw), Channel: channel}, nil
}

func (r roundFile) write(dir *datadir.Dir, agent events.AgentID) error {
	path := roundPath(dir, agent)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return datadir.WriteFile(path, raw)
}

// readRound gives the round of an agent's file; the error wraps fs.ErrNotExist
// where there is none.
func readRound(dir *datadir.Dir, agent events.AgentID) (roundFile, error) {
	path := roundPath(dir, agent)
	raw, err := os.ReadFile(path)
	if err != nil {
		return roundFile{}, err
	}
	var r roundFile
	if err := json.Unmarshal(raw, &r, json.RejectUnknownMembers(true)); err != nil || r.Handle == "" {
		// What is in the file is not repeated: it is a secret.
		return roundFile{}, fmt.Errorf("%s is not a round's file: delete it and begin a round", path)
	}
	return r, nil
}

// openRound is the round that the agent's calls belong to.
func (a *App) openRound(dir *datadir.Dir, agent events.AgentID) (roundFile, error) {
	r, err := readRound(dir, agent)
	if errors.Is(err, fs.ErrNotExist) || err == nil && r.Round == "" {
		return r, fmt.Errorf("agent %s has no round here: %s\nor, for one of a job or of a child: %s", agent,
			a.command("round begin --agent "+string(agent)), a.command("round accept --agent "+string(agent)))
	}
	return r, err
}
