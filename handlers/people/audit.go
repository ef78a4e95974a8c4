package people

import (
	"slices"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/projections"
)

// CallFilter says which calls are meant; the fields are joined by and.
type CallFilter struct {
	Agent     events.AgentID   `json:"agent,omitzero"`
	Tool      string           `json:"tool,omitzero"`
	Status    events.Status    `json:"status,omitzero"` // or running, waiting
	Verdict   events.Verdict   `json:"verdict,omitzero"`
	Layer     events.Layer     `json:"layer,omitzero"`
	Principal string           `json:"principal,omitzero"`
	Channel   events.ChannelID `json:"channel,omitzero"`
	Profile   string           `json:"profile,omitzero"`
	Role      string           `json:"role,omitzero"`
	Since     events.Instant   `json:"since,omitzero"`
	Until     events.Instant   `json:"until,omitzero"`
}

func (f CallFilter) filter(observable func(events.AgentID) bool) projections.CallFilter {
	return projections.CallFilter{
		Agent: f.Agent, Tool: f.Tool, Status: f.Status, Verdict: f.Verdict, Layer: f.Layer, Principal: f.Principal,
		Channel: f.Channel, Profile: f.Profile, Role: f.Role, Since: f.Since, Until: f.Until, Observable: observable,
	}
}

// AuditRequest asks for calls.
type AuditRequest struct {
	CallFilter
	Round     events.RoundID `json:"round,omitzero"`
	After     events.Seq     `json:"after,omitzero"`
	Before    events.Seq     `json:"before,omitzero"`
	Ascending bool           `json:"ascending,omitzero"`
	Limit     int            `json:"limit,omitzero"`
}

// AuditAnswer is a page of calls, true at AsOf.
type AuditAnswer struct {
	Calls []Entry    `json:"calls"`
	Next  events.Seq `json:"next,omitzero"`
	AsOf  events.Seq `json:"as_of"`
}

// Entry is one call and its life. Durations are microseconds, sizes bytes.
type Entry struct {
	Call         events.CallID         `json:"call"`
	Seq          events.Seq            `json:"seq"`
	CompletedSeq events.Seq            `json:"completed_seq,omitzero"`
	Round        events.RoundID        `json:"round,omitzero"`
	Step         int64                 `json:"step,omitzero"`
	Conversation events.ConversationID `json:"conversation,omitzero"`
	Agent        events.AgentID        `json:"agent"`
	Role         string                `json:"role,omitzero"`
	Model        string                `json:"model,omitzero"`
	ModelKnown   string                `json:"model_known,omitzero"`
	Channel      events.ChannelID      `json:"channel,omitzero"`
	Principal    string                `json:"principal,omitzero"`
	Kind         events.PrincipalKind  `json:"kind,omitzero"`
	Profile      string                `json:"profile,omitzero"`
	Tool         string                `json:"tool"`
	Tier         events.Tier           `json:"tier,omitzero"`
	Key          string                `json:"key,omitzero"`
	Args         string                `json:"args,omitzero"`
	ArgsSize     int64                 `json:"args_size"`
	ArgsMAC      events.MAC            `json:"args_mac,omitzero"`
	Verdict      events.Verdict        `json:"verdict"`
	Status       events.Status         `json:"status,omitzero"` // absent while it runs
	Layer        events.Layer          `json:"layer,omitzero"`
	Rule         string                `json:"rule,omitzero"`
	Reason       string                `json:"reason,omitzero"`
	Error        string                `json:"error,omitzero"`
	Executor     events.Executor       `json:"executor,omitzero"`
	Duration     events.Micros         `json:"duration_us,omitzero"`
	Result       string                `json:"result,omitzero"` // preview
	ResultSize   int64                 `json:"result_size,omitzero"`
	ResultMAC    events.MAC            `json:"result_mac,omitzero"`
	Decided      events.Instant        `json:"decided"`
	// Released is when an approved call went on; absent before, and for every other.
	Released  events.Instant `json:"released,omitzero"`
	Completed events.Instant `json:"completed,omitzero"`
	Catalog   events.Digest  `json:"catalog,omitzero"`
	// Review is that of a call that waits, or waited, for a person.
	Review events.ReviewID `json:"review,omitzero"`
}

func entryOf(r projections.AuditRow) Entry {
	return Entry{
		Call: r.Call, Seq: r.Seq, CompletedSeq: r.CompletedSeq, Round: r.Round, Step: r.Step,
		Conversation: r.Conversation, Agent: r.Agent, Role: r.Role, Model: r.Model.Name,
		ModelKnown: r.Model.Known, Channel: r.Channel, Principal: r.Principal.ID, Kind: r.Principal.Kind,
		Profile: r.Profile, Tool: r.Tool.String(), Tier: r.Tier, Key: r.Key,
		Args: r.ArgsPreview.Text, ArgsSize: r.ArgsSize, ArgsMAC: r.MAC,
		Verdict: r.Verdict, Status: r.Status, Layer: r.Layer, Rule: r.Rule, Reason: r.Reason,
		Error: r.Error, Executor: r.Executor, Duration: r.Duration,
		Result: r.Result.Preview.Text, ResultSize: r.Result.Size, ResultMAC: r.Result.MAC,
		Decided: r.Decided, Released: r.Released, Completed: r.Completed, Catalog: r.Catalog, Review: r.Review,
	}
}

func (h *Handler) audit(r request) any {
	var q AuditRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	return h.read(func(v projections.Reader) (any, error) {
		state, err := projections.LoadState(v)
		if err != nil {
			return nil, err
		}
		if none, err := h.hidden(v, r.person, q.Agent, q.Round); none || err != nil {
			return AuditAnswer{Calls: []Entry{}, AsOf: state.Seq}, err
		}
		page, err := projections.Audit(v, projections.AuditFilter{
			CallFilter: q.filter(h.observable(r.person)), Round: q.Round,
			After: q.After, Before: q.Before, Ascending: q.Ascending, Limit: pageLimit(q.Limit),
		})
		if err != nil {
			return nil, err
		}
		a := AuditAnswer{Calls: make([]Entry, 0, len(page.Rows)), Next: page.Next, AsOf: page.AsOf}
		for _, row := range page.Rows {
			a.Calls = append(a.Calls, entryOf(row))
		}
		return a, nil
	})
}

// maxRows keeps a page within the size of one answer.
const maxRows = 200

func pageLimit(n int) int {
	if n <= 0 || n > maxRows {
		return maxRows
	}
	return n
}

// CallRequest asks for everything about one call.
type CallRequest struct {
	Call events.CallID `json:"call"`
}

// CallDetail is one call with the events as they stand in the book.
type CallDetail struct {
	Entry
	Events []EventDetail `json:"events"`
	AsOf   events.Seq    `json:"as_of"`
}

func (h *Handler) call(r request) any {
	var q CallRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	return h.read(func(v projections.Reader) (any, error) {
		row, found, err := projections.CallByID(v, q.Call)
		if err != nil {
			return nil, err
		}
		if !found || !h.observable(r.person)(row.Agent) && (row.Review == "" || !policy.MaySeeReviews(h.cfg.Loop.Catalog(), r.person, row.Agent)) {
			return no("not_found", "no call "+events.Quote(string(q.Call))), nil
		}
		review, _, err := projections.ReviewByID(v, row.Review)
		if err != nil {
			return nil, err
		}
		state, err := projections.LoadState(v)
		if err != nil {
			return nil, err
		}
		d := CallDetail{Entry: entryOf(row), AsOf: state.Seq}
		seqs := []events.Seq{row.Seq, review.Seq, review.EndSeq, row.ReleasedSeq, row.CompletedSeq}
		slices.Sort(seqs)
		for _, seq := range slices.Compact(seqs) {
			if seq == 0 {
				continue
			}
			e, err := h.event(r.ctx, seq)
			if err != nil {
				return nil, err
			}
			d.Events = append(d.Events, e)
		}
		return d, nil
	})
}
