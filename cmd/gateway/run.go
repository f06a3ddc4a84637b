package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/sallyport-dev/sallyport/internal/api"
	"github.com/sallyport-dev/sallyport/internal/delivery"
	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/idempotency"
	"github.com/sallyport-dev/sallyport/internal/outbox"
	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/settings"
	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// endpointLimit is how many endpoints a tenant may have.
const endpointLimit = 1000

// dispatchConns is the pool of what moves events on: the relay's pass, the dispatcher's batch, the look-ups of jobs,
// the heartbeat and the reconciler, each one at a time. Its statements all go by an index.
const dispatchConns = 8

// listeners are where a process serves. api is nil in one without that role.
type listeners struct{ api, ops net.Listener }

// gateway is a process, put together: what an event passes through stands here in its order.
type gateway struct {
	settings *settings.Settings
	log      *slog.Logger
	id       uuid.UUID // new at each start

	pool     *pgxpool.Pool
	dispatch *pgxpool.Pool // of the relay and the dispatcher

	authority  *tenant.Authority
	endpoints  *endpoint.Store
	client     *egress.Client
	dispatcher *delivery.Dispatcher // nil without the role worker
	jobs       *river.Client[pgx.Tx]
	relay      *outbox.Relay // nil without the role relay
	writer     *outbox.Writer
	keys       *idempotency.Keys
	heart      *delivery.Process
	listener   *postgres.Listener
	api        *api.Server
}

// run is a process from its start to its end. ready is called once it serves.
func run(ctx context.Context, s *settings.Settings, log *slog.Logger, l listeners, ready func()) (err error) {
	g := &gateway{settings: s, log: log, id: uuid.New()}
	defer g.close()
	if idle := s.Idle(); len(idle) > 0 {
		log.Warn("nothing goes by these settings yet", "settings", idle)
	}
	if err := g.open(ctx); err != nil {
		return errors.Join(err, l.close())
	}
	if err := g.assemble(ctx, l); err != nil {
		return errors.Join(err, l.close())
	}
	parts := newStages(log)
	g.start(ctx, parts, l)
	log.Info("serving", "process_id", g.id, "roles", s.Roles, "ops", l.ops.Addr().String(), "api", l.apiAddr())
	ready()
	failed := parts.wait(ctx)
	if g.api != nil {
		g.api.Drain()
	}
	return errors.Join(failed, parts.stop())
}

func (l listeners) apiAddr() string {
	if l.api == nil {
		return ""
	}
	return l.api.Addr().String()
}

func (l listeners) close() error {
	var err error
	for _, one := range []net.Listener{l.api, l.ops} {
		if one != nil {
			err = errors.Join(err, one.Close())
		}
	}
	return err
}

// open reaches the database, and refuses one whose schema is another version's.
func (g *gateway) open(ctx context.Context) (err error) {
	g.pool, err = postgres.Open(ctx, postgres.Config{URL: g.settings.DatabaseURL.Reveal(), MaxConns: int32(g.settings.DatabasePool), ApplicationName: "gateway"})
	if err != nil {
		return err
	}
	pending, err := postgres.Pending(ctx, g.pool)
	if err != nil {
		return err
	}
	if pending > 0 {
		return fmt.Errorf("the database lacks %d migrations of this version; run: gateway migrate up", pending)
	}
	if err := delivery.EnsurePartitions(ctx, g.pool); err != nil {
		return err
	}
	g.dispatch, err = postgres.Open(ctx, postgres.Config{
		URL: g.settings.DatabaseURL.Reveal(), MaxConns: dispatchConns, ApplicationName: "gateway dispatch", RuntimeParams: delivery.PlannerSettings(),
	})
	return err
}

// assemble makes the parts, in the order in which an event meets them from its end: each is told of the next.
func (g *gateway) assemble(ctx context.Context, l listeners) error {
	s := g.settings
	keyring, err := signing.ParseKeyring(s.SecretKeys.Reveal())
	if err != nil {
		return fmt.Errorf("read SECRET_KEYS: %w", err)
	}
	g.authority = newAuthority(s, g.pool, keyring, g.log)
	if err := g.authority.EnsureKey(ctx); err != nil {
		return err
	}
	guard := egressPolicy(s, l)
	g.endpoints = endpoint.NewStore(g.pool, keyring, guard, endpointLimit)
	g.keys = idempotency.New(g.pool, keyring, s.IdempotencyTTL)

	if err := g.assembleDelivery(guard); err != nil {
		return err
	}
	var poke func()
	if s.HasRole(settings.RoleRelay) {
		fan := delivery.FanoutConfig{FailingDelay: s.FailingDelay, Policy: deliveryPolicy(s)}
		if g.dispatcher != nil {
			fan.HandOver = g.dispatcher.Look
		}
		g.relay = outbox.NewRelay(g.dispatch, outbox.RelayConfig{
			BatchEvents: s.RelayBatchEvents, BatchDeliveries: s.RelayBatchDeliveries, Poll: s.RelayPoll,
			PoisonAfter: s.PoisonAfter, BackoffMin: s.RelayBackoff.Min, BackoffMax: s.RelayBackoff.Max,
		}, g.log, delivery.NewFanout(endpoint.NewDirectory(), g.jobs, fan))
		poke = g.relay.Poke
	}
	g.writer = outbox.NewWriter(g.pool, poke)
	g.assembleHeart()
	g.assembleListener()
	return g.assembleAPI()
}

// assembleDelivery makes the dispatcher, where this process has workers, and the River client, which it always has:
// one without queues only inserts.
func (g *gateway) assembleDelivery(guard egress.Policy) (err error) {
	s := g.settings
	workers := river.NewWorkers()
	look := func([]uuid.UUID) {}
	if s.HasRole(settings.RoleWorker) {
		var resolver egress.Resolver
		if s.EgressResolver.IsValid() {
			if resolver, err = egress.NewResolver(s.EgressResolver.String()); err != nil {
				return err
			}
		}
		g.client, err = egress.NewClient(egress.Config{Policy: guard, Resolver: resolver, ConnectTimeout: s.ConnectTimeout})
		if err != nil {
			return err
		}
		runner := delivery.NewRunner(g.endpoints, g.client, deliveryPolicy(s), "Sallyport/"+version(), s.LeaseMargin, g.log)
		g.dispatcher = delivery.NewDispatcher(g.dispatch, runner, delivery.DispatcherConfig{
			Process: g.id, Workers: s.Workers, Margin: s.LeaseMargin, Grace: s.ShutdownGrace, Cut: s.ShutdownMargin,
			LookAgain: s.Reconcile.Every,
		}, g.log)
		look = g.dispatcher.Look
	}
	// Every client knows every kind, whatever it works: the leader is any of them, and discards what it doesn't know.
	river.AddWorker(workers, delivery.NewWorker(g.dispatch, g.dispatcher, s.JobTimeout))
	river.AddWorker(workers, delivery.NewReconciler(g.dispatch, deliveryPolicy(s), s.Reconcile.Overdue, look, g.log))
	river.AddWorker(workers, delivery.NewPartitionsWorker(g.pool))
	river.AddWorker(workers, outbox.NewSweepWorker(g.pool))
	river.AddWorker(workers, &expireKeys{keys: g.keys})
	config := &river.Config{
		ID: g.id.String(), Schema: "river", Workers: workers, Logger: riverLog(g.log),
		FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 250 * time.Millisecond,
		JobTimeout: s.JobTimeout, RescueStuckJobsAfter: s.RescueAfter,
		CompletedJobRetentionPeriod: s.JobsCompleted, DiscardedJobRetentionPeriod: s.JobsDiscarded, CancelledJobRetentionPeriod: s.JobsDiscarded,
	}
	if s.HasRole(settings.RoleRelay) || s.HasRole(settings.RoleWorker) {
		config.Queues = map[string]river.QueueConfig{outbox.MaintenanceQueue: {MaxWorkers: 4}}
		config.PeriodicJobs = []*river.PeriodicJob{
			every(s.RelaySweep, outbox.SweepArgs{}), every(s.Reconcile.Every, delivery.ReconcileArgs{}), every(time.Hour, delivery.PartitionsArgs{}),
			every(time.Hour, expireKeysArgs{}),
		}
	}
	if s.HasRole(settings.RoleWorker) {
		config.Queues[delivery.Queue] = river.QueueConfig{MaxWorkers: s.Workers}
	}
	g.jobs, err = river.NewClient(riverpgxv5.New(g.pool), config)
	if err != nil {
		return fmt.Errorf("make the job client: %w", err)
	}
	return nil
}

// every is a periodic job. One that comes at long intervals runs at the start too: leaders may change more often.
func every(span time.Duration, args river.JobArgs) *river.PeriodicJob {
	return river.NewPeriodicJob(river.PeriodicInterval(span), func() (river.JobArgs, *river.InsertOpts) { return args, nil },
		&river.PeriodicJobOpts{ID: args.Kind(), RunOnStart: span >= time.Hour})
}

// riverLog quietens what River says of its everyday work.
func riverLog(log *slog.Logger) *slog.Logger { return slog.New(atLeast{log.Handler(), slog.LevelWarn}) }

// atLeast lets through what has a level.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}

func (g *gateway) assembleHeart() {
	s := g.settings
	config := delivery.ProcessConfig{
		ID: g.id, Version: version(), Roles: s.Roles, Heartbeat: s.Heartbeat, DeadAfter: s.DeadAfter, Policy: deliveryPolicy(s),
	}
	if g.relay != nil {
		config.LastPass = g.relay.LastPass
	}
	if g.dispatcher != nil {
		config.TakenOver = g.dispatcher.Look
	}
	g.heart = delivery.NewProcess(g.dispatch, config, g.log)
}

func (g *gateway) assembleListener() {
	g.listener = postgres.NewListener(g.settings.DirectURL().Reveal(), g.log)
	g.listener.On(tenant.Channel, g.authority.Invalidate)
	g.listener.OnConnect(func() { g.authority.Invalidate("") })
	if g.relay != nil {
		g.listener.On(outbox.Channel, func(string) { g.relay.Poke() })
		g.listener.OnConnect(g.relay.Poke)
	}
}

func (g *gateway) assembleAPI() (err error) {
	g.api, err = api.New(api.Config{
		Authority: g.authority, Tenants: tenant.NewTenants(g.pool), Endpoints: g.endpoints,
		Outbox: g.writer, Events: outbox.NewReader(g.pool), Deliveries: delivery.NewReader(g.pool), Keys: g.keys,
		EndpointLimit: endpointLimit, RotationGrace: g.settings.RotationGrace, Checks: g.checks(), Log: g.log,
	})
	if err != nil {
		return fmt.Errorf("make the API: %w", err)
	}
	return nil
}

// checks are what readiness depends on.
func (g *gateway) checks() []api.Check {
	list := []api.Check{{Name: "database", Probe: g.pool.Ping}, {Name: "schema", Probe: func(ctx context.Context) error {
		pending, err := postgres.Pending(ctx, g.pool)
		if err == nil && pending > 0 {
			err = fmt.Errorf("%d migrations are not applied", pending)
		}
		return err
	}}}
	if g.relay != nil {
		list = append(list, api.Check{Name: "relay", Probe: func(context.Context) error {
			// The slowest a healthy relay passes is its longest back-off.
			if idle := time.Since(g.relay.LastPass()); idle > 2*g.settings.RelayBackoff.Max {
				return fmt.Errorf("no pass has ended well for %s", idle.Round(time.Second))
			}
			return nil
		}})
	}
	return list
}

// start starts the parts. They end in the opposite order: what takes requests first, what the others stand on last.
func (g *gateway) start(ctx context.Context, parts *stages, l listeners) {
	s := g.settings
	const slack = 5 * time.Second
	parts.start(ctx, "ops", slack, func(ctx context.Context) error { return serveHTTP(ctx, newHTTPServer(g.api.Ops()), l.ops, time.Second) })
	parts.start(ctx, "listener", slack, g.listener.Run)
	parts.start(ctx, "heartbeat", slack, g.heart.Run)
	if s.HasRole(settings.RoleRelay) || s.HasRole(settings.RoleWorker) {
		parts.start(ctx, "workers", s.ShutdownGrace+s.ShutdownMargin+slack, g.work)
	}
	if g.relay != nil {
		parts.start(ctx, "relay", slack, g.relay.Run)
	}
	if l.api != nil {
		parts.start(ctx, "api", 2*slack, func(ctx context.Context) error { return serveHTTP(ctx, newHTTPServer(g.api.Public()), l.api, slack) })
	}
}

// work runs the dispatcher and the River client side by side, since each waits for the other's jobs at the end.
func (g *gateway) work(ctx context.Context) error {
	dispatched := make(chan error, 1)
	if g.dispatcher != nil {
		go func() { dispatched <- g.dispatcher.Run(ctx) }()
	} else {
		dispatched <- nil
	}
	if err := g.jobs.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start the job client: %w", err)
	}
	<-ctx.Done()
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.settings.ShutdownGrace+g.settings.ShutdownMargin)
	defer cancel()
	stopped := g.jobs.Stop(within)
	if stopped != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		stopped = g.jobs.StopAndCancel(last)
	}
	return errors.Join(<-dispatched, stopped)
}

// close lets go of what open took, once nothing uses it.
func (g *gateway) close() {
	if g.authority != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := g.authority.Flush(ctx); err != nil {
			g.log.Warn("note which tokens were used", "error", err)
		}
	}
	if g.client != nil {
		g.client.Close()
	}
	for _, pool := range []*pgxpool.Pool{g.dispatch, g.pool} {
		if pool != nil {
			pool.Close()
		}
	}
}

// newHTTPServer bounds what a client may take of our time. Answers have no bound here: each request has its own.
func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
}

func deliveryPolicy(s *settings.Settings) delivery.Policy {
	p := delivery.DefaultPolicy()
	p.Schedule, p.Jitter, p.RetryAfterMax, p.DeferralsMax, p.RunMaxAge = s.RetrySchedule, s.RetryJitter, s.RetryAfterMax, s.DeferralsMax, s.RunMaxAge
	p.InternalFirst, p.InternalMax, p.InternalFor = s.InternalBackoff.Min, s.InternalBackoff.Max, s.InternalBackoff.GiveUp
	p.InterruptedFirst, p.InterruptedMax = s.InternalBackoff.Min, s.InternalBackoff.Max
	return p
}

// egressPolicy says where deliveries may go: never to ourselves.
func egressPolicy(s *settings.Settings, l listeners) egress.Policy {
	p := egress.Policy{AllowLoopback: s.EgressAllowLoopback, AllowHTTP: s.AllowHTTP, Allow: s.EgressAllow, Deny: s.EgressDeny}
	for _, r := range s.EgressPorts {
		p.Ports = append(p.Ports, egress.PortRange{First: r.From, Last: r.To})
	}
	for _, one := range []net.Listener{l.api, l.ops} {
		if one == nil {
			continue
		}
		if at, err := netip.ParseAddrPort(one.Addr().String()); err == nil {
			p.Self = append(p.Self, at)
		}
	}
	if u, err := url.Parse(s.PublicURL); err == nil && u.Host != "" {
		p.SelfHosts = append(p.SelfHosts, u.Host)
	}
	return p
}
