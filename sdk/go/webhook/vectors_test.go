package webhook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/sdk/go/webhook"
)

// vectors is the file of known answers that every client and the gateway's signer run over.
type vectors struct {
	Sign []struct {
		Name      string   `json:"name"`
		Secrets   []string `json:"secrets"`
		ID        string   `json:"id"`
		Timestamp int64    `json:"timestamp"`
		Signature string   `json:"signature"`
		bodyText
	} `json:"sign"`
	Secrets []struct {
		Name        string `json:"name"`
		Text        string `json:"text"`
		Fingerprint string `json:"fingerprint"`
		Error       string `json:"error"`
	} `json:"secrets"`
	Verify []verifyCase `json:"verify"`
	Events []struct {
		Name  string `json:"name"`
		Body  string `json:"body"`
		Event *struct {
			ID         string    `json:"id"`
			UID        string    `json:"uid"`
			Type       string    `json:"type"`
			Subject    string    `json:"subject"`
			OccurredAt time.Time `json:"occurred_at"`
			Data       string    `json:"data"`
		} `json:"event"`
		Error string `json:"error"`
	} `json:"events"`
}

type verifyCase struct {
	Name      string      `json:"name"`
	Case      int         `json:"case"`
	Secrets   []string    `json:"secrets"`
	Now       int64       `json:"now"`
	Tolerance int64       `json:"tolerance_seconds"`
	Headers   [][2]string `json:"headers"`
	Error     string      `json:"error"`
	bodyText
}

type bodyText struct {
	Body   string `json:"body"`
	Base64 string `json:"body_base64"`
	Repeat int    `json:"body_repeat"`
}

func (b bodyText) bytes(t *testing.T) []byte {
	t.Helper()
	text := []byte(b.Body)
	if b.Base64 != "" {
		raw, err := base64.StdEncoding.DecodeString(b.Base64)
		if err != nil {
			t.Fatal(err)
		}
		text = raw
	}
	return bytes.Repeat(text, max(b.Repeat, 1))
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Sign) == 0 || len(v.Secrets) == 0 || len(v.Verify) == 0 || len(v.Events) == 0 {
		t.Fatal("a part of the vectors is empty")
	}
	return v
}

// run verifies one case of the file, the making of the verifier included.
func (c verifyCase) run(t *testing.T) (webhook.Message, error) {
	t.Helper()
	v, err := webhook.NewVerifier(c.Secrets...)
	if err != nil {
		return webhook.Message{}, err
	}
	v = v.WithClock(func() time.Time { return time.Unix(c.Now, 0) })
	if c.Tolerance != 0 {
		v = v.WithTolerance(time.Duration(c.Tolerance) * time.Second)
	}
	header := make(http.Header)
	for _, pair := range c.Headers {
		header[pair[0]] = append(header[pair[0]], pair[1])
	}
	return v.Verify(c.bytes(t), header)
}

func TestVerifyGivesTheKnownAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range readVectors(t).Verify {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			message, err := c.run(t)
			if got := webhook.Code(err); got != c.Error || (err == nil) != (c.Error == "") {
				t.Fatalf("got %q (%v), want %q", got, err, c.Error)
			}
			if err != nil {
				for _, secret := range c.Secrets {
					if len(secret) > 10 && strings.Contains(err.Error(), secret[6:]) {
						t.Errorf("the error tells the secret: %v", err)
					}
				}
				return
			}
			if message.ID == "" || message.SentAt.IsZero() || !bytes.Equal(message.Body, c.bytes(t)) {
				t.Errorf("a message was verified and not told: %+v", message)
			}
		})
	}
}

func TestEachCaseOfTheMatrixNamesItsCause(t *testing.T) {
	t.Parallel()
	texts := make(map[string]string)
	found := make(map[int]bool)
	for _, c := range readVectors(t).Verify {
		if c.Case == 0 {
			continue
		}
		found[c.Case] = true
		_, err := c.run(t)
		if err == nil {
			continue
		}
		if other, taken := texts[err.Error()]; taken {
			t.Errorf("%q and %q have one text: %v", c.Name, other, err)
		}
		texts[err.Error()] = c.Name
	}
	for n := 1; n <= 12; n++ {
		if !found[n] {
			t.Errorf("case %d is not among the vectors", n)
		}
	}
}

func TestSignGivesTheKnownAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range readVectors(t).Sign {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			at := time.Unix(c.Timestamp, 0)
			signatures := strings.Fields(c.Signature)
			for i, secret := range c.Secrets {
				header, err := webhook.Sign(secret, c.ID, at, c.bytes(t))
				if err != nil {
					t.Fatal(err)
				}
				if got := header.Get(webhook.HeaderSignature); got != signatures[i] {
					t.Errorf("secret %d: got %s, want %s", i+1, got, signatures[i])
				}
				v, err := webhook.NewVerifier(secret)
				if err != nil {
					t.Fatal(err)
				}
				header.Set(webhook.HeaderSignature, c.Signature)
				if _, err := v.WithClock(func() time.Time { return at }).Verify(c.bytes(t), header); err != nil {
					t.Errorf("secret %d alone: %v", i+1, err)
				}
			}
		})
	}
}

func TestSecretsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for _, c := range readVectors(t).Secrets {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			_, err := webhook.NewVerifier(c.Text)
			if got := webhook.Code(err); got != c.Error {
				t.Errorf("got %q (%v), want %q", got, err, c.Error)
			}
			if err != nil && len(c.Text) > 10 && strings.Contains(err.Error(), c.Text[6:]) {
				t.Errorf("the error tells the secret: %v", err)
			}
			if got, _ := webhook.Fingerprint(c.Text); got != c.Fingerprint {
				t.Errorf("got fingerprint %q, want %q", got, c.Fingerprint)
			}
		})
	}
}

func TestEventsAreReadAsTheyWerePosted(t *testing.T) {
	t.Parallel()
	for _, c := range readVectors(t).Events {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			got, err := webhook.Message{Body: []byte(c.Body)}.Event()
			if webhook.Code(err) != c.Error || (err == nil) != (c.Error == "") {
				t.Fatalf("got %v, want %q", err, c.Error)
			}
			if c.Event == nil {
				return
			}
			if got.ID != c.Event.ID || got.UID != c.Event.UID || got.Type != c.Event.Type || got.Subject != c.Event.Subject ||
				!got.OccurredAt.Equal(c.Event.OccurredAt) || string(got.Data) != c.Event.Data {
				t.Errorf("got %+v, want %+v", got, *c.Event)
			}
		})
	}
}
