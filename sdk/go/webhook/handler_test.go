package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sallyport-dev/sallyport/sdk/go/webhook"
)

// receiver is a Handler over HTTP, what it was handed, and what it logged.
type receiver struct {
	*httptest.Server
	events []webhook.Event
	fail   error
	log    bytes.Buffer
}

func receive(t *testing.T, opts ...webhook.Option) *receiver {
	t.Helper()
	v, err := webhook.NewVerifier(oldSecret)
	if err != nil {
		t.Fatal(err)
	}
	r := new(receiver)
	opts = append([]webhook.Option{webhook.WithLogger(slog.New(slog.NewTextHandler(&r.log, nil)))}, opts...)
	r.Server = httptest.NewServer(webhook.Handler(v, func(_ context.Context, e webhook.Event) error {
		r.events = append(r.events, e)
		return r.fail
	}, opts...))
	t.Cleanup(r.Close)
	return r
}

func paid(t *testing.T) []byte {
	t.Helper()
	body, err := json.Marshal(webhook.Event{ID: eventID, Type: "invoice.paid", OccurredAt: time.Now(), Data: json.RawMessage(`{"amount":4200}`)})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// post sends a body with headers and gives the status and the text of the answer.
func (r *receiver) post(t *testing.T, body io.Reader, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	res, err := r.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestHandlerHandsOverWhatVerifies(t *testing.T) {
	t.Parallel()
	r := receive(t)
	body := paid(t)
	if status, text := r.post(t, bytes.NewReader(body), sign(t, oldSecret, time.Now(), body)); status != http.StatusNoContent || text != "" {
		t.Fatalf("got %d %q, want 204", status, text)
	}
	if len(r.events) != 1 || r.events[0].ID != eventID || string(r.events[0].Data) != `{"amount":4200}` {
		t.Errorf("handed over %+v", r.events)
	}
}

func TestHandlerRefusesWithTheCause(t *testing.T) {
	t.Parallel()
	body := paid(t)
	for _, c := range []struct {
		name   string
		header http.Header
		body   []byte
		want   string
	}{
		{"unsigned", http.Header{}, body, "id_missing: "},
		{"signed with another secret", sign(t, newSecret, time.Now(), body), body, "signature_mismatch: "},
		{"late", sign(t, oldSecret, time.Now().Add(-time.Hour), body), body, "timestamp_too_old: "},
		{"changed on the way", sign(t, oldSecret, time.Now(), body), append(body, '\n'), "body_changed: "},
		{"genuine and no event", sign(t, oldSecret, time.Now(), []byte(`{"test":1}`)), []byte(`{"test":1}`), "event_malformed: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := receive(t)
			status, text := r.post(t, bytes.NewReader(c.body), c.header)
			if status != http.StatusBadRequest || !strings.HasPrefix(text, c.want) {
				t.Errorf("got %d %q, want 400 %s", status, text, c.want)
			}
			if fingerprint, _ := webhook.Fingerprint(oldSecret); strings.Contains(text, fingerprint) {
				t.Errorf("a stranger is told the fingerprint: %q", text)
			}
			if len(r.events) != 0 {
				t.Errorf("handed over %+v", r.events)
			}
			if lines := strings.Count(r.log.String(), "\n"); lines != 1 || !strings.Contains(r.log.String(), "code="+strings.TrimSuffix(c.want, ": ")) {
				t.Errorf("want one line with the code, logged %q", r.log.String())
			}
		})
	}
}

func TestHandlerReadsNoMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	body := paid(t)
	exact := receive(t, webhook.WithMaxBody(int64(len(body))))
	if status, text := exact.post(t, bytes.NewReader(body), sign(t, oldSecret, time.Now(), body)); status != http.StatusNoContent {
		t.Errorf("a body of the limit: got %d %q, want 204", status, text)
	}
	less := receive(t, webhook.WithMaxBody(int64(len(body))-1))
	if status, _ := less.post(t, bytes.NewReader(body), sign(t, oldSecret, time.Now(), body)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a byte over the limit: got %d, want 413", status)
	}
	// Without a length the size shows only while reading.
	if status, _ := less.post(t, iotest.OneByteReader(bytes.NewReader(body)), sign(t, oldSecret, time.Now(), body)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a byte over the limit, in chunks: got %d, want 413", status)
	}
	if len(less.events) != 0 {
		t.Errorf("handed over %+v", less.events)
	}
	byDefault := receive(t)
	large := make([]byte, webhook.DefaultMaxBody+1)
	if status, _ := byDefault.post(t, bytes.NewReader(large), sign(t, oldSecret, time.Now(), large)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a byte over 1 MiB: got %d, want 413", status)
	}
}

func TestHandlerAnswers500AndKeepsTheCauseToItself(t *testing.T) {
	t.Parallel()
	body := paid(t)
	r := receive(t)
	r.fail = errors.New("password of the database is hunter2")
	status, text := r.post(t, bytes.NewReader(body), sign(t, oldSecret, time.Now(), body))
	if status != http.StatusInternalServerError || strings.Contains(text, "hunter2") {
		t.Errorf("got %d %q, want 500 without the cause", status, text)
	}
	if !strings.Contains(r.log.String(), "hunter2") || !strings.Contains(r.log.String(), eventID) {
		t.Errorf("want the cause and the id in the log, got %q", r.log.String())
	}
}

func TestHandlerHandsOverNothingThatWasSeen(t *testing.T) {
	t.Parallel()
	body := paid(t)
	done := map[string]bool{}
	r := receive(t, webhook.WithSeen(func(_ context.Context, id string) (bool, error) { return done[id], nil }))
	header := sign(t, oldSecret, time.Now(), body)

	r.fail = errors.New("not yet")
	if status, _ := r.post(t, bytes.NewReader(body), header); status != http.StatusInternalServerError {
		t.Errorf("the first attempt: got %d, want 500", status)
	}
	r.fail = nil
	if status, _ := r.post(t, bytes.NewReader(body), header); status != http.StatusNoContent || len(r.events) != 2 {
		t.Errorf("an attempt after a failure: got %d and %d events handed over, want 204 and 2", status, len(r.events))
	}
	done[eventID] = true
	if status, _ := r.post(t, bytes.NewReader(body), header); status != http.StatusNoContent || len(r.events) != 2 {
		t.Errorf("an attempt after a success: got %d and %d events handed over, want 204 and still 2", status, len(r.events))
	}
}

func TestHandlerAsksForNoUnverifiedId(t *testing.T) {
	t.Parallel()
	body := paid(t)
	asked := false
	r := receive(t, webhook.WithSeen(func(context.Context, string) (bool, error) { asked = true; return true, nil }))
	if status, _ := r.post(t, bytes.NewReader(body), sign(t, newSecret, time.Now(), body)); status != http.StatusBadRequest || asked {
		t.Errorf("got %d, asked: %v", status, asked)
	}
}

func TestHandlerHasAMessageSentAgainWhenSeenFails(t *testing.T) {
	t.Parallel()
	body := paid(t)
	r := receive(t, webhook.WithSeen(func(context.Context, string) (bool, error) { return true, errors.New("no database") }))
	if status, _ := r.post(t, bytes.NewReader(body), sign(t, oldSecret, time.Now(), body)); status != http.StatusInternalServerError || len(r.events) != 0 {
		t.Errorf("got %d and %d events handed over, want 500 and none", status, len(r.events))
	}
}

func TestHandlerTakesPostsAlone(t *testing.T) {
	t.Parallel()
	r := receive(t)
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		answer := httptest.NewRecorder()
		r.Config.Handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, "/", nil))
		if answer.Code != http.StatusMethodNotAllowed || answer.Header().Get("Allow") != http.MethodPost {
			t.Errorf("%s: got %d, allow %q", method, answer.Code, answer.Header().Get("Allow"))
		}
	}
}

func TestHandlerRefusesABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	r := receive(t)
	answer := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", iotest.ErrReader(io.ErrUnexpectedEOF))
	r.Config.Handler.ServeHTTP(answer, req)
	if answer.Code != http.StatusBadRequest || !strings.HasPrefix(answer.Body.String(), "body_unreadable: ") {
		t.Errorf("got %d %q, want 400 body_unreadable", answer.Code, answer.Body)
	}
}

func TestHandlerTakesARequestWithoutABody(t *testing.T) {
	t.Parallel()
	r := receive(t)
	req := &http.Request{Method: http.MethodPost, Header: sign(t, oldSecret, time.Now(), paid(t))}
	answer := httptest.NewRecorder()
	r.Config.Handler.ServeHTTP(answer, req)
	if answer.Code != http.StatusBadRequest || !strings.HasPrefix(answer.Body.String(), "body_changed: ") {
		t.Errorf("got %d %q, want 400 body_changed", answer.Code, answer.Body)
	}
}
