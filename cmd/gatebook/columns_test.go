package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// On a narrow terminal the least needed columns go first, and the last is cut.
func TestFit(t *testing.T) {
	head := auditHead(false)
	row := []string{
		"2026-11-30 08:00:00 UTC", "alice", "anna", "file.read", `{"path":"../../x"}`, "deny/denied", "role:workspace", "12.34ms",
		"01JZ0000000000000000000000", "the path leaves the workspace; name a path inside it",
	}
	for _, c := range []struct {
		width int
		gone  []string // columns
		left  bool
	}{
		{0, nil, false},
		{300, nil, false},
		{160, nil, true},
		{150, []string{"TOOK"}, true},
		{125, []string{"TOOK", "PRINCIPAL", "LAYER:RULE"}, true},
		{80, auditSpare, true},
		{20, auditSpare, true},
	} {
		gotHead, rows, left := fit(head, [][]string{row}, auditSpare, c.width)
		var want []string
		for _, name := range head {
			if !slices.Contains(c.gone, name) {
				want = append(want, name)
			}
		}
		if !slices.Equal(gotHead, want) || left != c.left || len(rows[0]) != len(want) {
			t.Errorf("%d columns: %v, left out %t", c.width, gotHead, left)
		}
		var out strings.Builder
		if err := (&App{Out: &out}).plainTable(gotHead, rows); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(line) - 1; c.width >= 80 && n > c.width {
				t.Errorf("%d columns: a line of %d: %s", c.width, n, line)
			}
		}
		if cut := strings.HasSuffix(out.String(), "…\n"); cut != (left && c.width != 0) {
			t.Errorf("%d columns: %s", c.width, &out)
		}
	}
}

// What is piped stays whole; a terminal is told how to see the rest.
func TestAuditOnTerminal(t *testing.T) {
	row := escaped([]string{"t", "a", "p", "file.read", "{}", "allow/ok", "-", "1ms", "01JZ0000000000000000000000", strings.Repeat("x", 60)})
	for _, c := range []struct {
		columns func() int
		wide    bool
		told    bool
	}{
		{nil, false, false}, {func() int { return 0 }, false, false}, {func() int { return 80 }, false, true},
	} {
		var out, errs strings.Builder
		a := &App{Out: &out, Err: &errs, Columns: c.columns}
		if err := a.printAudit([][]string{slices.Clone(row)}, c.wide); err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(errs.String(), "--wide shows all"); told != c.told || strings.Contains(out.String(), "TOOK") == c.told {
			t.Errorf("said %q of\n%s", &errs, &out)
		}
	}
}
