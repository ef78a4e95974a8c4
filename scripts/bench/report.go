package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
)

// Which direction of a figure is the good one.
const (
	higher = "higher"
	lower  = "lower"
)

// report is all that one invocation found; as JSON its names are stable.
type report struct {
	Machine machine       `json:"machine"`
	Options reportOptions `json:"options"`
	Rows    []row         `json:"rows"`

	events int64 // that the book of calls-256 holds at least
}

type reportOptions struct {
	Runs   int   `json:"runs"`
	Window int64 `json:"window_ms"`
	Keys   bool  `json:"keys"`
}

// row is one figure, its yardstick from the same runs, and its targets.
type row struct {
	Name    string           `json:"name"`
	Unit    string           `json:"unit"`
	Better  string           `json:"better"`
	Runs    []int64          `json:"runs"`
	Median  int64            `json:"median"`
	Least   int64            `json:"least"`
	Most    int64            `json:"most"`
	Details map[string]int64 `json:"details,omitzero"`
	// Yardstick is what the figure stands beside; Ratio is the median of the
	// figure divided by it, run by run.
	Yardstick *yardstick `json:"yardstick,omitzero"`
	Ratio     float64    `json:"ratio,omitzero"`
	Targets   []target   `json:"targets,omitzero"`
}

type yardstick struct {
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	Median int64  `json:"median"`
}

type target struct {
	Text  string `json:"text"`
	Holds bool   `json:"holds"`
}

func (r *row) beside(name, unit string, runs []int64) {
	r.Yardstick = &yardstick{name, unit, median(runs)}
	r.Ratio = float64(median(ratios(r.Runs, runs))) / 100
}

func (r *row) target(text string, holds bool) { r.Targets = append(r.Targets, target{text, holds}) }

func (r *report) add(one row) {
	one.Median, one.Least, one.Most = median(one.Runs), slices.Min(one.Runs), slices.Max(one.Runs)
	r.Rows = append(r.Rows, one)
}

// readReport reads what --json printed; an empty path gives nil.
func readReport(path string) (*report, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r report
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("%s is not an output of --json: %w", path, err)
	}
	return &r, nil
}

func (r *report) find(name string) *row {
	if r == nil {
		return nil
	}
	if i := slices.IndexFunc(r.Rows, func(o row) bool { return o.Name == name }); i >= 0 {
		return &r.Rows[i]
	}
	return nil
}

// print is the report for people.
func (r *report) print(out io.Writer, earlier *report) error {
	m := r.Machine
	fmt.Fprintf(out, "%s, %d cores, load %s; %s, kernel %s, %s\n", m.CPU, m.Cores, m.Load, m.OS, m.Kernel, m.Go)
	fmt.Fprintf(out, "%s on %s (%s): write and fsync of 4 KiB %d us\n\n", m.FileSystem, m.Disk, m.Dir, m.Fsync)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := "ROW\tMEDIAN\tLEAST\tMOST\tUNIT\tYARDSTICK\tRATIO"
	if earlier != nil {
		head += "\tEARLIER\tNOW/EARLIER"
	}
	fmt.Fprintln(w, head)
	for _, o := range r.Rows {
		fmt.Fprintln(w, o.line(earlier))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, o := range r.Rows {
		o.notes(out)
	}
	if earlier != nil && !earlier.sameSetting(r) {
		fmt.Fprintln(out, "the earlier figures come from another machine, disk or setting: compare ratios only")
	}
	return nil
}

func (r *report) sameSetting(o *report) bool {
	a, b := r.Machine, o.Machine
	return a.CPU == b.CPU && a.Cores == b.Cores && a.Disk == b.Disk && a.FileSystem == b.FileSystem && r.Options.Keys == o.Options.Keys
}

// line is the row in the table.
func (r row) line(earlier *report) string {
	beside, ratio := "-", "-"
	if y := r.Yardstick; y != nil {
		beside, ratio = fmt.Sprintf("%s %d %s", y.Name, y.Median, y.Unit), fmt.Sprintf("%.2f", r.Ratio)
	}
	s := fmt.Sprintf("%s\t%d\t%d\t%d\t%s\t%s\t%s", r.Name, r.Median, r.Least, r.Most, r.Unit, beside, ratio)
	if earlier == nil {
		return s
	}
	old := earlier.find(r.Name)
	if old == nil || old.Median == 0 {
		return s + "\t-\t-"
	}
	s += fmt.Sprintf("\t%d\t%.2f", old.Median, float64(r.Median)/float64(old.Median))
	if (r.Median > old.Median) == (r.Better == higher) || r.Median == old.Median {
		return s
	}
	return s + " (worse)"
}

// notes are the details of the row and its targets.
func (r row) notes(out io.Writer) {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.Details)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, r.Details[name]))
	}
	if len(parts) > 0 {
		fmt.Fprintf(out, "%s: %s\n", r.Name, strings.Join(parts, ", "))
	}
	for _, t := range r.Targets {
		holds := "does not hold"
		if t.Holds {
			holds = "holds"
		}
		fmt.Fprintf(out, "%s: target %s: %s\n", r.Name, t.Text, holds)
	}
}
