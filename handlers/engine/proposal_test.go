package engine_test

import (
	"fmt"
	"testing"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/policy"
	"gatebook/policy/proposal"
)

const proposedCommit = "4f0c2d0f7a2d8f4a3f3b0f8f9c1d2e3f4a5b6c7d"

// proposalHouse is an [assetHouse] where agents may propose skills.
func proposalHouse(t *testing.T) *house {
	t.Helper()
	h := assetHouse(t)
	h.allowProposals(t, true)
	return h
}

func (h *house) allowProposals(t *testing.T, on bool) {
	t.Helper()
	h.recompile(t, func(c *policy.Catalog) {
		c.Propose = proposal.Settings{Enabled: on, Repository: "/srv/repo", Kinds: map[events.AssetType]proposal.Kind{"skill": {}}}
	})
	if v, ok := h.ask(func(a engine.Answer) engine.Command {
		return &engine.LoadCatalog{Act: engine.Act{By: anna(), Approves: true, Answer: a}, Next: h.catalog}
	}).(engine.Done); !ok {
		t.Fatalf("%+v", v)
	}
}

func (h *house) propose(name, content string) <-chan any {
	return h.send(func(a engine.Answer) engine.Command {
		return &engine.ProposeAsset{
			Proposal: proposal.Proposal{Kind: "skill", Agent: "alice", Name: name, Content: content, Call: "C1", Round: "R1"},
			Commit:   proposedCommit, Document: "about " + content, Answer: a,
		}
	})
}

// What an agent proposes is privileged and blocked, and its content and its document are
// kept, whatever becomes of the repository.
func TestProposal(t *testing.T) {
	h := proposalHouse(t)
	defer h.close()
	got, ok := (<-h.propose("tidy.md", "one")).(engine.AssetAnswer)
	all := h.assets()
	if !ok || len(all) != 1 || all[0].Asset != got.Asset {
		t.Fatalf("%+v, on record: %+v", got, all)
	}
	want := events.AssetRegistered{
		Asset: got.Asset, Type: "skill", Owner: "alice", Name: "tidy.md", Version: events.DigestOf([]byte("one")), Tier: events.Privileged,
		State: events.AssetStateBlocked, Call: "C1", Commit: proposedCommit, Document: "skill/alice/tidy.md.proposal.md", Text: events.DigestOf([]byte("about one")),
	}
	if all[0] != want {
		t.Errorf("on record is %+v, want %+v", all[0], want)
	}
	for digest, text := range map[events.Digest]string{want.Version: "one", want.Text: "about one"} {
		if kept, err := h.blobs.Get(digest); err != nil || string(kept) != text {
			t.Errorf("kept is %q, %v", kept, err)
		}
	}
	book := h.book()
	if last := book[len(book)-1]; last.Actor != (events.Actor{Kind: events.ActorAgent, ID: "alice"}) || last.Agent != "alice" {
		t.Errorf("it is by %+v about %q", last.Actor, last.Agent)
	}
	tier := decideAsset(got.Asset, engine.AssetRetier)
	tier.Tier = events.ReadOnly
	for name, answer := range map[policy.Code]<-chan any{
		policy.CodeConflict: h.propose("tidy.md", "one"),
		policy.CodeInvalid:  h.sendAsset(tier),
	} {
		if no, ok := (<-answer).(engine.Refused); !ok || no.Error.Code != string(name) {
			t.Errorf("%+v, want %s", no, name)
		}
	}
	h.allowProposals(t, false)
	if no, ok := (<-h.propose("tidy.md", "two")).(engine.Refused); !ok || no.Error.Code != string(policy.CodeNotAllowed) {
		t.Errorf("%+v", no)
	}
	if len(h.assets()) != 1 {
		t.Errorf("on record: %+v", h.assets())
	}
}

// O-G07 fletch#564: of many proposals at once none is lost; of many that are the same one
// is on record, and everybody else hears which.
func TestProposalsAtOnce(t *testing.T) {
	h := proposalHouse(t)
	defer h.close()
	var same, others []<-chan any
	for i := range 30 {
		same = append(same, h.propose("tidy.md", "one"))
		others = append(others, h.propose("tidy.md", fmt.Sprint("version ", i)))
	}
	done := map[events.AssetID]int{}
	refused := 0
	for i := range same {
		switch v := (<-same[i]).(type) {
		case engine.AssetAnswer:
			done[v.Asset]++
		case engine.Refused:
			refused++
		}
		if v, ok := (<-others[i]).(engine.AssetAnswer); ok {
			done[v.Asset]++
		}
	}
	if len(done) != 31 || refused != 29 || len(h.assets()) != 31 {
		t.Errorf("%d are on record by the answers, %d by the book, and %d were refused", len(done), len(h.assets()), refused)
	}
}
