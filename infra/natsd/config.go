package natsd

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"gatebook/events"
	"gatebook/policy"
)

// ErrConfig marks a configuration that the server refuses to start with.
var ErrConfig = errors.New("the bus is not configured safely")

// The accounts of the engine itself. Both are for connections from inside the
// process; only AccountEngine has JetStream.
const (
	AccountEngine policy.Account = "ENGINE"
	AccountSystem policy.Account = "SYS"
)

// Every bound of the server in one place.
const (
	maxPayload = 1 << 20 // bytes of one message, headers included
	// maxPending bounds the bytes that wait for one connection. Messages of other
	// connections that would fill more than three quarters are not delivered, and
	// whoever asked hears that there are no responders: without
	// NoFastProducerStall they would make the sender wait, the engine too, and
	// then cut the receiver, the engine too. A client that reads nothing for
	// writeDeadline is cut. JetStream's own answers go up to the bound: it has
	// room for several reads of the book at once, of less than 2 MiB each.
	maxPending = 16 << 20
	// maxClients bounds logins over TCP, maxConnections all connections, so
	// that the engine's own find room, and maxPerKey the live ones of one key.
	maxClients     = 4096
	maxConnections = maxClients + 512
	maxPerKey      = 128
	maxSubs        = 1024 // subscriptions of one connection
	maxMemory      = 64 << 20
	writeDeadline  = 5 * time.Second
	authTimeout    = 2 // seconds
	pingInterval   = 30 * time.Second
	startTimeout   = 10 * time.Second
	// maxClientName is how much of a claimed connection name is kept, in bytes.
	maxClientName = 128
)

// Config says how the server runs. The functions are called from goroutines of
// the server: they MUST return soon and MUST NOT call methods of [Server].
type Config struct {
	// StoreDir is the absolute path of JetStream's folder.
	StoreDir string
	// Host is 127.0.0.1 or ::1.
	Host string
	// Port to listen on; 0 and -1 take a free one, which Restart keeps.
	Port int
	// MaxStore is how many bytes JetStream may use on disk; above 0.
	MaxStore int64
	// Authenticate gives the identity of a verified key, and false where the
	// key may not connect (any more).
	Authenticate func(events.PublicKey) (policy.Identity, bool)
	// OnConnect and OnDisconnect hear of each login that began and ended, in
	// order and one at a time; logins wait meanwhile.
	OnConnect    func(Connect)
	OnDisconnect func(Disconnect)
	// OnViolation hears of each refusal, from several goroutines at once. The
	// caller counts them: a client can cause any number.
	OnViolation func(Violation)
	// Log takes the server's own lines, escaped for a terminal; level is "info",
	// "warn", "error" or "fatal". Called from several goroutines at once.
	Log func(level, text string)
}

func (c Config) validate() error {
	switch {
	case !filepath.IsAbs(c.StoreDir):
		return fmt.Errorf("%w: store folder %s is not an absolute path", ErrConfig, events.Quote(c.StoreDir))
	case c.Host != "127.0.0.1" && c.Host != "::1":
		return fmt.Errorf("%w: host %s: only the loopback addresses 127.0.0.1 and ::1 are allowed", ErrConfig, events.Quote(c.Host))
	case c.Port < -1 || c.Port > 65535:
		return fmt.Errorf("%w: port %d", ErrConfig, c.Port)
	case c.MaxStore <= 0:
		return fmt.Errorf("%w: the size of the store must be set (got %d bytes)", ErrConfig, c.MaxStore)
	case c.Authenticate == nil || c.OnConnect == nil || c.OnDisconnect == nil || c.OnViolation == nil || c.Log == nil:
		return fmt.Errorf("%w: a function is missing", ErrConfig)
	}
	return nil
}

// options are the server's options, all but the accounts.
func (c Config) options(port int) *server.Options {
	return &server.Options{
		ServerName:             "gatebook",
		Host:                   c.Host,
		Port:                   port,
		NoSigs:                 true,
		MaxConn:                maxConnections,
		MaxSubs:                maxSubs,
		MaxPayload:             maxPayload,
		MaxPending:             maxPending,
		NoFastProducerStall:    true,
		WriteDeadline:          writeDeadline,
		AuthTimeout:            authTimeout,
		PingInterval:           pingInterval,
		JetStream:              true,
		StoreDir:               c.StoreDir,
		SyncAlways:             true,
		JetStreamMaxStore:      c.MaxStore,
		JetStreamMaxMemory:     maxMemory,
		DisableJetStreamBanner: true,
		AlwaysEnableNonce:      true,
		SystemAccount:          string(AccountSystem),
	}
}

// checkEffective compares what the server really runs with what was asked for.
func checkEffective(got *server.JetStreamConfig, c Config) error {
	switch {
	case got == nil:
		return fmt.Errorf("%w: JetStream does not run", ErrConfig)
	case !got.SyncAlways:
		return fmt.Errorf("%w: JetStream would acknowledge writes before they are on the disk", ErrConfig)
	case got.MaxStore != c.MaxStore:
		return fmt.Errorf("%w: JetStream's store is limited to %d bytes, not to %d", ErrConfig, got.MaxStore, c.MaxStore)
	case got.StoreDir != filepath.Join(c.StoreDir, server.JetStreamStoreDir):
		return fmt.Errorf("%w: JetStream stores in %s", ErrConfig, events.Quote(got.StoreDir))
	}
	return nil
}
