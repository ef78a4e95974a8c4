package main

import (
	"context"
	"errors"

	"gatebook/events"
	"gatebook/handlers/install"
	"gatebook/handlers/tools"
	"gatebook/handlers/tools/propose"
	"gatebook/infra/gitrepo"
	"gatebook/policy/proposal"
)

// proposer is the tool by which agents propose, over the repository that the catalog in
// force names.
func (n *node) proposer() tools.Tool {
	return propose.New(propose.Config{
		Loop: n.engine, Store: n.stores.live, Settings: func() proposal.Settings { return n.engine.Catalog().Proposals() }, Write: writeProposal, Read: readProposal,
		BadPath: gitrepo.ValidPath, Mask: n.masks.Text, Log: n.cfg.log,
	})
}

// installer keeps the folders of the catalog in force equal to what people approved.
func (n *node) installer() *install.Installer {
	return install.New(install.Config{
		Store: n.stores.live, Blob: n.blobs.Get, Data: n.cfg.dir.Path(), Log: n.cfg.log,
		Kinds: func() map[events.AssetType]string { return n.engine.Catalog().Proposals().Into() },
	})
}

func writeProposal(ctx context.Context, repository string, c propose.Commit) (string, error) {
	repo, err := gitrepo.Open(ctx, repository)
	if err != nil {
		return "", err
	}
	commit := gitrepo.Commit{
		Branch: c.Branch, Message: c.Message, AuthorName: string(c.Author), AuthorEmail: string(c.Author) + "@agents.invalid",
		When: c.When.Time(), Replace: true, // a later version of the same name has the same path
	}
	for _, f := range c.Files {
		commit.Files = append(commit.Files, gitrepo.File{Path: f.Path, Content: []byte(f.Content)})
	}
	done, err := repo.Commit(ctx, commit)
	if errors.Is(err, gitrepo.ErrConflict) || errors.Is(err, gitrepo.ErrExists) || errors.Is(err, gitrepo.ErrBadPath) {
		err = errors.Join(propose.ErrConflict, err)
	}
	return done.Hash, err
}

func readProposal(ctx context.Context, repository, commit, path string) ([]byte, error) {
	repo, err := gitrepo.Open(ctx, repository)
	if err != nil {
		return nil, err
	}
	return repo.Blob(ctx, commit, path)
}
