package people

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/policy"
	"gatebook/projections"
)

// ReviewsRequest asks for reviews: those that wait, the oldest first, or with All every
// one, the newest first.
type ReviewsRequest struct {
	Agent  events.AgentID `json:"agent,omitzero"`
	All    bool           `json:"all,omitzero"`
	After  events.Seq     `json:"after,omitzero"`
	Before events.Seq     `json:"before,omitzero"`
	Limit  int            `json:"limit,omitzero"`
}

// ReviewsAnswer is a page of reviews, true at AsOf.
type ReviewsAnswer struct {
	Reviews []Review   `json:"reviews"`
	Next    events.Seq `json:"next,omitzero"`
	AsOf    events.Seq `json:"as_of"`
}

// Review is one staged call and its wait for a person.
type Review struct {
	Review    events.ReviewID      `json:"review"`
	State     events.ReviewState   `json:"state"`
	Call      events.CallID        `json:"call"`
	Agent     events.AgentID       `json:"agent"`
	Role      string               `json:"role,omitzero"`
	Round     events.RoundID       `json:"round"`
	Channel   events.ChannelID     `json:"channel,omitzero"`
	Principal string               `json:"principal,omitzero"`
	Kind      events.PrincipalKind `json:"kind,omitzero"`
	Profile   string               `json:"profile,omitzero"`
	Tool      string               `json:"tool"`
	Tier      events.Tier          `json:"tier,omitzero"`
	Args      string               `json:"args,omitzero"` // preview
	ArgsSize  int64                `json:"args_size"`
	ArgsMAC   events.MAC           `json:"args_mac,omitzero"`
	// Rule and Why say why it waits.
	Rule      string         `json:"rule,omitzero"`
	Why       string         `json:"why,omitzero"`
	Requested events.Instant `json:"requested"`
	Expires   events.Instant `json:"expires"`
	// First approved it, and another approver must too.
	First events.PersonID `json:"first,omitzero"`
	// Decided, By and Reason are of the decision, or of what ended it.
	Decided events.Instant `json:"decided,omitzero"`
	By      string         `json:"by,omitzero"`
	Reason  string         `json:"reason,omitzero"`
	// Status is how the call ended; absent while it waits or runs. Layer and Ended say
	// which layer refused it and why, where one did.
	Status events.Status `json:"status,omitzero"`
	Layer  events.Layer  `json:"layer,omitzero"`
	Ended  string        `json:"ended,omitzero"`
	Seq    events.Seq    `json:"seq"`
}

// ReviewRequest asks for everything about one review.
type ReviewRequest struct {
	Review events.ReviewID `json:"review"`
	// Full asks for arguments of any size; else large ones are cut, and what is shown
	// cannot be approved.
	Full bool `json:"full,omitzero"`
}

// ReviewDetail is what a person decides on.
type ReviewDetail struct {
	Review
	Definition  events.Digest `json:"definition,omitzero"`
	Description string        `json:"description,omitzero"`
	// Arguments are the whole arguments, redacted, or where Elided their beginning and
	// end; absent where the call does not wait.
	Arguments string `json:"arguments,omitzero"`
	Elided    bool   `json:"elided,omitzero"`
	// Masked says that something in the arguments is masked: who approves it accepts
	// what they cannot see. A restart of the engine cancels such a call.
	Masked bool `json:"masked,omitzero"`
	// Change says what the call would change; Base stands for the state it would change,
	// and Unseen says that not all of that could be looked at.
	Change string        `json:"change,omitzero"`
	Base   events.Digest `json:"base,omitzero"`
	Unseen bool          `json:"unseen,omitzero"`
	// Hidden are the characters in it that a screen does not show, or shows elsewhere.
	Hidden []string `json:"hidden,omitzero"`
	// Shown is the digest of all this; an approval names it. Absent where something is
	// elided or was not looked at, and where nothing is to be decided.
	Shown events.Digest `json:"shown,omitzero"`
	AsOf  events.Seq    `json:"as_of"`

	document []byte // what has the digest
}

// Document is what a person decides on, in the form whose digest stands in an approval
// and whose bytes are kept with it. Its fields are those of [ReviewDetail]; a change of
// its form takes another V.
type Document struct {
	V           int                  `json:"v"` // 1
	Review      events.ReviewID      `json:"review"`
	Call        events.CallID        `json:"call"`
	Agent       events.AgentID       `json:"agent"`
	Role        string               `json:"role"`
	Round       events.RoundID       `json:"round"`
	Channel     events.ChannelID     `json:"channel"`
	Principal   string               `json:"principal"`
	Kind        events.PrincipalKind `json:"kind"`
	Profile     string               `json:"profile"`
	Tool        string               `json:"tool"`
	Tier        events.Tier          `json:"tier"`
	Definition  events.Digest        `json:"definition"`
	Description string               `json:"description"`
	Arguments   string               `json:"arguments"`
	ArgsMAC     events.MAC           `json:"args_mac"`
	Masked      bool                 `json:"masked"`
	Change      string               `json:"change"`
	Base        events.Digest        `json:"base"`
	Rule        string               `json:"rule"`
	Why         string               `json:"why"`
	Expires     events.Instant       `json:"expires"`
}

// seal makes the document of what there is to see, and its digest.
func (d *ReviewDetail) seal() error {
	doc := Document{
		V: 1, Review: d.Review.Review, Call: d.Call, Agent: d.Agent, Role: d.Role, Round: d.Round, Channel: d.Channel,
		Principal: d.Principal, Kind: d.Kind, Profile: d.Profile, Tool: d.Tool, Tier: d.Tier, Definition: d.Definition,
		Description: d.Description, Arguments: d.Arguments, ArgsMAC: d.ArgsMAC, Masked: d.Masked, Change: d.Change, Base: d.Base,
		Rule: d.Rule, Why: d.Why, Expires: d.Expires,
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	value := jsontext.Value(raw)
	if err := value.Canonicalize(); err != nil {
		return err
	}
	d.document, d.Shown = value, events.DigestOf(value)
	return nil
}

// maxShown is how much of the arguments, or of a change, is shown without Full.
const maxShown = 16 << 10

func (h *Handler) reviews(r request) any {
	var q ReviewsRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	c := h.cfg.Loop.Catalog()
	may := func(a events.AgentID) bool { return policy.MaySeeReviews(c, r.person, a) }
	if !policy.SeesReviews(c, r.person) {
		return no(string(policy.CodeNotAllowed), "what waits for a person is for approvers, and for supervisors of the agent")
	}
	return h.read(func(v projections.Reader) (any, error) {
		if q.Agent != "" && !may(q.Agent) { // as of one that does not exist
			state, err := projections.LoadState(v)
			return ReviewsAnswer{Reviews: []Review{}, AsOf: state.Seq}, err
		}
		page, err := projections.Reviews(v, projections.ReviewFilter{
			Agent: q.Agent, OpenOnly: !q.All, Ascending: !q.All, After: q.After, Before: q.Before, Limit: pageLimit(q.Limit),
			Observable: may,
		})
		if err != nil {
			return nil, err
		}
		a := ReviewsAnswer{Reviews: make([]Review, 0, len(page.Rows)), Next: page.Next, AsOf: page.AsOf}
		for _, row := range page.Rows {
			one, err := reviewOf(v, row)
			if err != nil {
				return nil, err
			}
			a.Reviews = append(a.Reviews, one)
		}
		return a, nil
	})
}

func reviewOf(v projections.Reader, row projections.ReviewRow) (Review, error) {
	call, _, err := projections.CallByID(v, row.Call)
	one := Review{
		Review: row.Review, State: row.State, Call: row.Call, Agent: row.Agent, Role: call.Role, Round: row.Round,
		Channel: call.Channel, Principal: call.Principal.ID, Kind: call.Principal.Kind, Profile: call.Profile,
		Tool: row.ToolKey().String(), Tier: call.Tier, Args: call.ArgsPreview.Text, ArgsSize: call.ArgsSize, ArgsMAC: row.MAC,
		Rule: row.Rule, Why: row.Why, First: row.First,
		Requested: row.Requested, Expires: row.Expires, Decided: row.Decided, By: row.ByID, Reason: row.Reason, Seq: row.Seq,
	}
	if call.Status != "" {
		one.Status, one.Layer, one.Ended = call.Status, call.Layer, call.Reason+call.Error
	}
	if row.Decided != 0 && row.ByID == "" {
		one.By = string(row.ByKind)
	}
	return one, err
}

func (h *Handler) review(r request) any {
	var q ReviewRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	d, bad := h.reviewDetail(r, q.Review)
	if bad != nil {
		return *bad
	}
	if n := len(d.Arguments) + len(d.Change); q.Full && n > engine.MaxAnswer/2 {
		return no("too_large", fmt.Sprintf("there are %d bytes to see, too many for one answer, and what cannot be seen cannot be approved: refuse it, and let the agent do it in smaller calls", n))
	}
	if !q.Full {
		d.elide()
	}
	return d
}

// elide cuts what is large. What is cut cannot be approved.
func (d *ReviewDetail) elide() {
	for _, text := range []*string{&d.Arguments, &d.Change} {
		if cutMiddle(text) {
			d.Elided, d.Shown = true, ""
		}
	}
}

// cutMiddle leaves beginning and end of a text that is large, and says whether it did.
func cutMiddle(text *string) bool {
	n := len(*text)
	if n <= maxShown {
		return false
	}
	*text = fmt.Sprintf("%s … (%d bytes in all, of SHA-256 %s) … %s", events.Cut(*text, maxShown/2), n, events.DigestOf([]byte(*text)), tail(*text, maxShown/4))
	return true
}

// tail is the end of a text, at most n bytes and whole characters.
func tail(s string, n int) string {
	at := max(0, len(s)-n)
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return s[at:]
}

// reviewDetail is what there is to see now. A review that the person may not see looks
// like one that does not exist.
func (h *Handler) reviewDetail(r request, id events.ReviewID) (d ReviewDetail, bad *engine.Refused) {
	snap := h.cfg.Store.Snapshot()
	defer snap.Close()
	row, found, err := projections.ReviewByID(snap, id)
	if err == nil && (!found || !policy.MaySeeReviews(h.cfg.Loop.Catalog(), r.person, row.Agent)) {
		return d, refusal(string(policy.CodeNoReview), "there is no review of this id; ids are whole and exact, and gatebook pending lists those that wait")
	}
	if err == nil {
		d.Review, err = reviewOf(snap, row)
	}
	if err == nil {
		var state projections.State
		state, err = projections.LoadState(snap)
		d.AsOf = state.Seq
	}
	if err != nil {
		return d, refusal("unreadable", "the views cannot be read: "+err.Error())
	}
	if row.State != events.ReviewStateOpen {
		return d, nil
	}
	staged, err := h.cfg.Loop.Staged(r.ctx, row.Call)
	if errors.Is(err, engine.ErrNotWaiting) {
		return d, nil // it was decided this moment
	}
	if err != nil {
		return d, refusal("unreadable", "the call cannot be shown: "+err.Error())
	}
	d.Arguments, d.Description, d.Definition = string(staged.Arguments), staged.Description, staged.Definition
	d.Masked, d.Change, d.Base, d.Unseen = staged.Masked, staged.Change.Text, staged.Change.Base, staged.Change.Unseen
	d.Hidden = hiddenIn(append(policy.TextsOf(staged.Arguments), d.Change))
	if d.Unseen {
		return d, nil
	}
	if err := d.seal(); err != nil {
		return d, refusal("unreadable", "the call cannot be shown: "+err.Error())
	}
	return d, nil
}

// maxHidden bounds how many hidden characters are named.
const maxHidden = 20

// hiddenIn lists, each once and in order, the characters of texts that are not what a
// reader sees: of control and of format, and those that have no width.
func hiddenIn(texts []string) []string {
	found := map[rune]bool{}
	for _, text := range texts {
		for _, c := range text {
			if len(found) <= maxHidden && c != '\n' && c != '\t' && events.Unseen(c) {
				found[c] = true
			}
		}
	}
	var out []string
	for _, c := range slices.Sorted(maps.Keys(found)) {
		out = append(out, fmt.Sprintf("U+%04X", c))
	}
	if len(out) > maxHidden {
		out = append(out[:maxHidden], "and more")
	}
	return out
}

func (h *Handler) approve(r request) any { return h.decideReview(r, true) }

func (h *Handler) refuseReview(r request) any { return h.decideReview(r, false) }

func (h *Handler) decideReview(r request, approve bool) any {
	return h.act(r, func(q ActRequest, a engine.Act) (engine.Command, any) {
		d := &engine.DecideReview{
			Act: a, Review: q.Review, Approve: approve, Shown: q.Shown, AcceptMasked: q.Masked, Reason: h.text(q.Reason, maxReason), Via: r.via,
		}
		if len(q.Reason) > maxReason {
			return nil, no("invalid", fmt.Sprintf("reason: has %d bytes, at most %d", len(q.Reason), maxReason))
		}
		if !approve {
			return d, nil
		}
		// What is wrong with the review itself the loop says, and records it.
		switch now, bad := h.reviewDetail(r, q.Review); {
		case bad == nil:
			d.Now, d.Base, d.Document, d.Masked = now.Shown, now.Base, now.document, now.Masked
		case bad.Error.Code != string(policy.CodeNoReview):
			return nil, *bad
		}
		return d, nil
	})
}

func refusal(code, reason string) *engine.Refused {
	r := no(code, reason)
	return &r
}
