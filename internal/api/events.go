package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/outbox"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

const postEventID = "postEvent"

// postEvent is the one operation that is written out by hand: the data of an event keeps its bytes, and nothing is
// decoded that need not be.
func (c *call) postEvent() error {
	body, err := readBody(c.x)
	if err != nil {
		return err
	}
	event, err := readEvent(body)
	if err != nil {
		return err
	}
	if len(c.x.Request().Header.Values("Idempotency-Key")) == 0 { // the fast way: it shares a commit with others
		receipt, err := c.cfg.Outbox.Accept(c.x.Request().Context(), c.postOf(event))
		if err != nil {
			return fmt.Errorf("accept an event: %w", err)
		}
		return c.writeReceipt(event.UID, receipt)
	}
	if err := c.once(repeats{wait: c.cfg.KeyWait}, body, func(c *call) error {
		outcomes, err := c.cfg.Outbox.AcceptTx(c.x.Request().Context(), c.tx, []outbox.Post{c.postOf(event)})
		if err == nil {
			err = outcomes[0].Err
		}
		if err != nil {
			return fmt.Errorf("accept an event: %w", err)
		}
		return c.writeReceipt(event.UID, outcomes[0].Receipt)
	}); err != nil {
		return err
	}
	c.cfg.Outbox.Poke()
	return nil
}

// postOf is an event as it goes into the outbox.
func (c *call) postOf(e postedEvent) outbox.Post {
	return outbox.Post{
		TenantID: c.caller.Tenant, UID: e.UID, Type: e.Type, Subject: e.Subject, Scopes: e.Scopes,
		PreviousScopes: e.PreviousScopes, OccurredAt: e.OccurredAt, Data: e.Data,
		RequestID: &c.x.requestID, TraceParent: traceParent(c.x.Request().Header), TokenID: &c.caller.Token,
	}
}

// writeReceipt answers 202 for what was accepted, and 200 for what was there.
func (c *call) writeReceipt(uid *string, r outbox.Receipt) error {
	answer := receiptOf(uid, r)
	status := http.StatusAccepted
	if r.Duplicate {
		status = http.StatusOK
	}
	c.x.Response().Header().Set("Location", answer.Links.Self)
	return writeJSON(c.x.Response(), status, answer)
}

// traceParent returns a request's trace context (W3C Trace Context, 3.2), if it has a valid one of version 00.
func traceParent(h http.Header) *string {
	text := h.Get("Traceparent")
	if len(text) != len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01") || text[:3] != "00-" {
		return nil
	}
	trace, span := text[3:35], text[36:52]
	for _, part := range [3]string{trace, span, text[53:]} {
		for i := range len(part) {
			if c := part[i]; !isHex(c) || 'A' <= c && c <= 'F' {
				return nil
			}
		}
	}
	const zeros = "00000000000000000000000000000000"
	if text[35] != '-' || text[52] != '-' || trace == zeros || span == zeros[:16] {
		return nil
	}
	return &text
}

// ListEvents lists events.
func (c *call) ListEvents(ctx context.Context, r ListEventsRequestObject) (ListEventsResponseObject, error) {
	p, err := c.page(16, r.Params.Limit, r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	f, err := c.filters(r.Params.Since, r.Params.Until, r.Params.Type)
	if err != nil {
		return nil, err
	}
	events, more, err := c.cfg.Events.List(ctx, c.caller.Tenant, outbox.ListQuery{
		Limit: p.limit, Before: p.after(), Since: f.since, Until: f.until, Types: f.types,
		States: namesOf[outbox.State](deref(r.Params.State)), Subject: r.Params.Subject, UID: r.Params.UID,
		ScopePatterns: f.scopes,
	})
	if err != nil {
		return nil, err
	}
	body := EventList{HasMore: more}
	body.Data, body.NextCursor = listed(p, events, more, eventModel, func(e outbox.Event) []byte { return e.ID[:] })
	return ListEvents200JSONResponse{Body: body}, nil
}

// GetEvent reads an event.
func (c *call) GetEvent(ctx context.Context, r GetEventRequestObject) (GetEventResponseObject, error) {
	id, err := idOf(typeid.Event, r.EventID)
	if err != nil {
		return nil, err
	}
	e, err := c.cfg.Events.Get(ctx, c.caller.Tenant, id)
	if err != nil {
		return nil, err
	}
	if err := c.admits(e); err != nil {
		return nil, err
	}
	whole := wholeEvent{event: eventModel(e)}
	if c.may("payloads:read") {
		whole.data = e.Data
	}
	return whole, nil
}

// admits refuses an event whose scopes the caller's token does not cover, as if it did not exist.
func (c *call) admits(e outbox.Event) error {
	if c.caller.EventScopes == nil {
		return nil
	}
	globs, err := endpoint.CompileScopes(c.caller.EventScopes)
	if err != nil {
		return fmt.Errorf("compile the event scopes of a token: %w", err)
	}
	if !endpoint.Admits(globs, e.Scopes, nil) {
		return notFound()
	}
	return nil
}

// admitsEvent is admits for what belongs to an event; if that is gone nothing says who may see it, so nobody may whose
// token doesn't see all.
func (c *call) admitsEvent(ctx context.Context, id uuid.UUID) error {
	if c.caller.EventScopes == nil {
		return nil
	}
	e, err := c.cfg.Events.Get(ctx, c.caller.Tenant, id)
	if errors.Is(err, outbox.ErrNotFound) {
		return notFound()
	}
	if err != nil {
		return err
	}
	return c.admits(e)
}

func eventModel(e outbox.Event) Event {
	return Event{
		ID: typeid.Format(typeid.Event, e.ID), UID: e.UID, Type: e.Type, Subject: e.Subject,
		Scopes: listOf(e.Scopes), PreviousScopes: listOf(e.PreviousScopes),
		OccurredAt: stamp(e.OccurredAt), AcceptedAt: stamp(e.AcceptedAt), State: EventState(e.State),
		FannedOutAt: stampOf(e.FannedOutAt), PoisonedAt: stampOf(e.PoisonedAt), Fanout: fanoutModel(e.Fanout),
		RelayFailures: e.RelayFailures, RelayError: e.RelayError, RequestID: e.RequestID,
	}
}

func fanoutModel(f *outbox.Fanout) *Fanout {
	if f == nil {
		return nil
	}
	m := &Fanout{Deliveries: f.Deliveries, Held: f.Held, Skipped: f.Skipped, Endpoints: make(map[string][]EndpointID, len(f.Endpoints))}
	if m.Skipped == nil {
		m.Skipped = map[string]int{}
	}
	for reason, ids := range f.Endpoints {
		list := make([]EndpointID, len(ids))
		for i, id := range ids {
			list[i] = typeid.Format(typeid.Endpoint, id)
		}
		m.Endpoints[reason] = list
	}
	return m
}

// wholeEvent answers with an event and the bytes of its data. An encoder would take out white space and escape <, > and
// & on the way.
type wholeEvent struct {
	event Event
	data  []byte
}

// VisitGetEventResponse writes the answer.
func (e wholeEvent) VisitGetEventResponse(w http.ResponseWriter) error {
	text, err := json.Marshal(e.event)
	if err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	if e.data != nil {
		text = bytes.TrimSuffix(text, []byte("}"))
		text = append(text, `,"data":`...)
		text = append(text, e.data...)
		text = append(text, '}')
	}
	return writeText(w, http.StatusOK, text)
}

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, status int, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write an answer: %w", err)
	}
	return writeText(w, status, text)
}

func writeText(w http.ResponseWriter, status int, text []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, err := w.Write(text)
	return err
}
