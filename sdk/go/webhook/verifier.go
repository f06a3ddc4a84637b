package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// DefaultTolerance is how far a message's timestamp may lie from this machine's clock, before and after. It bounds how
// long a message that somebody recorded can be sent again; 5 minutes is what Standard Webhooks advises.
const DefaultTolerance = 5 * time.Minute

// scheme is the version of the signatures read here: HMAC-SHA256.
const scheme = "v1"

// Verifier checks messages against the secrets of an endpoint. It may be used by many goroutines at once, and prints
// without its secrets.
type Verifier struct {
	secrets   []secret
	tolerance time.Duration
	now       func() time.Time
}

// NewVerifier makes a verifier for an endpoint's secrets, each as the gateway showed it: whsec_ and base64. A message
// verifies when any of them signed it; give the new and the old one while a secret is changed over. None at all, or
// one that can't be read, is ErrMalformedSecret: stop there rather than serve without.
func NewVerifier(secrets ...string) (*Verifier, error) {
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%w (none was given)", ErrMalformedSecret)
	}
	v := &Verifier{tolerance: DefaultTolerance, now: time.Now}
	for i, text := range secrets {
		s, err := parseSecret(text)
		if err != nil {
			return nil, fmt.Errorf("secret %d of %d: %w", i+1, len(secrets), err)
		}
		v.secrets = append(v.secrets, s)
	}
	return v, nil
}

// WithTolerance gives a verifier like this one that lets timestamps lie up to d from its clock. It panics if d is not
// positive.
func (v *Verifier) WithTolerance(d time.Duration) *Verifier {
	if d <= 0 {
		panic("webhook: a tolerance must be positive")
	}
	other := *v
	other.tolerance = d
	return &other
}

// WithClock gives a verifier like this one that takes the time from now, for tests.
func (v *Verifier) WithClock(now func() time.Time) *Verifier {
	other := *v
	other.now = now
	return &other
}

// Message is a request that was verified.
type Message struct {
	ID     string    // webhook-id: the same in every attempt. Keep it to know a message again.
	SentAt time.Time // webhook-timestamp: of this attempt, in whole seconds
	Body   []byte    // the bytes that were given to Verify
}

// Verify checks the raw body and the headers of a request. The headers' names may be in any case, as they come from the
// events of cloud functions too.
//
// Each error is one of this package's Err…, with its own Code. Nothing of a message that is refused can be relied
// on. The timestamp is checked before the signature: a message that is both late and forged is too old.
func (v *Verifier) Verify(body []byte, header http.Header) (Message, error) {
	id, err := single(header, HeaderID, ErrMissingID)
	if err != nil {
		return Message{}, err
	}
	stamp, err := single(header, HeaderTimestamp, ErrMissingTimestamp)
	if err != nil {
		return Message{}, err
	}
	tokens := strings.Fields(strings.Join(values(header, HeaderSignature), " "))
	if len(tokens) == 0 {
		return Message{}, ErrMissingSignature
	}
	if err := checkID(id); err != nil {
		return Message{}, err
	}
	timestamp, err := parseTimestamp(stamp)
	if err != nil {
		return Message{}, err
	}
	if err := v.checkAge(timestamp); err != nil {
		return Message{}, err
	}
	sums, err := parseSignatures(tokens)
	if err != nil {
		return Message{}, err
	}
	if !v.matches(sums, id, timestamp, body) {
		return Message{}, v.explain(sums, id, timestamp, body)
	}
	return Message{ID: id, SentAt: time.Unix(timestamp, 0), Body: body}, nil
}

// matches says whether one of the secrets made one of the sums. Sums are compared in constant time.
func (v *Verifier) matches(sums [][]byte, id string, timestamp int64, body []byte) bool {
	for _, s := range v.secrets {
		want := s.sign(id, timestamp, body)
		for _, sum := range sums {
			if hmac.Equal(sum, want) {
				return true
			}
		}
	}
	return false
}

// checkAge holds a timestamp to the clock. It reckons in seconds of its own: time.Time and time.Duration overflow for
// times that a stranger may well send.
func (v *Verifier) checkAge(timestamp int64) error {
	now := v.now()
	age := float64(now.Unix()-timestamp) + float64(now.Nanosecond())/1e9
	limit := v.tolerance.Seconds()
	switch {
	case age > limit:
		return fmt.Errorf("%w (it was sent %.0f s ago by this machine's clock, and may be %.0f s old)", ErrTooOld, math.Ceil(age), limit)
	case age < -limit:
		return fmt.Errorf("%w (it is %.0f s ahead of this machine's clock, and may be %.0f s ahead)", ErrTooNew, math.Ceil(-age), limit)
	default:
		return nil
	}
}

// parseTimestamp reads seconds since 1970, written the one way a number is written: two texts for one time would let
// the text that was signed differ from the one that was sent.
func parseTimestamp(text string) (int64, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || strconv.FormatInt(seconds, 10) != text {
		return 0, fmt.Errorf("%w (it is %s)", ErrMalformedTimestamp, short(text))
	}
	return seconds, nil
}

// parseSignatures reads the sums of our version. Others beside them are passed over, as a sender that changes over to
// another scheme signs with both.
func parseSignatures(tokens []string) ([][]byte, error) {
	var sums [][]byte
	malformed, other := false, ""
	for _, token := range tokens {
		version, encoded, ok := strings.Cut(token, ",")
		switch {
		case !ok || version == "":
			malformed = true
		case version != scheme:
			other = version
		default:
			sum, err := base64.StdEncoding.Strict().DecodeString(encoded)
			if err != nil || len(sum) != sha256.Size {
				malformed = true
				continue
			}
			sums = append(sums, sum)
		}
	}
	switch {
	case len(sums) > 0:
		return sums, nil
	case malformed:
		return nil, ErrMalformedSignature
	default:
		return nil, fmt.Errorf("%w (it is %s)", ErrUnknownVersion, short(other))
	}
}

// values collects what a header says, under its name in any case: a map that was not filled by net/http may hold
// "webhook-id". Empty values are left out.
func values(header http.Header, name string) []string {
	var found []string
	for key, all := range header {
		if !strings.EqualFold(key, name) {
			continue
		}
		for _, value := range all {
			if value = strings.TrimSpace(value); value != "" {
				found = append(found, value)
			}
		}
	}
	return found
}

// single is the one value of a header. Two that differ leave open which one was signed and which one a program that
// reads the header itself would take.
func single(header http.Header, name string, missing error) (string, error) {
	all := values(header, name)
	if len(all) == 0 {
		return "", missing
	}
	for _, value := range all[1:] {
		if value != all[0] {
			return "", fmt.Errorf("%w (%s)", ErrRepeatedHeader, strings.ToLower(name))
		}
	}
	return all[0], nil
}

// short quotes what a stranger sent for an error's text.
func short(text string) string {
	const most = 40
	if len(text) > most {
		return strconv.QuoteToASCII(text[:most]) + "…"
	}
	return strconv.QuoteToASCII(text)
}

// fingerprints names the secrets without telling them.
func (v *Verifier) fingerprints() string {
	all := make([]string, len(v.secrets))
	for i, s := range v.secrets {
		all[i] = s.fingerprint
	}
	return strings.Join(all, ", ")
}

// String tells the fingerprints of the secrets.
func (v *Verifier) String() string { return "webhook.Verifier(" + v.fingerprints() + ")" }

// GoString hides the secrets from %#v.
func (v *Verifier) GoString() string { return v.String() }

// LogValue hides the secrets from slog.
func (v *Verifier) LogValue() slog.Value { return slog.StringValue(v.String()) }
