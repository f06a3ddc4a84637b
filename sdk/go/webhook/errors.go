package webhook

import "errors"

// Why a message was refused. Compare with errors.Is; what Verify returns wraps one of these and adds what it saw.
var (
	ErrMissingID        error = &refusal{"id_missing", "there is no webhook-id header: either this is not a webhook, or a proxy dropped the header"}
	ErrMissingTimestamp error = &refusal{"timestamp_missing", "there is no webhook-timestamp header: check that no proxy drops it"}
	ErrMissingSignature error = &refusal{"signature_missing", "there is no webhook-signature header: check that no proxy drops it"}
	ErrRepeatedHeader   error = &refusal{"header_repeated", "a header that is signed came twice with different values: check which proxy adds one"}

	ErrMalformedID        error = &refusal{"id_malformed", "webhook-id holds a dot: the dot parts what is signed, so such an id proves nothing"}
	ErrMalformedTimestamp error = &refusal{"timestamp_malformed", "webhook-timestamp is not a whole number of seconds since 1970"}
	ErrMalformedSignature error = &refusal{"signature_malformed", "webhook-signature holds no signature that can be read: want v1, and the base64 of 32 bytes, several parted by a space"}
	ErrUnknownVersion     error = &refusal{"signature_version_unknown", "webhook-signature holds no v1 signature: the sender signs with a scheme that is not known here"}

	ErrTooOld error = &refusal{"timestamp_too_old", "the message is too old: it was held up or sent again by somebody else, or this machine's clock is ahead"}
	ErrTooNew error = &refusal{"timestamp_too_new", "the message is from the future: this machine's clock is behind, or the sender's is ahead"}

	// ErrNoMatch is what a forged message gives, and the commonest mistakes in setting up.
	ErrNoMatch error = &refusal{"signature_mismatch", "no signature matches: the secret is another endpoint's or no longer used, or the body is not exactly the bytes that came"}
	// ErrBodyChanged says that the message is genuine, and that the bytes given to Verify are not the ones that came. It is
	// given where this can be proved; a body that was changed past recognition is an ErrNoMatch.
	ErrBodyChanged error = &refusal{"body_changed", "the body is not the one that was signed: verify the raw bytes, before anything reads, parses or writes them again"}

	// ErrMalformedSecret is an error of NewVerifier, Sign and Fingerprint: of the set-up, never of a message.
	ErrMalformedSecret error = &refusal{"secret_malformed", "the secret is malformed: copy it whole from the endpoint, from whsec_ to the last ="}
	// ErrMalformedEvent says that a message is genuine, and that its body is not an event as the gateway sends them.
	ErrMalformedEvent error = &refusal{"event_malformed", "the body is not an event of the gateway"}
)

// refusal is a cause with the short name that every client of the gateway has for it.
type refusal struct{ code, text string }

// Error is the cause and what to do about it.
func (r *refusal) Error() string { return "webhook: " + r.text }

// Code is the short name of a cause: "signature_mismatch", "timestamp_too_old". The names are a closed set, good for a
// metric's label, and the same in every client of the gateway. It is empty for any other error, and for nil.
func Code(err error) string {
	var r *refusal
	if errors.As(err, &r) {
		return r.code
	}
	return ""
}
