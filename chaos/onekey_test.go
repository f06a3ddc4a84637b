//go:build chaos

package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sallyport-dev/sallyport/internal/gatewaytest"
	"github.com/sallyport-dev/sallyport/internal/postgres/postgrestest"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// keyed is an installation of two processes whose clients all post one event under one key.
type keyed struct {
	t      *testing.T
	db     *pgx.Conn
	in     *gatewaytest.Installation
	tenant string
	token  string

	mu        sync.Mutex
	processes [2]*gatewaytest.Gateway
}

func (k *keyed) process(i int) *gatewaytest.Gateway {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.processes[i%2]
}

// killFirst kills the first process; restart starts another one in its place.
func (k *keyed) killFirst() { k.process(0).Kill() }

func (k *keyed) restart() {
	g := k.in.Start()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.processes[0] = g
}

// post sends the event until it is answered well, at one process and then the other, beginning with the one given.
func (k *keyed) post(ctx context.Context, begin int, name string) (id string) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	body := fmt.Appendf(nil, `{"type":"keyed.%s","data":1}`, name) // no uid: the key alone keeps it one
	for try := begin; ctx.Err() == nil; try++ {
		status, answer, err := k.process(try).Call(ctx, k.token, "POST", "/v1/events", body, "Idempotency-Key", name)
		var receipt struct{ ID string }
		switch {
		case err == nil && status == 202 && json.Unmarshal(answer, &receipt) == nil:
			return receipt.ID
		case err == nil && status < 500 && status != 409: // an answer that no retry makes better
			k.t.Errorf("answered %d %s", status, answer)
			return ""
		}
		<-again.C
	}
	return ""
}

// await waits until enough transactions of this database wait for a lock of a kind.
func (k *keyed) await(ctx context.Context, kind string, enough int) {
	k.t.Helper()
	for n := 0; n < enough; {
		err := k.db.QueryRow(ctx, `
			select count(*) from pg_locks l join pg_stat_activity a using (pid)
			where not l.granted and l.locktype = $1 and a.datname = current_database()`, kind).Scan(&n)
		if err != nil {
			k.t.Fatalf("%d transactions wait for a %s lock: %v", n, kind, err)
		}
	}
}

// TestOneKeyAndAKill has 50 clients post an event under one idempotency key at two processes, and kills the one that
// carries it out: in the middle of its transaction, or when it has answered some of them.
func TestOneKeyAndAKill(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	url := postgrestest.NewURL(t)
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	k := &keyed{t: t, db: db, in: gatewaytest.InstallOn(t, url)}
	k.processes = [2]*gatewaytest.Gateway{k.in.Start(), k.in.Start()}
	k.tenant, k.token = k.in.Tenant("chaos")
	tenantID, err := typeid.Parse(typeid.Tenant, k.tenant)
	if err != nil {
		t.Fatal(err)
	}

	for round := range 6 {
		midway := round%2 == 0
		name := fmt.Sprintf("round-%d", round)
		const clients = 50
		ids := make(chan string, clients)
		var wg sync.WaitGroup
		post := func(begin int) {
			wg.Add(1)
			go func() { defer wg.Done(); ids <- k.post(ctx, begin, name) }()
		}
		var first string
		if midway {
			// Another transaction has the row where the answer will be stored: the request has written its event when it comes to
			// wait for that, and has not committed.
			holder, err := db.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := holder.Exec(ctx, `
				insert into gateway.idempotency_keys (tenant_id, key, fingerprint, status, response, expires_at)
				values ($1, $2, '', 200, '', now())`, tenantID, name); err != nil {
				t.Fatal(err)
			}
			post(0)
			k.await(ctx, "transactionid", 1)
			for i := range clients - 1 {
				post(i)
			}
			k.await(ctx, "advisory", 2) // others wait for its key
			k.killFirst()
			if err := holder.Rollback(ctx); err != nil {
				t.Fatal(err)
			}
			first = <-ids
		} else {
			for i := range clients {
				post(i)
			}
			first = <-ids
			k.killFirst()
		}
		wg.Wait()
		close(ids)
		n := 1
		for id := range ids {
			if n++; id != first || id == "" {
				t.Errorf("round %d: the ids %q and %q", round, first, id)
			}
		}
		var events, keys int
		err := db.QueryRow(ctx, `
			select (select count(*) from gateway.events where tenant_id = $1 and type = 'keyed.' || $2),
				(select count(*) from gateway.idempotency_keys where tenant_id = $1 and key = $2)`, tenantID, name).Scan(&events, &keys)
		if err != nil || n != clients || events != 1 || keys != 1 {
			t.Errorf("round %d: %d answers, %d events, %d keys, %v", round, n, events, keys, err)
		}
		k.restart()
	}
}
