package natsd

import (
	"sync"

	"gatebook/events"
	"gatebook/policy"
)

// login is one live connection with a verified key.
type login struct {
	cid      uint64 // the server's number of the connection
	identity policy.Identity
	name     string // claimed
}

// logins are the live connections of one run of the server, by number. What a
// connection is comes from here and never from what the server says about it:
// its log lines and events repeat what the client claims. Safe for concurrent
// use.
type logins struct {
	mu    sync.Mutex
	byCID map[uint64]login
	byKey map[events.PublicKey]map[uint64]bool
}

func newLogins() *logins {
	return &logins{byCID: map[uint64]login{}, byKey: map[events.PublicKey]map[uint64]bool{}}
}

// admit asks for the identity of key and enters the connection, in one step: a
// key that is taken back is either refused here or found by [logins.of].
func (l *logins) admit(cid uint64, name string, key events.PublicKey, ask func(events.PublicKey) (policy.Identity, bool)) (policy.Identity, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, second := l.byCID[cid]; second || len(l.byCID) >= maxClients || len(l.byKey[key]) >= maxPerKey {
		return policy.Identity{}, false
	}
	id, ok := ask(key)
	if !ok || id.Key != key {
		return policy.Identity{}, false
	}
	if len(name) > maxClientName {
		name = name[:maxClientName]
	}
	l.byCID[cid] = login{cid: cid, identity: id, name: name}
	if l.byKey[key] == nil {
		l.byKey[key] = map[uint64]bool{}
	}
	l.byKey[key][cid] = true
	return id, true
}

// remove takes a connection out and says how many of its key are left.
func (l *logins) remove(cid uint64) (gone login, left int, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone, found = l.byCID[cid]
	if !found {
		return login{}, 0, false
	}
	key := gone.identity.Key
	delete(l.byCID, cid)
	delete(l.byKey[key], cid)
	if len(l.byKey[key]) == 0 {
		delete(l.byKey, key)
	}
	return gone, len(l.byKey[key]), true
}

func (l *logins) get(cid uint64) (policy.Identity, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.byCID[cid]
	return found.identity, ok
}

// of lists the connections of a key.
func (l *logins) of(key events.PublicKey) []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var cids []uint64
	for cid := range l.byKey[key] {
		cids = append(cids, cid)
	}
	return cids
}

// all lists every connection.
func (l *logins) all() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var cids []uint64
	for cid := range l.byCID {
		cids = append(cids, cid)
	}
	return cids
}
