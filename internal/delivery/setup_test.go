package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/sallyport-dev/sallyport/internal/delivery"
	"github.com/sallyport-dev/sallyport/internal/egress"
	"github.com/sallyport-dev/sallyport/internal/egress/egresstest"
	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/outbox"
	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// installation is a database, and what every process on it has in common.
type installation struct {
	db        *pgxpool.Pool
	dispatch  *pgxpool.Pool
	keyring   *signing.Keyring
	policy    egress.Policy
	endpoints *endpoint.Store
	caller    tenant.Caller
	writer    *outbox.Writer
	reader    *delivery.Reader
}

func install(t testing.TB) *installation {
	t.Helper()
	ctx := context.Background()
	db := postgrestest.New(t)
	dispatch, err := postgres.Open(ctx, postgres.Config{URL: postgrestest.URL(db), MaxConns: 8, RuntimeParams: delivery.PlannerSettings()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dispatch.Close)
	key, err := signing.NewKey("test")
	if err != nil {
		t.Fatal(err)
	}
	keyring, err := signing.ParseKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := tenant.NewTenants(db).Create(ctx, tenant.Spec{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	policy := egress.Policy{AllowLoopback: true, AllowHTTP: true}
	return &installation{
		db: db, dispatch: dispatch, keyring: keyring, policy: policy, endpoints: endpoint.NewStore(db, keyring, policy, 1000),
		caller: tenant.Caller{Tenant: made.ID, Subject: "test"}, writer: outbox.NewWriter(db, nil), reader: delivery.NewReader(db),
	}
}

// options differ from process to process; the zero value is a whole gateway with a fast clock.
type options struct {
	policy     func(*delivery.Policy)
	dispatcher delivery.DispatcherConfig
	noHandOver bool // as where relay and worker are different processes
	noRelay    bool
	noWorkers  bool
	noHeart    bool
	deadAfter  time.Duration
	net        time.Duration
}

// process is a gateway's inside: relay, dispatcher, River client and heartbeat, as serve puts them together.
type process struct {
	id         uuid.UUID
	relay      *outbox.Relay
	dispatcher *delivery.Dispatcher
	client     *river.Client[pgx.Tx]
	parts      map[string]context.CancelFunc
	wg         sync.WaitGroup
}

// fast is a schedule that a test can wait for: 18 tries in a second.
func fast(p *delivery.Policy) {
	p.Schedule = nil
	for range 17 {
		p.Schedule = append(p.Schedule, 20*time.Millisecond)
	}
}

func (in *installation) start(t testing.TB, o options) *process {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	policy := delivery.DefaultPolicy()
	fast(&policy)
	if o.policy != nil {
		o.policy(&policy)
	}
	p := &process{id: uuid.New(), parts: make(map[string]context.CancelFunc)}
	client, err := egress.NewClient(egress.Config{Policy: in.policy, Resolver: egresstest.NewResolver(t), Control: egresstest.LoopbackOnly(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	o.dispatcher.Process = p.id
	if o.dispatcher.Margin == 0 {
		o.dispatcher.Margin = 10 * time.Second
	}
	runner := delivery.NewRunner(in.endpoints, client, policy, "Sallyport/test", o.dispatcher.Margin, log)
	p.dispatcher = delivery.NewDispatcher(in.dispatch, runner, o.dispatcher, log)

	workers := river.NewWorkers()
	river.AddWorker(workers, delivery.NewWorker(in.dispatch, p.dispatcher, 0))
	river.AddWorker(workers, delivery.NewReconciler(in.dispatch, policy, 200*time.Millisecond, p.dispatcher.Look, log))
	config := &river.Config{
		ID: p.id.String(), Schema: "river", Workers: workers, Logger: log, TestOnly: true,
		FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
	}
	if !o.noWorkers {
		config.Queues = map[string]river.QueueConfig{delivery.Queue: {MaxWorkers: 200}, outbox.MaintenanceQueue: {MaxWorkers: 4}}
	}
	p.client, err = river.NewClient(riverpgxv5.New(in.db), config)
	if err != nil {
		t.Fatal(err)
	}
	fan := delivery.FanoutConfig{HandOver: p.dispatcher.Look, Policy: policy, Net: o.net}
	if o.noHandOver {
		fan.HandOver = nil
	}
	p.relay = outbox.NewRelay(in.db, outbox.RelayConfig{Poll: 50 * time.Millisecond}, log,
		delivery.NewFanout(endpoint.NewDirectory(), p.client, fan))
	heart := delivery.NewProcess(in.dispatch, delivery.ProcessConfig{ID: p.id, Roles: []string{"worker"}, Policy: policy,
		Heartbeat: 50 * time.Millisecond, DeadAfter: cmpOr(o.deadAfter, 10*time.Second), TakenOver: p.dispatcher.Look}, log)

	if !o.noHeart {
		p.run(t, "heart", heart.Run)
	}
	if !o.noWorkers {
		p.run(t, "dispatcher", p.dispatcher.Run)
		p.run(t, "river", func(ctx context.Context) error {
			if err := p.client.Start(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			<-ctx.Done()
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			return p.client.StopAndCancel(end)
		})
	}
	if !o.noRelay {
		p.run(t, "relay", p.relay.Run)
	}
	t.Cleanup(p.stop)
	return p
}

func cmpOr(d, other time.Duration) time.Duration {
	if d == 0 {
		return other
	}
	return d
}

func (p *process) run(t testing.TB, name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p.parts[name] = cancel
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}()
}

func (p *process) stop() {
	for _, cancel := range p.parts {
		cancel()
	}
	p.wg.Wait()
}

// receiver answers as it is told, and keeps what arrived.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*request
	inFlight int
	most     int // requests in flight at once
	arrived  chan struct{}
}

type request struct {
	header http.Header
	body   []byte
}

func receive(t testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	rx := &receiver{arrived: make(chan struct{}, 1)}
	rx.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rx.mu.Lock()
		rx.requests = append(rx.requests, &request{r.Header.Clone(), body})
		n := len(rx.requests)
		rx.inFlight++
		rx.most = max(rx.most, rx.inFlight)
		rx.mu.Unlock()
		select {
		case rx.arrived <- struct{}{}:
		default:
		}
		answer(n, w, r)
		rx.mu.Lock()
		rx.inFlight--
		rx.mu.Unlock()
	}))
	t.Cleanup(rx.Close)
	return rx
}

func (rx *receiver) got() []*request {
	rx.mu.Lock()
	defer rx.mu.Unlock()
	return append([]*request(nil), rx.requests...)
}

func status(code int) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func (in *installation) endpoint(t testing.TB, url string, change ...func(*endpoint.Spec)) (endpoint.Endpoint, signing.Secret) {
	t.Helper()
	spec := endpoint.Spec{URL: url, Types: []string{"**"}}
	for _, c := range change {
		c(&spec)
	}
	e, secret, err := in.endpoints.Create(context.Background(), in.caller, spec)
	if err != nil {
		t.Fatalf("create an endpoint: %v", err)
	}
	return e, secret
}

func (in *installation) post(t testing.TB, typ string, scopes ...string) uuid.UUID {
	t.Helper()
	r, err := in.writer.Accept(context.Background(), outbox.Post{TenantID: in.caller.Tenant, Type: typ, Scopes: scopes, Data: []byte(`{"n": 1.0}`)})
	if err != nil {
		t.Fatalf("accept: %v", err)
	}
	return r.ID
}

// delivery reads the one delivery of an event for an endpoint.
func (in *installation) delivery(t testing.TB, event, ep uuid.UUID) (delivery.Delivery, bool) {
	t.Helper()
	list, _, err := in.reader.List(context.Background(), in.caller.Tenant, delivery.ListQuery{Limit: 2, EventID: &event, EndpointID: &ep})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		return delivery.Delivery{}, false
	}
	return list[0], true
}

// await waits for a delivery's state.
func (in *installation) await(t testing.TB, event, ep uuid.UUID, want delivery.State) delivery.Delivery {
	t.Helper()
	var d delivery.Delivery
	in.eventually(t, func() string {
		var ok bool
		if d, ok = in.delivery(t, event, ep); !ok {
			return "there is no delivery"
		}
		if d.State != want {
			return fmt.Sprintf("the delivery is %s, want %s", d.State, want)
		}
		return ""
	})
	return d
}

// eventually looks again until a condition holds; it says what is missing.
func (in *installation) eventually(t testing.TB, missing func() string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		text := missing()
		if text == "" {
			return
		}
		select {
		case <-deadline:
			t.Fatal(text)
		case <-tick.C:
		}
	}
}

func (in *installation) attempts(t testing.TB, d delivery.Delivery) []delivery.Attempt {
	t.Helper()
	list, _, err := in.reader.Attempts(context.Background(), in.caller.Tenant, d.ID, 200, 0)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (in *installation) count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	if err := in.db.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (in *installation) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := in.db.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// settled checks what must hold once nothing is under way: no lease, no line, no count left over.
func (in *installation) settled(t testing.TB) {
	t.Helper()
	in.eventually(t, func() string {
		if n := in.count(t, `select count(*) from gateway.leases`); n != 0 {
			return fmt.Sprintf("%d leases are left", n)
		}
		if n := in.count(t, `select coalesce(sum(in_flight), 0) from gateway.endpoint_state`); n != 0 {
			return fmt.Sprintf("%d leases are counted", n)
		}
		if n := in.count(t, `select count(*) from gateway.line`); n != 0 {
			return fmt.Sprintf("%d are in line", n)
		}
		return ""
	})
}
