package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

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
	var senders map[string]string
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
			for _, name := range slices.Sorted(maps.Keys(senders)) {
				if entry.Senders == nil {
					entry.Senders = map[string]policy.Sender{}
				}
				entry.Senders[name] = policy.Sender{Principal: name, Kind: events.PrincipalUser, Profile: senders[name]}
			}
			return a.channelAdd(cmd, id, entry)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&agents, "agents", nil, `the agents it may begin rounds for; "*" is all of them`)
	f.StringToStringVar(&senders, "sender", nil, "a sender's name and the most profile of such a round: anna=work")
	f.StringVar(&guest, "guest-profile", "", "the profile of everybody else (default none, which allows nothing)")
	a.completeFlag(cmd, "agents", agentsOf)
	a.completeFlag(cmd, "guest-profile", profilesOf)
	return cmd
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
