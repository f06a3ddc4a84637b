package tenant

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// maxText is the longest token in bytes; the server's own limit of a request's headers lies above it.
	maxText = 8 << 10
	// leeway is how far two clocks may differ: for exp, nbf and iat.
	leeway = 30 * time.Second
	// maxVerified bounds the tokens whose signature is not verified again; each takes about a kilobyte.
	maxVerified = 10_000
)

// verifier reads tokens by their text, a clock and a set of keys alone.
//
// A signature takes more time to verify than the rest of a small request, so a token that was found good is kept under
// the hash of its text; its times and its key are looked at each time.
type verifier struct {
	cfg    AuthorityConfig
	parser *jwt.Parser
	times  *jwt.Validator

	mu   sync.Mutex
	good map[[sha256.Size]byte]*verified
}

type verified struct {
	claims claims
	caller Caller
	kid    string
}

// findKey returns the public key of an id.
type findKey func(kid string) (ed25519.PublicKey, error)

func newVerifier(c AuthorityConfig) *verifier {
	return &verifier{
		cfg: c,
		// The claims are validated apart from the signature, since they are each time and the signature is not.
		parser: jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation()),
		times: jwt.NewValidator(jwt.WithIssuer(c.Issuer), jwt.WithAudience(c.Audience, c.AdminAudience), jwt.WithExpirationRequired(),
			jwt.WithIssuedAt(), jwt.WithLeeway(leeway), jwt.WithTimeFunc(c.Now)),
		good: make(map[[sha256.Size]byte]*verified),
	}
}

// verify returns what a token says, if it is ours and valid now. A *TokenError is about the token; other errors come
// from find.
func (v *verifier) verify(text string, find findKey) (*verified, error) {
	if err := lookAt(text); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(text))
	v.mu.Lock()
	known := v.good[sum]
	v.mu.Unlock()
	if known != nil {
		if _, err := find(known.kid); err != nil {
			return nil, err
		}
		return known, v.checkClaims(&known.claims)
	}
	fresh, err := v.parse(text, find)
	if err != nil {
		return nil, err
	}
	if err := v.checkClaims(&fresh.claims); err != nil {
		return nil, err
	}
	if fresh.caller, err = fresh.claims.caller(string(fresh.claims.Audience) == v.cfg.AdminAudience, v.cfg.MaxLifetime); err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.good) >= maxVerified {
		clear(v.good)
	}
	v.good[sum] = fresh
	return fresh, nil
}

// lookAt refuses what can be told to be no token without reading it, and cheaply.
func lookAt(text string) error {
	switch {
	case text == "":
		return &TokenError{Reason: ErrTokenMissing, Detail: "There is no token: send it as `Authorization: Bearer <token>`."}
	case len(text) > maxText:
		return malformed("It is longer than %d bytes.", maxText)
	case strings.HasPrefix(text, "whsec_"):
		return malformed("This is the signing secret of an endpoint. It belongs into the receiver that verifies; calls to the API need a token.")
	case strings.HasPrefix(text, "tok_"):
		return malformed("This is the id of a token, not the token, which was shown when it was created.")
	case len(text) > 7 && strings.EqualFold(text[:7], "bearer "):
		return malformed("The word Bearer is there twice.")
	case strings.Count(text, ".") != 2 || strings.ContainsFunc(text, notOfToken):
		return notJWT()
	}
	return nil
}

// notOfToken finds what base64url has not. The decoder passes over line breaks, so one token could be written in many
// ways.
func notOfToken(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

func notJWT() *TokenError {
	return malformed("It is not a JWT as this gateway issues them: three parts of base64url, separated by dots.")
}

// parse verifies the signature.
func (v *verifier) parse(text string, find findKey) (*verified, error) {
	fresh := &verified{}
	var keyErr error
	token, err := v.parser.ParseWithClaims(text, &fresh.claims, func(t *jwt.Token) (any, error) {
		if _, critical := t.Header["crit"]; critical {
			keyErr = malformed("Its header has crit, which nothing here understands.")
			return nil, keyErr
		}
		kid, ok := t.Header["kid"].(string)
		if !ok || kid == "" {
			keyErr = malformed("Its header names no key (kid).")
			return nil, keyErr
		}
		fresh.kid = kid
		var key ed25519.PublicKey
		key, keyErr = find(kid)
		return key, keyErr
	})
	switch {
	case err == nil:
		return fresh, nil
	case keyErr != nil:
		return nil, keyErr
	case errors.Is(err, jwt.ErrTokenMalformed):
		return nil, notJWT()
	case token != nil && (token.Method == nil || token.Method.Alg() != jwt.SigningMethodEdDSA.Alg()):
		return nil, malformed("It is not signed with EdDSA, the only algorithm that is accepted.")
	}
	return nil, malformed("Its signature does not fit its content: it was changed, or a part of it is missing.")
}

// checkClaims looks at issuer, audience and times.
func (v *verifier) checkClaims(c *claims) error {
	err := v.times.Validate(c)
	if err == nil {
		return nil
	}
	refused := func(reason error, at *seconds, format string, args ...any) *TokenError {
		e := &TokenError{Reason: reason, Detail: fmt.Sprintf(format, args...)}
		if at != nil {
			e.At, e.ServerTime = at.time().UTC(), v.cfg.Now().UTC().Truncate(time.Second)
			e.Detail += fmt.Sprintf(" It says %s; the server's clock says %s.", e.At.Format(time.RFC3339), e.ServerTime.Format(time.RFC3339))
		}
		return e
	}
	switch {
	case errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return refused(ErrTokenWrongIssuer, nil, "It was issued by %.100q; this gateway takes those of %q.", c.Issuer, v.cfg.Issuer)
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return refused(ErrTokenWrongAudience, nil, "It is for %.100q; this gateway is %q and, for operators, %q.", c.Audience, v.cfg.Audience, v.cfg.AdminAudience)
	case errors.Is(err, jwt.ErrTokenExpired):
		return refused(ErrTokenExpired, c.ExpiresAt, "It has expired (exp).")
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return refused(ErrTokenNotYetValid, c.NotBefore, "It is not valid yet (nbf).")
	case errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return refused(ErrTokenNotYetValid, c.IssuedAt, "It was issued in the future (iat).")
	}
	return malformed("A claim is missing: iss, aud or exp.")
}
