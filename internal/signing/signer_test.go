package signing_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/sallyport-dev/sallyport/internal/signing"
)

var at = time.Unix(1_614_265_330, 0)

const eventID = "evt_01k9b3vc4tf7a9q3nz5m8r2x6d"

func newSigner(t testing.TB, secrets ...signing.Secret) *signing.Signer {
	t.Helper()
	s, err := signing.NewSigner(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSignerGivesTheKnownAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range readVectors(t).Sign {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			var secrets []signing.Secret
			for _, text := range c.Secrets {
				secrets = append(secrets, parse(t, text))
			}
			s := newSigner(t, secrets...)
			body := bodyOf(t, c.Body, c.Base64, c.Repeat)
			for range 2 { // the second time with a state that was used
				if got := s.Sign(c.ID, time.Unix(c.Timestamp, 999_999_999), body); got != c.Signature {
					t.Errorf("got %s, want %s", got, c.Signature)
				}
			}
		})
	}
}

// random makes a secret of any length that may be imported.
func random(t *testing.T, source *rand.ChaCha8) signing.Secret {
	t.Helper()
	key := make([]byte, 24+source.Uint64()%41)
	source.Read(key)
	return parse(t, secretText(key))
}

func TestTheOfficialLibraryVerifiesWhatIsSigned(t *testing.T) {
	t.Parallel()
	source := rand.NewChaCha8([32]byte{1}) // the same inputs in every run
	for i := range 1000 {
		secrets := make([]signing.Secret, 1+i%3)
		for n := range secrets {
			secrets[n] = random(t, source)
		}
		body := make([]byte, source.Uint64()%3000)
		source.Read(body)
		id := "evt_" + strconv.FormatUint(source.Uint64(), 36)
		now := time.Now() // the library has no clock to set
		header := make(http.Header)
		header.Set("webhook-id", id)
		header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		header.Set("webhook-signature", newSigner(t, secrets...).Sign(id, now, body))
		for n, secret := range secrets { // each receiver has one of them
			official, err := standardwebhooks.NewWebhook(secret.Text())
			if err != nil {
				t.Fatalf("message %d, secret %d: %v", i, n, err)
			}
			if err := official.Verify(body, header); err != nil {
				t.Fatalf("message %d, secret %d: %v", i, n, err)
			}
			if err := official.Verify(append(body, 0), header); err == nil {
				t.Fatalf("message %d, secret %d: another body was verified", i, n)
			}
		}
	}
}

func TestASignerWithoutASecretIsRefused(t *testing.T) {
	t.Parallel()
	for name, secrets := range map[string][]signing.Secret{"none": nil, "an empty one": {parse(t, shown), {}}} {
		if s, err := signing.NewSigner(secrets...); !errors.Is(err, signing.ErrNoSecret) || s != nil {
			t.Errorf("%s: got %v, %v, want %v", name, s, err, signing.ErrNoSecret)
		}
	}
}

func TestAnIdThatMakesASignatureAmbiguousIsNotSigned(t *testing.T) {
	t.Parallel()
	s := newSigner(t, parse(t, shown))
	for _, id := range []string{"", "a.1", "."} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was signed", id)
				}
			}()
			s.Sign(id, at, nil)
		}()
	}
}

func TestManyGoroutinesShareASigner(t *testing.T) {
	t.Parallel()
	shared := newSigner(t, parse(t, shown), random(t, rand.NewChaCha8([32]byte{2})))
	type message struct {
		id   string
		body []byte
		want string
	}
	messages := make([]message, 64)
	for i := range messages {
		id := fmt.Sprintf("%s%s", eventID, strings.Repeat("x", i*7))
		body := []byte(strings.Repeat(id, i))
		messages[i] = message{id, body, shared.Sign(id, at, body)}
	}
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for i := range 200 {
				m := messages[(i*worker)%len(messages)]
				if got := shared.Sign(m.id, at, m.body); got != m.want {
					t.Errorf("got %s, want %s", got, m.want)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestSigningAllocatesTheTextAlone(t *testing.T) { // not parallel: it counts allocations
	if raceEnabled {
		t.Skip("under the race detector a sync.Pool drops some of what it is given")
	}
	for n := 1; n <= 3; n++ {
		s := newSigner(t, []signing.Secret{parse(t, shown), parse(t, shown), parse(t, shown)}[:n]...)
		body := make([]byte, 1024)
		if got := testing.AllocsPerRun(1000, func() { s.Sign(eventID, at, body) }); got >= 2 {
			t.Errorf("%d secrets: %v allocations, want 1", n, got)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	for _, c := range []struct{ secrets, size int }{{1, 256}, {1, 1024}, {2, 1024}, {1, 256 << 10}} {
		b.Run(fmt.Sprintf("secrets=%d/bytes=%d", c.secrets, c.size), func(b *testing.B) {
			s := newSigner(b, []signing.Secret{parse(b, shown), parse(b, shown)}[:c.secrets]...)
			body := make([]byte, c.size)
			b.ReportAllocs()
			b.SetBytes(int64(c.size))
			for b.Loop() {
				s.Sign(eventID, at, body)
			}
		})
	}
}
