package main

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"gatebook/policy"
)

// Of many changes a start names the first ones, each on the same line.
func TestNarrowed(t *testing.T) {
	var changes []policy.Change
	for _, name := range strings.Fields("a b c d e f g") {
		changes = append(changes, policy.Change{Text: "profiles.p.tools loses " + name + "\x1b\n"})
	}
	got := narrowed(7, changes)
	if !strings.Contains(got, "(event 7)") || strings.Count(got, "loses") != saidChanges || !strings.HasSuffix(got, "; and 2 more") ||
		strings.ContainsAny(got, "\x1b\n") {
		t.Errorf("%q", got)
	}
	if got := narrowed(7, changes[:saidChanges]); strings.Contains(got, "more") {
		t.Errorf("%q", got)
	}
}

// A port in use is told once, with what to do.
func TestServePortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	h := newFolder(t)
	code, out, said := h.run("serve", "--port", port)
	want := "gatebook: port " + port + " of 127.0.0.1 is in use: name another with --port, or none for a free one\n"
	if code != exitNo || out != "" || said != want {
		t.Errorf("exit code %d, printed %q, said %q", code, out, said)
	}
}
