package events_test

import (
	"maps"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"gatebook/events"
)

func TestQuoteAndEscape(t *testing.T) {
	for _, row := range []struct{ name, text, quoted, escaped string }{
		{"plain", "a é 𝄞", `"a é 𝄞"`, "a é 𝄞"},
		{"empty", "", `""`, ""},
		{"quotation marks", `say "x"`, `"say \"x\""`, `say "x"`},
		{"quotation marks beside something unsafe", "say \"x\"\n", `"say \"x\"\n"`, `say "x"\n`},
		{"O-L02 agentsync#101 U+202E", "a\u202eb", `"a\u202eb"`, `a\u202eb`},
		{"O-L02 U+2066", "a\u2066b", `"a\u2066b"`, `a\u2066b`},
		{"O-L02 U+200B", "a\u200bb", `"a\u200bb"`, `a\u200bb`},
		{"O-L02 U+FEFF", "\ufeffa", `"\ufeffa"`, `\ufeffa`},
		{"O-L02 line break", "a\nb", `"a\nb"`, `a\nb`},
		{"O-L02 escape character", "\x1b[31m", `"\x1b[31m"`, `\x1b[31m`},
		{"carriage return", "a\rb", `"a\rb"`, `a\rb`},
		{"line separator", "a\u2028b", `"a\u2028b"`, `a\u2028b`},
		{"a space that is not ASCII's", "a\u00a0b", `"a\u00a0b"`, `a\u00a0b`},
		{"not UTF-8", "a\xffb", `"a\xffb"`, `a\xffb`},
		{"what looks escaped already", `a\u202eb`, `"a\\u202eb"`, `a\\u202eb`},
		{"backslash before a quotation mark", `\"`, `"\\\""`, `\\"`},
		{"language tag", "a\U000e0041", `"a\U000e0041"`, `a\U000e0041`},
	} {
		if got := events.Quote(row.text); got != row.quoted {
			t.Errorf("%s: quoted %s, want %s", row.name, got, row.quoted)
		}
		if got := events.Escape(row.text); got != row.escaped {
			t.Errorf("%s: escaped %s, want %s", row.name, got, row.escaped)
		}
	}
	long := strings.Repeat("é", 81)
	if got, want := events.Quote(long), `"`+strings.Repeat("é", 80)+`"… (162 bytes)`; got != want {
		t.Errorf("a long text: %s", got)
	}
	if got := events.Escape(long); got != long {
		t.Errorf("a long text is cut: %s", got)
	}
}

// Nothing that is shown can move a cursor, hide or turn text round, and two texts
// never look the same.
func TestShownTextIsSafe(t *testing.T) {
	hostile := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("a\"\\\n\r\x1b\u202e\u2066\u200b\ufeff\u2028"))))
	rapid.Check(t, func(t *rapid.T) {
		a, b := hostile.Draw(t, "a"), hostile.Draw(t, "b")
		for _, show := range []func(string) string{events.Quote, events.Escape} {
			for _, r := range show(a) {
				if !unicode.IsPrint(r) {
					t.Fatalf("%q shows %U", a, r)
				}
			}
		}
		if a != b && events.Escape(a) == events.Escape(b) {
			t.Fatalf("%q and %q look the same", a, b)
		}
	})
}

// JSON that is shown is the same value, and shows nothing that moves a cursor, hides or
// turns text round.
func TestShownJSONIsSafe(t *testing.T) {
	hostile := rapid.StringOf(rapid.SampledFrom([]rune("aé\"\\\n\x7f\u009b\u202e\u2066\u200b\ufeff\u2028\U000e0100🙂")))
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]string{hostile.Draw(t, "name"): hostile.Draw(t, "text")}
		raw, err := json.Marshal(want, jsontext.WithIndent("  "))
		if err != nil {
			t.Fatal(err)
		}
		shown := events.EscapeJSON(raw)
		for _, r := range string(shown) {
			if r != '\n' && events.Unseen(r) {
				t.Fatalf("%s shows %U", shown, r)
			}
		}
		var got map[string]string
		if err := json.Unmarshal(shown, &got); err != nil || !maps.Equal(got, want) {
			t.Fatalf("%s is %v (%v), want %v", shown, got, err, want)
		}
	})
}

// Cut gives valid UTF-8 within the bound, the beginning of what it was given, and
// as much of it as whole runes allow.
func TestCut(t *testing.T) {
	for _, row := range []struct {
		text string
		most int
		want string
	}{
		{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""}, {"abc", -1, ""}, {"", 5, ""},
		{"aé", 2, "a"}, {"aé", 3, "aé"}, {"𝄞", 3, ""}, {"a\xffb", 10, "a\uFFFDb"}, {"a\xff", 2, "a"},
	} {
		if got := events.Cut(row.text, row.most); got != row.want {
			t.Errorf("%q cut to %d: %q, want %q", row.text, row.most, got, row.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "text"))
		if rapid.Bool().Draw(t, "valid") {
			text = rapid.String().Draw(t, "runes")
		}
		most := rapid.IntRange(0, 50).Draw(t, "most")
		got, whole := events.Cut(text, most), strings.ToValidUTF8(text, "\uFFFD")
		if !utf8.ValidString(got) || len(got) > most || !strings.HasPrefix(whole, got) {
			t.Fatalf("%q cut to %d: %q", text, most, got)
		}
		if len(got) < len(whole) && most-len(got) >= utf8.UTFMax {
			t.Fatalf("%q cut to %d: only %d bytes", text, most, len(got))
		}
	})
}

// What has no shape is escaped, whichever table of Unicode it is in.
func TestShapelessIsEscaped(t *testing.T) {
	for _, r := range []rune{0x3164, 0x115F, 0x1160, 0xFFA0, 0x2800, 0x034F, 0xFE0F, 0xE0100, 0x17B4, 0x180B, 0x200B, 0x202E, 0x061C} {
		if got := events.Escape("a" + string(r) + "b"); strings.ContainsRune(got, r) || !strings.Contains(got, `\`) {
			t.Errorf("U+%04X: %q", r, got)
		}
		if got := events.Quote(string(r)); strings.ContainsRune(got, r) {
			t.Errorf("U+%04X: %s", r, got)
		}
	}
	if got := events.Escape("äß漢 🙂"); got != "äß漢 🙂" {
		t.Errorf("%q", got)
	}
}
