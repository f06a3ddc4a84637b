package api

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/delivery"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// ListDeliveries lists deliveries.
func (c *call) ListDeliveries(ctx context.Context, r ListDeliveriesRequestObject) (ListDeliveriesResponseObject, error) {
	p, err := c.page(32, r.Params.Limit, r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	f, err := c.filters(r.Params.Since, r.Params.Until, r.Params.Type)
	if err != nil {
		return nil, err
	}
	q := delivery.ListQuery{
		Limit: p.limit, Before: p.afterKey(), Since: f.since, Until: f.until, Types: f.types,
		States: namesOf[delivery.State](deref(r.Params.State)), Subject: r.Params.Subject,
		Classes: namesOf[delivery.Class](deref(r.Params.ErrorClass)), ScopePatterns: f.scopes,
	}
	q.StatusFrom, q.StatusTo = statusRange(r.Params.HTTPStatus)
	if q.EventID, err = idParameter(typeid.Event, "event_id", r.Params.EventID); err != nil {
		return nil, err
	}
	if q.EndpointID, err = idParameter(typeid.Endpoint, "endpoint_id", r.Params.EndpointID); err != nil {
		return nil, err
	}
	deliveries, more, err := c.cfg.Deliveries.List(ctx, c.caller.Tenant, q)
	if err != nil {
		return nil, err
	}
	body := DeliveryList{HasMore: more}
	body.Data, body.NextCursor = listed(p, deliveries, more, deliveryModel, func(d delivery.Delivery) []byte {
		return append(d.EventID[:], d.EndpointID[:]...)
	})
	return ListDeliveries200JSONResponse{Body: body}, nil
}

// idParameter reads an id from the query.
func idParameter(prefix typeid.Prefix, name string, text *string) (*uuid.UUID, error) {
	if text == nil {
		return nil, nil
	}
	id, err := typeid.Parse(prefix, *text)
	if err != nil {
		return nil, refuseFields(codeParameterInvalid, []FieldError{parameterError(name, fieldFormat, "It is no id of this kind.")})
	}
	return &id, nil
}

// GetDelivery reads a delivery.
func (c *call) GetDelivery(ctx context.Context, r GetDeliveryRequestObject) (GetDeliveryResponseObject, error) {
	d, err := c.delivery(ctx, r.DeliveryID)
	if err != nil {
		return nil, err
	}
	return GetDelivery200JSONResponse{Body: deliveryModel(d)}, nil
}

// delivery reads the delivery that a path names, if the caller may see its event.
func (c *call) delivery(ctx context.Context, text string) (delivery.Delivery, error) {
	id, err := idOf(typeid.Delivery, text)
	if err != nil {
		return delivery.Delivery{}, err
	}
	d, err := c.cfg.Deliveries.Get(ctx, c.caller.Tenant, id)
	if err != nil {
		return delivery.Delivery{}, err
	}
	return d, c.admitsEvent(ctx, d.EventID)
}

// ListAttempts lists the attempts of a delivery.
func (c *call) ListAttempts(ctx context.Context, r ListAttemptsRequestObject) (ListAttemptsResponseObject, error) {
	p, err := c.page(4, r.Params.Limit, r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	d, err := c.delivery(ctx, r.DeliveryID)
	if err != nil {
		return nil, err
	}
	attempts, more, err := c.cfg.Deliveries.Attempts(ctx, c.caller.Tenant, d.ID, p.limit, p.afterNumber())
	if err != nil {
		return nil, err
	}
	body := AttemptList{HasMore: more}
	body.Data, body.NextCursor = listed(p, attempts, more, attemptModel, func(a delivery.Attempt) []byte {
		return binary.BigEndian.AppendUint32(nil, uint32(a.Number))
	})
	return ListAttempts200JSONResponse{Body: body}, nil
}

// GetAttempt reads an attempt.
func (c *call) GetAttempt(ctx context.Context, r GetAttemptRequestObject) (GetAttemptResponseObject, error) {
	id, err := idOf(typeid.Attempt, r.AttemptID)
	if err != nil {
		return nil, err
	}
	a, err := c.cfg.Deliveries.Attempt(ctx, c.caller.Tenant, id)
	if err != nil {
		return nil, err
	}
	if err := c.admitsEvent(ctx, a.EventID); err != nil {
		return nil, err
	}
	m := attemptModel(a)
	if a.ResponseHeaders != nil || a.Status != nil {
		m.Response = &AttemptResponse{Headers: a.ResponseHeaders, Truncated: a.ResponseTruncated}
		if m.Response.Headers == nil {
			m.Response.Headers = map[string][]string{}
		}
	}
	if c.may("payloads:read") {
		addBodies(&m, a)
	}
	return GetAttempt200JSONResponse{Body: m}, nil
}

// addBodies adds what was sent and what came back. A receiver may answer with any bytes.
func addBodies(m *Attempt, a delivery.Attempt) {
	if a.Request != nil {
		m.Request = &AttemptRequest{Headers: a.Request.Headers, Body: string(a.Request.Body)}
	}
	if m.Response == nil {
		return
	}
	text, encoding := string(a.ResponseBody), AttemptResponseBodyEncodingText
	if !utf8.ValidString(text) {
		text, encoding = base64.StdEncoding.EncodeToString(a.ResponseBody), AttemptResponseBodyEncodingBase64
	}
	m.Response.Body, m.Response.BodyEncoding = &text, &encoding
}

func deliveryModel(d delivery.Delivery) Delivery {
	return Delivery{
		ID:      typeid.Format(typeid.Delivery, d.ID),
		EventID: typeid.Format(typeid.Event, d.EventID), EndpointID: typeid.Format(typeid.Endpoint, d.EndpointID),
		Type: d.Type, Subject: d.Subject, AcceptedAt: stamp(d.AcceptedAt), State: DeliveryState(d.State), Reason: d.Reason,
		Trigger: Trigger(d.Trigger), Attempts: d.Attempts, Tries: d.Tries, NextAttemptAt: stampOf(d.NextAttemptAt), InLine: d.InLine,
		LastClass: nameOf[AttemptClass](d.LastClass), LastHTTPStatus: d.LastStatus, LastAttemptAt: stampOf(d.LastAttemptAt),
		CreatedAt: stamp(d.CreatedAt), EndedAt: stampOf(d.EndedAt),
	}
}

func attemptModel(a delivery.Attempt) Attempt {
	return Attempt{
		ID: typeid.Format(typeid.Attempt, a.ID), DeliveryID: typeid.Format(typeid.Delivery, a.DeliveryID),
		EventID: typeid.Format(typeid.Event, a.EventID), EndpointID: typeid.Format(typeid.Endpoint, a.EndpointID),
		Number: a.Number, Try: a.Try, Trigger: Trigger(a.Trigger), Outcome: AttemptOutcome(a.Outcome),
		Class: AttemptClass(a.Class), Reason: a.Reason, Sent: AttemptSent(a.Sent), HTTPStatus: a.Status,
		StartedAt: stamp(a.StartedAt), EndedAt: stamp(a.EndedAt), NextAttemptAt: stampOf(a.NextAttemptAt),
		Timings: Timings{
			DNSUs: micros(a.Phases.DNS), ConnectUs: micros(a.Phases.Connect), TLSUs: micros(a.Phases.TLS),
			FirstByteUs: micros(a.Phases.FirstByte), TotalUs: micros(a.Phases.Total),
			Reused: a.Phases.Reused, Protocol: a.Phases.Protocol,
		},
	}
}

func micros(d *time.Duration) *int {
	if d == nil {
		return nil
	}
	us := int(d.Microseconds())
	return &us
}
