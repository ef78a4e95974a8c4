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

func (l login) connect() Connect { return Connect{Identity: l.identity, Name: l.name} }

// logins are the live connections of one run of the server, by number. What a
// connection is comes from here and never from what the server says about it:
// its log lines and events repeat what the client claims. Safe for concurrent
// use.
type logins struct {
	cfg   Config     // who hears of changes
	mu    sync.Mutex // held while they are told, so that they come in order
	byCID map[uint64]login
	byKey map[events.PublicKey]map[uint64]bool
}

func newLogins(cfg Config) *logins {
	return &logins{cfg: cfg, byCID: map[uint64]login{}, byKey: map[events.PublicKey]map[uint64]bool{}}
}

// admit asks for the identity of key, enters the connection and tells, in one
// step: a key that is taken back is either refused here or found by [logins.of].
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
	entered := login{cid: cid, identity: id, name: events.Cut(name, maxClientName)}
	l.byCID[cid] = entered
	if l.byKey[key] == nil {
		l.byKey[key] = map[uint64]bool{}
	}
	l.byKey[key][cid] = true
	l.cfg.OnConnect(entered.connect())
	return id, true
}

// remove takes a connection out and tells, if it was there. Refused logins and
// the engine's own connections are not.
func (l *logins) remove(cid uint64, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone, found := l.byCID[cid]
	if !found {
		return
	}
	key := gone.identity.Key
	delete(l.byCID, cid)
	delete(l.byKey[key], cid)
	same := 0
	for other := range l.byKey[key] {
		if l.byCID[other].name == gone.name {
			same++
		}
	}
	l.cfg.OnDisconnect(Disconnect{Connect: gone.connect(), Left: len(l.byKey[key]), Same: same, Reason: reason})
	if len(l.byKey[key]) == 0 {
		delete(l.byKey, key)
	}
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
