package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/infra/config"
	"gatebook/infra/identity"
	"gatebook/policy"
)

func (a *App) channelCommand() *cobra.Command {
	cmd := group(&cobra.Command{Use: "channel", Short: "Add what brings inputs to agents"})
	cmd.AddCommand(a.channelAddCommand())
	return cmd
}

func (a *App) channelAddCommand() *cobra.Command {
	var agents []string
	var senders []string
	var guest string
	cmd := &cobra.Command{
		Use:   "add NAME --agents A,B",
		Short: "Add a channel to the catalog, and approve that where you can",
		Long: `Make the channel's key in the data folder, add its entry to gatebook.yaml, and
put exactly that change in force, as agent add does. Who is not named by
--sender is the channel's guest.

  gatebook channel add chat --agents alice --sender anna=work --guest-profile guest`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			id, err := events.ParseChannelID(given[0])
			if err != nil {
				return usageError{err}
			}
			if len(agents) == 0 {
				return usageError{errors.New(`--agents is missing: name the agents that the channel may begin rounds for; "*" is all of them`)}
			}
			entry := policy.Channel{Agents: agents, Guest: policy.Guest{Profile: guest}}
			if entry.Senders, err = sendersFlag(senders); err != nil {
				return usageError{err}
			}
			return a.channelAdd(cmd, id, entry)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&agents, "agents", nil, `the agents it may begin rounds for; "*" is all of them`)
	f.StringSliceVar(&senders, "sender", nil, "a sender's name and the most profile of such a round: anna=work")
	f.StringVar(&guest, "guest-profile", "", "the profile of everybody else (default none, which allows nothing)")
	a.completeFlag(cmd, "agents", agentsOf)
	a.completeFlag(cmd, "guest-profile", profilesOf)
	return cmd
}

// sendersFlag reads NAME=PROFILE; a name twice could be meant either way.
func sendersFlag(given []string) (map[string]policy.Sender, error) {
	if len(given) == 0 {
		return nil, nil
	}
	all := map[string]policy.Sender{}
	for _, s := range given {
		name, profile, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("--sender %s: want NAME=PROFILE, such as anna=work", events.Quote(s))
		}
		if _, double := all[name]; double {
			return nil, fmt.Errorf("--sender %s: this sender is named twice", events.Quote(name))
		}
		all[name] = policy.Sender{Principal: name, Kind: events.PrincipalUser, Profile: profile}
	}
	return all, nil
}

func (a *App) channelAdd(cmd *cobra.Command, id events.ChannelID, entry policy.Channel) error {
	p, err := a.acting()
	if err != nil {
		return err
	}
	defer p.close()
	out, err := p.add(cmd.Context(), "channels."+string(id), func(data []byte) ([]byte, error) {
		return p.withKey(identity.ChannelKey(p.dir.Keys(), id), func(key events.PublicKey) ([]byte, error) {
			entry.Key = key
			return config.AddChannel(data, id, entry, toolNames(a.Extra)...)
		})
	})
	if err != nil {
		return err
	}
	return a.sayChange(out, fmt.Sprintf("channel %s is in force", id))
}
