package people

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/projections"
)

// Receipt is the account of one round.
type Receipt struct {
	Round     events.RoundID       `json:"round"`
	Agent     events.AgentID       `json:"agent"`
	Principal string               `json:"principal"`
	Kind      events.PrincipalKind `json:"kind"`
	Task      string               `json:"task,omitzero"`
	Begun     events.Instant       `json:"begun"`
	Ended     events.Instant       `json:"ended,omitzero"`
	End       events.RoundEnd      `json:"end,omitzero"` // absent while open
	Steps     int64                `json:"steps"`
	// Waiting is how many of the steps wait for a person.
	Waiting  int64         `json:"waiting,omitzero"`
	ByStatus []Count       `json:"by_status"`
	ByTool   []ToolCount   `json:"by_tool"`
	Duration events.Micros `json:"duration_us"`
	Usage    []Usage       `json:"usage"` // of each model
	Seq      events.Seq    `json:"seq"`
	// Calls are the steps in their order, and Files what they touched: only where one
	// receipt was asked for, and of the first calls alone where it has more.
	Calls     []Step `json:"calls,omitzero"`
	Files     []File `json:"files,omitzero"`
	MoreCalls int64  `json:"more_calls,omitzero"`
}

// Count is how many calls ended with a status.
type Count struct {
	Status string `json:"status"`
	Calls  int64  `json:"calls"`
}

// ToolCount is how many calls of a tool ended, and how long they took together.
type ToolCount struct {
	Tool     string        `json:"tool"`
	Calls    int64         `json:"calls"`
	Duration events.Micros `json:"duration_us"`
}

// Step is one call of a receipt.
type Step struct {
	Step     int64          `json:"step"`
	Call     events.CallID  `json:"call"`
	Tool     string         `json:"tool"`
	Paths    []string       `json:"paths,omitzero"`
	Verdict  events.Verdict `json:"verdict"`
	Status   events.Status  `json:"status,omitzero"` // absent while it runs or waits
	Waits    bool           `json:"waits,omitzero"`
	Layer    events.Layer   `json:"layer,omitzero"`
	Rule     string         `json:"rule,omitzero"`
	Reason   string         `json:"reason,omitzero"`
	Error    string         `json:"error,omitzero"`
	Duration events.Micros  `json:"duration_us,omitzero"`
}

// File is a path that calls which ended ok named, and by which tools.
type File struct {
	Path    string   `json:"path"`
	Changed bool     `json:"changed"` // by a tool that does not only read it
	Tools   []string `json:"tools"`
}

// ReceiptsAnswer is a page of receipts, newest first, true at AsOf.
type ReceiptsAnswer struct {
	Receipts []Receipt  `json:"receipts"`
	Next     events.Seq `json:"next,omitzero"`
	AsOf     events.Seq `json:"as_of"`
}

func receiptOf(r projections.ReceiptRow) Receipt {
	out := Receipt{
		Round: r.Round, Agent: r.Agent, Principal: r.Principal.ID, Kind: r.Principal.Kind, Task: r.Task.Text,
		Begun: r.Begun, Ended: r.Ended, End: r.End, Steps: r.Steps, Waiting: r.Waiting, Duration: r.Duration, Seq: r.Seq,
		ByStatus: []Count{}, ByTool: []ToolCount{}, Usage: []Usage{},
	}
	for _, c := range r.ByStatus {
		out.ByStatus = append(out.ByStatus, Count{c.Name, c.N})
	}
	for _, c := range r.ByTool {
		out.ByTool = append(out.ByTool, ToolCount{c.Tool, c.N, c.Duration})
	}
	for _, s := range inOneCurrency(r.Usage) {
		out.Usage = append(out.Usage, usageOf(s))
	}
	return out
}

func (h *Handler) receipts(r request) any {
	var q ListRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	return h.read(func(v projections.Reader) (any, error) {
		if q.Round != "" {
			return h.receipt(v, r.person, q.Round)
		}
		state, err := projections.LoadState(v)
		if err != nil {
			return nil, err
		}
		if none, err := h.hidden(v, r.person, q.Agent, ""); none || err != nil {
			return ReceiptsAnswer{Receipts: []Receipt{}, AsOf: state.Seq}, err
		}
		page, err := projections.Receipts(v, projections.ReceiptFilter{
			Agent: q.Agent, Before: q.Before, Limit: pageLimit(q.Limit), Observable: h.observable(r.person),
		})
		if err != nil {
			return nil, err
		}
		a := ReceiptsAnswer{Receipts: []Receipt{}, Next: page.Next, AsOf: page.AsOf}
		for _, row := range page.Rows {
			a.Receipts = append(a.Receipts, receiptOf(row))
		}
		return a, nil
	})
}

func (h *Handler) receipt(v projections.Reader, who events.PersonID, round events.RoundID) (any, error) {
	state, err := projections.LoadState(v)
	if err != nil {
		return nil, err
	}
	row, found, err := projections.ReceiptByRound(v, round)
	if err != nil {
		return nil, err
	}
	if !found || !h.observable(who)(row.Agent) {
		return no("not_found", "no round "+events.Quote(string(round))), nil
	}
	out := receiptOf(row)
	if err := out.addCalls(v); err != nil {
		return nil, err
	}
	return ReceiptsAnswer{Receipts: []Receipt{out}, AsOf: state.Seq}, nil
}

// addCalls gives the receipt the first calls of its round, and the files of those.
func (r *Receipt) addCalls(v projections.Reader) error {
	page, err := projections.Audit(v, projections.AuditFilter{Round: r.Round, Ascending: true, Limit: maxRows})
	if err != nil {
		return err
	}
	r.Calls, r.MoreCalls = []Step{}, r.Steps-int64(len(page.Rows))
	files := map[string]*File{}
	for _, row := range page.Rows {
		step := stepOf(row)
		r.Calls = append(r.Calls, step)
		if row.Status != events.StatusOK {
			continue
		}
		for i, path := range step.Paths {
			if files[path] == nil {
				files[path] = &File{Path: path}
			}
			files[path].touch(row, i)
		}
	}
	r.Files = []File{}
	for _, f := range files {
		r.Files = append(r.Files, *f)
	}
	slices.SortFunc(r.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return nil
}

// touch counts a call that names the file as its n-th path.
func (f *File) touch(row projections.AuditRow, n int) {
	f.Changed = f.Changed || row.Tier != events.ReadOnly && policy.ChangesPath(row.Tool, n)
	if !slices.Contains(f.Tools, row.Tool.String()) {
		f.Tools = append(f.Tools, row.Tool.String())
	}
}

func stepOf(row projections.AuditRow) Step {
	s := Step{
		Step: row.Step, Call: row.Call, Tool: row.Tool.String(), Verdict: row.Verdict, Status: row.Status,
		Waits: row.Open() && row.Verdict == events.Stage && row.Released == 0,
		Layer: row.Layer, Rule: row.Rule, Reason: row.Reason, Error: row.Error, Duration: row.Duration,
	}
	if row.Paths != "" {
		s.Paths = strings.Split(row.Paths, "\n")
	} else if at := found(row); at != "" {
		s.Paths = []string{at}
	}
	return s
}

// found is the path that a call found which no argument names, as its result says; empty
// where what is kept of the result does not say it.
func found(row projections.AuditRow) string {
	var result struct {
		Path string `json:"path"`
	}
	if !policy.FindsPaths(row.Tool) || json.Unmarshal([]byte(row.Result.Preview.Text), &result) != nil {
		return ""
	}
	return result.Path
}
