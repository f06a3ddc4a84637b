package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

const secretPrefix = "whsec_"

// The length of a secret in bytes, as Standard Webhooks bounds it.
const (
	minSecret = 24
	maxSecret = 64
)

// secret is a key as it is used. The key stands behind a function: fmt prints what it is given down to unexported
// fields, slices and pointers, but of a function only its address.
type secret struct {
	key         func() []byte
	fingerprint string
}

// parseSecret reads a secret strictly: what is cut or padded wrongly is found when a program starts, not when its first
// message comes. Its errors never repeat the text.
func parseSecret(text string) (secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	switch {
	case text == "":
		return secret{}, fmt.Errorf("%w (it is empty: is the variable set?)", ErrMalformedSecret)
	case strings.TrimSpace(text) != text:
		return secret{}, fmt.Errorf("%w (there is white space around it: trim the line break of the file)", ErrMalformedSecret)
	case !ok:
		return secret{}, fmt.Errorf("%w (it does not begin with %s)", ErrMalformedSecret, secretPrefix)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || base64.StdEncoding.EncodeToString(key) != encoded { // the decoder skips line breaks
		return secret{}, fmt.Errorf("%w (what follows %s is not padded base64 of the standard alphabet)", ErrMalformedSecret, secretPrefix)
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return secret{}, fmt.Errorf("%w (it holds %d bytes, and must hold %d to %d)", ErrMalformedSecret, len(key), minSecret, maxSecret)
	}
	sum := sha256.Sum256(append([]byte("sallyport secret fingerprint\n"), key...))
	return secret{key: func() []byte { return key }, fingerprint: hex.EncodeToString(sum[:4])}, nil
}

// sign is the HMAC-SHA256 of "id.timestamp.body".
func (s secret) sign(id string, timestamp int64, body []byte) []byte {
	mac := hmac.New(sha256.New, s.key())
	mac.Write([]byte(id + "." + strconv.FormatInt(timestamp, 10) + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// Fingerprint is the name that the gateway shows for a secret (8 hex digits), to compare with what the endpoint's page
// says. It is no secret itself. The error is ErrMalformedSecret.
func Fingerprint(text string) (string, error) {
	s, err := parseSecret(text)
	if err != nil {
		return "", err
	}
	return s.fingerprint, nil
}
