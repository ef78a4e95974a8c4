package identity

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// TTY is the terminal at a path; it implements [Terminal].
type TTY struct{ Path string }

// ControllingTerminal is the one that the process was started from.
func ControllingTerminal() TTY { return TTY{Path: "/dev/tty"} }

// ReadSecret reads one line that the terminal does not show. When ctx ends first
// the terminal shows again what is typed, and the goroutine that reads ends with
// the next line or with the process.
func (t TTY) ReadSecret(ctx context.Context, prompt string) ([]byte, error) {
	f, err := os.OpenFile(t.Path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoPassphrase, err)
	}
	fd := int(f.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, errors.Join(ErrNoPassphrase, err, f.Close())
	}
	// Hidden before it is asked for: a quick typist's first letters count too.
	err = hideTyping(fd)
	if err == nil {
		_, err = fmt.Fprint(f, prompt)
	}
	if err != nil {
		return nil, errors.Join(err, term.Restore(fd, before), f.Close())
	}
	type line struct {
		text []byte
		err  error
	}
	read, left := make(chan line, 1), make(chan struct{})
	go func() {
		text, err := term.ReadPassword(fd)
		read <- line{text, errors.Join(err, term.Restore(fd, before))}
		<-left // the other side may still use fd
		f.Close()
	}()
	defer close(left)
	select {
	case l := <-read:
		_, err := fmt.Fprintln(f)
		return l.text, errors.Join(l.err, err)
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}

func hideTyping(fd int) error {
	s, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return err
	}
	s.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(fd, setTermios, s)
}
