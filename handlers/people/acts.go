package people

import (
	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/policy"
)

// ActRequest is what an act names; each uses its own fields.
type ActRequest struct {
	Agent   events.AgentID `json:"agent,omitzero"`
	Profile string         `json:"profile,omitzero"`
	Reason  string         `json:"reason,omitzero"`
	Phase   int            `json:"phase,omitzero"`
	// Digest is of the catalog that the person saw: another file is refused.
	Digest events.Digest `json:"digest,omitzero"`
	// Review is the one to decide, Shown the digest of what the person saw of it, or of
	// the asset.
	Review events.ReviewID `json:"review,omitzero"`
	Shown  events.Digest   `json:"shown,omitzero"`
	// Masked accepts what is masked in it.
	Masked bool `json:"masked,omitzero"`
	// Asset is the one to decide about, Tool the name of one to register, Tier what a
	// tier is to be.
	Asset events.AssetID `json:"asset,omitzero"`
	Tool  string         `json:"tool,omitzero"`
	Tier  events.Tier    `json:"tier,omitzero"`
}

// act decodes and submits; the loop answers.
func (h *Handler) act(r request, make func(ActRequest, engine.Act) (engine.Command, any)) any {
	var q ActRequest
	if bad := decode(r.data, &q); bad != nil {
		return bad
	}
	by := events.Actor{Kind: events.ActorPerson, ID: string(r.person)}
	cmd, refused := make(q, engine.Act{By: by, Approves: r.approves, Answer: r.answer})
	if refused != nil {
		return refused
	}
	if err := h.cfg.Loop.Submit(r.ctx, cmd); err != nil {
		return no("stopped", "the engine is stopping; nothing was done")
	}
	return nil
}

func (h *Handler) loadCatalog(r request) any {
	return h.act(r, func(q ActRequest, a engine.Act) (engine.Command, any) {
		next, err := h.cfg.CatalogFile()
		if err != nil {
			return nil, no("invalid", err.Error())
		}
		if q.Digest != next.Digest() {
			return nil, no("conflict", "the file is not the one that was shown; see gatebook catalog diff")
		}
		return &engine.LoadCatalog{Act: a, Next: next}, nil
	})
}

func (h *Handler) releaseAgent(r request) any {
	return h.act(r, func(q ActRequest, a engine.Act) (engine.Command, any) {
		if _, err := events.ParseAgentID(string(q.Agent)); err != nil {
			return nil, no("invalid", err.Error())
		}
		return &engine.ReleaseAgent{Act: a, Agent: q.Agent, Reason: h.text(q.Reason, maxReason)}, nil
	})
}

func (h *Handler) setPhase(r request) any {
	return h.act(r, func(q ActRequest, a engine.Act) (engine.Command, any) {
		return &engine.SetPhase{Act: a, Phase: q.Phase}, nil
	})
}

func (h *Handler) setProfile(r request) any {
	return h.act(r, func(q ActRequest, a engine.Act) (engine.Command, any) {
		if _, err := events.ParseAgentID(string(q.Agent)); err != nil {
			return nil, no("invalid", err.Error())
		}
		return &engine.SetLongtime{Act: a, Agent: q.Agent, Profile: q.Profile}, nil
	})
}

func (h *Handler) acceptClock(r request) any {
	return h.act(r, func(_ ActRequest, a engine.Act) (engine.Command, any) {
		return &engine.AcceptClock{Act: a}, nil
	})
}

// rebuild begins; how far it is is a view.
func (h *Handler) rebuild(r request) any {
	return h.act(r, func(_ ActRequest, a engine.Act) (engine.Command, any) {
		return &engine.RebuildViews{Act: a, Start: h.cfg.Views.Start}, nil
	})
}

func (h *Handler) rebuildStatus(r request) any {
	if !policy.MaySeeCatalog(h.cfg.Loop.Catalog(), r.person) {
		return no(string(policy.CodeNotAllowed), "only an operator or an approver hears of a rebuild")
	}
	return h.cfg.Views.Status()
}
