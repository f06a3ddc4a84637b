package sallyport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/sallyport-dev/sallyport/sdk/go/internal/client"
)

const jsonType = "application/json"

// EventPost is an event to be delivered.
type EventPost struct {
	Type string `json:"type"` // what happened: invoice.paid
	// Data is any JSON value. A json.RawMessage is sent, and delivered, with exactly its bytes; all else is marshalled.
	Data           any       `json:"-"`
	Subject        string    `json:"subject,omitempty"`         // what it is about: invoice/991
	Scopes         []string  `json:"scopes,omitempty"`          // who may see it: project/42
	PreviousScopes []string  `json:"previous_scopes,omitempty"` // that the thing had before
	OccurredAt     time.Time `json:"occurred_at,omitzero"`      // when it happened; zero: now
	// UID is your own name for the event, 1 to 128 of A-Z, a-z, 0-9, _ and -. With it the post is safe to repeat, and is
	// repeated after failures that may pass.
	UID string `json:"uid,omitempty"`
	// IdempotencyKey names the post, as in EndpointCreate, where a UID is not wanted: receivers do not see it. It is not for
	// the events of a batch, which has one for all of them.
	IdempotencyKey string `json:"-"`
}

// Receipt is what is committed of a post.
type Receipt struct {
	ID         string     `json:"id"`
	UID        string     `json:"uid"`
	State      EventState `json:"state"`
	Duplicate  bool       `json:"duplicate"` // an event of this UID and content was there before
	AcceptedAt time.Time  `json:"accepted_at"`
	Links      struct {
		Self       string `json:"self"`
		Deliveries string `json:"deliveries"`
	} `json:"links"`
}

// EventState is how far an event has come.
type EventState string

// The states of an event; new ones may come.
const (
	EventPending   EventState = "pending"    // accepted; its deliveries do not exist yet
	EventFannedOut EventState = "fanned_out" // its deliveries exist
	EventPoisoned  EventState = "poisoned"   // the gateway failed on it and has set it aside
)

// Event is a fact. It does not change once it is accepted; only what is known of its deliveries does.
type Event struct {
	ID             string     `json:"id"`
	UID            string     `json:"uid"`
	Type           string     `json:"type"`
	Subject        string     `json:"subject"`
	Scopes         []string   `json:"scopes"`
	PreviousScopes []string   `json:"previous_scopes"`
	OccurredAt     time.Time  `json:"occurred_at"`
	AcceptedAt     time.Time  `json:"accepted_at"`
	State          EventState `json:"state"`
	FannedOutAt    *time.Time `json:"fanned_out_at"`
	PoisonedAt     *time.Time `json:"poisoned_at"`
	Fanout         *Fanout    `json:"fanout"` // nil: not yet fanned out
	RelayFailures  int        `json:"relay_failures"`
	RelayError     string     `json:"relay_error"`
	RequestID      string     `json:"request_id"`
	// Data is the value that was posted, with its bytes: only of GetEvent, and only if the token has payloads:read.
	Data json.RawMessage `json:"data"`
}

// Fanout is what became of an event, endpoint by endpoint.
type Fanout struct {
	Deliveries int                 `json:"deliveries"` // that were made, held ones among them
	Held       int                 `json:"held"`
	Skipped    map[string]int      `json:"skipped"`   // endpoints that got none, by the reason
	Endpoints  map[string][]string `json:"endpoints"` // which, for some of the reasons; at most 50 each
}

// EventFilter says which events a list holds; the zero value: all.
type EventFilter struct {
	Since    time.Time // accepted then or later
	Until    time.Time // accepted before
	Types    []string  // globs: invoice.*
	Subject  string
	States   []EventState
	UID      string
	PageSize int // how many are fetched at once, 1 to 200; 0: 200
}

// PostEvent posts an event and returns once it is committed. Another event of the same UID: ErrConflict.
func (c *Client) PostEvent(ctx context.Context, e EventPost) (Receipt, error) {
	body, err := e.body()
	if err != nil {
		return Receipt{}, err
	}
	var r Receipt
	req, err := client.NewPostEventRequestWithBody(c.base, &client.PostEventParams{IdempotencyKey: given(e.IdempotencyKey)}, jsonType, bytes.NewReader(body))
	_, err = c.call(ctx, e.UID != "", &r, req, err)
	return r, err
}

// BatchOptions say how a batch is posted.
type BatchOptions struct {
	Atomic         bool   // one event that is bad refuses all
	IdempotencyKey string // for all of them; see EndpointCreate
}

// BatchResult is what became of one event of a batch: its receipt, or the problem that it has.
type BatchResult struct {
	Receipt Receipt
	Problem *Problem // nil: it was accepted
}

// PostEvents posts 1 to 100 events in one transaction, and returns what became of each, in their order. With Atomic, an
// event that is bad makes it return a *Problem, and nothing is stored.
func (c *Client) PostEvents(ctx context.Context, events []EventPost, o BatchOptions) ([]BatchResult, error) {
	list := make([]json.RawMessage, len(events))
	for i, e := range events {
		body, err := e.body()
		if err != nil {
			return nil, err
		}
		list[i] = body
	}
	var whole bytes.Buffer
	whole.WriteString(`{"events":[`)
	whole.Write(bytes.Join(rawBytes(list), []byte{','})) // not by encode, which would compact the data
	whole.WriteString(`]}`)
	var answer struct {
		Results []json.RawMessage `json:"results"`
	}
	req, err := client.NewPostEventsRequestWithBody(c.base, &client.PostEventsParams{Atomic: &o.Atomic, IdempotencyKey: given(o.IdempotencyKey)}, jsonType, bytes.NewReader(whole.Bytes()))
	if _, err = c.call(ctx, false, &answer, req, err); err != nil {
		return nil, err
	}
	results := make([]BatchResult, len(answer.Results))
	for i, text := range answer.Results {
		var kind struct {
			Code string `json:"code"`
		}
		into := any(&results[i].Receipt)
		if err := json.Unmarshal(text, &kind); err == nil && kind.Code != "" {
			results[i].Problem = new(Problem)
			into = results[i].Problem
		}
		if err := json.Unmarshal(text, into); err != nil {
			return nil, fmt.Errorf("sallyport: read the result of event %d: %w", i, err)
		}
	}
	return results, nil
}

func rawBytes(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, text := range list {
		out[i] = text
	}
	return out
}

// body writes the event, and its data with the bytes that it has.
func (e EventPost) body() ([]byte, error) {
	data, raw := e.Data.(json.RawMessage)
	if !raw || data == nil {
		var err error
		if data, err = encode(e.Data); err != nil {
			return nil, err
		}
	}
	body, err := encode(e)
	if err != nil {
		return nil, err
	}
	body = append(bytes.TrimSuffix(body, []byte("}")), `,"data":`...)
	return append(append(body, data...), '}'), nil
}

// GetEvent reads an event.
func (c *Client) GetEvent(ctx context.Context, id string) (Event, error) {
	var e Event
	req, err := client.NewGetEventRequest(c.base, id)
	_, err = c.call(ctx, true, &e, req, err)
	return e, err
}

// ListEvents ranges over events, newest first.
func (c *Client) ListEvents(ctx context.Context, f EventFilter) iter.Seq2[Event, error] {
	return list[Event](ctx, c.transport, func(cursor *string) (*http.Request, error) {
		return client.NewListEventsRequest(c.base, &client.ListEventsParams{
			Limit: pageSize(f.PageSize), Cursor: cursor, Since: stamp(f.Since), Until: stamp(f.Until), Type: several[string](f.Types),
			Subject: given(f.Subject), State: several[client.EventState](f.States), UID: given(f.UID),
		})
	})
}

// stamp writes a time of a filter, or nil for the zero time.
func stamp(at time.Time) *string {
	if at.IsZero() {
		return nil
	}
	text := at.UTC().Format(time.RFC3339Nano)
	return &text
}
