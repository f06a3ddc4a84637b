package webhook

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a message.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// Sign makes the headers of a message as the gateway does, for tests of a receiver: set them on a request with this
// body. An Event makes a body with json.Marshal. The errors are ErrMalformedSecret, ErrMissingID and ErrMalformedID.
func Sign(secret, id string, at time.Time, body []byte) (http.Header, error) {
	s, err := parseSecret(secret)
	if err != nil {
		return nil, err
	}
	if err := checkID(id); err != nil {
		return nil, err
	}
	h := make(http.Header, 3)
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(HeaderSignature, scheme+","+base64.StdEncoding.EncodeToString(s.sign(id, at.Unix(), body)))
	return h, nil
}

// checkID refuses what makes a signature ambiguous: were dots allowed, "a.1" at 2 and "a" at 1 with a body that begins
// with "2." would sign alike.
func checkID(id string) error {
	switch {
	case id == "":
		return ErrMissingID
	case strings.Contains(id, "."):
		return fmt.Errorf("%w (it is %s)", ErrMalformedID, short(id))
	default:
		return nil
	}
}
