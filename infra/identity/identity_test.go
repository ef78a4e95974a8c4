package identity

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"

	"gatebook/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const lowWork = 2 // of scrypt, for speed

func people(t *testing.T) *People {
	t.Helper()
	p, err := NewPeople(filepath.Join(t.TempDir(), "keys"), lowWork)
	must(t, err)
	return p
}

// TestKeyFile: a key that was made is loaded and signs; files and folders are the
// owner's alone; nothing is overwritten.
func TestKeyFile(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	keys := t.TempDir()
	for _, path := range []string{AgentKey(keys, "a1"), ChannelKey(keys, "a1")} {
		made, err := CreateKey(path, rand.Reader)
		must(t, err)
		got, err := LoadKey(path)
		must(t, err)
		if got.Public() != made.Public() || !nkeys.IsValidPublicUserKey(string(got.Public())) {
			t.Fatalf("made %s, loaded %s", made, got)
		}
		sig, err := got.Sign([]byte("nonce"))
		must(t, err)
		pub, err := nkeys.FromPublicKey(string(made.Public()))
		must(t, err)
		must(t, pub.Verify([]byte("nonce"), sig))
		for p, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
			if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: mode %v, %v", p, info.Mode(), err)
			}
		}
		before, err := os.ReadFile(path)
		must(t, err)
		if _, err := CreateKey(path, rand.Reader); !errors.Is(err, fs.ErrExist) {
			t.Errorf("got %v", err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Error("the key was overwritten")
		}
		if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
			t.Errorf("left behind: %v", entries)
		}
		got.Wipe()
		if sig, err := got.Sign([]byte("nonce")); err == nil && pub.Verify([]byte("nonce"), sig) == nil {
			t.Error("a wiped key signs")
		}
	}
}

// TestLoadRefuses: what is not taken for a key, and no error repeats any of it.
func TestLoadRefuses(t *testing.T) {
	user, err := nkeys.CreateUser()
	must(t, err)
	account, err := nkeys.CreateAccount()
	must(t, err)
	curve, err := nkeys.CreateCurveKeys()
	must(t, err)
	seed := func(k nkeys.KeyPair) string { s, err := k.Seed(); must(t, err); return string(s) }
	public, err := user.PublicKey()
	must(t, err)
	write := func(text string, mode fs.FileMode) func(string) error {
		return func(p string) error { return errors.Join(os.WriteFile(p, []byte(text), mode), os.Chmod(p, mode)) }
	}
	good := seed(user)
	rows := []struct {
		name string
		make func(path string) error
		want error
	}{
		{"readable by the group", write(good, 0o640), ErrNotPrivate},
		{"readable by others", write(good, 0o604), ErrNotPrivate},
		{"writable by others", write(good, 0o602), ErrNotPrivate},
		{"a link", func(p string) error { return errors.Join(write(good, 0o600)(p+"x"), os.Symlink(p+"x", p)) }, ErrNotFile},
		{"a folder", func(p string) error { return os.Mkdir(p, 0o700) }, ErrNotFile},
		{"a pipe", func(p string) error { return syscall.Mkfifo(p, 0o600) }, ErrNotFile},
		{"missing", func(string) error { return nil }, fs.ErrNotExist},
		{"empty", write("", 0o600), ErrKey},
		{"an account's seed", write(seed(account), 0o600), ErrKey},
		{"a curve seed", write(seed(curve), 0o600), ErrKey},
		{"a public key", write(public, 0o600), ErrKey},
		{"one letter changed", write(good[:20]+string(good[20]^1)+good[21:], 0o600), ErrKey},
		{"two seeds", write(good+"\n"+good, 0o600), ErrKey},
		{"something before", write(" "+good, 0o600), ErrKey},
		{"too large", write(strings.Repeat(good, 1000), 0o600), ErrKey},
		{"folder open to others", func(p string) error {
			return errors.Join(write(good, 0o600)(p), os.Chmod(filepath.Dir(p), 0o755))
		}, ErrNotPrivate},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "keys")
			must(t, os.Mkdir(dir, 0o700))
			path := filepath.Join(dir, "k.nk")
			must(t, row.make(path))
			_, err := LoadKey(path)
			if !errors.Is(err, row.want) {
				t.Fatalf("got %v, want %v", err, row.want)
			}
			noSecret(t, err, good[2:], seed(account)[2:], seed(curve)[2:])
		})
	}
	if _, err := CreateKey(filepath.Join(openFolder(t), "k.nk"), rand.Reader); !errors.Is(err, ErrNotPrivate) {
		t.Errorf("a key was made where others may enter: %v", err)
	}
}

func openFolder(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "open")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Chmod(dir, 0o755))
	return dir
}

// noSecret looks for any eight characters of a secret.
func noSecret(t *testing.T, shown any, secrets ...string) {
	t.Helper()
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		text := fmt.Sprintf(format, shown)
		for _, s := range secrets {
			for i := 0; i+8 <= len(s); i++ {
				if strings.Contains(text, s[i:i+8]) || strings.Contains(text, fmt.Sprintf("%x", s[i:i+8])) {
					t.Fatalf("%s shows a secret: %s", format, text)
				}
			}
		}
	}
}

func TestNoSecretInValues(t *testing.T) {
	k, seed, err := newKey(rand.Reader)
	must(t, err)
	noSecret(t, k, string(seed))
	mac, err := CreateMACKey(filepath.Join(t.TempDir(), "keys"), rand.Reader)
	must(t, err)
	noSecret(t, mac, string(mac.secret))
}

// TestPeople: two keys in one folder; the approving one opens with its passphrase
// only, and is nowhere in clear.
func TestPeople(t *testing.T) {
	p := people(t)
	key, err := p.Create("anna", rand.Reader)
	must(t, err)
	approve, err := p.CreateApprove("anna", []byte("correct horse"), rand.Reader)
	must(t, err)
	if key.Public() == approve.Public() {
		t.Fatal("both keys are one")
	}
	if got, err := p.Load("anna"); err != nil || got.Public() != key.Public() {
		t.Fatalf("got %v, %v", got, err)
	}
	got, err := p.LoadApprove("anna", []byte("correct horse"))
	if err != nil || got.Public() != approve.Public() {
		t.Fatalf("got %v, %v", got, err)
	}
	for _, wrong := range []string{"correct horsf", "correct horse ", "Correct horse"} {
		_, err := p.LoadApprove("anna", []byte(wrong))
		if !errors.Is(err, ErrPassphrase) {
			t.Errorf("%q: got %v", wrong, err)
		}
		noSecret(t, err, wrong)
	}
	if _, err := p.LoadApprove("anna", nil); err == nil {
		t.Error("an empty passphrase was taken")
	}
	text, err := os.ReadFile(p.ApprovePath("anna"))
	must(t, err)
	if !bytes.HasPrefix(text, []byte("-----BEGIN AGE ENCRYPTED FILE-----\n")) {
		t.Errorf("not armored: %.40q", text)
	}
	seed, err := approve.pair.Seed()
	must(t, err)
	noSecret(t, text, string(seed))
	if _, err := p.CreateApprove("anna", []byte("another"), rand.Reader); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	if _, err := p.CreateApprove("bert", nil, rand.Reader); err == nil {
		t.Error("a key was made with an empty passphrase")
	}
	for _, id := range []events.PersonID{"", "../anna", "engine", "Anna"} {
		_, err := p.Create(id, rand.Reader)
		_, err2 := p.LoadApprove(id, []byte("x"))
		if !errors.Is(err, events.ErrID) || !errors.Is(err2, events.ErrID) {
			t.Errorf("%q: got %v, %v", id, err, err2)
		}
	}
}

// TestApproveFileRefuses: files that were made to cost, to mislead, or that are
// damaged.
func TestApproveFileRefuses(t *testing.T) {
	account, err := nkeys.CreateAccount()
	must(t, err)
	seed, err := account.Seed()
	must(t, err)
	pass := []byte("correct horse")
	costly, err := encrypt([]byte("x"), pass, lowWork)
	must(t, err)
	foreign, err := encrypt(seed, pass, lowWork)
	must(t, err)
	rows := []struct {
		name string
		text []byte
		mode fs.FileMode
		want error
	}{
		{"a work factor above the most", raiseWork(t, costly), 0o600, ErrKey},
		{"an account's seed", foreign, 0o600, ErrKey},
		{"cut", foreign[:len(foreign)/2], 0o600, ErrKey},
		{"not encrypted", seed, 0o600, ErrKey},
		{"readable by others", foreign, 0o644, ErrNotPrivate},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			p := people(t)
			must(t, os.MkdirAll(p.dir, 0o700))
			must(t, os.WriteFile(p.ApprovePath("anna"), row.text, row.mode))
			_, err := p.LoadApprove("anna", pass)
			if !errors.Is(err, row.want) {
				t.Fatalf("got %v", err)
			}
			noSecret(t, err, string(seed), string(pass))
		})
	}
}

func TestWorkFactor(t *testing.T) {
	if p, err := NewPeople("/k", 0); err != nil || p.workFactor != 18 {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, bad := range []int{-1, maxWorkFactor + 1} {
		if _, err := NewPeople("/k", bad); err == nil {
			t.Errorf("%d was taken", bad)
		}
	}
	if _, err := NewPeople("keys", 0); err == nil {
		t.Error("a relative folder was taken")
	}
}

func TestDefaultKeysDir(t *testing.T) {
	for _, row := range []struct{ xdg, home, want string }{
		{"/x", "/home/anna", "/x/gatebook"},
		{"", "/home/anna", "/home/anna/.config/gatebook"},
		{"relative", "/home/anna", "/home/anna/.config/gatebook"},
		{"", "", ""},
		{"", "relative", ""},
	} {
		got, err := DefaultKeysDir(func(k string) string {
			return map[string]string{"XDG_CONFIG_HOME": row.xdg, "HOME": row.home}[k]
		})
		if got != row.want || (err == nil) != (row.want != "") {
			t.Errorf("%+v: got %q, %v", row, got, err)
		}
	}
}

// TestMACKey: equal data have equal MACs under one key, and no others.
func TestMACKey(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	k, err := CreateMACKey(keys, bytes.NewReader(bytes.Repeat([]byte{0x0b}, 32)))
	must(t, err)
	loaded, err := LoadMACKey(keys)
	must(t, err)
	const want = "198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7"
	if got := loaded.MAC([]byte("Hi There")); got != want || got != k.MAC([]byte("Hi There")) {
		t.Errorf("got %s", got)
	}
	if k.MAC([]byte("a")) == k.MAC([]byte("b")) {
		t.Error("different data, one MAC")
	}
	if _, err := CreateMACKey(keys, rand.Reader); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	if info, err := os.Stat(filepath.Join(keys, "mac")); err != nil || info.Mode() != 0o600 || info.Size() != 32 {
		t.Errorf("got %v, %v", info, err)
	}
	must(t, os.Truncate(filepath.Join(keys, "mac"), 31))
	if _, err := LoadMACKey(keys); !errors.Is(err, ErrKey) {
		t.Errorf("a short key: got %v", err)
	}
	must(t, os.Chmod(filepath.Join(keys, "mac"), 0o640))
	if _, err := LoadMACKey(keys); !errors.Is(err, ErrNotPrivate) {
		t.Errorf("a readable key: got %v", err)
	}
	if _, err := CreateMACKey(t.TempDir(), bytes.NewReader(make([]byte, 31))); err == nil {
		t.Error("a key was made of too few random bytes")
	}
}

// asker answers like a person at a terminal.
type asker struct{ answers, asked []string }

func (a *asker) ReadSecret(ctx context.Context, prompt string) ([]byte, error) {
	a.asked = append(a.asked, prompt)
	if len(a.answers) == 0 {
		return nil, ErrNoPassphrase
	}
	next := a.answers[0]
	a.answers = a.answers[1:]
	return []byte(next), ctx.Err()
}

func TestPassphrase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passphrase")
	rows := []struct {
		name    string
		file    string
		mode    fs.FileMode
		answers []string
		confirm bool
		want    string
		err     error
	}{
		{name: "file with an end of line", file: "correct horse\n", mode: 0o600, want: "correct horse"},
		{name: "file with CR LF", file: "correct horse\r\n", mode: 0o400, want: "correct horse"},
		{name: "one end of line only", file: " x \n\n", mode: 0o600, want: " x \n"},
		{name: "the file comes first", file: "x", mode: 0o600, answers: []string{"y"}, confirm: true, want: "x"},
		{name: "file that others may read", file: "correct horse", mode: 0o644, answers: []string{"y"}, err: ErrNotPrivate},
		{name: "empty file", file: "\n", mode: 0o600, err: errAny},
		{name: "terminal", answers: []string{"x"}, want: "x"},
		{name: "terminal, asked twice", answers: []string{"x", "x"}, confirm: true, want: "x"},
		{name: "terminal, not the same", answers: []string{"correct horse", "correct horsf"}, confirm: true, err: errAny},
		{name: "nothing typed", answers: []string{""}, err: errAny},
		{name: "neither", err: ErrNoPassphrase},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			env := map[string]string{}
			if row.file != "" {
				env[PassphraseFile] = file
				_ = os.Remove(file)
				must(t, os.WriteFile(file, []byte(row.file), row.mode))
			}
			got, err := Passphrase(t.Context(), func(k string) string { return env[k] }, &asker{answers: row.answers}, "anna", row.confirm)
			if string(got) != row.want || (err == nil) != (row.err == nil) || (!errors.Is(row.err, errAny) && !errors.Is(err, row.err)) {
				t.Fatalf("got %q, %v", got, err)
			}
			if err != nil {
				noSecret(t, err, "correct horse", "correct horsf")
			}
		})
	}
	if text := ErrNoPassphrase.Error(); !strings.Contains(text, "terminal") || !strings.Contains(text, PassphraseFile) {
		t.Errorf("not both ways are named: %s", text)
	}
}

// Who is asked hears what for, and of a new one that it is for good.
func TestPassphrasePrompt(t *testing.T) {
	for fresh, want := range map[bool][]string{
		false: {"Passphrase for the approving key of anna: "},
		true:  {"New passphrase for the approving key of anna (it cannot be recovered): ", "The same again: "},
	} {
		a := &asker{answers: []string{"x", "x"}}
		if _, err := Passphrase(t.Context(), func(string) string { return "" }, a, "anna", fresh); err != nil || !slices.Equal(a.asked, want) {
			t.Errorf("asked %q, want %q (%v)", a.asked, want, err)
		}
	}
}

var errAny = errors.New("any")

// TestOptions: a real server accepts the key by its signature, and answers come
// under the inbox.
func TestOptions(t *testing.T) {
	k, err := CreateKey(AgentKey(t.TempDir(), "a1"), rand.Reader)
	must(t, err)
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, Nkeys: []*server.NkeyUser{{
		Nkey: string(k.Public()), Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"intent.a1.>"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_a1.>"}},
		}}}})
	must(t, err)
	ns.Start()
	defer ns.WaitForShutdown()
	defer ns.Shutdown()
	refused := make(chan error, 1)
	nc, err := nats.Connect(ns.ClientURL(), append(Options(k, "_INBOX_a1."),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))...)
	must(t, err)
	defer nc.Close()
	if inbox := nc.NewInbox(); !strings.HasPrefix(inbox, "_INBOX_a1.") || strings.Contains(inbox, "..") {
		t.Errorf("inbox %s", inbox)
	}
	if _, err := nc.RequestWithContext(t.Context(), "intent.a1.call", nil); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("got %v", err)
	}
	select {
	case err := <-refused:
		t.Error(err)
	default:
	}
}
