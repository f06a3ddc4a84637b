package delivery_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/delivery"
)

// frozen starts a process that looks alive for one beat and never beats again, as one that stands still does.
func (in *installation) frozen(t *testing.T, o options) *process {
	t.Helper()
	o.noHeart = true
	p := in.start(t, o)
	in.exec(t, `insert into gateway.processes (id, host, pid, version, roles, beat) values ($1, 'test', 1, 'test', '{worker}', 1)`, p.id)
	return p
}

// gate is a receiver whose first request waits, and then gets its own answer.
type gate struct {
	*receiver
	open  chan struct{}
	first int // its answer
}

func gated(t *testing.T, first, others int) *gate {
	g := &gate{open: make(chan struct{}), first: first}
	g.receiver = receive(t, func(n int, w http.ResponseWriter, r *http.Request) {
		code := others
		if n == 1 {
			code = g.first
			select {
			case <-g.open:
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(code)
	})
	return g
}

func (in *installation) awaitRequests(t *testing.T, rx *receiver, n int) {
	t.Helper()
	in.eventually(t, func() string {
		if len(rx.got()) < n {
			return "the request has not arrived"
		}
		return ""
	})
}

func TestTakeOver(t *testing.T) {
	t.Parallel()

	t.Run("a frozen process's delivery goes on elsewhere, and its late result changes nothing but its own row", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := gated(t, 500, 200)
		ep, _ := in.endpoint(t, rx.URL)
		in.frozen(t, options{})
		event := in.post(t, "a")
		in.awaitRequests(t, rx.receiver, 1)
		in.start(t, options{deadAfter: 300 * time.Millisecond, noRelay: true})
		d := in.await(t, event, ep.ID, delivery.Succeeded)
		list := in.attempts(t, d)
		if len(list) != 2 || list[1].Outcome != delivery.OutcomeInterrupted || list[1].Sent != delivery.SentUnknown || list[1].Try != nil ||
			list[0].Number != 2 || *list[0].Try != 1 {
			t.Fatalf("after the take-over: %+v", list)
		}
		in.settled(t)
		close(rx.open) // the process wakes, and records a failure
		in.eventually(t, func() string {
			if a := in.attempts(t, d)[1]; a.Class != delivery.Class5xx || a.Sent != delivery.SentYes || *a.Status != 500 {
				return "the late result does not stand on its row"
			}
			return ""
		})
		if after, _ := in.delivery(t, event, ep.ID); after.State != delivery.Succeeded || after.Tries != 1 || after.Attempts != 2 {
			t.Errorf("the late failure changed the delivery: %+v", after)
		}
		if n := in.count(t, `select count(*) from gateway.endpoint_state where failing_since is not null`); n != 0 {
			t.Error("the late failure counts for health")
		}
		in.settled(t)
	})

	t.Run("a process that wakes does not free the lease of its successor", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		gates := []chan struct{}{make(chan struct{}), make(chan struct{})}
		rx := receive(t, func(n int, w http.ResponseWriter, r *http.Request) {
			select {
			case <-gates[n-1]:
			case <-r.Context().Done():
			}
			w.WriteHeader([]int{500, 200}[n-1])
		})
		ep, _ := in.endpoint(t, rx.URL)
		in.frozen(t, options{})
		event := in.post(t, "a")
		in.awaitRequests(t, rx, 1)
		successor := in.start(t, options{deadAfter: 300 * time.Millisecond, noRelay: true})
		in.awaitRequests(t, rx, 2)
		close(gates[0])
		in.eventually(t, func() string {
			d, _ := in.delivery(t, event, ep.ID)
			if a := in.attempts(t, d); len(a) == 0 || a[len(a)-1].Class != delivery.Class5xx {
				return "the late result does not stand on its row"
			}
			return ""
		})
		if n := in.count(t, `select count(*) from gateway.leases where process_id = $1 and number = 2`, successor.id); n != 1 {
			t.Error("the successor's lease is gone")
		}
		if n := in.count(t, `select in_flight from gateway.endpoint_state`); n != 1 {
			t.Errorf("%d leases are counted", n)
		}
		close(gates[1])
		d := in.await(t, event, ep.ID, delivery.Succeeded)
		if d.Attempts != 2 || d.Tries != 1 || len(rx.got()) != 2 {
			t.Errorf("%+v, %d requests", d, len(rx.got()))
		}
		in.settled(t)
	})

	t.Run("a late 2xx still ends the delivery", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := gated(t, 200, 500)
		ep, _ := in.endpoint(t, rx.URL)
		in.frozen(t, options{})
		event := in.post(t, "a")
		in.awaitRequests(t, rx.receiver, 1)
		in.start(t, options{deadAfter: 300 * time.Millisecond, noRelay: true, policy: func(p *delivery.Policy) {
			p.Schedule = delivery.DefaultSchedule()
			p.Schedule[0] = time.Hour
		}})
		in.await(t, event, ep.ID, delivery.Retrying) // the second attempt failed, the third is an hour away
		close(rx.open)
		d := in.await(t, event, ep.ID, delivery.Succeeded)
		if list := in.attempts(t, d); len(list) != 2 || list[1].Class != delivery.ClassOK || list[0].Class != delivery.Class5xx {
			t.Errorf("%+v", list)
		}
		in.settled(t)
		if n := len(rx.got()); n != 2 {
			t.Errorf("%d requests", n)
		}
	})

	t.Run("a dead process's running jobs ring again, unspent", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := gated(t, 200, 200)
		ep, _ := in.endpoint(t, rx.URL)
		in.frozen(t, options{noHandOver: true})
		event := in.post(t, "a")
		in.awaitRequests(t, rx.receiver, 1)
		in.eventually(t, func() string {
			if in.count(t, `select count(*) from river.river_job where state = 'running' and kind = 'webhook.deliver'`) != 1 {
				return "River is not running the job"
			}
			return ""
		})
		in.start(t, options{deadAfter: 300 * time.Millisecond, noRelay: true})
		in.await(t, event, ep.ID, delivery.Succeeded)
		if n := in.count(t, `select count(*) from river.river_job where attempt > 1 and kind = 'webhook.deliver'`); n != 0 {
			t.Error("the take-over spent an attempt of the job")
		}
		close(rx.open)
		in.settled(t)
	})

	t.Run("nobody is judged by an observer whose own beats failed", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		// The other process beats slowly; the observer's look at it is older than DeadAfter, but the observer
		// itself beat no more often.
		other := uuid.New()
		in.exec(t, `insert into gateway.processes (id, host, pid, version, roles, beat) values ($1, 'test', 1, 'test', '{worker}', 1)`, other)
		in.exec(t, `alter table gateway.processes rename to processes_away`)
		in.start(t, options{deadAfter: 200 * time.Millisecond, noRelay: true, noWorkers: true})
		in.exec(t, `alter table gateway.processes_away rename to processes`)
		in.eventually(t, func() string { // judged in the end, when it has been watched without a gap
			if in.count(t, `select count(*) from gateway.processes where id = $1 and ended_at is not null`, other) != 1 {
				return "the dead process was never taken over"
			}
			return ""
		})
		if n := in.count(t, `select count(*) from gateway.processes p, gateway.processes q where p.id = $1 and q.id <> $1 and p.ended_at < q.started_at + interval '200 milliseconds'`, other); n != 0 {
			t.Error("it was judged before it had been watched for long enough")
		}
	})
}

func TestRescue(t *testing.T) {
	t.Parallel()
	in := install(t)
	rx := gated(t, 200, 200)
	ep, _ := in.endpoint(t, rx.URL)
	in.start(t, options{noHandOver: true})
	event := in.post(t, "a")
	in.awaitRequests(t, rx.receiver, 1)
	// River's rescuer takes the running job for stuck, and it rings again while its attempt is under way.
	in.exec(t, `update river.river_job set state = 'available', scheduled_at = now() where state = 'running' and kind = 'webhook.deliver'`)
	in.eventually(t, func() string {
		if in.count(t, `select count(*) from river.river_job where state = 'scheduled' and kind = 'webhook.deliver'`) != 1 {
			return "the second ring has not snoozed"
		}
		return ""
	})
	close(rx.open)
	d := in.await(t, event, ep.ID, delivery.Succeeded)
	if n := len(rx.got()); n != 1 || d.Attempts != 1 {
		t.Errorf("%d requests, %d attempts", n, d.Attempts)
	}
	in.settled(t)
}

func TestReconciler(t *testing.T) {
	t.Parallel()

	reconcile := func(t *testing.T, p *process) {
		t.Helper()
		if _, err := p.client.Insert(context.Background(), delivery.ReconcileArgs{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	// lost makes a delivery that nobody will start: the process that fanned it out has no workers to hand it to, its
	// job is an hour away, and then something happens to the job. It returns a process that can work.
	lost := func(t *testing.T, in *installation, sql string) (event, ep uuid.UUID, rx *receiver, p *process) {
		t.Helper()
		rx = receive(t, status(200))
		e, _ := in.endpoint(t, rx.URL)
		p = in.start(t, options{noRelay: true})
		in.start(t, options{noWorkers: true, net: time.Hour})
		event = in.post(t, "a")
		in.await(t, event, e.ID, delivery.Pending)
		in.exec(t, sql)
		in.exec(t, `update gateway.deliveries set next_attempt_at = next_attempt_at - interval '1 minute'`)
		in.exec(t, `update gateway.line set due_at = due_at - interval '1 minute'`)
		return event, e.ID, rx, p
	}

	t.Run("a delivery whose job was deleted gets a new one", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		event, ep, rx, p := lost(t, in, `delete from river.river_job where kind = 'webhook.deliver'`)
		reconcile(t, p)
		d := in.await(t, event, ep, delivery.Succeeded)
		if len(rx.got()) != 1 || d.Attempts != 1 {
			t.Errorf("%d requests, %+v", len(rx.got()), d)
		}
		in.settled(t)
	})

	t.Run("a job that River discarded is an attempt of our own, and has a successor", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		event, ep, _, p := lost(t, in, `update river.river_job set state = 'discarded', finalized_at = now() where kind = 'webhook.deliver'`)
		reconcile(t, p)
		d := in.await(t, event, ep, delivery.Succeeded)
		list := in.attempts(t, d)
		if len(list) != 2 || list[1].Class != delivery.ClassInternal || list[1].Sent != delivery.SentNo || *list[1].Reason != "job_discarded" || d.Tries != 1 {
			t.Errorf("%+v", list)
		}
		in.settled(t)
	})

	t.Run("a lease past its end is ended, whatever its process is up to", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := gated(t, 200, 200)
		ep, _ := in.endpoint(t, rx.URL)
		in.start(t, options{}) // it beats on
		event := in.post(t, "a")
		in.awaitRequests(t, rx.receiver, 1)
		in.exec(t, `update gateway.leases set ends_at = now() - interval '1 minute'`)
		p := in.start(t, options{noRelay: true})
		reconcile(t, p)
		d := in.await(t, event, ep.ID, delivery.Succeeded)
		if list := in.attempts(t, d); len(list) != 2 || list[1].Sent != delivery.SentUnknown {
			t.Errorf("%+v", list)
		}
		close(rx.open)
		in.settled(t)
	})

	t.Run("a wrong count of leases is put right", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := receive(t, status(200))
		ep, _ := in.endpoint(t, rx.URL)
		in.exec(t, `update gateway.endpoint_state set in_flight = 10`)
		p := in.start(t, options{})
		event := in.post(t, "a")
		in.await(t, event, ep.ID, delivery.Pending)
		reconcile(t, p)
		in.await(t, event, ep.ID, delivery.Succeeded)
		in.settled(t)
	})
}
