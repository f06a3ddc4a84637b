package webhook_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/sdk/go/webhook"
)

const (
	oldSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	newSecret = "whsec_ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+f4CBgoM="
	eventID   = "evt_01k9b3vc4tf7a9q3nz5m8r2x6d"
)

// setup makes a verifier for oldSecret whose clock stands still.
func setup(t *testing.T) (*webhook.Verifier, time.Time) {
	t.Helper()
	v, err := webhook.NewVerifier(oldSecret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 250_000_000)
	return v.WithClock(func() time.Time { return now }), now
}

func sign(t *testing.T, secret string, at time.Time, body []byte) http.Header {
	t.Helper()
	h, err := webhook.Sign(secret, eventID, at, body)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestVerifierPrintsNoSecret(t *testing.T) {
	t.Parallel()
	v, _ := setup(t)
	outer := struct{ inner any }{struct{ v webhook.Verifier }{*v}}
	key := []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08")
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("made", "verifier", v, "copy", *v)
	slog.New(slog.NewTextHandler(&log, nil)).Info("made", "verifier", v, "copy", *v)
	asJSON, err := json.Marshal(struct{ A, B any }{v, *v})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{log.String(), string(asJSON)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, v), fmt.Sprintf(verb, *v), fmt.Sprintf(verb, outer))
	}
	for _, text := range texts {
		for _, leak := range []string{oldSecret[6:], oldSecret[6:16], "[0 1 2 3 4", "0x0, 0x1, 0x2, 0x3", "000102030405", fmt.Sprintf("%q", key)} {
			if strings.Contains(text, leak) {
				t.Errorf("%q tells the secret", text)
			}
		}
	}
	fingerprint, err := webhook.Fingerprint(oldSecret)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(v.String(), fingerprint) {
		t.Errorf("%s does not tell the fingerprint %s", v, fingerprint)
	}
}

func TestMismatchNamesTheFingerprintsThatWereTried(t *testing.T) {
	t.Parallel()
	v, now := setup(t)
	_, err := v.Verify([]byte("x"), sign(t, newSecret, now, []byte("x")))
	fingerprint, _ := webhook.Fingerprint(oldSecret)
	if !errors.Is(err, webhook.ErrNoMatch) || !strings.Contains(err.Error(), fingerprint) {
		t.Errorf("got %v, want the fingerprint %s in it", err, fingerprint)
	}
}

func TestAgeErrorsTellHowManySeconds(t *testing.T) {
	t.Parallel()
	v, now := setup(t)
	for _, c := range []struct {
		name string
		sent time.Duration
		want error
		text string
	}{
		{"a quarter of a second over", -300 * time.Second, webhook.ErrTooOld, "301 s"}, // the clock stands at .25
		{"ten minutes old", -600 * time.Second, webhook.ErrTooOld, "601 s"},
		{"on the edge of the future", 300 * time.Second, nil, ""},
		{"ten minutes ahead", 600 * time.Second, webhook.ErrTooNew, "600 s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := v.Verify(nil, sign(t, oldSecret, now.Add(c.sent), nil))
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if err != nil && (!strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), "300 s")) {
				t.Errorf("%v does not tell %s of 300 s", err, c.text)
			}
		})
	}
}

func TestTheFarthestTimestampsAreRefused(t *testing.T) {
	t.Parallel()
	v, now := setup(t)
	for text, want := range map[string]error{"0": webhook.ErrTooOld, "9223372036854775807": webhook.ErrTooNew, "99999999999": webhook.ErrTooNew} {
		h := sign(t, oldSecret, now, nil)
		h.Set(webhook.HeaderTimestamp, text)
		if _, err := v.Verify(nil, h); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", text, err, want)
		}
	}
}

func TestErrorsQuoteLittleOfWhatAStrangerSent(t *testing.T) {
	t.Parallel()
	v, now := setup(t)
	long := strings.Repeat("\x1b", 5000)
	for _, name := range []string{webhook.HeaderID, webhook.HeaderTimestamp, webhook.HeaderSignature} {
		h := sign(t, oldSecret, now, nil)
		h.Set(name, long+".,"+long)
		_, err := v.Verify(nil, h)
		if err == nil || len(err.Error()) > 500 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: got an error of %d bytes: %.100q", name, len(fmt.Sprint(err)), fmt.Sprint(err))
		}
	}
}

func TestBigBodiesAreNotLookedInto(t *testing.T) {
	t.Parallel()
	v, now := setup(t)
	body := []byte(`{"data":"` + strings.Repeat("x", 70_000) + `"}`)
	_, err := v.Verify(append(body, '\n'), sign(t, oldSecret, now, body))
	if !errors.Is(err, webhook.ErrNoMatch) {
		t.Errorf("got %v, want %v: anyone may send such a body", err, webhook.ErrNoMatch)
	}
}

func TestHalfASurrogateIsNoReasonToPanic(t *testing.T) {
	t.Parallel()
	v, now := setup(t)
	for _, body := range []string{`"\ud83d"`, `"\ud83d\ud83d"`, `"\ud83d\u00"`, `"\ud83dx"`, `"\\u0041\/"`, `"\`, `{"\u0069d":1}`} {
		if _, err := v.Verify([]byte(body), sign(t, oldSecret, now, []byte("other"))); !errors.Is(err, webhook.ErrNoMatch) {
			t.Errorf("%s: got %v, want %v", body, err, webhook.ErrNoMatch)
		}
	}
}

func TestOptionsLeaveTheFirstVerifierAlone(t *testing.T) {
	t.Parallel()
	v, now := setup(t)
	header := sign(t, oldSecret, now.Add(-time.Minute), nil)
	if _, err := v.WithTolerance(time.Second).Verify(nil, header); !errors.Is(err, webhook.ErrTooOld) {
		t.Errorf("a tolerance of a second: got %v, want %v", err, webhook.ErrTooOld)
	}
	later := func() time.Time { return now.Add(time.Hour) }
	if _, err := v.WithClock(later).Verify(nil, header); !errors.Is(err, webhook.ErrTooOld) {
		t.Errorf("an hour later: got %v, want %v", err, webhook.ErrTooOld)
	}
	if _, err := v.Verify(nil, header); err != nil {
		t.Errorf("the first verifier has changed: %v", err)
	}
}

func TestAToleranceMustBePositive(t *testing.T) {
	t.Parallel()
	v, _ := setup(t)
	for _, d := range []time.Duration{0, -time.Second} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a tolerance of %v was taken", d)
				}
			}()
			v.WithTolerance(d)
		}()
	}
}

func TestSignRefusesWhatCannotBeVerified(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, secret, id string
		want             error
	}{
		{"no id", oldSecret, "", webhook.ErrMissingID},
		{"a dot in the id", oldSecret, "a.1", webhook.ErrMalformedID},
		{"a malformed secret", "whsec_x", eventID, webhook.ErrMalformedSecret},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if h, err := webhook.Sign(c.secret, c.id, time.Unix(0, 0), nil); !errors.Is(err, c.want) || h != nil {
				t.Errorf("got %v, %v, want %v", h, err, c.want)
			}
		})
	}
}

func TestCodesAreOfThisPackageAlone(t *testing.T) {
	t.Parallel()
	if got := webhook.Code(nil) + webhook.Code(errors.New("other")); got != "" {
		t.Errorf("got %q for errors of others", got)
	}
	if got := webhook.Code(fmt.Errorf("wrapped: %w", webhook.ErrTooOld)); got != "timestamp_too_old" {
		t.Errorf("got %q for a wrapped error", got)
	}
}

func TestEventsAreWrittenAsTheyAreRead(t *testing.T) {
	t.Parallel()
	want := webhook.Event{ID: eventID, Type: "invoice.paid", OccurredAt: time.Unix(1_700_000_000, 0).UTC(), Data: json.RawMessage(`{"amount":4200}`)}
	body, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := webhook.Message{Body: body}.Event()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v (%v), want %v", got, err, want)
	}
	var data struct{ Amount int }
	if err := got.Decode(&data); err != nil || data.Amount != 4200 {
		t.Errorf("got %+v (%v), want an amount of 4200", data, err)
	}
	var list []int
	if err := got.Decode(&list); err == nil || !strings.Contains(err.Error(), eventID) {
		t.Errorf("got %v, want an error that names the event", err)
	}
}
