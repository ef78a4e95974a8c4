package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nkeys"

	"gatebook/events"
	"gatebook/policy"
)

// compile is policy.Compile, and a fault for each public key that nobody can
// have. One wrong letter makes such a key: put in force, it would lock its owner
// out. Policy asks only for the form, so that what is in force stays readable.
func compile(c policy.Catalog, extra []string) (*policy.Compiled, error) {
	compiled, err := policy.Compile(c, extra...)
	faulty := map[string]bool{}
	for _, f := range faultsOf(err) {
		faulty[f.Path] = true
	}
	var wrong []error
	key := func(path string, k events.PublicKey) {
		if k != "" && !faulty[path] && !nkeys.IsValidPublicUserKey(string(k)) {
			wrong = append(wrong, &policy.Fault{Path: path, Text: fmt.Sprintf("the checksum of the public key %s is wrong, so nobody has this key: a letter of it was changed", events.Quote(string(k)))})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.Agents)) {
		key("agents."+string(id)+".key", c.Agents[id].Key)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Channels)) {
		key("channels."+string(id)+".key", c.Channels[id].Key)
	}
	for _, id := range slices.Sorted(maps.Keys(c.People)) {
		key("people."+string(id)+".key", c.People[id].Key)
		key("people."+string(id)+".approve_key", c.People[id].ApproveKey)
	}
	if wrong == nil {
		return compiled, err
	}
	return nil, errors.Join(append([]error{cmp.Or(err, policy.ErrCatalog)}, wrong...)...)
}
