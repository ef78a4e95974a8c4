package config

import (
	_ "embed"
	"strings"

	"gatebook/events"
)

//go:embed first.yaml
var first string

// Keys are the two public keys of a person.
type Keys struct {
	Key        events.PublicKey
	ApproveKey events.PublicKey
}

// First is the catalog of a new folder, with comments for a newcomer: the
// person is approver, supervisor and operator in one and talks over the channel
// terminal; there is no agent yet.
func First(person events.PersonID, keys Keys, channelKey events.PublicKey) []byte {
	return []byte(strings.NewReplacer(
		"PERSON-KEY", string(keys.Key),
		"APPROVE-KEY", string(keys.ApproveKey),
		"CHANNEL-KEY", string(channelKey),
		"PERSON-ID", quoted(string(person)),
	).Replace(first))
}
