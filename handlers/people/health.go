package people

import (
	"gatebook/events"
	"gatebook/handlers/install"
	"gatebook/handlers/telegram"
	"gatebook/handlers/upstream"
	"gatebook/policy"
	"gatebook/projections"
)

// HealthAnswer is what doctor shows.
type HealthAnswer struct {
	About
	Warnings  []string       `json:"warnings,omitzero"`
	OK        bool           `json:"ok"`
	Troubles  []string       `json:"troubles"`
	Seq       events.Seq     `json:"seq"`
	Root      string         `json:"root,omitzero"`
	Catalog   events.Digest  `json:"catalog,omitzero"`
	Phase     int            `json:"phase"`
	ClockHeld bool           `json:"clock_held"`
	Time      events.Instant `json:"last_event,omitzero"`
	ScrubDone events.Seq     `json:"scrub_done"`
	ScrubOf   events.Seq     `json:"scrub_of"`
	Damage    string         `json:"damage,omitzero"`
	Waiting   int            `json:"waiting"` // calls, for a person
	Tools     []string       `json:"tools"`
	Process   Process        `json:"process"`
	// Alerts are the destinations of alerts, where the catalog has any.
	Alerts []Destination `json:"alerts,omitzero"`
	// Installed is how it stands with the folders of what was proposed and approved.
	Installed []install.Status `json:"installed,omitzero"`
	// Servers is how it stands with the servers of the catalog.
	Servers []upstream.Status `json:"servers,omitzero"`
	// Telegram is how the bot is doing, where the catalog has one.
	Telegram *telegram.Status `json:"telegram,omitzero"`
}

// Destination is how it stands with one destination of alerts, since the engine's start.
type Destination struct {
	Name      string         `json:"name"`
	Delivered int64          `json:"delivered"`
	GivenUp   int64          `json:"given_up"`
	Waiting   int            `json:"waiting"`
	Reached   events.Instant `json:"reached,omitzero"` // the last time
	Failure   string         `json:"failure,omitzero"` // the last one
	Failed    events.Instant `json:"failed,omitzero"`
}

func (h *Handler) destinations() (out []Destination) {
	for _, s := range h.cfg.Alerts() {
		out = append(out, Destination{
			Name: s.Name, Delivered: s.Delivered, GivenUp: s.GivenUp, Waiting: s.Waiting, Reached: s.LastSuccess, Failure: s.LastFailure, Failed: s.FailedAt,
		})
	}
	return out
}

// Process is what an engine's process holds. Both figures stay where they are however
// long it runs; one that only ever rises is a leak.
type Process struct {
	Goroutines int64 `json:"goroutines"`
	// HeapBytes is what was still in use at the last garbage collection.
	HeapBytes int64 `json:"heap_bytes"`
}

func (h *Handler) health(request) any {
	return h.read(func(v projections.Reader) (any, error) {
		state, err := projections.LoadState(v)
		if err != nil {
			return nil, err
		}
		scrub := h.cfg.Scrub()
		a := HealthAnswer{
			About: h.cfg.About, Warnings: h.cfg.Warnings(), OK: h.cfg.Loop.Health().OK(), Troubles: h.cfg.Loop.Health().Why(),
			Seq: state.Seq, Catalog: state.Catalog, Phase: h.cfg.Loop.Catalog().PhaseInForce(state.Phase),
			ClockHeld: state.ClockHeld, Time: state.Time,
			ScrubDone: scrub.Done, ScrubOf: scrub.Of, Damage: scrub.Damage, Waiting: h.cfg.Loop.Waiting(), Tools: h.cfg.Tools.Names(),
			Process: h.cfg.Process(), Alerts: h.destinations(), Installed: h.cfg.Installed(), Servers: h.cfg.Servers(),
		}
		if bot, on := h.cfg.Bot(); on {
			a.Telegram = &bot
		}
		if state.Seq > 0 {
			root, err := projections.TreeRoot(v, state.Seq)
			if err != nil {
				return nil, err
			}
			a.Root = root.String()
		}
		return a, nil
	})
}

// CatalogAnswer compares the file with what is in force.
type CatalogAnswer struct {
	InForce    events.Digest   `json:"in_force,omitzero"`
	ApprovedBy events.PersonID `json:"approved_by,omitzero"`
	File       events.Digest   `json:"file,omitzero"`
	Fault      string          `json:"fault,omitzero"` // of the file
	Changes    []Change        `json:"changes"`
	Widens     bool            `json:"widens"`
}

// Change is one difference between the catalog in force and the file.
type Change struct {
	Path   string `json:"path"`
	Text   string `json:"text"`
	Widens bool   `json:"widens"`
}

func (h *Handler) catalog(r request) any {
	// What differs, and what is wrong in the file, names agents.
	whole := policy.MaySeeCatalog(h.cfg.Loop.Catalog(), r.person)
	return h.read(func(v projections.Reader) (any, error) {
		state, err := projections.LoadState(v)
		if err != nil {
			return nil, err
		}
		a := CatalogAnswer{InForce: state.Catalog, ApprovedBy: state.ApprovedBy, Changes: []Change{}}
		next, err := h.cfg.CatalogFile()
		if err != nil {
			a.Fault = "the file is not valid; an approver or operator can see why"
			if whole {
				a.Fault = err.Error()
			}
			return a, nil
		}
		a.File = next.Digest()
		changes := policy.Compare(h.cfg.Loop.Catalog(), next)
		a.Widens = policy.Widens(changes)
		for _, c := range changes {
			if !whole {
				c = policy.Change{Text: "something that names agents you may not observe", Widens: c.Widens}
			}
			a.Changes = append(a.Changes, Change{c.Path, c.Text, c.Widens})
		}
		return a, nil
	})
}
