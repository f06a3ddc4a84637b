package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// authorize says whose request it is and whether the operation is theirs to call, as the contract has it. It runs
// before the body is read.
func (s *Server) authorize(x *exchange) error {
	o := x.op
	if o.audience == anyone {
		return nil
	}
	bearer, err := bearerOf(x.Request().Header)
	if err != nil {
		return err
	}
	caller, err := s.cfg.Authority.Authenticate(x.Request().Context(), bearer)
	if err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	if caller.Admin != (o.audience == operators) {
		detail := "This is a tenant's token, and the operation is for operators."
		if caller.Admin {
			detail = "This is an operator's token, and the operation is for tenants."
		}
		return challenge(refuse(codeTokenWrongAudience, detail))
	}
	x.caller = &caller
	if o.scope != "" && !caller.Allows(o.scope) {
		return scopeMissing(o.scope)
	}
	if caller.Suspended && o.changes() {
		return refuse(codeTenantSuspended, "This tenant is suspended. It can read, but change nothing.")
	}
	return nil
}

// bearerOf returns the token of a request.
func bearerOf(h http.Header) (string, error) {
	values := h.Values("Authorization")
	switch len(values) {
	case 0:
		return "", challenge(refuse(codeTokenMissing, "The request has no Authorization."))
	case 1:
	default:
		return "", challenge(refuse(codeTokenMalformed, "The request has more than one Authorization."))
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", challenge(refuse(codeTokenMissing, "The Authorization of the request is not of the kind Bearer."))
	}
	token = strings.Trim(token, " ")
	if token == "" {
		return "", challenge(refuse(codeTokenMissing, "There is nothing after the word Bearer."))
	}
	return token, nil
}

// tokenCodes are the codes of refused tokens.
func tokenCodes() map[error]code {
	return map[error]code{
		tenant.ErrTokenMissing:       codeTokenMissing,
		tenant.ErrTokenMalformed:     codeTokenMalformed,
		tenant.ErrTokenExpired:       codeTokenExpired,
		tenant.ErrTokenNotYetValid:   codeTokenNotYetValid,
		tenant.ErrTokenWrongAudience: codeTokenWrongAudience,
		tenant.ErrTokenWrongIssuer:   codeTokenWrongIssuer,
		tenant.ErrTokenUnknownKey:    codeTokenUnknownKey,
		tenant.ErrTokenRevoked:       codeTokenRevoked,
	}
}

// refuseToken words why a token is not accepted.
func refuseToken(e *tenant.TokenError) *refusal {
	detail := e.Detail
	if !e.At.IsZero() {
		detail = fmt.Sprintf("%s It says %s; the gateway's clock says %s.", detail,
			e.At.UTC().Format(time.RFC3339), e.ServerTime.UTC().Format(time.RFC3339))
	}
	for reason, c := range tokenCodes() {
		if errors.Is(e.Reason, reason) {
			return challenge(refuse(c, detail))
		}
	}
	return challenge(refuse(codeTokenMalformed, detail))
}

// challenge adds what RFC 6750 wants with a 401.
func challenge(r *refusal) *refusal {
	value := `Bearer realm="sallyport"`
	if r.code != codeTokenMissing {
		value += fmt.Sprintf(`, error="invalid_token", error_description=%q`, plainASCII(r.detail))
	}
	return r.with("WWW-Authenticate", value)
}

func scopeMissing(scope string) *refusal {
	r := refuse(codeScopeMissing, "This operation needs the scope %q.", scope)
	r.requiredScope = scope
	return r.with("WWW-Authenticate", fmt.Sprintf(`Bearer realm="sallyport", error="insufficient_scope", scope=%q`, scope))
}

// plainASCII keeps of a text what a quoted text in a header may hold.
func plainASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, text)
}
