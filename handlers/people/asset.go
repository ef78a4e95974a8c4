package people

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/diff"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/policy"
	"gatebook/policy/asset"
	"gatebook/projections"
)

// AssetsRequest asks for assets, the newest first.
type AssetsRequest struct {
	State  events.AssetState `json:"state,omitzero"`
	Tier   events.Tier       `json:"tier,omitzero"`
	Kind   events.AssetType  `json:"kind,omitzero"`
	Before events.Seq        `json:"before,omitzero"`
	Limit  int               `json:"limit,omitzero"`
}

// AssetsAnswer is a page of assets, true at AsOf.
type AssetsAnswer struct {
	Assets []Asset    `json:"assets"`
	Next   events.Seq `json:"next,omitzero"`
	AsOf   events.Seq `json:"as_of"`
}

// Asset is one version of an asset.
type Asset struct {
	Asset   events.AssetID    `json:"asset"`
	Kind    events.AssetType  `json:"kind"`
	Owner   string            `json:"owner"`
	Name    string            `json:"name"`
	Version events.Digest     `json:"version"`
	Tier    events.Tier       `json:"tier"`
	State   events.AssetState `json:"state"`
	Created events.Instant    `json:"created"`
	// Expires is when the grace of a provisional asset ends, Expired when it did.
	Expires    events.Instant  `json:"expires,omitzero"`
	Expired    events.Instant  `json:"expired,omitzero"`
	Executions int64           `json:"executions"`
	Agent      events.AgentID  `json:"agent,omitzero"` // whose call met it first
	Call       events.CallID   `json:"call,omitzero"`
	Commit     string          `json:"commit,omitzero"`
	Document   string          `json:"document,omitzero"`
	Decided    events.Instant  `json:"decided,omitzero"`
	By         events.PersonID `json:"by,omitzero"`
	Reason     string          `json:"reason,omitzero"`
	Seq        events.Seq      `json:"seq"`
}

// AssetRequest asks for everything about one asset.
type AssetRequest struct {
	Asset events.AssetID `json:"asset"`
	// Full asks for a definition of any size; else a large one is cut, and what is shown
	// cannot be approved.
	Full bool `json:"full,omitzero"`
}

// AssetDetail is what a person decides on.
type AssetDetail struct {
	Asset
	// Definition is the whole of what defines it, or where Elided its beginning and end.
	Definition string `json:"definition,omitzero"`
	Elided     bool   `json:"elided,omitzero"`
	// Text is the document of what an agent proposed.
	Text string `json:"text,omitzero"`
	// Against is the version that is approved, or was last, and Diff what changes from it.
	Against events.AssetID `json:"against,omitzero"`
	Diff    string         `json:"diff,omitzero"`
	// Hidden are the characters in it that a screen does not show, or shows elsewhere.
	Hidden []string `json:"hidden,omitzero"`
	// Shown is the digest of all this; an approval names it. Absent where something is
	// elided or cannot be read, and where it is approved already.
	Shown events.Digest `json:"shown,omitzero"`
	AsOf  events.Seq    `json:"as_of"`

	document []byte // what has the digest
}

// AssetDocument is what a person decides on, in the form whose digest stands in an
// approval and whose bytes are kept with it. A change of its form takes another V.
type AssetDocument struct {
	V          int              `json:"v"` // 2; 1 had no text
	Asset      events.AssetID   `json:"asset"`
	Kind       events.AssetType `json:"kind"`
	Owner      string           `json:"owner"`
	Name       string           `json:"name"`
	Version    events.Digest    `json:"version"`
	Tier       events.Tier      `json:"tier"`
	Commit     string           `json:"commit"`
	Document   string           `json:"document"`
	Text       string           `json:"text"`
	Definition string           `json:"definition"`
	Against    events.AssetID   `json:"against"`
	Diff       string           `json:"diff"`
}

func (d *AssetDetail) seal() error {
	raw, err := json.Marshal(AssetDocument{
		V: 2, Asset: d.Asset.Asset, Kind: d.Kind, Owner: d.Owner, Name: d.Name, Version: d.Version, Tier: d.Tier,
		Commit: d.Commit, Document: d.Document, Text: d.Text, Definition: d.Definition, Against: d.Against, Diff: d.Diff,
	})
	value := jsontext.Value(raw)
	if err == nil {
		err = value.Canonicalize()
	}
	d.document, d.Shown = value, events.DigestOf(value)
	return err
}

func (h *Handler) sees(who events.PersonID, row projections.AssetRow) bool {
	return policy.SeesAsset(h.cfg.Loop.Catalog(), who, row.Type, row.Owner)
}

// assetOf is an asset as a person sees it: not who called it, where they may not see that
// agent.
func (h *Handler) assetOf(who events.PersonID, row projections.AssetRow) Asset {
	if row.Agent != "" && !policy.MaySeeReviews(h.cfg.Loop.Catalog(), who, row.Agent) {
		row.Agent, row.Call = "", ""
	}
	return Asset{
		Asset: row.Asset, Kind: row.Type, Owner: row.Owner, Name: row.Name, Version: row.Version, Tier: row.Tier, State: row.State,
		Created: row.Created, Expires: row.Expires, Expired: row.Expired, Executions: row.Executions, Agent: row.Agent, Call: row.Call,
		Commit: row.Commit, Document: row.Document, Decided: row.Decided, By: row.By, Reason: row.Reason, Seq: row.Seq,
	}
}

const noAsset = "there is no asset of this id; ids are whole and exact, and gatebook assets lists them"

const notForAssets = "assets are for approvers, operators and supervisors"

func (h *Handler) assets(r request) any {
	var q AssetsRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	if !policy.SeesAssets(h.cfg.Loop.Catalog(), r.person) {
		return no(string(policy.CodeNotAllowed), notForAssets)
	}
	return h.read(func(v projections.Reader) (any, error) {
		page, err := projections.Assets(v, projections.AssetFilter{State: q.State, Tier: q.Tier, Type: q.Kind, Before: q.Before, Limit: pageLimit(q.Limit)})
		if err != nil {
			return nil, err
		}
		a := AssetsAnswer{Assets: make([]Asset, 0, len(page.Rows)), Next: page.Next, AsOf: page.AsOf}
		for _, row := range page.Rows {
			if h.sees(r.person, row) {
				a.Assets = append(a.Assets, h.assetOf(r.person, row))
			}
		}
		return a, nil
	})
}

func (h *Handler) asset(r request) any {
	var q AssetRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	if !policy.SeesAssets(h.cfg.Loop.Catalog(), r.person) {
		return no(string(policy.CodeNotAllowed), notForAssets)
	}
	d, bad := h.assetDetail(r.person, q.Asset)
	if bad != nil {
		return *bad
	}
	if n := len(d.Text) + len(d.Definition) + len(d.Diff); q.Full && n > engine.MaxAnswer/2 {
		return no("too_large", fmt.Sprintf("there are %d bytes to see, too many for one answer, and what cannot be seen cannot be approved", n))
	}
	for _, text := range []*string{&d.Text, &d.Definition, &d.Diff} {
		if !q.Full && cutMiddle(text) {
			d.Elided, d.Shown = true, ""
		}
	}
	return d
}

// assetDetail is what there is to see now.
func (h *Handler) assetDetail(who events.PersonID, id events.AssetID) (d AssetDetail, bad *engine.Refused) {
	snap := h.cfg.Store.Snapshot()
	defer snap.Close()
	row, found, err := projections.AssetByID(snap, id)
	if err == nil && (!found || !h.sees(who, row)) {
		return d, refusal(string(policy.CodeNoAsset), noAsset)
	}
	var name projections.AssetNameRow
	var state projections.State
	if err == nil {
		name, _, err = projections.AssetName(snap, row.Type, row.Owner, row.Name)
	}
	if err == nil {
		state, err = projections.LoadState(snap)
	}
	if err != nil {
		return d, refusal("unreadable", "the views cannot be read: "+err.Error())
	}
	d.Asset, d.AsOf, d.Against = h.assetOf(who, row), state.Seq, name.Back(row.Asset)
	if d.Definition, err = h.definition(row.Type, row.Version); err == nil && row.Text != "" {
		d.Text, err = h.definition(row.Type, row.Text)
	}
	if err != nil {
		return d, refusal("unreadable", "what defines the asset cannot be read, so nobody can decide about it: "+err.Error())
	}
	if d.Against != "" {
		if d.Diff, err = h.against(snap, d.Against, d.Definition); err != nil {
			return d, refusal("unreadable", "the version before cannot be read: "+err.Error())
		}
	}
	d.Hidden = hiddenIn([]string{d.Owner, d.Name, d.Text, d.Definition, d.Diff})
	if _, may := asset.Next(row.State, asset.Approve); !may {
		return d, nil
	}
	if err := d.seal(); err != nil {
		return d, refusal("unreadable", "the asset cannot be shown: "+err.Error())
	}
	return d, nil
}

// definition is what defines a version, of a tool one member to a line, and masked.
func (h *Handler) definition(of events.AssetType, version events.Digest) (string, error) {
	raw, err := h.cfg.Blob(version)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("it is not kept")
	}
	if err != nil {
		return "", err
	}
	text := string(raw)
	if value := jsontext.Value(raw); (of == events.AssetTool || of == events.AssetServer) && value.IsValid() && value.Indent(jsontext.WithIndent("  ")) == nil {
		text = string(value)
	}
	masked, _ := h.cfg.Redact.Text(text)
	return masked, nil
}

// against is what changes from another version.
func (h *Handler) against(v projections.Reader, id events.AssetID, text string) (string, error) {
	row, _, err := projections.AssetByID(v, id)
	if err != nil {
		return "", err
	}
	old, err := h.definition(row.Type, row.Version)
	if err != nil {
		return "", err
	}
	return string(diff.Diff("version/"+string(row.Version)[:12], []byte(old+"\n"), "this", []byte(text+"\n"))), nil
}

// AssetContent is what an agent proposed and people approved, byte by byte.
type AssetContent struct {
	Asset   events.AssetID `json:"asset"`
	Version events.Digest  `json:"version"` // of the content
	Content string         `json:"content"`
}

// assetContent gives what is to be loaded: of an approved version, and of no other.
func (h *Handler) assetContent(r request) any {
	var q AssetRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	if !policy.SeesAssets(h.cfg.Loop.Catalog(), r.person) {
		return no(string(policy.CodeNotAllowed), notForAssets)
	}
	return h.read(func(v projections.Reader) (any, error) {
		row, found, err := projections.AssetByID(v, q.Asset)
		switch {
		case err != nil:
			return nil, err
		case !found || !h.sees(r.person, row):
			return no(string(policy.CodeNoAsset), noAsset), nil
		case row.Type == events.AssetTool || row.Type == events.AssetServer:
			return no(string(policy.CodeInvalid), "a tool or a server runs where it is: there is nothing to load"), nil
		case row.State != events.AssetStateApproved:
			return no(string(policy.CodeConflict), "the asset is "+string(row.State)+": only what is approved is to be loaded"), nil
		}
		raw, err := h.cfg.Blob(row.Version)
		if err != nil || events.DigestOf(raw) != row.Version {
			return no("unreadable", "what was approved cannot be read as it was"), nil
		}
		return AssetContent{Asset: row.Asset, Version: row.Version, Content: string(raw)}, nil
	})
}

func (h *Handler) decideAsset(r request, verb string) any {
	return h.act(r, func(q ActRequest, a engine.Act) (engine.Command, any) {
		if len(q.Reason) > maxReason {
			return nil, no("invalid", fmt.Sprintf("reason: has %d bytes, at most %d", len(q.Reason), maxReason))
		}
		d := &engine.DecideAsset{Act: a, Asset: q.Asset, Verb: verb, Shown: q.Shown, Reason: h.text(q.Reason, maxReason), Tier: q.Tier}
		if verb == engine.AssetRefuse || verb == engine.AssetRetier {
			return d, nil
		}
		// What is wrong with the asset itself the loop says, and records it.
		now, bad := h.assetDetail(r.person, q.Asset)
		if bad == nil && verb == engine.AssetRollback {
			now, bad = h.assetDetail(r.person, now.Against)
		}
		if bad != nil && bad.Error.Code != string(policy.CodeNoAsset) {
			return nil, *bad
		}
		d.Now, d.Document = now.Shown, now.document
		return d, nil
	})
}

// registerAsset puts a tool that is offered now on record.
func (h *Handler) registerAsset(r request) any {
	return h.act(r, func(q ActRequest, a engine.Act) (engine.Command, any) {
		entry, known := h.cfg.Tools.Lookup(q.Tool)
		switch {
		case !known:
			return nil, no("not_found", "there is no tool "+events.Quote(q.Tool)+"; names are exact, with the owner's in front")
		case entry.Key.Owner == events.OwnerBuiltin:
			return nil, no("invalid", events.Escape(q.Tool)+" is built in and needs no asset")
		}
		return &engine.RegisterAsset{Act: a, Tool: entry.Key, Tier: entry.Tier(), Document: entry.Document}, nil
	})
}
