package signing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrNoSecret says that there is nothing to sign with. An endpoint without a secret is a spoiled row: it must fail,
// not send what no receiver can verify.
var ErrNoSecret = errors.New("no secret to sign with")

// scheme marks a signature as HMAC-SHA256, the first version of Standard Webhooks.
const scheme = "v1,"

// Signer signs with the secrets of one endpoint. It may be used by many goroutines at once.
type Signer struct {
	secrets int
	states  sync.Pool // of *state: idle ones are dropped by the garbage collector
}

// state is what one call of Sign needs for itself: an HMAC a secret, keyed once, and room to write. Keying costs two
// of the about twenty blocks that a body of 1 KiB takes to hash; the room saves the allocations.
type state struct {
	macs []hash.Hash
	room []byte
}

// NewSigner makes a signer, the newest secret first. None at all, or a zero value among them, is ErrNoSecret.
func NewSigner(secrets ...Secret) (*Signer, error) {
	if len(secrets) == 0 {
		return nil, ErrNoSecret
	}
	keys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		if secret.IsZero() {
			return nil, fmt.Errorf("%w: number %d of %d is empty", ErrNoSecret, i+1, len(secrets))
		}
		keys[i] = secret.key()
	}
	s := &Signer{secrets: len(secrets)}
	s.states.New = func() any {
		st := &state{macs: make([]hash.Hash, len(keys))}
		for i, key := range keys {
			st.macs[i] = hmac.New(sha256.New, key)
		}
		return st
	}
	return s, nil
}

// Sign makes the value of webhook-signature for one attempt: "v1,… v1,…", a signature a secret, in the order of
// NewSigner. The webhook-timestamp that goes with it is at.Unix(). Body is signed as it is and not kept. The text is
// the only allocation.
//
// It panics on an id that is empty or holds a dot. The dot is what parts the signed text, so such an id would let two
// messages share a signature; ids are the gateway's own and never hold one.
func (s *Signer) Sign(id string, at time.Time, body []byte) string {
	if id == "" || strings.IndexByte(id, '.') >= 0 {
		panic("signing: an id must not be empty or hold a dot")
	}
	st := s.states.Get().(*state)
	defer s.states.Put(st)

	head := append(st.room[:0], id...)
	head = append(head, '.')
	head = strconv.AppendInt(head, at.Unix(), 10)
	head = append(head, '.')
	out := len(head) // the signatures are written behind it
	for i, mac := range st.macs {
		mac.Reset()
		mac.Write(head[:out])
		mac.Write(body)
		if i > 0 {
			head = append(head, ' ')
		}
		head = append(head, scheme...)
		head = appendSum(head, mac)
	}
	st.room = head
	return string(head[out:])
}

// encodedSum is the length of a SHA-256 in base64.
const encodedSum = (sha256.Size + 2) / 3 * 4

// appendSum writes a sum in base64 behind b, using the room behind that for the sum itself.
func appendSum(b []byte, mac hash.Hash) []byte {
	end := len(b) + encodedSum
	b = slices.Grow(b, encodedSum+sha256.Size)
	sum := mac.Sum(b[end:end])
	base64.StdEncoding.Encode(b[len(b):end], sum)
	return b[:end]
}

// String says how many secrets sign, and nothing of them.
func (s *Signer) String() string { return "signer of " + strconv.Itoa(s.secrets) + " secrets" }

// GoString hides the secrets from %#v.
func (s *Signer) GoString() string { return "signing.Signer(" + hidden + ")" }

// LogValue hides the secrets from slog.
func (s *Signer) LogValue() slog.Value { return slog.StringValue(s.String()) }
