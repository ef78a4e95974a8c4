package identity

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"

	"gatebook/events"
)

// PassphraseFile is the variable that names the file of the passphrase.
const PassphraseFile = "GATEBOOK_PASSPHRASE_FILE"

// ErrNoPassphrase says that there is nowhere to take a passphrase from.
var ErrNoPassphrase = errors.New("no passphrase: run this on a terminal, or write the passphrase in a file of mode 0600 and name it in " + PassphraseFile)

// Terminal asks a person. The error wraps [ErrNoPassphrase] where there is
// nobody to ask.
type Terminal interface {
	ReadSecret(ctx context.Context, prompt string) ([]byte, error)
}

// Passphrase takes the passphrase of a person's approving key from the file that
// [PassphraseFile] names, with one end of line taken off, else from the terminal,
// there asked twice where fresh says that the key is still to be made. The caller
// wipes it.
func Passphrase(ctx context.Context, getenv func(string) string, t Terminal, of events.PersonID, fresh bool) ([]byte, error) {
	var secret []byte
	var err error
	if path := getenv(PassphraseFile); path != "" {
		secret, err = readSecret(path)
		secret = bytes.TrimSuffix(bytes.TrimSuffix(secret, []byte("\n")), []byte("\r"))
	} else {
		secret, err = ask(ctx, t, of, fresh)
	}
	if err != nil {
		return nil, fmt.Errorf("passphrase: %w", err)
	}
	if len(secret) == 0 {
		return nil, errors.New("passphrase: it is empty")
	}
	return secret, nil
}

func ask(ctx context.Context, t Terminal, of events.PersonID, fresh bool) ([]byte, error) {
	prompt := "Passphrase for the approving key of " + events.Escape(string(of)) + ": "
	if fresh {
		prompt = "New passphrase for the approving key of " + events.Escape(string(of)) + " (it cannot be recovered): "
	}
	secret, err := t.ReadSecret(ctx, prompt)
	if err != nil || !fresh {
		return secret, err
	}
	again, err := t.ReadSecret(ctx, "The same again: ")
	defer wipe(again)
	if err == nil && subtle.ConstantTimeCompare(secret, again) != 1 {
		err = errors.New("the two are not the same")
	}
	if err != nil {
		wipe(secret)
		return nil, err
	}
	return secret, nil
}
