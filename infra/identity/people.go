package identity

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"filippo.io/age"
	"filippo.io/age/armor"

	"gatebook/events"
)

// ErrPassphrase says that the passphrase does not open the key.
var ErrPassphrase = errors.New("wrong passphrase")

const (
	// WorkFactor is the default cost of a passphrase: 2^18 steps of scrypt,
	// about a second and 256 MiB.
	WorkFactor = 18
	// maxWorkFactor is the most that a file may ask for.
	maxWorkFactor = 20
)

// DefaultKeysDir is the folder of people's keys: $XDG_CONFIG_HOME/gatebook, else
// ~/.config/gatebook. A relative XDG_CONFIG_HOME is passed over.
func DefaultKeysDir(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "gatebook"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "gatebook"), nil
	}
	return "", errors.New("no folder for keys: neither XDG_CONFIG_HOME nor HOME is an absolute path; name one with --keys")
}

// People keeps people's keys in one folder: "<person>.nk" to read and operate,
// "<person>.approve.age" to approve. Safe for concurrent use.
type People struct {
	dir        string
	workFactor int
}

// NewPeople takes an absolute folder, which need not be there. workFactor is the
// cost of new passphrases, as a power of two; 0 means [WorkFactor].
func NewPeople(dir string, workFactor int) (*People, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("folder of keys %s is not an absolute path", events.Quote(dir))
	}
	if workFactor == 0 {
		workFactor = WorkFactor
	}
	if workFactor < 1 || workFactor > maxWorkFactor {
		return nil, fmt.Errorf("work factor %d is not in 1 to %d", workFactor, maxWorkFactor)
	}
	return &People{dir: dir, workFactor: workFactor}, nil
}

// KeyPath is the file of the key to read and operate.
func (p *People) KeyPath(id events.PersonID) string { return filepath.Join(p.dir, string(id)+".nk") }

// ApprovePath is the file of the key to approve.
func (p *People) ApprovePath(id events.PersonID) string {
	return filepath.Join(p.dir, string(id)+".approve.age")
}

// Create makes the key to read and operate; see [CreateKey].
func (p *People) Create(id events.PersonID, random io.Reader) (*Key, error) {
	if _, err := events.ParsePersonID(string(id)); err != nil {
		return nil, err
	}
	return CreateKey(p.KeyPath(id), random)
}

// Load reads the key to read and operate; see [LoadKey].
func (p *People) Load(id events.PersonID) (*Key, error) {
	if _, err := events.ParsePersonID(string(id)); err != nil {
		return nil, err
	}
	return LoadKey(p.KeyPath(id))
}

// CreateApprove makes the key to approve, encrypted with the passphrase, which
// the caller wipes. A file that is there stays, and the error wraps fs.ErrExist.
func (p *People) CreateApprove(id events.PersonID, passphrase []byte, random io.Reader) (*Key, error) {
	if _, err := events.ParsePersonID(string(id)); err != nil {
		return nil, err
	}
	k, seed, err := newKey(random)
	if err != nil {
		return nil, err
	}
	defer wipe(seed)
	text, err := encrypt(seed, passphrase, p.workFactor)
	if err == nil {
		err = createSecret(p.ApprovePath(id), text)
	}
	if err != nil {
		k.Wipe()
		return nil, fmt.Errorf("create approving key: %w", err)
	}
	return k, nil
}

// LoadApprove decrypts the key to approve. The error wraps [ErrPassphrase] or
// what [LoadKey] says.
func (p *People) LoadApprove(id events.PersonID, passphrase []byte) (*Key, error) {
	if _, err := events.ParsePersonID(string(id)); err != nil {
		return nil, err
	}
	path := p.ApprovePath(id)
	if err := checkFolder(p.dir); err != nil {
		return nil, fmt.Errorf("load approving key: %w", err)
	}
	text, err := readSecret(path)
	if err != nil {
		return nil, fmt.Errorf("load approving key: %w", err)
	}
	seed, err := decrypt(text, passphrase)
	defer wipe(seed)
	if err != nil {
		return nil, fmt.Errorf("load approving key %s: %w", events.Quote(path), err)
	}
	k, err := parseKey(seed)
	if err != nil {
		return nil, fmt.Errorf("load approving key %s: %w", events.Quote(path), err)
	}
	return k, nil
}

func encrypt(secret, passphrase []byte, workFactor int) ([]byte, error) {
	to, err := age.NewScryptRecipient(string(passphrase))
	if err != nil {
		return nil, err
	}
	to.SetWorkFactor(workFactor)
	var text bytes.Buffer
	lines := armor.NewWriter(&text)
	w, err := age.Encrypt(lines, to)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(secret); err != nil {
		return nil, err
	}
	if err := errors.Join(w.Close(), lines.Close()); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

func decrypt(text, passphrase []byte) ([]byte, error) {
	with, err := age.NewScryptIdentity(string(passphrase))
	if err != nil {
		return nil, err
	}
	with.SetMaxWorkFactor(maxWorkFactor)
	r, err := age.Decrypt(armor.NewReader(bytes.NewReader(text)), with)
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none):
		return nil, ErrPassphrase
	case err != nil: // age's own text repeats parts of the file
		return nil, fmt.Errorf("%w: the content was not encrypted with a passphrase by age, or asks for more work than 2^%d", ErrKey, maxWorkFactor)
	}
	secret, err := io.ReadAll(io.LimitReader(r, maxFile))
	if err != nil {
		return secret, fmt.Errorf("%w: the content is damaged", ErrKey)
	}
	return secret, nil
}
