package policy

import "testing"

// A grant covers a call whose paths are all within it, in whatever order they come.
func TestEveryPathMustBeGranted(t *testing.T) {
	docs := grants(Rule{Tool: "file.move", Paths: []string{"docs/**"}})
	for _, row := range []struct {
		from, to, want string
	}{
		{"docs/a.md", "docs/b.md", "allow  "},
		{"docs/a.md", "src/b.go", "deny role paths"},
		{"src/a.go", "docs/b.md", "deny role paths"},
	} {
		edit := func(c *Catalog) {
			docs(c)
			c.Profiles["work"] = Profile{Tools: []string{"file.move"}}
		}
		if got := verdict(askGate(t, "file.move", "", edit, facts(), row.from, row.to)); got != row.want {
			t.Errorf("from %s to %s: %s, want %s", row.from, row.to, got, row.want)
		}
	}
}
