package delivery_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/delivery"
	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/typeid"
	"github.com/sallyport-dev/sallyport/sdk/go/webhook"
)

func TestDelivery(t *testing.T) {
	t.Parallel()

	t.Run("an event arrives once, signed, and leaves one attempt and no job", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := receive(t, status(204))
		ep, secret := in.endpoint(t, rx.URL)
		in.start(t, options{})
		event := in.post(t, "invoice.paid")
		d := in.await(t, event, ep.ID, delivery.Succeeded)

		got := rx.got()
		if len(got) != 1 {
			t.Fatalf("%d requests", len(got))
		}
		v, err := webhook.NewVerifier(secret.Text())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(got[0].body, got[0].header); err != nil {
			t.Errorf("the receiver can't verify: %v", err)
		}
		if id := got[0].header.Get("webhook-id"); id != typeid.Format(typeid.Event, event) {
			t.Errorf("webhook-id %q", id)
		}
		for name, want := range map[string]string{"webhook-attempt": "1", "webhook-event-type": "invoice.paid", "content-type": "application/json", "user-agent": "Sallyport/test"} {
			if text := got[0].header.Get(name); text != want {
				t.Errorf("%s: %q, want %q", name, text, want)
			}
		}
		list := in.attempts(t, d)
		if len(list) != 1 {
			t.Fatalf("%d attempts", len(list))
		}
		a := list[0]
		if a.Number != 1 || *a.Try != 1 || a.Outcome != delivery.OutcomeSucceeded || a.Class != delivery.ClassOK || a.Sent != delivery.SentYes || *a.Status != 204 {
			t.Errorf("%+v", a)
		}
		if a.Phases.Total == nil || *a.Phases.Total <= 0 || a.Phases.FirstByte == nil || a.Phases.Connect == nil {
			t.Errorf("phases %+v", a.Phases)
		}
		whole, err := in.reader.Attempt(context.Background(), in.caller.Tenant, a.ID)
		if err != nil || string(whole.Request.Body) != string(got[0].body) {
			t.Errorf("the request as read: %+v, %v", whole.Request, err)
		}
		in.settled(t)
		in.eventually(t, func() string {
			if in.count(t, `select count(*) from river.river_job where kind = 'webhook.deliver' and finalized_at is null`) != 0 {
				return "the job is left"
			}
			return ""
		})
	})

	t.Run("another tenant's reader finds nothing", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := receive(t, status(200))
		ep, _ := in.endpoint(t, rx.URL)
		in.start(t, options{})
		d := in.await(t, in.post(t, "a"), ep.ID, delivery.Succeeded)
		a := in.attempts(t, d)[0]
		ctx, other := context.Background(), uuid.New()
		if _, err := in.reader.Get(ctx, other, d.ID); err != delivery.ErrNotFound {
			t.Errorf("Get: %v", err)
		}
		if _, _, err := in.reader.Attempts(ctx, other, d.ID, 10, 0); err != delivery.ErrNotFound {
			t.Errorf("Attempts: %v", err)
		}
		if _, err := in.reader.Attempt(ctx, other, a.ID); err != delivery.ErrNotFound {
			t.Errorf("Attempt: %v", err)
		}
		if list, _, err := in.reader.List(ctx, other, delivery.ListQuery{Limit: 10}); err != nil || len(list) != 0 {
			t.Errorf("List: %v, %v", list, err)
		}
	})

	t.Run("a receiver that fails is tried 18 times, and no more", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := receive(t, status(500))
		ep, _ := in.endpoint(t, rx.URL)
		in.start(t, options{})
		event := in.post(t, "a")
		d := in.await(t, event, ep.ID, delivery.Exhausted)
		list := in.attempts(t, d)
		if len(list) != 18 || len(rx.got()) != 18 || d.Tries != 18 || d.Attempts != 18 {
			t.Errorf("%d attempts, %d requests, %d tries", len(list), len(rx.got()), d.Tries)
		}
		for i, a := range list { // the last one first
			if want := 18 - i; a.Number != want || *a.Try != want || a.Class != delivery.Class5xx || a.Outcome != delivery.OutcomeFailed {
				t.Errorf("attempt %+v, want number and try %d", a, want)
			}
		}
		first, last := rx.got()[0], rx.got()[17]
		if string(first.body) != string(last.body) || first.header.Get("webhook-id") != last.header.Get("webhook-id") {
			t.Error("the bytes changed from attempt to attempt")
		}
		in.settled(t)
		in.eventually(t, func() string {
			if n := in.count(t, `select count(*) from river.river_job where state = 'discarded'`); n != 1 {
				return "the job is not discarded"
			}
			return ""
		})
	})

	t.Run("a receiver that comes back gets it on the next try, and is healthy again", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n <= 3 {
				w.WriteHeader(503)
			}
		})
		ep, _ := in.endpoint(t, rx.URL)
		in.start(t, options{})
		d := in.await(t, in.post(t, "a"), ep.ID, delivery.Succeeded)
		if d.Tries != 4 || len(rx.got()) != 4 {
			t.Errorf("%d tries, %d requests", d.Tries, len(rx.got()))
		}
		in.settled(t)
		if n := in.count(t, `select count(*) from gateway.endpoint_state where failing_since is null and failures = 0 and last_success_at is not null`); n != 1 {
			t.Error("the endpoint is not healthy again")
		}
	})

	t.Run("a new delivery to a failing endpoint is due later", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := receive(t, status(200))
		ep, _ := in.endpoint(t, rx.URL)
		in.exec(t, `update gateway.endpoint_state set failing_since = now()`)
		in.start(t, options{})
		d := in.await(t, in.post(t, "a"), ep.ID, delivery.Pending)
		if wait := d.NextAttemptAt.Sub(d.CreatedAt); wait < 4*time.Minute+59*time.Second || wait > 5*time.Minute+time.Second {
			t.Errorf("due after %v", wait)
		}
		if n := in.count(t, `select count(*) from river.river_job where kind = 'webhook.deliver' and scheduled_at between now() + interval '4 minutes' and now() + interval '6 minutes'`); n != 1 {
			t.Error("the job is not due with it")
		}
	})

	t.Run("410 ends the delivery, disables the endpoint, and holds what comes after", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := receive(t, status(410))
		ep, _ := in.endpoint(t, rx.URL)
		in.start(t, options{})
		d := in.await(t, in.post(t, "a"), ep.ID, delivery.Rejected)
		if d.Reason == nil || *d.Reason != delivery.ReasonGone {
			t.Errorf("reason %v", d.Reason)
		}
		got, err := in.endpoints.Get(context.Background(), in.caller.Tenant, endpoint.Ref{ID: ep.ID})
		if err != nil || got.State != endpoint.Disabled || got.DisabledReason == nil || *got.DisabledReason != endpoint.ReasonGone {
			t.Errorf("the endpoint is %+v, %v", got, err)
		}
		held := in.await(t, in.post(t, "b"), ep.ID, delivery.Held)
		if held.NextAttemptAt != nil || *held.Reason != delivery.ReasonDisabled {
			t.Errorf("%+v", held)
		}
		if len(rx.got()) != 1 {
			t.Errorf("%d requests", len(rx.got()))
		}
		in.settled(t)
	})

	t.Run("Retry-After puts it off and spends no try", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(429)
			}
		})
		ep, _ := in.endpoint(t, rx.URL)
		in.start(t, options{})
		d := in.await(t, in.post(t, "a"), ep.ID, delivery.Succeeded)
		list := in.attempts(t, d)
		if len(list) != 2 || list[1].Outcome != delivery.OutcomeDeferred || list[1].Try != nil || *list[0].Try != 1 || d.Tries != 1 {
			t.Fatalf("%+v", list)
		}
		if wait := list[0].StartedAt.Sub(list[1].EndedAt); wait < time.Second {
			t.Errorf("tried again after %v", wait)
		}
		if n := in.count(t, `select count(*) from gateway.endpoint_state where failing_since is not null`); n != 0 {
			t.Error("a deferral counts for health")
		}
	})

	t.Run("a scope that was taken away since the fan-out ends the delivery unsent", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := receive(t, status(200))
		ep, _ := in.endpoint(t, rx.URL, func(s *endpoint.Spec) { s.Scopes = []string{"project/42"} })
		event := in.post(t, "a", "project/42")
		relay := in.start(t, options{noWorkers: true, noHandOver: true})
		in.await(t, event, ep.ID, delivery.Pending)
		relay.stop()
		in.exec(t, `update gateway.endpoints set scopes = '{project/43}', version = version + 1`)
		in.start(t, options{})
		d := in.await(t, event, ep.ID, delivery.Rejected)
		if *d.Reason != delivery.ReasonScopeRevoked || len(rx.got()) != 0 {
			t.Errorf("%+v, %d requests", d, len(rx.got()))
		}
		if a := in.attempts(t, d)[0]; a.Sent != delivery.SentNo || a.Status != nil {
			t.Errorf("%+v", a)
		}
		in.settled(t)
	})

	t.Run("a retry between two rotations verifies with the newest secret, and with the one before", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rotate := make(chan func(), 2)
		rx := receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n <= 2 {
				(<-rotate)()
				w.WriteHeader(500)
			}
		})
		ep, first := in.endpoint(t, rx.URL)
		secrets := []signing.Secret{first}
		for range 2 {
			rotate <- func() {
				_, next, err := in.endpoints.Rotate(context.Background(), in.caller, endpoint.Ref{ID: ep.ID}, endpoint.Rotation{Grace: time.Hour}, nil)
				if err != nil {
					t.Errorf("rotate: %v", err)
				}
				secrets = append(secrets, next)
			}
		}
		in.start(t, options{})
		in.await(t, in.post(t, "a"), ep.ID, delivery.Succeeded)
		for i, q := range rx.got() {
			for j, secret := range secrets {
				v, err := webhook.NewVerifier(secret.Text())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := v.Verify(q.body, q.header); (err == nil) != (j <= i) {
					t.Errorf("attempt %d, secret %d: %v", i+1, j+1, err)
				}
			}
		}
	})

	t.Run("of three endpoints one fails, and it alone is tried again", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		bad, first, second := receive(t, status(500)), receive(t, status(200)), receive(t, status(200))
		failing, _ := in.endpoint(t, bad.URL)
		in.endpoint(t, first.URL)
		in.endpoint(t, second.URL)
		in.start(t, options{})
		in.await(t, in.post(t, "a"), failing.ID, delivery.Exhausted)
		if len(bad.got()) != 18 || len(first.got()) != 1 || len(second.got()) != 1 {
			t.Errorf("%d, %d and %d requests", len(bad.got()), len(first.got()), len(second.got()))
		}
		in.settled(t)
	})

	t.Run("each attempt is signed anew, at its own time, under the same id", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		var off []time.Duration
		rx := receive(t, func(n int, w http.ResponseWriter, r *http.Request) {
			sent, err := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
			if err != nil {
				t.Errorf("webhook-timestamp: %v", err)
			}
			off = append(off, time.Since(time.Unix(sent, 0)))
			if n < 3 {
				w.WriteHeader(500)
			}
		})
		ep, secret := in.endpoint(t, rx.URL)
		in.start(t, options{policy: func(p *delivery.Policy) {
			for i := range p.Schedule {
				p.Schedule[i] = 1100 * time.Millisecond // so that the second of the timestamp changes
			}
		}})
		event := in.post(t, "a")
		in.await(t, event, ep.ID, delivery.Succeeded)
		v, err := webhook.NewVerifier(secret.Text())
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]bool)
		for i, q := range rx.got() {
			if _, err := v.Verify(q.body, q.header); err != nil {
				t.Errorf("attempt %d: %v", i+1, err)
			}
			if off[i] > 2*time.Second || off[i] < 0 {
				t.Errorf("attempt %d was signed for a time %v before it arrived", i+1, off[i])
			}
			if q.header.Get("webhook-id") != typeid.Format(typeid.Event, event) || q.header.Get("webhook-attempt") != strconv.Itoa(i+1) {
				t.Errorf("attempt %d has the id %s and the number %s", i+1, q.header.Get("webhook-id"), q.header.Get("webhook-attempt"))
			}
			seen[q.header.Get("webhook-timestamp")+q.header.Get("webhook-signature")] = true
		}
		if len(seen) != 3 {
			t.Errorf("%d signatures in 3 attempts", len(seen))
		}
	})

	t.Run("a relay without workers leaves it to the job", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := receive(t, status(200))
		ep, _ := in.endpoint(t, rx.URL)
		in.start(t, options{noWorkers: true, noHandOver: true})
		in.start(t, options{noRelay: true})
		in.await(t, in.post(t, "a"), ep.ID, delivery.Succeeded)
		in.settled(t)
		in.eventually(t, func() string {
			// Completed by River, or deleted where the worker's first look at the line came before the ring.
			if n := in.count(t, `select count(*) from river.river_job where finalized_at is null and kind = 'webhook.deliver'`); n != 0 {
				return "the job is left"
			}
			return ""
		})
	})

	t.Run("an endpoint never has more in flight than its allowance, and its line moves by itself", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := receive(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			select { // slow
			case <-r.Context().Done():
			case <-time.After(20 * time.Millisecond):
			}
		})
		ep, _ := in.endpoint(t, rx.URL)
		in.start(t, options{net: time.Hour}) // no job rings in this test
		in.start(t, options{net: time.Hour})
		var last uuid.UUID
		for range 200 {
			last = in.post(t, "a")
		}
		in.await(t, last, ep.ID, delivery.Succeeded)
		in.eventually(t, func() string {
			if in.count(t, `select count(*) from gateway.deliveries where state <> 'succeeded'`) > 0 {
				return "not all were delivered"
			}
			return ""
		})
		if len(rx.got()) != 200 || rx.most > 10 || rx.most < 5 {
			t.Errorf("%d requests, %d at once", len(rx.got()), rx.most)
		}
		in.settled(t)
	})

	t.Run("an endpoint whose rows contradict each other holds up no other", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := receive(t, status(200))
		spoiled, _ := in.endpoint(t, rx.URL, func(s *endpoint.Spec) { s.Types = []string{"a"} })
		good, _ := in.endpoint(t, rx.URL, func(s *endpoint.Spec) { s.Types = []string{"b"} })
		p := in.start(t, options{noWorkers: true, net: time.Hour})
		event := in.post(t, "a")
		in.await(t, event, spoiled.ID, delivery.Pending)
		other := in.post(t, "b")
		in.await(t, other, good.ID, delivery.Pending)
		p.stop()
		// In line and leased at once: a lease can't be granted, and must not be.
		in.exec(t, `insert into gateway.leases (event_id, endpoint_id, tenant_id, process_id, number, try, started_at, ends_at)
			values ($1, $2, $3, gen_random_uuid(), 1, 1, now(), now() + interval '1 hour')`, event, spoiled.ID, in.caller.Tenant)
		in.start(t, options{noRelay: true}) // its first look takes both endpoints in one batch
		in.await(t, other, good.ID, delivery.Succeeded)
		if n := len(rx.got()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})

	t.Run("a row that was spoiled by hand fails alone, readably", func(t *testing.T) {
		t.Parallel()
		in := install(t)
		rx := receive(t, status(200))
		ep, _ := in.endpoint(t, rx.URL)
		spoiled, good := in.post(t, "a"), in.post(t, "b")
		in.exec(t, `update gateway.events set data = null where id = $1`, spoiled)
		other, _ := in.endpoint(t, rx.URL, func(s *endpoint.Spec) { s.Types = []string{"b"} })
		in.exec(t, `update gateway.endpoint_secrets set sealed = '\x00' where endpoint_id = $1`, other.ID)
		in.start(t, options{})
		in.await(t, good, ep.ID, delivery.Succeeded)
		if d := in.await(t, spoiled, ep.ID, delivery.Cancelled); *d.Reason != delivery.ReasonEventErased {
			t.Errorf("%+v", d)
		}
		in.eventually(t, func() string {
			d, _ := in.delivery(t, good, other.ID)
			if d.LastClass == nil || *d.LastClass != string(delivery.ClassInternal) || d.State != delivery.Pending || d.Tries != 0 {
				return "the delivery with a broken secret is not put off"
			}
			return ""
		})
		if n := in.count(t, `select count(*) from gateway.endpoint_state where failing_since is not null`); n != 0 {
			t.Error("our own errors count for health")
		}
	})
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	in := install(t)
	release := make(chan struct{})
	rx := receive(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n > 2 {
			return
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	ep, _ := in.endpoint(t, rx.URL)
	p := in.start(t, options{dispatcher: delivery.DispatcherConfig{Grace: 50 * time.Millisecond}})
	first, second := in.post(t, "a"), in.post(t, "a")
	in.eventually(t, func() string {
		if len(rx.got()) < 2 {
			return "nothing is in flight"
		}
		return ""
	})
	p.stop()
	close(release)
	for _, event := range []uuid.UUID{first, second} {
		d, _ := in.delivery(t, event, ep.ID)
		a := in.attempts(t, d)[0]
		if d.State != delivery.Pending || d.Tries != 0 || a.Outcome != delivery.OutcomeInterrupted || a.Sent != delivery.SentYes || a.Try != nil {
			t.Errorf("cut at shutdown: %+v, %+v", d, a)
		}
	}
	if n := in.count(t, `select count(*) from gateway.leases`); n != 0 {
		t.Errorf("%d leases are left", n)
	}
	in.start(t, options{})
	for _, event := range []uuid.UUID{first, second} {
		if d := in.await(t, event, ep.ID, delivery.Succeeded); d.Attempts != 2 || d.Tries != 1 {
			t.Errorf("after the restart: %+v", d)
		}
	}
}
