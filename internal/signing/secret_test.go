package signing_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/signing"
)

// shown is a secret whose bytes are easy to find in a text: 0 to 31.
const shown = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

func parse(t testing.TB, text string) signing.Secret {
	t.Helper()
	s, err := signing.ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSecretsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for _, c := range readVectors(t).Secrets {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			s, err := signing.ParseSecret(c.Text)
			if c.Error != "" {
				if !errors.Is(err, signing.ErrMalformedSecret) || !s.IsZero() {
					t.Fatalf("got %v, want %v", err, signing.ErrMalformedSecret)
				}
				if len(c.Text) > 10 && strings.Contains(err.Error(), c.Text[6:]) {
					t.Errorf("the error tells the secret: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s.Text() != c.Text {
				t.Errorf("got %s back, want %s", s.Text(), c.Text)
			}
			if s.Fingerprint() != c.Fingerprint {
				t.Errorf("got fingerprint %s, want %s", s.Fingerprint(), c.Fingerprint)
			}
		})
	}
}

func TestMalformedSecretsAreToldApart(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		shown[6:]:                      "begin with whsec_",
		shown + "\n":                   "white space",
		strings.TrimSuffix(shown, "="): "padding",
		"whsec_--__" + shown[10:]:      "URL alphabet",
		"whsec_AAEC":                   "3 bytes",
		"whsec_!!!!":                   "not base64",
	} {
		if _, err := signing.ParseSecret(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", text, err, want)
		}
	}
}

func TestNewSecretsAreUniqueAndReadable(t *testing.T) {
	t.Parallel()
	texts := make(map[string]bool)
	for range 1000 {
		s, err := signing.NewSecret()
		if err != nil {
			t.Fatal(err)
		}
		if texts[s.Text()] {
			t.Fatal("a secret came twice")
		}
		texts[s.Text()] = true
		if again := parse(t, s.Text()); !again.Equal(s) || len(s.Text()) != len(shown) {
			t.Fatalf("a new secret is not read as it was written, or does not hold 32 bytes: %d characters", len(s.Text()))
		}
	}
}

func TestSecretsAreEqualByTheirBytes(t *testing.T) {
	t.Parallel()
	a, again := parse(t, shown), parse(t, shown)
	other, err := signing.NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	longer := parse(t, "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g")
	var zero signing.Secret
	switch {
	case !a.Equal(again) || a.Fingerprint() != again.Fingerprint():
		t.Error("the same bytes differ")
	case a.Equal(other) || other.Equal(a) || a.Equal(longer) || a.Fingerprint() == longer.Fingerprint():
		t.Error("other bytes are equal")
	case a.Equal(zero) || zero.Equal(a) || !zero.Equal(zero):
		t.Error("no secret equals a secret, or not itself")
	case zero.Text() != "" || zero.Fingerprint() != "" || zero.String() != "" || !zero.IsZero() || a.IsZero():
		t.Error("no secret looks like one")
	}
}

// printed is everything that could print a value, from inside another package's structs too.
func printed(t *testing.T, values ...any) string {
	t.Helper()
	var out bytes.Buffer
	for _, v := range values {
		inner := struct{ hidden any }{struct{ hidden any }{v}}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%c", "%t", "%U"} {
			fmt.Fprintf(&out, verb+"\n"+verb+"\n"+verb+"\n", v, inner, []any{v})
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v, "inner", inner)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v, "inner", inner)
		text, err := json.Marshal(map[string]any{"v": v, "inner": struct{ V any }{v}})
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
		out.WriteString(fmt.Errorf("with %v", v).Error())
	}
	return out.String()
}

// tellsBytes finds the bytes 0, 1, 2, … of a key in a text, however they are written.
func tellsBytes(text string) string {
	for _, leak := range []string{shown[6:], shown[6:20], "0 1 2 3 4 5", "0x0, 0x1, 0x2", "0x00, 0x01", "000102030405", "0 1 10 11 100 101", "\x00\x01\x02\x03", `\x00\x01\x02`, `\u0000\u0001`, "U+0000 U+0001"} {
		if strings.Contains(text, leak) {
			return leak
		}
	}
	return ""
}

func TestNothingPrintsASecret(t *testing.T) {
	t.Parallel()
	secret := parse(t, shown)
	signer, err := signing.NewSigner(secret, secret)
	if err != nil {
		t.Fatal(err)
	}
	signer.Sign("a", at, nil) // so that it holds a state
	ring, err := signing.ParseKeyring("k1:" + shown[6:])
	if err != nil {
		t.Fatal(err)
	}
	type holder struct {
		open   signing.Secret
		Open   signing.Secret
		list   []signing.Secret
		ring   signing.Keyring
		signer *signing.Signer
	}
	held := holder{secret, secret, []signing.Secret{secret}, *ring, signer}
	text := printed(t, secret, &secret, signer, ring, *ring, held, &held)
	if leak := tellsBytes(text); leak != "" {
		t.Errorf("%q is in what was printed", leak)
	}
	if !strings.Contains(text, "[redacted]") || !strings.Contains(text, "k1") {
		t.Error("nothing tells that there is something")
	}
	if tellsBytes(printed(t, []byte{0, 1, 2, 3, 4, 5})) == "" {
		t.Error("this test would not find a leak")
	}
}
