package webhook

import (
	"encoding/json"
	"fmt"
	"time"
)

// Event is what a message of the gateway says. json.Marshal writes it as such a body, for tests.
type Event struct {
	ID         string          `json:"id"`                // the gateway's id, which is the message's webhook-id
	UID        string          `json:"uid,omitempty"`     // the publisher's own id, if it gave one
	Type       string          `json:"type"`              // "invoice.paid"
	Subject    string          `json:"subject,omitempty"` // what the event is about, if the publisher said
	OccurredAt time.Time       `json:"occurred_at"`       // when it happened: deliveries may come in another order
	Data       json.RawMessage `json:"data"`              // any JSON value, exactly as it was posted
}

// Decode reads the data into v, as json.Unmarshal does.
func (e Event) Decode(v any) error {
	if err := json.Unmarshal(e.Data, v); err != nil {
		return fmt.Errorf("webhook: decode the data of %s (%s): %w", e.ID, e.Type, err)
	}
	return nil
}

// Event reads the body as an event of the gateway. Members that are not known here are passed over: later versions of the
// gateway may send more. The error is ErrMalformedEvent.
func (m Message) Event() (Event, error) {
	var members map[string]json.RawMessage // and not a struct, which would take "ID" for "id"
	if err := json.Unmarshal(m.Body, &members); err != nil {
		return Event{}, fmt.Errorf("%w (it is not a JSON object: %w)", ErrMalformedEvent, err)
	}
	var e Event
	for _, member := range []struct {
		name     string
		into     any
		required bool
	}{
		{"id", &e.ID, true},
		{"uid", &e.UID, false},
		{"type", &e.Type, true},
		{"subject", &e.Subject, false},
		{"occurred_at", &e.OccurredAt, true},
		{"data", &e.Data, true},
	} {
		value, ok := members[member.name]
		if !ok && member.required {
			return Event{}, fmt.Errorf("%w (it has no %q)", ErrMalformedEvent, member.name)
		}
		if !ok {
			continue
		}
		if err := json.Unmarshal(value, member.into); err != nil {
			return Event{}, fmt.Errorf("%w (%q can't be read: %w)", ErrMalformedEvent, member.name, err)
		}
	}
	if e.ID == "" || e.Type == "" || e.OccurredAt.IsZero() {
		return Event{}, fmt.Errorf("%w (its id, type or time is empty)", ErrMalformedEvent)
	}
	return e, nil
}
