package main

import (
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
