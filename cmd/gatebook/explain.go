package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/people"
	"gatebook/policy"
)

func (a *App) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain CALL",
		Short: "Say of one call why the gate answered so, and show its events as stored",
		Long: `Show a call, the layers of the gate in their order with what each of them saw as
far as it is recorded, and the events as they stand in the book.

  gatebook explain 01JZ0000000000000000000000`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := events.ParseULID[events.CallID](given[0])
			if err != nil {
				return usageError{err}
			}
			c, err := a.reader("view")
			if err != nil {
				return err
			}
			defer c.close()
			var d people.CallDetail
			if err := c.ask(cmd.Context(), "call", people.CallRequest{Call: id}, &d); err != nil {
				return err
			}
			x, err := explain(d)
			if err != nil {
				return err
			}
			if a.flags.json {
				return a.printJSON(x)
			}
			return a.printExplained(x)
		},
	}
}

// explained is a call with its decision taken apart.
type explained struct {
	people.CallDetail
	Gate  []layerAnswer    `json:"gate"`
	Facts events.CallFacts `json:"facts"`

	stored []events.Recorded
}

// layerAnswer is what one layer said: passed, refused, or not asked.
type layerAnswer struct {
	Layer  events.Layer `json:"layer"`
	Answer string       `json:"answer"`
	Saw    string       `json:"saw,omitzero"`
}

// What a layer said.
const (
	layerPassed  = "passed"
	layerRefused = "refused"
	layerUnasked = "not asked"
	layerStaged  = "waits for a person"
)

func explain(d people.CallDetail) (explained, error) {
	x := explained{CallDetail: d}
	var decided events.CallDecided
	for _, e := range d.Events {
		r, err := events.Decode(events.Record{Seq: e.Seq, Subject: e.Subject, Body: e.Event})
		if err != nil {
			return x, fmt.Errorf("event %d: %w", e.Seq, err)
		}
		x.stored = append(x.stored, r)
		if first, ok := r.Event.(events.CallDecided); ok {
			decided = first
		}
	}
	x.Facts = decided.Facts
	x.Gate = gateAnswers(decided)
	return x, nil
}

// gateAnswers lists the layers that the gate asks, in its order. The layer that a
// decision names is the last that was asked. One that this program's gate does not
// have, because another version decided, comes after the others, which then are
// not known to have been asked.
func gateAnswers(d events.CallDecided) []layerAnswer {
	var out []layerAnswer
	order := policy.Layers()
	refusing := slices.Index(order, d.Layer)
	other := d.Layer != "" && refusing < 0
	for i, layer := range order {
		answer := layerAnswer{Layer: layer, Answer: layerPassed, Saw: saw(layer, d)}
		switch {
		case other, refusing >= 0 && i > refusing:
			answer.Answer = layerUnasked
		case i == refusing:
			answer.Answer = layerRefused
			if d.Verdict == events.Stage {
				answer.Answer = layerStaged
			}
		}
		out = append(out, answer)
	}
	if other {
		out = append(out, layerAnswer{Layer: d.Layer, Answer: layerRefused})
	}
	return out
}

// saw is what a layer had before it, as far as the decision keeps it.
func saw(layer events.Layer, d events.CallDecided) string {
	f := d.Facts
	switch layer {
	case events.LayerDecode:
		return fmt.Sprintf("%d bytes of arguments", d.Arguments.Size)
	case events.LayerEngine:
		return "blob of arguments " + orDash(string(d.Arguments.Blob))
	case events.LayerRound:
		return fmt.Sprintf("open %t, handle right %t, key %s", f.RoundOpen, f.HandleMatched, orDash(d.Key))
	case events.LayerTool:
		return fmt.Sprintf("tier %s, definition %s", orDash(string(d.Tier)), orDash(string(d.Definition)))
	case events.LayerPhase:
		return fmt.Sprintf("phase %d", f.Phase)
	case events.LayerBaseline, events.LayerPrincipal:
		return fmt.Sprintf("principal %s of kind %s", orDash(d.Principal.ID), orDash(string(d.Principal.Kind)))
	case events.LayerRole:
		only := ""
		if f.CreateOnly {
			only = ", new files only"
		}
		return fmt.Sprintf("role %s, version %d; calls of the tool before in the round: %d%s", orDash(f.Role), f.RoleVersion, f.Used, only)
	case events.LayerProfile:
		return fmt.Sprintf("in effect %s (session %s, longtime %s)", orDash(d.Profile), orDash(f.SessionProfile), orDash(f.LongtimeProfile))
	case events.LayerAncestors:
		return fmt.Sprintf("above it %s; left %s, denied %s; caused by round %s", orDash(f.Ancestors), orDash(f.ChildAllow), orDash(f.ChildDeny), orDash(string(f.CausedBy)))
	case events.LayerAsset:
		if d.Asset == "" {
			return "a built-in tool, or one that only reads, needs no asset"
		}
		return "asset " + d.Asset
	case events.LayerStaging:
		return "whether the tool, its tier, the role or what stands in the arguments wants a person's approval"
	default:
		return ""
	}
}

// layerMeans says what the layer of a call did.
func (x explained) layerMeans() string {
	if x.Verdict == events.Stage && x.Status == "" && x.Released == 0 {
		return "waits by"
	}
	return "refused by"
}

// reviewed are rows about the person's decision, from the events themselves.
func (x explained) reviewed(when func(events.Instant) string) (rows [][]string) {
	if x.Review != "" {
		rows = append(rows, []string{"review", string(x.Review)})
	}
	for _, r := range x.stored {
		said := ""
		switch e := r.Event.(type) {
		case events.ReviewRequested:
			said = "requested, until " + when(e.Expires)
		case events.ReviewApproved:
			said = "approved by " + r.Actor.ID + ", who saw " + string(e.Shown)
		case events.ReviewRefused:
			said = "refused by " + r.Actor.ID
		case events.ReviewExpired:
			said = "expired"
		case events.ReviewCancelled:
			said = "cancelled: " + e.Reason
		case events.CallReleased:
			said = fmt.Sprintf("the gate, asked again, allowed it (role %s version %d, profile %s)", orDash(e.Facts.Role), e.Facts.RoleVersion, orDash(e.Profile))
		default:
			continue
		}
		rows = append(rows, []string{"", fmt.Sprintf("%s (event %d, %s)", said, r.Seq, when(r.Time))})
	}
	return rows
}

func (a *App) printExplained(x explained) error {
	rows := [][]string{
		{"call", string(x.Call)}, {"agent", string(x.Agent)}, {"round", orDash(string(x.Round)) + fmt.Sprintf(", step %d", x.Step)},
		{"talking", fmt.Sprintf("%s (%s)", orDash(x.Principal), orDash(string(x.Kind)))},
		{"tool", x.Tool}, {"arguments", x.Args}, {"key", orDash(x.Key)},
		{"verdict", string(x.Verdict) + "/" + string(stateOf(x.Entry))},
		{x.layerMeans(), orDash(string(x.Layer)) + " " + x.Rule}, {"reason", orDash(cmp.Or(x.Reason, x.Error))},
		{"decided", a.when(x.Decided)}, {"ended", a.when(x.Completed)}, {"took", took(x.Duration)},
		{"result", x.Result}, {"catalog", orDash(string(x.Catalog))},
	}
	rows = append(rows, x.reviewed(a.when)...)
	if err := a.table([]string{"WHAT", "VALUE"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(a.Out)
	rows = nil
	for _, l := range x.Gate {
		rows = append(rows, []string{string(l.Layer), l.Answer, l.Saw})
	}
	if err := a.table([]string{"LAYER", "ANSWER", "SAW"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(a.Out)
	rows = nil
	for i, e := range x.stored {
		rows = append(rows, []string{
			fmt.Sprint(e.Seq), x.Events[i].Subject, string(e.ID), a.when(e.Time), e.Actor.String(), string(e.Writer),
		})
	}
	if err := a.table([]string{"SEQ", "SUBJECT", "ID", "TIME", "ACTOR", "WRITER"}, rows); err != nil {
		return err
	}
	for _, e := range x.Events {
		fmt.Fprintf(a.Out, "\n%d %s\n", e.Seq, escapeLines(string(e.Event)))
	}
	return nil
}
