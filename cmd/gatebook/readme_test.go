package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"gatebook/events"
	"gatebook/handlers/tools/file"
	"gatebook/handlers/tools/workspace"
	"gatebook/infra/datadir"
	"gatebook/infra/identity"
	"gatebook/policy"
)

// What the README says is compared with the code, and what it prints as a command
// runs. An HTML comment before a table or a block says with what.

const root = "../.."

// readmePart is a table or a fenced block and the comment before it.
type readmePart struct {
	mark, lang string
	lines      []string
}

func readme(t *testing.T) []readmePart {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var parts []readmePart
	mark, fenced := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		comment, isMark := strings.CutPrefix(line, "<!-- ")
		lang, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && fenced:
			fenced = false
		case fenced:
			last := &parts[len(parts)-1]
			last.lines = append(last.lines, line)
		case isMark:
			mark = strings.TrimSuffix(comment, " -->")
		case isFence:
			parts = append(parts, readmePart{mark: mark, lang: lang})
			mark, fenced = "", true
		case strings.HasPrefix(line, "|"):
			if mark != "" || len(parts) == 0 || parts[len(parts)-1].lang != "table" {
				parts = append(parts, readmePart{mark: mark, lang: "table"})
				mark = ""
			}
			last := &parts[len(parts)-1]
			last.lines = append(last.lines, line)
		case len(parts) > 0 && parts[len(parts)-1].lang == "table":
			parts = append(parts, readmePart{})
		}
	}
	if mark != "" {
		t.Errorf("nothing follows the comment %q", mark)
	}
	return parts
}

// cells are the table's cells without head, with no quotation marks.
func (p readmePart) cells() [][]string {
	var rows [][]string
	for _, line := range p.lines[min(2, len(p.lines)):] {
		var row []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			row = append(row, strings.TrimSpace(cell))
		}
		row[0] = strings.Trim(row[0], "`")
		rows = append(rows, row)
	}
	return rows
}

func (p readmePart) first() []string {
	var names []string
	for _, row := range p.cells() {
		names = append(names, row[0])
	}
	return names
}

// marked gives the one part of a mark.
func marked(t *testing.T, mark string) readmePart {
	t.Helper()
	for _, p := range readme(t) {
		if p.mark == mark {
			return p
		}
	}
	t.Fatalf("the README has nothing marked %q", mark)
	return readmePart{}
}

// same compares two sets of names, order aside.
func same(t *testing.T, what string, readme, code []string) {
	t.Helper()
	for _, name := range code {
		if !slices.Contains(readme, name) {
			t.Errorf("%s: the code has %q, the README has not", what, name)
		}
	}
	for i, name := range readme {
		if !slices.Contains(code, name) {
			t.Errorf("%s: the README has %q, the code has not", what, name)
		}
		if slices.Contains(readme[:i], name) {
			t.Errorf("%s: the README has %q twice", what, name)
		}
	}
}

// wireTypes are the structs of a file with their JSON names.
func wireTypes(t *testing.T, pkg, path string) map[string][]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		body, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, f := range body.Fields.List {
			if f.Tag == nil {
				continue
			}
			name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
			key := pkg + "." + spec.Name.Name
			all[key] = append(all[key], name)
		}
		return true
	})
	return all
}

// Every field of every request and answer is in the README, and no other.
func TestReadmeFields(t *testing.T) {
	types := wireTypes(t, "intake", "handlers/intake/request.go")
	for name, fields := range wireTypes(t, "engine", "handlers/engine/answer.go") {
		types[name] = fields
	}
	if len(types) < 11 {
		t.Fatalf("only %d types were found", len(types))
	}
	for name, fields := range types {
		same(t, name, marked(t, "fields "+name).first(), fields)
	}
	for _, p := range readme(t) {
		if name, ok := strings.CutPrefix(p.mark, "fields "); ok && types[name] == nil {
			t.Errorf("the README has fields of %s, which is no type", name)
		}
	}
}

// found gives what the first group of a pattern matches in the code of folders.
func found(t *testing.T, pattern string, folders ...string) []string {
	t.Helper()
	var all []string
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %s (%v)", folder, err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
				all = append(all, strings.Join(m[1:], " "))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Every code of a refusal and every rule of the gate is in the README, the rules
// in the order in which the gate asks.
func TestReadmeRefusals(t *testing.T) {
	var codes []string
	for _, c := range policy.Codes() {
		codes = append(codes, string(c))
	}
	codes = append(codes, found(t, `\brefused?\("([a-z_]+)", `, "handlers/engine")...)
	codes = append(codes, found(t, `\bcode[A-Z]\w*\s*= "([a-z_]+)"`, "handlers/intake")...)
	codes = append(codes, found(t, `[^.\w]no\("([a-z_]+)", `, "handlers/people")...)
	// A bad reply subject is counted, and answered nowhere.
	codes = slices.DeleteFunc(codes, func(c string) bool { return c == "reply" })
	slices.Sort(codes)
	same(t, "codes", marked(t, "codes").first(), slices.Compact(codes))

	var readme, layers []string
	for _, row := range marked(t, "layers").cells() {
		readme = append(readme, row[0]+" "+strings.Trim(row[1], "`"))
		layers = append(layers, row[0])
	}
	rules := found(t, `(?:deny|reject)\(events\.Layer(Engine|Round|Tool|Phase|Baseline|Role|Profile|Principal|Ancestors|Staging), (?:cmp.Or\(no.limit, )?"([a-z_]+) ?"`, "policy")
	rules = append(rules, found(t, `deny\(events\.Layer(Decode), "([a-z_]+)"`, "policy")...)
	for _, rule := range slices.Concat(found(t, `g\.refuseRights\(.*, "([a-z_]+)", `, "policy"), found(t, `\{"([a-z_]+)", refuse\w+\}`, "policy")) {
		rules = append(rules, "ancestors "+rule)
	}
	rules = append(rules, found(t, `layer: events\.Layer(\w+), rule: "([a-z_]+)"`, "policy")...)
	rules = append(rules, limitRules(t)...)
	for _, rule := range found(t, `\bRule, out\.Reason = "([a-z_]+)"`, "policy/asset") {
		rules = append(rules, "asset "+rule)
	}
	for _, state := range []events.AssetState{events.AssetStateBlocked, events.AssetStateRefused, events.AssetStateReplaced} {
		rules = append(rules, "asset "+string(state))
	}
	for i := range rules {
		rules[i] = strings.ToLower(rules[i])
	}
	slices.Sort(rules)
	same(t, "rules", readme, append(slices.Compact(rules), "decode the field"))
	var order []string
	for _, l := range policy.Layers() {
		order = append(order, string(l))
	}
	if got := slices.Compact(layers); !slices.Equal(got, order) {
		t.Errorf("the README has the layers %v, the gate asks %v", got, order)
	}
}

// The bounds of a round's texts are those of policy.
func TestReadmeBounds(t *testing.T) {
	for _, row := range marked(t, "fields intake.beginRequest").cells() {
		most, ok := map[string]int{"sender": policy.MaxSender, "task": policy.MaxTask}[row[0]]
		if said := strings.ReplaceAll(row[1], ",", ""); ok && said != fmt.Sprintf("text at most %d bytes", most) {
			t.Errorf("the README says of %s %q, policy has %d bytes", row[0], row[1], most)
		}
	}
}

// Every file tool with its arguments is in the README.
func TestReadmeTools(t *testing.T) {
	rows := map[string]string{}
	for _, row := range marked(t, "tools").cells() {
		rows[row[0]] = strings.ReplaceAll(row[1], "`", "")
	}
	for _, tool := range file.Tools(workspace.New(t.TempDir())) {
		var schema struct {
			Properties map[string]any `json:"properties"`
		}
		if err := json.Unmarshal(tool.Definition().Schema, &schema); err != nil {
			t.Fatal(err)
		}
		var want []string
		for name := range schema.Properties {
			want = append(want, name)
		}
		same(t, tool.Definition().Name, strings.Split(rows[tool.Definition().Name], ", "), want)
		delete(rows, tool.Definition().Name)
	}
	if len(rows) > 0 {
		t.Errorf("the README has tools that do not exist: %v", rows)
	}
}

// changing is what differs between two runs of the demonstration.
var changing = []struct {
	pattern *regexp.Regexp
	as      string
}{
	{regexp.MustCompile(`\S*gatebook-demo-\d+`), "FOLDER"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`process \d+`), "PROCESS"},
	{regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`), "ULID"},
	{regexp.MustCompile(`[A-Za-z0-9+/]{43}=`), "ROOT"},
	{regexp.MustCompile(`\b(\d+m)?\d+(\.\d+)?(µs|ms|s)(\s|;|$)`), "TIME "},
	{regexp.MustCompile(`tree of \d+ events`), "TREE"},
	{regexp.MustCompile(`\s+`), " "},
}

func unchanging(line string) string {
	for _, c := range changing {
		line = c.pattern.ReplaceAllString(line, c.as)
	}
	return strings.TrimSpace(line)
}

// checkTranscript: every line of the transcript is printed, in its order.
func checkTranscript(t *testing.T, out string) {
	var printed []string
	for line := range strings.Lines(out) {
		printed = append(printed, unchanging(line))
	}
	shown := marked(t, "transcript").lines
	if len(shown) < 30 {
		t.Fatalf("a transcript of %d lines", len(shown))
	}
	shortened := false
	for _, line := range shown {
		if line == "…" {
			shortened = true
			continue
		}
		at := slices.Index(printed, unchanging(line))
		if at < 0 {
			t.Fatalf("the demonstration does not print, or not here: %q\nnext are %q", line, printed[:min(3, len(printed))])
		}
		if at > 0 && !shortened {
			t.Fatalf("lines are left out without a mark before %q: %q", line, printed[:at])
		}
		printed, shortened = printed[at+1:], false
	}
}

// Every command of the README is run, or says why not.
func TestReadmeCommands(t *testing.T) {
	home := newReadmeHome(t)
	ran := 0
	for _, p := range readme(t) {
		script := strings.Join(p.lines, "\n")
		switch {
		case p.lang != "sh":
			continue
		case p.mark == "run serve":
			home.serve(script)
			continue
		case p.mark == "run stopped":
			home.stop()
		case p.mark == "run first":
			same(t, "the first commands", commandLines(NewApp().withFolder(".gatebook").firstCommands()), p.lines)
		case p.mark == "run":
		case strings.HasPrefix(p.mark, "not run: "):
			continue
		default:
			t.Errorf("nothing says whether this is run:\n%s", script)
			continue
		}
		if home.engine == nil && p.mark != "run stopped" {
			t.Fatalf("no engine runs before\n%s", script)
		}
		home.run(script)
		if p.mark == "run first" {
			home.example()
		}
		ran++
	}
	if ran < 6 {
		t.Errorf("only %d blocks were run", ran)
	}
}

// withFolder is the program as with the flag --dir.
func (a *App) withFolder(dir string) *App {
	a.flags.dir = dir
	return a
}

func commandLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "  "); ok {
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	return lines
}

// readmeHome is the folder of somebody who follows the README.
type readmeHome struct {
	t      *testing.T
	dir    string
	engine *exec.Cmd
	said   bytes.Buffer
}

func newReadmeHome(t *testing.T) *readmeHome {
	h := &readmeHome{t: t, dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(h.dir, "passphrase"), []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.stop)
	return h
}

func (h *readmeHome) command(script string) *exec.Cmd {
	cmd := exec.Command("sh", "-euc", script)
	cmd.Dir = h.dir
	cmd.Env = append(os.Environ(), "HOME="+h.dir, "XDG_CONFIG_HOME=", "USER=anna", identity.PassphraseFile+"="+filepath.Join(h.dir, "passphrase"))
	return cmd
}

func (h *readmeHome) run(script string) {
	h.t.Helper()
	if out, err := h.command(script).CombinedOutput(); err != nil {
		h.t.Fatalf("%s\n%v\n%s", script, err, out)
	}
}

// serve starts the engine and waits until it answers.
func (h *readmeHome) serve(script string) {
	h.t.Helper()
	h.engine = h.command("exec " + script)
	h.engine.Stdout, h.engine.Stderr = &h.said, &h.said
	if err := h.engine.Start(); err != nil {
		h.t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(longEnough); time.Now().Before(end); <-tick.C {
		dir, err := datadir.Open(filepath.Join(h.dir, ".gatebook"), false)
		if err != nil {
			continue
		}
		addr, err := dir.ReadAddress()
		if err != nil {
			continue
		}
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return
		}
	}
	h.t.Fatal("the engine is not ready")
}

func (h *readmeHome) stop() {
	if h.engine == nil {
		return
	}
	err := h.engine.Process.Signal(os.Interrupt)
	if err == nil {
		err = h.engine.Wait()
	}
	if err != nil {
		h.t.Errorf("the engine did not stop well: %v\n%s", err, &h.said)
	}
	h.engine = nil
}

// example runs the program of the README, whose text is that of its file.
func (h *readmeHome) example() {
	h.t.Helper()
	text, err := os.ReadFile("readme_agent_test.go")
	if err != nil {
		h.t.Fatal(err)
	}
	if shown := strings.Join(marked(h.t, "example").lines, "\n") + "\n"; shown != string(text) {
		h.t.Error("the example in the README is not readme_agent_test.go")
	}
	result, err := sayHello(filepath.Join(h.dir, ".gatebook"), "anna")
	if err != nil || !strings.Contains(result, `"effect":"replaced"`) {
		h.t.Fatalf("the example: %v, result %s", err, result)
	}
}
