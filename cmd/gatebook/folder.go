package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nkeys"
	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/integrity"
	"gatebook/infra/config"
	"gatebook/infra/datadir"
	"gatebook/infra/identity"
	"gatebook/policy"
)

// terminalChannel is the channel of a new folder.
const terminalChannel = events.ChannelID("terminal")

// firstApproval is what init leaves for the first start: that a person approved
// the first catalog, proven by a signature of their approving key.
type firstApproval struct {
	Digest    events.Digest   `json:"digest"`
	Person    events.PersonID `json:"person"`
	Signature string          `json:"signature"` // base64, over approvalText
}

func approvalText(d events.Digest) []byte { return []byte("gatebook first catalog " + string(d)) }

func approvalPath(dir *datadir.Dir) string { return filepath.Join(dir.Path(), "first-approval.json") }

// makeFolder makes a data folder with its keys, its first catalog and that
// catalog's approval, and the keys of its first person. What a former, broken
// attempt left is used.
func (a *App) makeFolder(ctx context.Context) (*datadir.Dir, events.PersonID, error) {
	who, err := a.firstPerson()
	if err != nil {
		return nil, "", err
	}
	people, keysDir, err := a.people()
	if err != nil {
		return nil, "", err
	}
	pass, err := identity.Passphrase(ctx, a.Getenv, a.Terminal, who, !exists(people.ApprovePath(who)))
	if err != nil {
		return nil, "", err
	}
	defer clear(pass)
	dir, err := datadir.Open(a.flags.dir, true)
	if err != nil {
		return nil, "", err
	}
	if inside(keysDir, dir.Path()) {
		return nil, "", usageError{errors.New("people's keys must be outside of the data folder: choose another --keys")}
	}
	return dir, who, a.fillFolder(dir, people, who, pass)
}

func (a *App) fillFolder(dir *datadir.Dir, people *identity.People, who events.PersonID, pass []byte) error {
	read, err := orLoad(people.Create(who, a.Random))(func() (*identity.Key, error) { return people.Load(who) })
	if err != nil {
		return err
	}
	approve, err := orLoad(people.CreateApprove(who, pass, a.Random))(func() (*identity.Key, error) { return people.LoadApprove(who, pass) })
	if err != nil {
		return err
	}
	defer approve.Wipe()
	path := identity.ChannelKey(dir.Keys(), terminalChannel)
	channel, err := orLoad(identity.CreateKey(path, a.Random))(func() (*identity.Key, error) { return identity.LoadKey(path) })
	if err != nil {
		return err
	}
	if _, err := identity.CreateMACKey(dir.Keys(), a.Random); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !exists(dir.Catalog()) {
		first := config.First(who, config.Keys{Key: read.Public(), ApproveKey: approve.Public()}, channel.Public())
		if err := config.Write(dir.Catalog(), first); err != nil {
			return err
		}
	}
	if err := a.approveFirst(dir, who, approve); err != nil {
		return err
	}
	// Last: a folder with an incarnation is a whole folder.
	inc, err := newULID[events.Incarnation](a.Now(), a.Random)
	if err != nil {
		return err
	}
	return dir.WriteIncarnation(inc)
}

// orLoad takes the key that is there where a key could not be made for that.
func orLoad(k *identity.Key, err error) func(func() (*identity.Key, error)) (*identity.Key, error) {
	return func(load func() (*identity.Key, error)) (*identity.Key, error) {
		if errors.Is(err, fs.ErrExist) {
			return load()
		}
		return k, err
	}
}

func (a *App) approveFirst(dir *datadir.Dir, who events.PersonID, key *identity.Key) error {
	next, err := compileFile(dir, toolNames(a.Extra))
	if err != nil {
		return err
	}
	sig, err := key.Sign(approvalText(next.Digest()))
	if err != nil {
		return err
	}
	raw, err := json.Marshal(firstApproval{next.Digest(), who, base64.StdEncoding.EncodeToString(sig)})
	if err != nil {
		return err
	}
	return datadir.WriteFile(approvalPath(dir), raw)
}

// approvedFirst checks the signature that init left against the catalog's own
// entry of that person.
func approvedFirst(dir *datadir.Dir, c *policy.Compiled) (events.PersonID, error) {
	raw, err := os.ReadFile(approvalPath(dir))
	if err != nil {
		return "", fmt.Errorf("nobody approved the first catalog: %w", err)
	}
	var f firstApproval
	if err := json.Unmarshal(raw, &f, json.RejectUnknownMembers(true)); err != nil {
		return "", fmt.Errorf("%s: %w", approvalPath(dir), err)
	}
	if f.Digest != c.Digest() {
		return "", fmt.Errorf("the catalog was changed between init and the first start: put it back, or delete %s and run gatebook init again", approvalPath(dir))
	}
	sig, err := base64.StdEncoding.DecodeString(f.Signature)
	if err != nil {
		return "", fmt.Errorf("%s: %w", approvalPath(dir), err)
	}
	key, err := nkeys.FromPublicKey(string(c.Catalog().People[f.Person].ApproveKey))
	if err == nil {
		err = key.Verify(approvalText(f.Digest), sig)
	}
	if err != nil {
		return "", fmt.Errorf("the approval of the first catalog is not signed by %s: %w", events.Quote(string(f.Person)), err)
	}
	return f.Person, nil
}

// firstPerson is who makes the folder: --as, else the user's name where that
// can be an id.
func (a *App) firstPerson() (events.PersonID, error) {
	name := a.flags.as
	if name == "" {
		name = strings.ToLower(a.Getenv("USER"))
		if _, err := events.ParsePersonID(name); err != nil {
			name = "owner"
		}
	}
	id, err := events.ParsePersonID(name)
	if err != nil {
		return "", usageError{err}
	}
	return id, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return abs, nil
}

// inside says whether path is root or below it.
func inside(path, root string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

// damagedFolder says what is missing in a folder that has no incarnation.
func damagedFolder(dir *datadir.Dir) error {
	if exists(dir.Head()) {
		return &integrity.Damage{Reason: "the folder has a head and no incarnation"}
	}
	return nil
}

// macKey is the key of the folder's digests. One that is lost is never made anew:
// no call could be compared with what the book holds of it.
func macKey(dir *datadir.Dir) (*identity.MACKey, error) {
	key, err := identity.LoadMACKey(dir.Keys())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, identity.ErrKey) {
		err = fmt.Errorf("the key of the book's digests of arguments and results is lost: %w; a new one would compare with none of them, so put keys/mac back from a copy of the folder", err)
	}
	return key, err
}

func (a *App) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Make a data folder and your keys, without running the engine",
		Long: `Make the data folder with a commented catalog, the keys of its first person
(approver, supervisor and operator in one), and that person's approval of the
first catalog. The passphrase comes from the terminal or from the file that
GATEBOOK_PASSPHRASE_FILE names.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := datadir.Open(a.flags.dir, false)
			if err == nil {
				if _, err := dir.ReadIncarnation(); err == nil {
					return fmt.Errorf("%s is a data folder already: run gatebook serve", dir.Path())
				}
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			dir, who, err := a.makeFolder(cmd.Context())
			if err != nil {
				return err
			}
			_, keys, err := a.people()
			if err != nil {
				return err
			}
			if a.flags.json {
				return a.printJSON(struct {
					Dir    string `json:"dir"`
					Person string `json:"person"`
					Keys   string `json:"keys"`
				}{dir.Path(), string(who), keys})
			}
			fmt.Fprintf(a.Out, "made %s; you are %s, your keys are in %s\nnext: %s\n", dir.Path(), who, keys, a.command("serve"))
			return nil
		},
	}
}
