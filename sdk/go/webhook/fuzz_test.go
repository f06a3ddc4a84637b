package webhook_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/sdk/go/webhook"
)

// FuzzVerify gives the verifier anything for headers and body: it never panics, and takes nothing but what was signed.
func FuzzVerify(f *testing.F) {
	body := []byte(`{"id":"evt_1","type":"a.b","occurred_at":"2026-06-30T08:12:44Z","data":{"a":"\u00e9\/"}}`)
	at := time.Unix(1_700_000_000, 0)
	header, err := webhook.Sign(oldSecret, "evt_1", at, body)
	if err != nil {
		f.Fatal(err)
	}
	signature := header.Get(webhook.HeaderSignature)
	f.Add("evt_1", "1700000000", signature, body)
	f.Add("evt_1", "1700000000", "v1, v1,abc v2,x ,,", []byte(`{"a":"\ud83d\ude42\ud83d"}`))
	f.Add("a.1", "-1", signature+" "+signature, []byte("\ufeff{} "))
	f.Fuzz(func(t *testing.T, id, timestamp, signatures string, text []byte) {
		v, err := webhook.NewVerifier(oldSecret)
		if err != nil {
			t.Fatal(err)
		}
		v = v.WithClock(func() time.Time { return at })
		given := bytes.Clone(text)
		message, err := v.Verify(text, http.Header{"Webhook-Id": {id}, "webhook-timestamp": {timestamp}, "Webhook-Signature": {signatures}})
		if !bytes.Equal(text, given) {
			t.Fatal("the body was written to")
		}
		if err != nil {
			if webhook.Code(err) == "" {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		want, err := webhook.Sign(oldSecret, message.ID, message.SentAt, text)
		if err != nil {
			t.Fatalf("verified what can't be signed: %v", err)
		}
		if !strings.Contains(signatures, want.Get(webhook.HeaderSignature)) || strings.TrimSpace(id) != message.ID {
			t.Fatalf("verified %q with %q, want %q", id, signatures, want.Get(webhook.HeaderSignature))
		}
	})
}

// FuzzEvent reads anything as an event: it never panics, and what it takes has an id, a type and a time.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"id":"evt_1","type":"a.b","occurred_at":"2026-06-30T08:12:44Z","data":null}`))
	f.Add([]byte(`{"id":null,"type":1,"occurred_at":"","data":}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := webhook.Message{Body: body}.Event()
		if err != nil {
			if webhook.Code(err) != "event_malformed" {
				t.Fatalf("got %v", err)
			}
			return
		}
		if e.ID == "" || e.Type == "" || e.OccurredAt.IsZero() || !bytes.Contains(body, e.Data) {
			t.Fatalf("took %q for %+v", body, e)
		}
	})
}
