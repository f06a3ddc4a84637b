package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/sdk/go/webhook"
)

// A receiver on net/http: the secret comes from where the program keeps its settings.
func ExampleHandler() {
	const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	verifier, err := webhook.NewVerifier(secret)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/webhooks", webhook.Handler(verifier, func(ctx context.Context, e webhook.Event) error {
		var invoice struct {
			Amount   int    `json:"amount"`
			Currency string `json:"currency"`
		}
		if err := e.Decode(&invoice); err != nil {
			return err
		}
		fmt.Println(e.Type, e.Subject, invoice.Amount, invoice.Currency)
		return nil
	}))

	// What a test of this receiver does: sign a body as the gateway would, and post it.
	body := []byte(`{"id":"evt_1","type":"invoice.paid","subject":"invoice/7","occurred_at":"2026-06-30T08:12:44Z",` +
		`"data":{"amount":4200,"currency":"EUR"}}`)
	request := httptest.NewRequest(http.MethodPost, "/webhooks", bytes.NewReader(body))
	if request.Header, err = webhook.Sign(secret, "evt_1", time.Now(), body); err != nil {
		log.Fatal(err)
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, request)
	fmt.Println(answer.Code)
	// Output:
	// invoice.paid invoice/7 4200 EUR
	// 204
}

// Each message comes at least once. The ids of those that were worked off are kept with the work: in a database that
// is one transaction with a unique key on the id, here it is a map.
func ExampleWithSeen() {
	const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	verifier, err := webhook.NewVerifier(secret)
	if err != nil {
		log.Fatal(err)
	}
	var done sync.Map
	seen := func(_ context.Context, id string) (bool, error) {
		_, ok := done.Load(id)
		return ok, nil
	}
	handler := webhook.Handler(verifier, func(_ context.Context, e webhook.Event) error {
		fmt.Println("work off", e.ID)
		done.Store(e.ID, true)
		return nil
	}, webhook.WithSeen(seen))

	body := []byte(`{"id":"evt_1","type":"invoice.paid","occurred_at":"2026-06-30T08:12:44Z","data":null}`)
	for range 2 {
		request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		if request.Header, err = webhook.Sign(secret, "evt_1", time.Now(), body); err != nil {
			log.Fatal(err)
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		fmt.Println(answer.Code)
	}
	// Output:
	// work off evt_1
	// 204
	// 204
}

// Verifying by hand, where a framework owns the request: read the raw body once, under a limit, before anything parses
// it.
func ExampleVerifier_Verify() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	verifier, err := webhook.NewVerifier(secret)
	if err != nil {
		log.Fatal(err)
	}
	verifier = verifier.WithClock(func() time.Time { return time.Unix(1614265330, 0) }) // for this example only

	receive := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhook.DefaultMaxBody))
		if err != nil {
			http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
			return
		}
		message, err := verifier.Verify(body, r.Header)
		switch {
		case errors.Is(err, webhook.ErrTooOld), errors.Is(err, webhook.ErrTooNew):
			fmt.Println("look after the clock:", webhook.Code(err))
			http.Error(w, "refused", http.StatusBadRequest)
		case err != nil:
			fmt.Println("refused:", webhook.Code(err))
			http.Error(w, "refused", http.StatusBadRequest)
		default:
			fmt.Println("verified:", message.ID, string(message.Body))
			w.WriteHeader(http.StatusNoContent)
		}
	}

	for _, body := range []string{`{"test": 2432232314}`, `{"test": 0}`} {
		request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader([]byte(body)))
		request.Header.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
		request.Header.Set("webhook-timestamp", "1614265330")
		request.Header.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
		receive(httptest.NewRecorder(), request)
	}
	// Output:
	// verified: msg_p5jXN8AQM9LWM0D4loKWxJek {"test": 2432232314}
	// refused: signature_mismatch
}

// While a secret is changed over, the receiver holds both: messages that were signed with either one verify, and no
// message is lost whichever side changes first.
func ExampleNewVerifier_rotation() {
	const (
		newSecret = "whsec_ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+f4CBgoM="
		oldSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	)
	verifier, err := webhook.NewVerifier(newSecret, oldSecret)
	if err != nil {
		log.Fatal(err)
	}
	body := []byte(`{"id":"evt_1","type":"invoice.paid","occurred_at":"2026-06-30T08:12:44Z","data":null}`)
	for _, secret := range []string{oldSecret, newSecret} {
		header, err := webhook.Sign(secret, "evt_1", time.Now(), body)
		if err != nil {
			log.Fatal(err)
		}
		message, err := verifier.Verify(body, header)
		fmt.Println(message.ID, err)
	}
	// Output:
	// evt_1 <nil>
	// evt_1 <nil>
}
