package identity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// pty opens a real terminal and gives the side of the person and the path of the
// other one.
func pty(t *testing.T) (*os.File, string) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	must(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	must(t, err)
	return person, fmt.Sprintf("/dev/pts/%d", n)
}

// TestTTY: what is typed is read and not shown, however quick the typist.
func TestTTY(t *testing.T) {
	for range 30 {
		typeOnce(t)
	}
}

func typeOnce(t *testing.T) {
	person, path := pty(t)
	keep, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0) // the terminal outlives one reader
	must(t, err)
	defer keep.Close()
	shown := make(chan string, 1)
	go func() { // a person types when asked, and sees the rest
		var seen bytes.Buffer
		part := make([]byte, 1024)
		for typed := false; ; {
			n, err := person.Read(part)
			seen.Write(part[:n])
			if !typed && strings.Contains(seen.String(), "Passphrase: ") {
				typed = true
				if _, err := person.WriteString("correct horse\n"); err != nil {
					t.Error(err)
				}
			}
			if err != nil || strings.HasSuffix(seen.String(), "\n") {
				shown <- seen.String()
				return
			}
		}
	}()
	got, err := TTY{Path: path}.ReadSecret(t.Context(), "Passphrase: ")
	if err != nil || string(got) != "correct horse" {
		t.Fatalf("got %q, %v", got, err)
	}
	if text := <-shown; text != "Passphrase: \r\n" {
		t.Errorf("the terminal showed %q", text)
	}
}

func TestNoTTY(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, path := range []string{file, filepath.Join(t.TempDir(), "none")} {
		if _, err := (TTY{Path: path}).ReadSecret(t.Context(), ""); !errors.Is(err, ErrNoPassphrase) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

// TestTTYCancelled: the wait ends with ctx, and the terminal shows what is typed
// again.
func TestTTYCancelled(t *testing.T) {
	person, path := pty(t)
	keep, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	defer keep.Close()
	echo := func() bool {
		s, err := unix.IoctlGetTermios(int(keep.Fd()), unix.TCGETS)
		must(t, err)
		return s.Lflag&unix.ECHO != 0
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := TTY{Path: path}.ReadSecret(ctx, "Passphrase: ")
		ended <- err
	}()
	for echo() {
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if !echo() {
		t.Error("the terminal hides what is typed")
	}
	_, err = person.WriteString("\n") // ends the reader
	must(t, err)
}
