//go:build chaos

package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/gatewaytest"
	"github.com/sallyport-dev/sallyport/internal/gatewaytest/checker"
	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
)

// allowance is how many deliveries of an endpoint are in flight at most: what a kill may repeat.
const allowance = 10

// heal is how long after a restart the last event that was answered before it may take.
const heal = 15 * time.Second

// reports are the rows of the table.
var reports = struct {
	sync.Mutex
	rows map[string]checker.Report
}{rows: make(map[string]checker.Report)}

func TestMain(m *testing.M) {
	code := m.Run()
	checker.Table(os.Stdout, reports.rows)
	os.Exit(code)
}

// fleet is the processes that run now.
type fleet struct {
	mu      sync.Mutex
	running []*gatewaytest.Gateway
}

func (f *fleet) now() []*gatewaytest.Gateway {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*gatewaytest.Gateway(nil), f.running...)
}

func (f *fleet) set(running ...*gatewaytest.Gateway) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = running
}

// scene is a tenant with two endpoints, one of which wants half of the events, and a producer.
type scene struct {
	fleet     *fleet
	receiver  *gatewaytest.Receiver
	producer  *gatewaytest.Producer
	endpoints []checker.Endpoint
	tenant    string
	token     string
}

func stage(t *testing.T, in *gatewaytest.Installation, running ...*gatewaytest.Gateway) *scene {
	t.Helper()
	s := &scene{fleet: &fleet{}, receiver: gatewaytest.NewReceiver(t)}
	s.fleet.set(running...)
	s.tenant, s.token = in.Tenant("chaos")
	s.endpoints = []checker.Endpoint{
		s.receiver.Endpoint(t, running[0], s.tenant, s.token, "**", func(string) bool { return true }),
		s.receiver.Endpoint(t, running[0], s.tenant, s.token, "b.*", func(typ string) bool { return strings.HasPrefix(typ, "b.") }),
	}
	s.receiver.Script("", func(int) gatewaytest.Reply { return gatewaytest.Reply{Delay: 2 * time.Millisecond} })
	s.producer = gatewaytest.NewProducer(s.fleet.now, s.tenant, s.token, 16)
	return s
}

// check waits for the end of all deliveries, and holds the run to its bounds.
func (s *scene) check(ctx context.Context, t *testing.T, name string, lastFault time.Time, duplicates int) {
	t.Helper()
	gatewaytest.Settled(ctx, t, s.fleet.now, s.token)
	run := checker.Run{Posts: s.producer.Posts(), Endpoints: s.endpoints, Requests: s.receiver.Requests(), LastFault: lastFault}
	if err := gatewaytest.Export(ctx, s.fleet.now()[0], s.tenant, s.token, &run); err != nil {
		t.Fatalf("read what the API says: %v", err)
	}
	r := checker.Check(run)
	reports.Lock()
	reports.rows[name] = r
	reports.Unlock()
	r.Hold(t, checker.Bounds{Duplicates: duplicates, Heal: heal})
}

// TestKillGateway kills the only process at random, ten times during 2,000 events, and starts it again at once.
func TestKillGateway(t *testing.T) {
	const events, kills = 2000, 10
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	in := gatewaytest.Install(t)
	s := stage(t, in, in.Start())
	done := make(chan struct{})
	go func() { defer close(done); s.producer.Run(ctx, events) }()
	var lastFault time.Time
	for k := 1; k <= kills; k++ {
		// At random, and each at a later part of the run.
		at := (k-1)*events/kills + rand.IntN(events/kills)
		s.producer.Await(ctx, at)
		s.fleet.now()[0].Kill()
		s.fleet.set()
		g := in.Launch()
		s.fleet.set(g)
		g.AwaitReady()
		lastFault = time.Now()
	}
	<-done
	s.check(ctx, t, fmt.Sprintf("kill -9 of the gateway, %d times", kills), lastFault, kills*allowance*len(s.endpoints))
}

// TestKillOneOfTwo kills one of two processes; the other one takes over, and nobody starts the first again.
func TestKillOneOfTwo(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	in := gatewaytest.Install(t)
	first, second := in.Start(), in.Start()
	s := stage(t, in, first, second)
	done := make(chan struct{})
	go func() { defer close(done); s.producer.Run(ctx, 1500) }()
	s.producer.Await(ctx, 500)
	first.Kill()
	lastFault := time.Now()
	s.fleet.set(second)
	<-done
	s.check(ctx, t, "kill -9 of one of two", lastFault, allowance*len(s.endpoints))
}

// TestRestartPostgres restarts the database three times under load, without letting it end in order.
func TestRestartPostgres(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	server := postgrestest.Server(t)
	pool, err := postgres.Open(ctx, postgres.Config{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(ctx, pool); err != nil {
		t.Fatal(err)
	}
	pool.Close()
	in := gatewaytest.InstallOn(t, server.URL())
	s := stage(t, in, in.Start())
	done := make(chan struct{})
	const events, restarts = 2000, 3
	go func() { defer close(done); s.producer.Run(ctx, events) }()
	var lastFault time.Time
	for k := 1; k <= restarts; k++ {
		s.producer.Await(ctx, k*events/(restarts+1))
		server.Crash()
		if err := server.Restart(ctx); err != nil {
			t.Fatalf("restart PostgreSQL: %v", err)
		}
		lastFault = time.Now()
	}
	<-done
	s.check(ctx, t, fmt.Sprintf("PostgreSQL restarted (immediate), %d times", restarts), lastFault, restarts*allowance*len(s.endpoints))
}
