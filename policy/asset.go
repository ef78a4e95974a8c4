package policy

import (
	"cmp"

	"gatebook/events"
	"gatebook/policy/asset"
	"gatebook/policy/proposal"
)

// AssetAct is a person's act on an asset.
type AssetAct struct {
	By       events.Actor
	Approves bool // it came with the approving key
	// Shown is the digest of what the person saw, Now of what they would see now.
	Shown, Now events.Digest
	Reason     string
}

// ApproveAsset answers a person's yes to one version. Another version of the name that was
// approved is replaced.
func ApproveAsset(c *Compiled, act AssetAct, f asset.Facts) ([]events.Event, *Refusal) {
	if no := judgeAsset(c, act, f, asset.Approve); no != nil {
		return nil, no
	}
	switch {
	case act.Shown == "":
		return nil, refuse(CodeInvalid, "say what was seen: gatebook asset show "+string(f.Asset)+" gives its digest, which goes with the approval")
	case act.Shown != act.Now:
		return nil, refuse(CodeConflict, "what was seen is not what there is now, so nothing was approved; look again with gatebook asset show "+string(f.Asset))
	}
	return []events.Event{events.AssetApproved{Asset: f.Asset, Version: f.Version, Shown: act.Shown, Replaces: f.Approved}}, nil
}

// RefuseAsset answers a person's no to one version, which holds from the next decision on.
func RefuseAsset(c *Compiled, act AssetAct, f asset.Facts) ([]events.Event, *Refusal) {
	if no := judgeAsset(c, act, f, asset.Refuse); no != nil {
		return nil, no
	}
	return []events.Event{events.AssetRefused{Asset: f.Asset, Reason: events.Cut(act.Reason, maxReason)}}, nil
}

// RollbackAsset answers a person's wish that the version which was approved before is so
// again. of is the version that it is asked of, former the one before it. What of would be
// let run is refused, so that no two versions are approved.
func RollbackAsset(c *Compiled, act AssetAct, of, former asset.Facts) ([]events.Event, *Refusal) {
	switch {
	case !c.mayApprove(act.By, act.Approves):
		return nil, refuse(CodeNotAllowed, onlyApprovers)
	case of.Asset == "":
		return nil, noAsset()
	case former.Asset == "" || former.Asset == of.Asset:
		return nil, refuse(CodeConflict, "no other version of it was approved before, so there is none to go back to; gatebook assets lists all")
	}
	var out []events.Event
	if _, ok := asset.Next(of.State, asset.Refuse); ok {
		out = append(out, events.AssetRefused{Asset: of.Asset, Reason: events.Cut(cmp.Or(act.Reason, "rolled back"), maxReason)})
		if former.Approved == of.Asset {
			former.Approved = ""
		}
	}
	yes, no := ApproveAsset(c, act, former)
	if no != nil {
		return nil, no
	}
	return append(out, yes...), nil
}

// RegisterAsset answers a person's wish to put a version on record, blocked, before
// anything calls it.
func RegisterAsset(c *Compiled, act AssetAct, f asset.Facts, id events.AssetID) ([]events.Event, *Refusal) {
	switch {
	case !c.mayApprove(act.By, act.Approves):
		return nil, refuse(CodeNotAllowed, onlyApprovers)
	case f.Asset != "":
		return nil, refuse(CodeConflict, "this version is on record already, as asset "+string(f.Asset)+", "+string(f.State))
	}
	return []events.Event{asset.Registered(f, id)}, nil
}

// ProposeAsset answers an agent's wish, by an allowed call, that people decide about what
// it made. Whatever it says, that is privileged and blocked until one of them approves it.
// commit holds it in the repository, and text is the digest of its document.
func ProposeAsset(c *Compiled, p proposal.Proposal, commit string, text events.Digest, f asset.Facts, id events.AssetID) ([]events.Event, *Refusal) {
	s := c.Proposals()
	_, known := s.Kinds[p.Kind]
	switch {
	case !s.On() || !known:
		return nil, refuse(CodeNotAllowed, "nothing of this kind can be proposed any more")
	case f.Asset != "":
		return nil, Proposed(f)
	}
	return []events.Event{events.AssetRegistered{
		Asset: id, Type: p.Kind, Owner: string(p.Agent), Name: p.Name, Version: p.Version(), Tier: events.Privileged, State: events.AssetStateBlocked,
		Call: p.Call, Commit: commit, Document: p.DocumentPath(s), Text: text,
	}}, nil
}

// MeetServer puts the version of a server that the catalog in force declares on record,
// where it is not: it is privileged, and blocked until a person approves it.
func MeetServer(c *Compiled, id string, f asset.Facts, new events.AssetID) []events.Event {
	s, declared := c.Servers()[id]
	if !declared || f.Asset != "" || events.DigestOf(s.Launch()) != f.Version {
		return nil
	}
	f.Tier = events.Privileged
	return []events.Event{asset.Registered(f, new)}
}

// Proposed says that the same was proposed before: once is enough, and what was refused
// stays refused.
func Proposed(f asset.Facts) *Refusal {
	return refuse(CodeConflict, "you proposed exactly this before: it is asset "+string(f.Asset)+", "+string(f.State))
}

// RetierAsset answers a person's wish that a version has another tier. Nothing else lets a
// tier fall. One that rises leaves what was not approved for it to be approved again.
func RetierAsset(c *Compiled, act AssetAct, f asset.Facts, tier events.Tier) ([]events.Event, *Refusal) {
	switch {
	case !c.mayApprove(act.By, act.Approves):
		return nil, refuse(CodeNotAllowed, onlyApprovers)
	case f.Asset == "":
		return nil, noAsset()
	case f.Type != events.AssetTool:
		return nil, refuse(CodeInvalid, "only a tool has a tier that changes; a server, and what an agent proposed, is privileged")
	case !asset.Known(tier):
		return nil, refuse(CodeInvalid, "tier: want read_only, reversible or privileged")
	case tier == f.Tier && f.Fixed:
		return nil, nil
	}
	return []events.Event{asset.Retier(f, tier)}, nil
}

// ExpireAsset ends the grace of a provisional asset whose time is over; else it gives
// nothing.
func ExpireAsset(f asset.Facts, now events.Instant) []events.Event {
	if f.State != events.AssetStateProvisional || !asset.Over(f, now) {
		return nil
	}
	return []events.Event{events.AssetExpired{Asset: f.Asset}}
}

const onlyApprovers = "only an approver, with the approving key, decides about assets"

func noAsset() *Refusal {
	return refuse(CodeNoAsset, "there is no asset of this id; ids are whole and exact, and gatebook assets lists them")
}

// judgeAsset says why a person's decision does not count, with the true reason.
func judgeAsset(c *Compiled, act AssetAct, f asset.Facts, what asset.Act) *Refusal {
	switch _, ok := asset.Next(f.State, what); {
	case !c.mayApprove(act.By, act.Approves):
		return refuse(CodeNotAllowed, onlyApprovers)
	case f.Asset == "":
		return noAsset()
	case !ok:
		return refuse(CodeConflict, "the asset is "+string(f.State)+" already; nothing was changed")
	}
	return nil
}

// SeesAsset says whether the person, who may see assets, may see one of this kind and
// owner: what an agent proposed shows who decides, who runs the engine, and who may
// observe the agent.
func SeesAsset(c *Compiled, id events.PersonID, of events.AssetType, owner string) bool {
	p := c.person(person(id))
	return of == events.AssetTool || of == events.AssetServer || p.Approver || p.Operator || MayObserve(c, id, events.AgentID(owner))
}

// SeesAssets says whether the person may see the assets: who decides about them, runs the
// engine, or watches agents.
func SeesAssets(c *Compiled, id events.PersonID) bool {
	p := c.person(person(id))
	return p.Approver || p.Operator || p.Supervisor
}
