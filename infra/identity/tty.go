package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		text, err := readLine(f)
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

// hideTyping is done once, before anything reads: a reader that hid it again could
// do so after a cancelled wait has shown it.
func hideTyping(fd int) error {
	s, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return err
	}
	s.Lflag &^= unix.ECHO
	s.Lflag |= unix.ICANON | unix.ISIG
	s.Iflag |= unix.ICRNL
	return unix.IoctlSetTermios(fd, setTermios, s)
}

// maxLine bounds a passphrase, in bytes.
const maxLine = 1 << 12

// readLine reads up to the end of the line, and not a byte more.
func readLine(f *os.File) ([]byte, error) {
	text, one := make([]byte, 0, 128), make([]byte, 1)
	for len(text) < maxLine {
		switch n, err := f.Read(one); {
		case n == 1 && one[0] == '\n':
			return text, nil
		case n == 1:
			text = append(text, one[0])
		case err != nil && (!errors.Is(err, io.EOF) || len(text) == 0):
			return nil, err
		default:
			return text, nil
		}
	}
	return nil, fmt.Errorf("a passphrase has at most %d bytes", maxLine)
}
