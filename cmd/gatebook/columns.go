package main

import (
	"os"
	"slices"
	"unicode/utf8"

	"golang.org/x/term"

	"gatebook/events"
)

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
