package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// dialBus connects to the engine of a data folder with a key file of that folder.
func dialBus(dir, keyFile, id string) (*nats.Conn, error) {
	address, err := os.ReadFile(filepath.Join(dir, "address"))
	if err != nil {
		return nil, err
	}
	seed, err := os.ReadFile(filepath.Join(dir, "keys", keyFile))
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err != nil {
		return nil, err
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	// The engine answers only under the inbox of the id.
	return nats.Connect("nats://"+strings.TrimSpace(string(address)),
		nats.Nkey(public, pair.Sign), nats.CustomInboxPrefix("_INBOX_"+id))
}

// answer has the fields of all answers that are used here.
type answer struct {
	Round, Status, Reason string
	Result                json.RawMessage
	Error                 json.RawMessage // of what was not taken: {"code", "reason"}
}

func askEngine(conn *nats.Conn, subject string, request map[string]any) (answer, error) {
	var a answer
	body, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	m, err := conn.Request(subject, body, 35*time.Second)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return a, err
	}
	if len(a.Error) > 0 {
		return a, errors.New(string(a.Error))
	}
	return a, nil
}

// sayHello begins a round as the channel terminal, and in it, as the agent alice,
// writes a file. In real life these are two programs, and the first one hands
// round and handle to the second.
func sayHello(dir, sender string) (string, error) {
	channel, err := dialBus(dir, "channels/terminal.nk", "terminal")
	if err != nil {
		return "", err
	}
	defer channel.Close()
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	handle := hex.EncodeToString(random)
	hash := sha256.Sum256([]byte(handle)) // of the text, not of the 16 bytes
	begun, err := askEngine(channel, "channel.terminal.round.begin", map[string]any{
		"agent": "alice", "sender": sender, "handle_hash": hex.EncodeToString(hash[:]),
	})
	if err != nil {
		return "", err
	}

	agent, err := dialBus(dir, "agents/alice.nk", "alice")
	if err != nil {
		return "", err
	}
	defer agent.Close()
	called, err := askEngine(agent, "intent.alice.call", map[string]any{
		"round": begun.Round, "handle": handle, "key": "hello-1",
		"tool": "file.write", "args": map[string]any{"path": "hello.txt", "content": "hello"},
	})
	if err != nil {
		return "", err
	}
	if called.Status != "ok" {
		return "", errors.New(called.Status + ": " + called.Reason)
	}

	_, err = askEngine(channel, "channel.terminal.round.end", map[string]any{
		"round": begun.Round, "handle_hash": hex.EncodeToString(hash[:]), "end": "completed",
	})
	return string(called.Result), err
}
