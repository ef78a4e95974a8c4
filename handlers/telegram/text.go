package telegram

import (
	"strings"

	"gatebook/events"
)

// escape makes text safe to show: what a reader does not see as what it is stands
// escaped. Lines stay lines. A \ stays one, as on the command line: in JSON, what is
// escaped so is the same value. A tab is escaped too, for Telegram makes it a space.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\\' {
			b.WriteRune(r)
		} else {
			b.WriteString(events.Escape(string(r)))
		}
	}
	return b.String()
}

// hides says that there is something in text that a reader would not see.
func hides(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && events.Unseen(r) })
}

// units is the length of a text as Telegram counts.
func units(text string) int {
	n := 0
	for _, r := range text {
		n += unitsOf(r)
	}
	return n
}

func unitsOf(r rune) int {
	if r > 0xffff {
		return 2
	}
	return 1
}

// cut is the beginning of a text of at most that many units.
func cut(text string, most int) string {
	for at, r := range text {
		if most -= unitsOf(r); most < 0 {
			return text[:at]
		}
	}
	return text
}

// fit cuts a text that a message does not hold, and ends it with mark.
func fit(text, mark string) string { return fitIn(text, mark, maxMessage) }

func fitIn(text, mark string, most int) string {
	if units(text) <= most {
		return text
	}
	return cut(text, most-units(mark)) + mark
}
