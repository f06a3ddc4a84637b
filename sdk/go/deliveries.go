package sallyport

import (
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/sallyport-dev/sallyport/sdk/go/internal/client"
)

// DeliveryState is how far a delivery has come.
type DeliveryState string

// The states of a delivery; new ones may come.
const (
	DeliveryPending   DeliveryState = "pending"   // no try is spent yet
	DeliveryRetrying  DeliveryState = "retrying"  // some failed, more will come
	DeliveryHeld      DeliveryState = "held"      // its endpoint is paused or disabled
	DeliverySucceeded DeliveryState = "succeeded" // the receiver answered 2xx
	DeliveryExhausted DeliveryState = "exhausted" // all tries failed
	DeliveryRejected  DeliveryState = "rejected"  // it must not be sent
	DeliveryCancelled DeliveryState = "cancelled" // its endpoint or its event is gone
)

// Delivery is one event for one endpoint.
type Delivery struct {
	ID             string        `json:"id"`
	EventID        string        `json:"event_id"`
	EndpointID     string        `json:"endpoint_id"`
	Type           string        `json:"type"`
	Subject        string        `json:"subject"`
	AcceptedAt     time.Time     `json:"accepted_at"` // the event's
	State          DeliveryState `json:"state"`
	Reason         string        `json:"reason"`
	Trigger        string        `json:"trigger"`  // what started this run of tries: event, test, retry, replay, resume
	Attempts       int           `json:"attempts"` // over its life
	Tries          int           `json:"tries"`    // spent of the schedule
	NextAttemptAt  *time.Time    `json:"next_attempt_at"`
	InLine         bool          `json:"in_line"`    // due, and waiting for a free place at its endpoint
	LastClass      string        `json:"last_class"` // ok, timeout, http_5xx, …
	LastHTTPStatus int           `json:"last_http_status"`
	LastAttemptAt  *time.Time    `json:"last_attempt_at"`
	CreatedAt      time.Time     `json:"created_at"`
	EndedAt        *time.Time    `json:"ended_at"`
}

// DeliveryFilter says which deliveries a list holds; the zero value: all.
type DeliveryFilter struct {
	EventID    string
	EndpointID string
	Since      time.Time // of events accepted then or later
	Until      time.Time // of events accepted before
	Types      []string  // globs: invoice.*
	Subject    string
	States     []DeliveryState
	HTTPStatus string   // of the last attempt: 503, or 5xx
	Classes    []string // of the last attempt: timeout
	PageSize   int      // how many are fetched at once, 1 to 200; 0: 200
}

// Attempt is one try at a POST, and what came of it.
type Attempt struct {
	ID            string           `json:"id"`
	DeliveryID    string           `json:"delivery_id"`
	EventID       string           `json:"event_id"`
	EndpointID    string           `json:"endpoint_id"`
	Number        int              `json:"number"` // counts all attempts over the delivery's life
	Try           int              `json:"try"`    // its place in the schedule; 0: it spent none
	Trigger       string           `json:"trigger"`
	Outcome       string           `json:"outcome"` // succeeded, failed, deferred, rejected, interrupted, internal
	Class         string           `json:"class"`   // ok, timeout, http_5xx, …
	Reason        string           `json:"reason"`  // a finer code, as tls_expired
	Sent          string           `json:"sent"`    // whether a byte of the request left: yes, no, unknown
	HTTPStatus    int              `json:"http_status"`
	StartedAt     time.Time        `json:"started_at"`
	EndedAt       time.Time        `json:"ended_at"`
	Timings       Timings          `json:"timings"`
	NextAttemptAt *time.Time       `json:"next_attempt_at"`
	Request       *AttemptRequest  `json:"request"`  // of GetAttempt, with payloads:read, while the event lives
	Response      *AttemptResponse `json:"response"` // of GetAttempt
}

// Timings is how long each part of an attempt took, in microseconds; nil: it did not happen.
type Timings struct {
	DNS       *int   `json:"dns_us"`
	Connect   *int   `json:"connect_us"`
	TLS       *int   `json:"tls_us"`
	FirstByte *int   `json:"first_byte_us"`
	Total     *int   `json:"total_us"`
	Reused    *bool  `json:"reused"`
	Protocol  string `json:"protocol"`
}

// AttemptRequest is what was sent, without the signature and the endpoint's own headers.
type AttemptRequest struct {
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// AttemptResponse is what the receiver answered, as much of it as was kept.
type AttemptResponse struct {
	Headers   map[string][]string `json:"headers"`
	Body      string              `json:"body"` // only with payloads:read; see Bytes
	Encoding  string              `json:"body_encoding"`
	Truncated bool                `json:"truncated"`
}

// Bytes is the body as the receiver sent it.
func (r AttemptResponse) Bytes() ([]byte, error) {
	if r.Encoding != "base64" {
		return []byte(r.Body), nil
	}
	b, err := base64.StdEncoding.DecodeString(r.Body)
	if err != nil {
		return nil, fmt.Errorf("sallyport: the body of an answer: %w", err)
	}
	return b, nil
}

// GetDelivery reads a delivery.
func (c *Client) GetDelivery(ctx context.Context, id string) (Delivery, error) {
	var d Delivery
	req, err := client.NewGetDeliveryRequest(c.base, id)
	_, err = c.call(ctx, true, &d, req, err)
	return d, err
}

// ListDeliveries ranges over deliveries, those of the newest events first.
func (c *Client) ListDeliveries(ctx context.Context, f DeliveryFilter) iter.Seq2[Delivery, error] {
	return list[Delivery](ctx, c.transport, func(cursor *string) (*http.Request, error) {
		return client.NewListDeliveriesRequest(c.base, &client.ListDeliveriesParams{
			Limit: pageSize(f.PageSize), Cursor: cursor, Since: stamp(f.Since), Until: stamp(f.Until), Type: several[string](f.Types),
			Subject: given(f.Subject), State: several[client.DeliveryState](f.States), EventID: given(f.EventID),
			EndpointID: given(f.EndpointID), HTTPStatus: given(f.HTTPStatus), ErrorClass: several[client.AttemptClass](f.Classes),
		})
	})
}

// ListAttempts ranges over the attempts of a delivery, the last one first.
func (c *Client) ListAttempts(ctx context.Context, deliveryID string) iter.Seq2[Attempt, error] {
	return list[Attempt](ctx, c.transport, func(cursor *string) (*http.Request, error) {
		return client.NewListAttemptsRequest(c.base, deliveryID, &client.ListAttemptsParams{Limit: pageSize(0), Cursor: cursor})
	})
}

// GetAttempt reads an attempt.
func (c *Client) GetAttempt(ctx context.Context, id string) (Attempt, error) {
	var a Attempt
	req, err := client.NewGetAttemptRequest(c.base, id)
	_, err = c.call(ctx, true, &a, req, err)
	return a, err
}
