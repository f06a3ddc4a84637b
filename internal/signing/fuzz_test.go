package signing_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/signing"
)

func secretText(key []byte) string { return "whsec_" + base64.StdEncoding.EncodeToString(key) }

// FuzzSecretText reads anything as a secret: what is taken is written back to the letter, what is refused is not
// repeated.
func FuzzSecretText(f *testing.F) {
	for _, text := range []string{shown, shown + "\n", shown[:30] + "\r\n" + shown[30:], strings.ToUpper(shown), "whsec_", "", secretText(make([]byte, 24)), secretText(make([]byte, 65))} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := signing.ParseSecret(text)
		if err != nil {
			if !errors.Is(err, signing.ErrMalformedSecret) || !s.IsZero() {
				t.Fatalf("got %v", err)
			}
			// Sixteen characters and more can't stand in our own texts by chance, but a fuzzer could copy them.
			if rest := strings.TrimPrefix(text, "whsec_"); len(rest) >= 32 && strings.Contains(err.Error(), rest) {
				t.Fatalf("the error tells the text: %v", err)
			}
			return
		}
		if s.Text() != text {
			t.Fatalf("got %q back, want %q", s.Text(), text)
		}
		key, err := base64.StdEncoding.DecodeString(text[6:])
		if err != nil || len(key) < 24 || len(key) > 64 {
			t.Fatalf("took a secret of %d bytes (%v)", len(key), err)
		}
		if strings.Contains(s.String()+s.GoString(), text[6:]) {
			t.Fatal("the secret prints")
		}
	})
}

// FuzzSecretBytes writes any bytes as a secret and reads them back.
func FuzzSecretBytes(f *testing.F) {
	for _, n := range []int{0, 23, 24, 25, 32, 64, 65} {
		f.Add(bytes.Repeat([]byte{0xfb}, n))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		text := secretText(key)
		s, err := signing.ParseSecret(text)
		if fits := len(key) >= 24 && len(key) <= 64; fits != (err == nil) {
			t.Fatalf("%d bytes: %v", len(key), err)
		}
		if err == nil && (s.Text() != text || len(s.Fingerprint()) != 8) {
			t.Fatalf("got %q back, want %q", s.Text(), text)
		}
	})
}

// FuzzOpen opens anything: it never panics, and nothing opens but what was sealed.
func FuzzOpen(f *testing.F) {
	golden, err := base64.StdEncoding.DecodeString(goldenSeal)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(golden[:20])
	f.Add([]byte{1, 255})
	f.Add(append([]byte{1, 2, 'k', '1'}, make([]byte, 44)...))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		ring := keys(t, entry)
		plain, err := ring.Open(sealed, "golden", owner)
		if err == nil && (!bytes.Equal(sealed, golden) || string(plain) != "what was sealed") {
			t.Fatalf("opened %x", sealed)
		}
		if err != nil && !errors.Is(err, signing.ErrSealBroken) && !errors.Is(err, signing.ErrUnknownKey) {
			t.Fatalf("got %v", err)
		}
		ring.NeedsReseal(sealed)
	})
}

// FuzzKeyring reads anything as a key ring: it never panics, and what it refuses it does not repeat.
func FuzzKeyring(f *testing.F) {
	for _, text := range []string{entry, entry + "," + entry, entry + ",k2:" + entry[3:], ",", "k1:", ":" + entry[3:], entry[3:] + ":k1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ring, err := signing.ParseKeyring(text)
		if err != nil {
			if !errors.Is(err, signing.ErrMalformedKeys) {
				t.Fatalf("got %v", err)
			}
			return
		}
		if len(ring.KeyIDs()) != strings.Count(text, ":") {
			t.Fatalf("got ids %v of %q", ring.KeyIDs(), text)
		}
		sealed, err := ring.Seal([]byte("x"), "p", owner)
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := ring.Open(sealed, "p", owner); err != nil || string(plain) != "x" {
			t.Fatalf("got %q (%v)", plain, err)
		}
	})
}
