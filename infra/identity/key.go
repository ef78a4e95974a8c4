package identity

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"gatebook/events"
)

// Key is a key pair. It prints as its public key. Safe for concurrent use until
// Wipe.
type Key struct {
	pair   nkeys.KeyPair
	public events.PublicKey
}

// Public is the key that the catalog names.
func (k *Key) Public() events.PublicKey { return k.public }

// String is the public key.
func (k *Key) String() string { return string(k.public) }

// GoString is the public key, for "%#v".
func (k *Key) GoString() string { return string(k.public) }

// Sign signs data, a nonce of the server for instance.
func (k *Key) Sign(data []byte) ([]byte, error) { return k.pair.Sign(data) }

// Wipe overwrites the secret part; the key cannot sign any more.
func (k *Key) Wipe() { k.pair.Wipe() }

// AgentKey is where the key of an agent is kept, under the data folder's folder
// of keys. The id is one that events.ParseAgentID has passed.
func AgentKey(keys string, id events.AgentID) string {
	return filepath.Join(keys, "agents", string(id)+".nk")
}

// ChannelKey is [AgentKey] for channels.
func ChannelKey(keys string, id events.ChannelID) string {
	return filepath.Join(keys, "channels", string(id)+".nk")
}

// CreateKey makes a key pair and its file, mode 0600, in a folder of mode 0700.
// A file that is there stays, and the error wraps fs.ErrExist.
func CreateKey(path string, random io.Reader) (*Key, error) {
	k, seed, err := newKey(random)
	if err != nil {
		return nil, err
	}
	defer wipe(seed)
	if err := createSecret(path, seed); err != nil {
		k.Wipe()
		return nil, fmt.Errorf("create key: %w", err)
	}
	return k, nil
}

// LoadKey reads a key file. The error wraps fs.ErrNotExist, [ErrNotPrivate],
// [ErrNotFile] or [ErrKey].
func LoadKey(path string) (*Key, error) {
	if err := checkFolder(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("load key: %w", err)
	}
	seed, err := readSecret(path)
	if err != nil {
		return nil, fmt.Errorf("load key: %w", err)
	}
	defer wipe(seed)
	k, err := parseKey(seed)
	if err != nil {
		return nil, fmt.Errorf("load key %s: %w", events.Quote(path), err)
	}
	return k, nil
}

// newKey gives a pair and its seed as the line of a file.
func newKey(random io.Reader) (*Key, []byte, error) {
	pair, err := nkeys.CreatePairWithRand(nkeys.PrefixByteUser, random)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	seed, err := pair.Seed() // the pair's own bytes, not a copy
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	return &Key{pair: pair, public: events.PublicKey(public)}, append(bytes.Clone(seed), '\n'), nil
}

// parseKey takes the seed of a user, with or without an end of line. Its errors
// do not repeat any of it.
func parseKey(line []byte) (*Key, error) {
	seed := bytes.TrimRight(line, "\r\n")
	prefix, raw, err := nkeys.DecodeSeed(seed)
	wipe(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: the content is not a seed", ErrKey)
	}
	if prefix != nkeys.PrefixByteUser {
		return nil, fmt.Errorf("%w: it is the seed of a NATS %s, want user", ErrKey, prefix)
	}
	pair, err := nkeys.FromSeed(seed) // copies
	if err != nil {
		return nil, fmt.Errorf("%w: the content is not a seed", ErrKey)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, errors.Join(ErrKey, err)
	}
	return &Key{pair: pair, public: events.PublicKey(public)}, nil
}

// Options let a connection prove that it has the key, and take answers only
// under inbox ("_INBOX_<id>.", the one prefix that the engine answers to).
func Options(k *Key, inbox string) []nats.Option {
	return []nats.Option{
		nats.Nkey(string(k.public), k.Sign),
		nats.CustomInboxPrefix(strings.TrimSuffix(inbox, ".")),
	}
}
