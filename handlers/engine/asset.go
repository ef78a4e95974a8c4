package engine

import (
	"errors"

	"gatebook/events"
	"gatebook/policy"
	"gatebook/policy/asset"
	"gatebook/policy/proposal"
	"gatebook/projections"
)

// assetFacts are what is on record of one version of a name.
func assetFacts(r projections.Reader, of events.AssetType, tool events.ToolKey, version events.Digest) (asset.Facts, error) {
	f := asset.Facts{Type: of, Owner: tool.Owner, Name: tool.Name, Version: version}
	name, met, err := projections.AssetName(r, of, tool.Owner, tool.Name)
	if err != nil || !met {
		return f, err
	}
	f.Met, f.Highest, f.Approved = true, name.Tier, name.Approved
	row, found, err := projections.AssetByVersion(r, of, tool.Owner, tool.Name, version)
	if found {
		f.Asset, f.Tier, f.Fixed, f.State, f.Expires = row.Asset, row.Tier, row.Fixed, row.State, row.Expires
	}
	return f, err
}

// assetByID gives the facts of an asset, and the version of its name that was approved
// before the one that is; both are zero where there is none.
func assetByID(r projections.Reader, id events.AssetID) (f asset.Facts, former events.AssetID, err error) {
	row, found, err := projections.AssetByID(r, id)
	if err != nil || !found {
		return f, "", err
	}
	name, _, err := projections.AssetName(r, row.Type, row.Owner, row.Name)
	return asset.Facts{
		Asset: row.Asset, Type: row.Type, Owner: row.Owner, Name: row.Name, Version: row.Version, Tier: row.Tier, Fixed: row.Fixed, State: row.State,
		Expires: row.Expires, Met: true, Highest: name.Tier, Approved: name.Approved,
	}, name.Back(row.Asset), err
}

// The verbs of [DecideAsset].
const (
	AssetApprove  = "approve"
	AssetRefuse   = "refuse"
	AssetRollback = "rollback"
	AssetRetier   = "retier"
)

// DecideAsset is a person's decision on an asset.
type DecideAsset struct {
	Act
	Asset events.AssetID
	Verb  string
	// Shown is what the person says they saw, Now what there was to see when they said it;
	// of a rollback, of the version that it goes back to.
	Shown, Now events.Digest
	Document   []byte // what has the digest Now
	Reason     string
	Tier       events.Tier // of a retier

	unkept error // why the document could not be kept
}

// prepare keeps the document that the person saw, whose digest the approval names.
func (d *DecideAsset) prepare(e *Engine) {
	if len(d.Document) > 0 {
		_, d.unkept = e.cfg.Blobs.Put(d.Document)
	}
}

func (d *DecideAsset) decide(e *Engine, c *cycle) (plan, error) {
	f, former, err := assetByID(c.tx, d.Asset)
	if err != nil {
		return plan{}, err
	}
	act := policy.AssetAct{By: d.By, Approves: d.Approves, Shown: d.Shown, Now: d.Now, Reason: d.Reason}
	var facts []events.Event
	var no *policy.Refusal
	switch d.Verb {
	case AssetApprove:
		facts, no = policy.ApproveAsset(c.catalog, act, f)
	case AssetRefuse:
		facts, no = policy.RefuseAsset(c.catalog, act, f)
	case AssetRetier:
		facts, no = policy.RetierAsset(c.catalog, act, f, d.Tier)
	default:
		var back asset.Facts
		if back, _, err = assetByID(c.tx, former); err != nil {
			return plan{}, err
		}
		facts, no = policy.RollbackAsset(c.catalog, act, f, back)
	}
	switch {
	case no != nil:
		return d.no("asset."+d.Verb, string(d.Asset), *no), nil
	case d.unkept != nil:
		return plan{release: func(events.Record) { d.refuse("degraded", "what was shown cannot be kept: "+d.unkept.Error()) }}, nil
	}
	return plan{actor: d.By, facts: facts, release: func(at events.Record) {
		if e.cfg.Decided != nil {
			e.cfg.Decided()
		}
		d.done(at)
	}}, nil
}

// RegisterAsset puts one version of a tool on record before anything calls it.
type RegisterAsset struct {
	Act
	Tool     events.ToolKey
	Tier     events.Tier
	Document []byte // what defines it

	unkept error
}

func (r *RegisterAsset) prepare(e *Engine) { _, r.unkept = e.cfg.Blobs.Put(r.Document) }

func (r *RegisterAsset) decide(e *Engine, c *cycle) (plan, error) {
	f, err := assetFacts(c.tx, events.AssetTool, r.Tool, events.DigestOf(r.Document))
	if err != nil {
		return plan{}, err
	}
	id, err := newID[events.AssetID](e.ids, c.now)
	if err != nil {
		return plan{}, err
	}
	f.Tier = f.Effective(r.Tier)
	facts, no := policy.RegisterAsset(c.catalog, policy.AssetAct{By: r.By, Approves: r.Approves}, f, id)
	switch {
	case no != nil:
		return r.no("asset.register", r.Tool.String(), *no), nil
	case r.unkept != nil:
		return plan{release: func(events.Record) { r.refuse("degraded", "the definition cannot be kept: "+r.unkept.Error()) }}, nil
	}
	return plan{actor: r.By, facts: facts, release: r.done}, nil
}

// ProposeAsset is the wish of an agent, by an allowed call, that people decide about what
// it made and a repository holds.
type ProposeAsset struct {
	Proposal proposal.Proposal
	Commit   string
	Document string         // the text of its document
	Cause    events.EventID // of the call's decision
	Answer   Answer

	text   events.Digest
	unkept error
}

// AssetAnswer says that an asset is on record.
type AssetAnswer struct{ Asset events.AssetID }

func (*ProposeAsset) intent() bool { return true }

func (p *ProposeAsset) refuse(code, reason string) { p.Answer.send(refused(code, reason)) }

// prepare keeps the content and the document, whatever becomes of the repository.
func (p *ProposeAsset) prepare(e *Engine) {
	_, content := e.cfg.Blobs.Put([]byte(p.Proposal.Content))
	text, document := e.cfg.Blobs.Put([]byte(p.Document))
	p.text, p.unkept = text, errors.Join(content, document)
}

func (p *ProposeAsset) decide(e *Engine, c *cycle) (plan, error) {
	of := p.Proposal
	f, err := assetFacts(c.tx, of.Kind, events.ToolKey{Owner: string(of.Agent), Name: of.Name}, of.Version())
	if err != nil {
		return plan{}, err
	}
	id, err := newID[events.AssetID](e.ids, c.now)
	if err != nil {
		return plan{}, err
	}
	facts, no := policy.ProposeAsset(c.catalog, of, p.Commit, p.text, f, id)
	who := agentActor(of.Agent)
	switch {
	case no != nil:
		return reach(who, policy.AccountAgents, policy.ToolAssetPropose, of.Name, *no, p.Answer), nil
	case p.unkept != nil:
		return plan{release: func(events.Record) { p.refuse("degraded", "the proposal cannot be kept: "+p.unkept.Error()) }}, nil
	}
	return plan{agent: of.Agent, actor: who, cause: p.Cause, facts: facts, release: func(events.Record) { p.Answer.send(AssetAnswer{id}) }}, nil
}

// MeetServer puts the version of a server that the catalog declares on record, where it is
// not.
type MeetServer struct {
	ID     string
	Launch []byte // what its version is the digest of

	unkept error
}

func (*MeetServer) intent() bool { return false }

func (*MeetServer) refuse(string, string) {}

func (m *MeetServer) prepare(e *Engine) { _, m.unkept = e.cfg.Blobs.Put(m.Launch) }

func (m *MeetServer) decide(e *Engine, c *cycle) (plan, error) {
	f, err := assetFacts(c.tx, events.AssetServer, events.ToolKey{Owner: events.OwnerBuiltin, Name: m.ID}, events.DigestOf(m.Launch))
	if err != nil || m.unkept != nil {
		return plan{}, err // without its launch nobody could decide about it; it comes again
	}
	id, err := newID[events.AssetID](e.ids, c.now)
	if err != nil {
		return plan{}, err
	}
	return plan{actor: events.Engine(), facts: policy.MeetServer(c.catalog, m.ID, f, id)}, nil
}

// expireAsset ends the grace of an asset that is due.
type expireAsset struct{ asset events.AssetID }

func (expireAsset) intent() bool { return false }

func (expireAsset) refuse(string, string) {}

func (x expireAsset) decide(_ *Engine, c *cycle) (plan, error) {
	f, _, err := assetByID(c.tx, x.asset)
	if err != nil {
		return plan{}, err
	}
	return plan{actor: events.Engine(), facts: policy.ExpireAsset(f, c.now)}, nil
}
