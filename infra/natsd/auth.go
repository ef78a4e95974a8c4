package natsd

import (
	"encoding/base64"
	"net"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"gatebook/events"
	"gatebook/policy"
)

// inProcess is the network of a connection from inside the process, which no
// TCP client can have.
const inProcess = "pipe"

// authenticator decides who connects; the server asks it, and nothing else.
type authenticator struct {
	cfg      Config
	logins   *logins
	accounts map[policy.Account]*server.Account
}

// Check accepts or refuses one login. It is called from the goroutine that
// reads the connection, before anything but the login is read. It never changes
// what the client sent: a refused connection ends, and the accepted ones carry
// no claim that was not verified. (The server reads those fields from other
// goroutines, so clearing them here would be a race.)
func (a *authenticator) Check(c server.ClientAuthentication) bool {
	addr := c.RemoteAddress()
	if addr == nil || c.Kind() != server.CLIENT {
		return false
	}
	if addr.Network() == inProcess {
		return a.admitEngine(c)
	}
	user, claimed := a.admitKey(c)
	if user == nil {
		a.cfg.OnViolation(Violation{Action: ActionConnect, Remote: host(addr), Claimed: claimed})
		return false
	}
	c.RegisterUser(user)
	return true
}

// admitEngine takes a connection of this process into the account it names.
func (a *authenticator) admitEngine(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	account := a.accounts[policy.Account(o.Username)]
	if account == nil || o.Nkey != "" || o.JWT != "" {
		return false
	}
	c.RegisterUser(&server.User{Account: account})
	return true
}

// admitKey gives the user of a verified key, or nil and the key as claimed
// where that has the form of one.
func (a *authenticator) admitKey(c server.ClientAuthentication) (*server.User, events.PublicKey) {
	o := c.GetOpts()
	if !nkeys.IsValidPublicUserKey(o.Nkey) {
		return nil, ""
	}
	key := events.PublicKey(o.Nkey)
	if !signed(o.Nkey, o.Sig, c.GetNonce()) {
		return nil, key
	}
	var user *server.User
	_, ok := a.logins.admit(c.GetID(), o.Name, key, func(k events.PublicKey) (policy.Identity, bool) {
		id, known := a.cfg.Authenticate(k)
		if known {
			user = a.user(id)
		}
		return id, user != nil
	})
	if !ok {
		return nil, key
	}
	return user, key
}

// user is what the server is told about an identity, or nil where the identity
// cannot be told in full.
func (a *authenticator) user(id policy.Identity) *server.User {
	if id.Account == AccountEngine || id.Account == AccountSystem || a.accounts[id.Account] == nil {
		return nil
	}
	publish, ok := permission(id.Publish, 1)
	subscribe, ok2 := permission(id.Subscribe, 2)
	if !ok || !ok2 {
		return nil
	}
	return &server.User{
		Account:     a.accounts[id.Account],
		Permissions: &server.Permissions{Publish: publish, Subscribe: subscribe},
	}
}

// permission allows exactly the subjects listed, each perhaps followed by a
// queue where words is 2. The server takes an empty list for "all", and skips
// what it does not understand; here the first is nothing and the second an error.
func permission(subjects []string, words int) (*server.SubjectPermission, bool) {
	if len(subjects) == 0 {
		return &server.SubjectPermission{Deny: []string{">"}}, true
	}
	for _, s := range subjects {
		parts := strings.Split(s, " ")
		if len(parts) > words {
			return nil, false
		}
		for _, p := range parts {
			if !server.IsValidSubject(p) {
				return nil, false
			}
		}
	}
	return &server.SubjectPermission{Allow: append([]string(nil), subjects...)}, true
}

// signed verifies that the owner of key signed the nonce of this connection.
func signed(key, sig string, nonce []byte) bool {
	if len(nonce) == 0 {
		return false
	}
	// nats.go writes the first form, some other clients the second.
	raw, err := base64.RawURLEncoding.DecodeString(sig)
	if err != nil {
		if raw, err = base64.StdEncoding.DecodeString(sig); err != nil {
			return false
		}
	}
	pub, err := nkeys.FromPublicKey(key)
	return err == nil && pub.Verify(nonce, raw) == nil
}

func host(addr net.Addr) string {
	h, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return h
}
