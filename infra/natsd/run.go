package natsd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"gatebook/events"
	"gatebook/policy"
)

// run is one life of the server, from a start to a stop.
type run struct {
	cfg    Config
	ns     *server.Server
	logins *logins
	auth   *authenticator
	stop   context.CancelFunc // of watch
	done   sync.WaitGroup
	ended  chan struct{} // closed when the server has ended
}

// startRun brings a server up, checked and with its accounts.
func startRun(cfg Config, port int) (*run, error) {
	r := &run{cfg: cfg, logins: newLogins(cfg), stop: func() {}, ended: make(chan struct{})}
	opts := cfg.options(port)
	auth := &authenticator{cfg: cfg, logins: r.logins, accounts: map[policy.Account]*server.Account{}}
	opts.CustomClientAuthentication, r.auth = auth, auth
	names := []policy.Account{AccountEngine, AccountSystem, policy.AccountAgents,
		policy.AccountChannels, policy.AccountTools, policy.AccountPeople}
	for _, name := range names {
		opts.Accounts = append(opts.Accounts, server.NewAccount(string(name)))
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("start the bus: %w", err)
	}
	r.ns = ns
	for _, name := range names { // the server works with copies of the accounts
		if auth.accounts[name], err = ns.LookupAccount(string(name)); err != nil {
			return nil, fmt.Errorf("start the bus: account %s: %w", name, err)
		}
	}
	lines := &logger{cfg: cfg, logins: r.logins, failed: make(chan string, 1)}
	ns.SetLoggerV2(lines, false, false, false)
	if err := r.bringUp(lines, auth.accounts[AccountEngine]); err != nil {
		r.shutdown()
		return nil, fmt.Errorf("start the bus: %w", err)
	}
	return r, nil
}

func (r *run) bringUp(lines *logger, engine *server.Account) error {
	r.ns.Start()
	select {
	case text := <-lines.failed:
		return errors.New(events.Escape(text))
	default:
	}
	if !r.ns.ReadyForConnections(startTimeout) {
		return fmt.Errorf("not ready after %v", startTimeout)
	}
	if err := checkEffective(r.ns.JetStreamConfig(), r.cfg); err != nil {
		return err
	}
	if err := engine.EnableJetStream(nil, nil); err != nil {
		return fmt.Errorf("JetStream of the engine's account: %w", err)
	}
	return r.listen()
}

// listen starts the one goroutine of the run.
func (r *run) listen() error {
	nc, err := r.connect(AccountSystem)
	if err != nil {
		return err
	}
	sub, err := nc.SubscribeSync(disconnects)
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		nc.Close()
		return fmt.Errorf("listen to disconnects: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	r.done.Go(func() {
		defer nc.Close()
		r.watch(ctx, sub)
	})
	return nil
}

// connect opens a connection from inside the process into an account.
func (r *run) connect(account policy.Account) (*nats.Conn, error) {
	if r.auth.accounts[account] == nil {
		return nil, fmt.Errorf("%w: there is no account %s", ErrConfig, events.Quote(string(account)))
	}
	nc, err := nats.Connect("", nats.InProcessServer(r.ns),
		nats.UserInfo(string(account), ""),
		nats.Name("engine "+string(account)),
		nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			r.cfg.Log("error", events.Escape(fmt.Sprintf("engine connection to %s: %v", account, err)))
		}))
	if err != nil {
		return nil, fmt.Errorf("connect the engine to %s: %w", account, err)
	}
	return nc, nil
}

// shutdown ends the server; it returns when everything has ended. It is called
// once.
func (r *run) shutdown() {
	defer close(r.ended)
	r.stop()
	r.done.Wait()
	r.ns.Shutdown()
	r.ns.WaitForShutdown()
}
