package delivery

import (
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/signing"
	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// message is the part of an event that a receiver is told. Its scopes are not.
type message struct {
	ID         uuid.UUID
	UID        *string
	Type       string
	Subject    *string
	OccurredAt time.Time
	Data       []byte
}

// body composes the bytes that are sent, the same in every attempt: a change of them breaks receivers, and a
// golden file holds them. Data is copied as it came, digits, escapes and order of keys included.
func (m message) body() []byte {
	b := make([]byte, 0, len(m.Data)+len(m.Type)+256)
	b = append(b, `{"id":"`...)
	b = append(b, typeid.Format(typeid.Event, m.ID)...)
	if m.UID != nil {
		b = append(b, `","uid":"`...)
		b = append(b, *m.UID...) // its grammar needs no escape
	}
	b = append(b, `","type":"`...)
	b = append(b, m.Type...) // likewise
	b = append(b, '"')
	if m.Subject != nil {
		b = append(b, `,"subject":`...)
		b = appendString(b, *m.Subject)
	}
	b = append(b, `,"occurred_at":"`...)
	b = m.OccurredAt.UTC().AppendFormat(b, timeFormat)
	b = append(b, `","data":`...)
	b = append(b, m.Data...)
	return append(b, '}')
}

// timeFormat is RFC 3339 in UTC with six digits of a second: what the database keeps.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// appendString writes a JSON string (RFC 8259, 7): only what must be escaped is. encoding/json would also
// escape <, > and &, and replace bytes that are no UTF-8; a subject has been checked to hold none.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// valid says whether a row may be sent at all: one that was written around the gateway may hold bytes
// that make no JSON.
func (m message) valid() bool {
	return len(m.Data) > 0 && (m.Subject == nil || utf8.ValidString(*m.Subject))
}

// headers are those of one attempt. The endpoint's own are laid first, so that none of them can win over ours.
func headers(own http.Header, m message, number int, at time.Time, body []byte, s *signing.Signer, agent, traceParent string) http.Header {
	h := make(http.Header, len(own)+8)
	for name, values := range own {
		h[name] = values
	}
	id := typeid.Format(typeid.Event, m.ID)
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", agent)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	h.Set("Webhook-Signature", s.Sign(id, at, body))
	h.Set("Webhook-Event-Type", m.Type)
	h.Set("Webhook-Attempt", strconv.Itoa(number))
	if traceParent != "" {
		h.Set("Traceparent", traceParent)
	}
	return h
}

// request is what an attempt sent, as a reader may see it: the bytes of the body, and the headers that any
// attempt has, less the signature and the endpoint's own.
func (m message) request(number int) *Request {
	return &Request{Body: m.body(), Headers: map[string]string{
		"content-type":       "application/json",
		"webhook-id":         typeid.Format(typeid.Event, m.ID),
		"webhook-event-type": m.Type,
		"webhook-attempt":    strconv.Itoa(number),
	}}
}
