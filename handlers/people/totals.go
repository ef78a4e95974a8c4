package people

import (
	"gatebook/events"
	"gatebook/projections"
)

// TotalsRequest asks how many calls there are, in all and by fields.
type TotalsRequest struct {
	CallFilter
	By    []projections.Field `json:"by,omitzero"`
	Limit int                 `json:"limit,omitzero"` // groups
}

// Sum is how many calls there are, and how long those that have ended took.
type Sum struct {
	Calls    int64         `json:"calls"`
	Duration events.Micros `json:"duration_us"`
}

// GroupTotal is what a group has in common, and its sum. A field that is absent is
// not asked for, or its calls have none.
type GroupTotal struct {
	Agent     string `json:"agent,omitzero"`
	Hour      string `json:"hour,omitzero"`
	Day       string `json:"day,omitzero"`
	Tool      string `json:"tool,omitzero"`
	Status    string `json:"status,omitzero"`
	Verdict   string `json:"verdict,omitzero"`
	Layer     string `json:"layer,omitzero"`
	Rule      string `json:"rule,omitzero"`
	Principal string `json:"principal,omitzero"`
	Kind      string `json:"kind,omitzero"`
	Role      string `json:"role,omitzero"`
	Channel   string `json:"channel,omitzero"`
	Profile   string `json:"profile,omitzero"`
	Model     string `json:"model,omitzero"`
	Tier      string `json:"tier,omitzero"`
	Sum
}

// Field is what the group has of a field.
func (g *GroupTotal) Field(f projections.Field) *string {
	return map[projections.Field]*string{
		projections.ByAgent: &g.Agent, projections.ByHour: &g.Hour, projections.ByDay: &g.Day,
		projections.ByTool: &g.Tool, projections.ByStatus: &g.Status, projections.ByVerdict: &g.Verdict,
		projections.ByLayer: &g.Layer, projections.ByRule: &g.Rule, projections.ByPrincipal: &g.Principal,
		projections.ByKind: &g.Kind, projections.ByRole: &g.Role, projections.ByChannel: &g.Channel,
		projections.ByProfile: &g.Profile, projections.ByModel: &g.Model, projections.ByTier: &g.Tier,
	}[f]
}

// TotalsAnswer is a count, true at AsOf. Groups are the greatest first,
// none where nothing is counted by; Rest is what
// those that are Left out have.
type TotalsAnswer struct {
	Sum
	Groups []GroupTotal `json:"groups"`
	Left   int          `json:"left,omitzero"`
	Rest   Sum          `json:"rest,omitzero"`
	AsOf   events.Seq   `json:"as_of"`
}

func (h *Handler) totals(r request) any {
	var q TotalsRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	if err := projections.CheckFields(q.By); err != nil {
		return no("invalid", err.Error())
	}
	return h.read(func(v projections.Reader) (any, error) {
		state, err := projections.LoadState(v)
		if err != nil {
			return nil, err
		}
		if none, err := h.hidden(v, r.person, q.Agent, ""); none || err != nil {
			return TotalsAnswer{Groups: []GroupTotal{}, AsOf: state.Seq}, err
		}
		page, err := projections.Totals(v, projections.TotalsFilter{
			CallFilter: q.filter(h.observable(r.person)), By: q.By, Limit: pageLimit(q.Limit),
		})
		if err != nil {
			return nil, err
		}
		a := TotalsAnswer{Sum: sumOf(page.All), Groups: make([]GroupTotal, 0, len(page.Rows)), Left: page.Left, Rest: sumOf(page.Rest), AsOf: page.AsOf}
		if len(q.By) == 0 {
			return a, nil
		}
		for _, row := range page.Rows {
			g := GroupTotal{Sum: sumOf(row)}
			for i, f := range q.By {
				*g.Field(f) = row.Group[i]
			}
			a.Groups = append(a.Groups, g)
		}
		return a, nil
	})
}

func sumOf(t projections.Total) Sum { return Sum{t.Calls, t.Duration} }
