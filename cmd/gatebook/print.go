package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/term"

	"gatebook/events"
	"gatebook/handlers/people"
)

// printJSON prints one value, indented. What a terminal would act on is escaped.
func (a *App) printJSON(v any) error {
	raw, err := json.Marshal(v, jsontext.WithIndent("  "), jsontext.EscapeForHTML(false))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s\n", events.EscapeJSON(raw))
	return err
}

// printJSONLine prints one value in one line.
func (a *App) printJSONLine(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s\n", events.EscapeJSON(raw))
	return err
}

// table prints rows under a heading; every cell is escaped for a terminal.
func (a *App) table(head []string, rows [][]string) error {
	plain := make([][]string, len(rows))
	for i, row := range rows {
		plain[i] = escaped(row)
	}
	return a.plainTable(head, plain)
}

// plainTable is table for rows that are escaped.
func (a *App) plainTable(head []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// sayNone says beside an empty answer that nothing matches. An agent that the
// person may not observe is the same as one that does not exist.
func (a *App) sayNone(ctx context.Context, c *client, what string, agent events.AgentID) {
	why := "no " + what + " match"
	if agent != "" {
		if _, found, err := findAgent(ctx, c, agent); err == nil && !found {
			why = "there is no agent " + string(agent) + " that you may see"
		}
	} else {
		var page people.AgentsAnswer
		if err := c.ask(ctx, "agents", people.ListRequest{Limit: 1}, &page); err == nil && len(page.Agents) == 0 {
			why += ": there is no agent that you may see (an approver says in the catalog whom you observe)"
		}
	}
	fmt.Fprintln(a.Err, "gatebook: "+why)
}

// firstLine is what stands before the stack of a library's error.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// oneLine is an error of several parts, which a library's may have many of, in one line.
func oneLine(s string) string {
	const most = 500 // bytes
	return events.Cut(strings.ReplaceAll(s, "\n", "; "), most)
}

// when prints a time in the person's zone, or UTC.
func (a *App) when(i events.Instant) string {
	if i == 0 {
		return "-"
	}
	return i.Time().In(a.zone()).Format("2006-01-02 15:04:05 MST")
}

// zone is the one that times are read and written in.
func (a *App) zone() *time.Location {
	if a.flags.utc {
		return time.UTC
	}
	return time.Local
}

// took prints a duration for people.
func took(m events.Micros) string {
	d := m.Duration()
	if d >= time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// clip shortens a cell.
func clip(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most-1]) + "…"
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// auditSpare are the columns of audit that a narrow terminal can do without, the
// least needed first. REASON is not among them: it is cut.
var auditSpare = []string{"TOOK", "PRINCIPAL", "LAYER:RULE", "ARGS", "CALL"}

const (
	columnGap = 2
	leastLast = 16 // what the last column keeps, if it has so much
)

// terminalColumns is how wide the terminal f is; 0 where it is none.
func terminalColumns(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// fit makes a table as narrow as a terminal: it leaves out spare columns, in their
// order, and cuts the last one. Cells are escaped before, so that what is measured
// is what is printed. A width of 0 is no terminal, and everything stays.
func fit(head []string, rows [][]string, spare []string, width int) (fitHead []string, fitRows [][]string, left bool) {
	if width == 0 {
		return head, rows, false
	}
	widths := make([]int, len(head))
	for _, row := range append(slices.Clone(rows), head) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	last := len(head) - 1
	room := width
	for _, w := range widths[:last] {
		room -= w + columnGap
	}
	gone := map[int]bool{}
	for _, name := range spare {
		if room >= min(widths[last], leastLast) {
			break
		}
		i := slices.Index(head, name)
		gone[i], room = true, room+widths[i]+columnGap
	}
	keep := func(row []string) []string {
		var kept []string
		for i, cell := range row {
			if !gone[i] {
				kept = append(kept, cell)
			}
		}
		kept[len(kept)-1] = clip(kept[len(kept)-1], max(room, len("REASON")))
		return kept
	}
	for _, row := range rows {
		fitRows = append(fitRows, keep(row))
	}
	return keep(head), fitRows, len(gone) > 0 || room < widths[last]
}

// escaped is a row as it is printed.
func escaped(row []string) []string {
	out := make([]string, len(row))
	for i, cell := range row {
		out[i] = events.Escape(cell)
	}
	return out
}
