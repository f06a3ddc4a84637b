package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/sallyport-dev/sallyport/internal/settings"
	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// devUID is the uid of the tenant and of the endpoint that dev makes, and makes anew.
const devUID = "dev"

// devTokenLifetime is how long the tokens of a run are good for: a day at the keyboard.
const devTokenLifetime = 24 * time.Hour

// verifyLimit is how long the first delivery may take.
const verifyLimit = 30 * time.Second

// eventBody is the event that is posted, and told again in the curl line.
const eventBody = `{"type":"invoice.paid","subject":"invoice/991","data":{"amount":1250,"currency":"EUR"}}`

// walk goes the line once, over HTTP as any program would: tenant, token, endpoint, event, verified delivery. Then,
// unless it is to run once, it tells of each further delivery until ctx ends.
func (w *walk) walk(ctx context.Context, s *settings.Settings, api, ops string, r *receiver) error {
	operator, err := w.operator(ctx, s, api)
	if err != nil {
		return err
	}
	defer operator.close()
	if err := ready(ctx, operator, ops); err != nil {
		return err
	}
	client, err := w.tenant(ctx, operator, api)
	if err != nil {
		return err
	}
	defer client.close()
	if err := w.endpoint(ctx, client, r); err != nil {
		return err
	}
	if err := w.event(ctx, client, r); err != nil {
		return err
	}
	if w.once {
		return nil
	}
	w.goOn(api, client.token)
	for {
		select {
		case <-ctx.Done():
			return nil
		case got := <-r.seen:
			w.tell(got)
		}
	}
}

// operator makes an operator's token, straight on the database as `gateway token create --admin` does.
func (w *walk) operator(ctx context.Context, s *settings.Settings, api string) (*apiClient, error) {
	pool, err := openPool(ctx, s.DatabaseURL)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	keyring, err := signing.ParseKeyring(s.SecretKeys.Reveal())
	if err != nil {
		return nil, err
	}
	authority := newAuthority(s, pool, keyring, slog.New(slog.DiscardHandler))
	if err := authority.EnsureKey(ctx); err != nil {
		return nil, err
	}
	_, text, err := authority.Issue(ctx, tenant.TokenSpec{Admin: true, Name: "gateway dev", Role: tenant.Roles(true)[0], Lifetime: devTokenLifetime})
	if err != nil {
		return nil, err
	}
	return newAPIClient(api, text), nil
}

// ready asks whether the gateway wants requests: the relay has passed once, the database answers.
func ready(ctx context.Context, client *apiClient, ops string) error {
	probe := *client
	probe.base = ops
	for {
		err := probe.call(ctx, "GET", "/readyz", nil, nil)
		var refused *problem
		if err == nil || !errors.As(err, &refused) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tenant finds or makes the tenant, and a token of it that may do everything.
func (w *walk) tenant(ctx context.Context, operator *apiClient, api string) (*apiClient, error) {
	began := time.Now()
	var t struct{ ID string }
	what := "tenant found"
	err := operator.call(ctx, "GET", "/admin/v1/tenants/uid:"+devUID, nil, &t)
	if isProblem(err, 404) {
		what = "tenant created"
		err = operator.call(ctx, "POST", "/admin/v1/tenants", map[string]string{"name": "Development", "uid": devUID}, &t)
	}
	if err != nil {
		return nil, err
	}
	w.ok(what, t.ID, began)

	began = time.Now()
	var token struct{ ID, Token string }
	err = operator.call(ctx, "POST", "/admin/v1/tenants/"+t.ID+"/tokens",
		map[string]any{"name": "gateway dev", "role": "owner", "expires_in_seconds": int(devTokenLifetime.Seconds())}, &token)
	if err != nil {
		return nil, err
	}
	w.ok("token created", token.ID, began)
	return newAPIClient(api, token.Token), nil
}

// endpoint makes the endpoint, in place of the one of an earlier run: that one's port and secret are gone.
func (w *walk) endpoint(ctx context.Context, client *apiClient, r *receiver) error {
	began := time.Now()
	what := "endpoint created"
	err := client.call(ctx, "DELETE", "/v1/endpoints/uid:"+devUID, nil, nil)
	switch {
	case err == nil:
		what = "endpoint replaced"
	case !isProblem(err, 404):
		return err
	}
	var e struct{ ID, Secret string }
	err = client.call(ctx, "POST", "/v1/endpoints", map[string]any{"url": r.url(), "uid": devUID, "description": "The receiver of gateway dev"}, &e)
	if err != nil {
		return err
	}
	if err := r.trust(e.Secret); err != nil {
		return err
	}
	w.ok(what, e.ID+"  →  "+r.url(), began)
	return nil
}

// event posts the event and waits until the receiver has verified its delivery and the gateway has recorded that.
func (w *walk) event(ctx context.Context, client *apiClient, r *receiver) error {
	began := time.Now()
	var receipt struct{ ID string }
	if err := client.call(ctx, "POST", "/v1/events", rawJSON(eventBody), &receipt); err != nil {
		return err
	}
	w.ok("event committed", receipt.ID, began)

	began = time.Now()
	limit := time.NewTimer(verifyLimit)
	defer limit.Stop()
	for {
		select {
		case got := <-r.seen:
			if got.err != nil {
				return fmt.Errorf("the receiver refused the delivery: %w", got.err)
			}
			if got.event.ID != receipt.ID {
				continue // of an earlier run, sent again
			}
			w.ok("delivery verified", got.event.ID+"  attempt "+got.attempt, began)
			return w.recorded(ctx, client, receipt.ID)
		case <-limit.C:
			return fmt.Errorf("nothing was delivered within %s: %s", verifyLimit, w.whyNot(ctx, client, receipt.ID))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// shownDelivery is what is read of a delivery.
type shownDelivery struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	LastClass string `json:"last_class"`
	Attempts  int    `json:"attempts"`
}

func deliveriesOf(ctx context.Context, client *apiClient, event string) ([]shownDelivery, error) {
	var list struct{ Data []shownDelivery }
	err := client.call(ctx, "GET", "/v1/deliveries?event_id="+url.QueryEscape(event), nil, &list)
	return list.Data, err
}

// recorded waits until the API tells of the success: results are recorded in batches, a moment after the answer.
func (w *walk) recorded(ctx context.Context, client *apiClient, event string) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, verifyLimit)
	defer cancel()
	for {
		list, err := deliveriesOf(ctx, client, event)
		if err != nil {
			return err
		}
		if len(list) == 1 && list[0].State == "succeeded" {
			w.ok("delivery recorded", list[0].ID+"  "+list[0].State, began)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the delivery arrived and was not recorded as succeeded within %s: %v", verifyLimit, list)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// whyNot is the most that can be told of a delivery that did not come.
func (w *walk) whyNot(ctx context.Context, client *apiClient, event string) string {
	list, err := deliveriesOf(ctx, client, event)
	switch {
	case err != nil:
		return err.Error()
	case len(list) == 0:
		return "it has not been fanned out"
	default:
		return fmt.Sprintf("%s is %s after %d attempts, the last one %q", list[0].ID, list[0].State, list[0].Attempts, list[0].LastClass)
	}
}

// tell tells of a delivery that somebody's event made.
func (w *walk) tell(got received) {
	if got.err != nil {
		w.cli.out.say("%s  delivery refused      %v", w.cli.out.paint(red, "no"), got.err)
		return
	}
	w.ok("delivery verified", got.event.ID+"  attempt "+got.attempt+"  "+got.event.Type, got.at)
}

// goOn says what to try next.
func (w *walk) goOn(api, token string) {
	out := w.cli.out
	if out.json {
		out.line(map[string]string{"step": "ready", "url": api, "token": token})
	}
	out.say(`
The gateway is at %s. Try:

  export GATEWAY=%s
  export TOKEN=%s

  # post an event; the receiver here tells of its delivery
  curl -sS "$GATEWAY/v1/events" -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
    -d '%s'

  # the latest deliveries, and every attempt of one of them
  curl -sS "$GATEWAY/v1/deliveries?limit=5" -H "Authorization: Bearer $TOKEN"
  curl -sS "$GATEWAY/v1/deliveries/DELIVERY_ID/attempts" -H "Authorization: Bearer $TOKEN"

  # an endpoint of your own
  curl -sS "$GATEWAY/v1/endpoints" -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
    -d '{"url":"http://127.0.0.1:3000/webhooks","types":["invoice.**"]}'

Ctrl-C ends it.
`, api, api, token, eventBody)
}

// rawJSON is JSON that is sent byte for byte.
type rawJSON string

// MarshalJSON returns the text.
func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// isProblem says whether an error is an answer of the API with a status.
func isProblem(err error, status int) bool {
	var p *problem
	return errors.As(err, &p) && p.Status == status
}
