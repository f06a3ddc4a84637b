package signing

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// secretPrefix marks a text as a webhook secret, for people and for scanners of leaked credentials.
const secretPrefix = "whsec_"

// The length of a secret in bytes, before base64. The least and the most are those of Standard Webhooks; ours have
// the size of the hash, past which a longer key of HMAC-SHA256 adds nothing.
const (
	minSecret = 24
	maxSecret = 64
	newSecret = 32
)

// hidden is what key material prints as.
const hidden = "[redacted]"

// ErrMalformedSecret says that a text is no secret. What wraps it tells why, and never repeats the text.
var ErrMalformedSecret = errors.New("malformed secret")

// Secret is the key that an endpoint and its receiver share. It prints as "[redacted]" everywhere; only Text tells
// it. Two secrets are compared with Equal: the type does not allow ==. The zero value is no secret.
type Secret struct {
	// fmt does not call the methods of a Secret in an unexported field, and prints bytes down to the last pointer;
	// but of a function it prints the address.
	key func() []byte
}

func holding(key []byte) Secret { return Secret{key: func() []byte { return key }} }

// NewSecret makes a secret of 32 random bytes.
func NewSecret() (Secret, error) {
	key := make([]byte, newSecret)
	if _, err := rand.Read(key); err != nil {
		return Secret{}, fmt.Errorf("make a secret: %w", err)
	}
	return holding(key), nil
}

// ParseSecret reads a secret as it is shown to people: whsec_ and the base64 of 24 to 64 bytes. It accepts the one
// text that Text gives back and no other: standard alphabet, padded, no white space, no stray bits at the end. What
// is not that is an ErrMalformedSecret that says what is wrong with it.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return Secret{}, fmt.Errorf("%w: it does not begin with %s", ErrMalformedSecret, secretPrefix)
	}
	key, err := decode(encoded)
	if err != nil {
		return Secret{}, fmt.Errorf("%w: after %s, %w", ErrMalformedSecret, secretPrefix, err)
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return Secret{}, fmt.Errorf("%w: it holds %d bytes, and must hold %d to %d", ErrMalformedSecret, len(key), minSecret, maxSecret)
	}
	return holding(key), nil
}

// What can be wrong with base64. None of them repeats the text, which may be most of a key.
var (
	errWhiteSpace  = errors.New("there is white space in the base64")
	errURLAlphabet = errors.New("the base64 is of the URL alphabet (- and _), not of the standard one (+ and /)")
	errNoPadding   = errors.New("the base64 is cut short, or its padding (=) is missing")
	errNotBase64   = errors.New("it is not base64")
)

// decode reads canonical standard base64. The decoder of the standard library, its strict one too, skips line
// breaks; so what it read is written again and must be the same.
func decode(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	switch {
	case err == nil && base64.StdEncoding.EncodeToString(raw) == text:
		return raw, nil
	case strings.ContainsAny(text, " \t\r\n\v\f"):
		return nil, errWhiteSpace
	case strings.ContainsAny(text, "-_"):
		return nil, errURLAlphabet
	case len(text)%4 != 0:
		return nil, errNoPadding
	default:
		return nil, errNotBase64
	}
}

// Text reveals the secret: what ParseSecret reads. Show it to its owner once, and otherwise only seal it. It is
// empty for the zero value.
func (s Secret) Text() string {
	if s.IsZero() {
		return ""
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(s.key())
}

// fingerprintLabel keeps a fingerprint from being the beginning of any other hash of the same bytes.
const fingerprintLabel = "sallyport secret fingerprint\n"

// Fingerprint is a name for the secret that may be shown and stored: 8 hex digits, the same for the same secret.
// Half of 32 bits is far too little to find 24 random bytes by, and enough to tell an endpoint's few secrets
// apart. It is empty for the zero value.
func (s Secret) Fingerprint() string {
	if s.IsZero() {
		return ""
	}
	sum := sha256.Sum256(append([]byte(fingerprintLabel), s.key()...))
	return hex.EncodeToString(sum[:4])
}

// IsZero says whether there is no secret.
func (s Secret) IsZero() bool { return s.key == nil }

// Equal says whether two secrets are the same, in a time that does not depend on where they differ.
func (s Secret) Equal(other Secret) bool {
	if s.IsZero() || other.IsZero() {
		return s.IsZero() && other.IsZero()
	}
	return subtle.ConstantTimeCompare(s.key(), other.key()) == 1
}

// String hides the secret; the zero value prints as nothing.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return hidden
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return "signing.Secret(" + s.String() + ")" }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON hides the secret from JSON. What shows a secret to its owner asks for its Text.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }
