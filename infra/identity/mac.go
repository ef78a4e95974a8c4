package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"

	"gatebook/events"
)

const macKeySize = 32

// MACKey is the key of a data folder's MACs. It prints as nothing. Safe for
// concurrent use.
type MACKey struct{ secret []byte }

// String tells nothing.
func (*MACKey) String() string { return "MAC key" }

// GoString tells nothing.
func (*MACKey) GoString() string { return "MAC key" }

// CreateMACKey makes the file "mac" of 32 random bytes, mode 0600, in the folder
// of keys. A file that is there stays, and the error wraps fs.ErrExist.
func CreateMACKey(keys string, random io.Reader) (*MACKey, error) {
	secret := make([]byte, macKeySize)
	if _, err := io.ReadFull(random, secret); err != nil {
		return nil, fmt.Errorf("create MAC key: %w", err)
	}
	if err := createSecret(macPath(keys), secret); err != nil {
		wipe(secret)
		return nil, fmt.Errorf("create MAC key: %w", err)
	}
	return &MACKey{secret: secret}, nil
}

// LoadMACKey reads it. The error wraps fs.ErrNotExist, [ErrNotPrivate],
// [ErrNotFile] or [ErrKey].
func LoadMACKey(keys string) (*MACKey, error) {
	secret, err := readSecret(macPath(keys))
	if err != nil {
		return nil, fmt.Errorf("load MAC key: %w", err)
	}
	if len(secret) != macKeySize {
		wipe(secret)
		return nil, fmt.Errorf("load MAC key: %w: %d bytes, want %d", ErrKey, len(secret), macKeySize)
	}
	return &MACKey{secret: secret}, nil
}

// MAC is the HMAC-SHA256 of data.
func (k *MACKey) MAC(data []byte) events.MAC {
	h := hmac.New(sha256.New, k.secret)
	h.Write(data)
	return events.MAC(hex.EncodeToString(h.Sum(nil)))
}

func macPath(keys string) string { return filepath.Join(keys, "mac") }
