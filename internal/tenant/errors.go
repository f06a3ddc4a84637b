package tenant

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound says that there is no such tenant or token, or that it is not the caller's.
	ErrNotFound = errors.New("not found")
	// ErrUIDTaken says that another thing has the uid.
	ErrUIDTaken = errors.New("the uid is taken")
	// ErrVersion says that the thing has changed since the version that the caller named. The error is a *VersionError.
	ErrVersion = errors.New("the version is another")
)

// Why a token is refused. Each comes as a *TokenError with the details.
var (
	ErrTokenMissing       = errors.New("no token")
	ErrTokenMalformed     = errors.New("malformed token")
	ErrTokenExpired       = errors.New("expired token")
	ErrTokenNotYetValid   = errors.New("token is not valid yet")
	ErrTokenWrongAudience = errors.New("token for another audience")
	ErrTokenWrongIssuer   = errors.New("token of another issuer")
	ErrTokenUnknownKey    = errors.New("token signed with an unknown key")
	ErrTokenRevoked       = errors.New("revoked token")
)

// TokenError says why a token is refused, and what its bearer can know to set it right.
type TokenError struct {
	Reason     error     // one of the ErrToken… above
	Detail     string    // a sentence for whoever sent the token; it holds no part of a secret
	At         time.Time // what is too early or too late: exp, nbf or iat; zero for other reasons
	ServerTime time.Time // beside At
}

func (e *TokenError) Error() string { return e.Reason.Error() + ": " + e.Detail }

// Unwrap returns the reason.
func (e *TokenError) Unwrap() error { return e.Reason }

// VersionError is ErrVersion with the version that would have been right.
type VersionError struct{ Current int64 }

func (e *VersionError) Error() string { return fmt.Sprintf("%v: it is %d", ErrVersion, e.Current) }

// Unwrap returns ErrVersion.
func (e *VersionError) Unwrap() error { return ErrVersion }

// Codes of an Invalid.
const (
	CodeInvalid      = "validation_failed"
	CodeGlob         = "glob_invalid"
	CodeNotGrantable = "scope_not_grantable"
)

// Invalid says which field of a request is wrong.
type Invalid struct {
	Field  string // a JSON pointer into the request, without its first slash: scopes/2
	Code   string
	Detail string // a sentence for the caller
	Hint   string // what to do; may be empty
}

func (e *Invalid) Error() string { return fmt.Sprintf("%s: %s: %s", e.Code, e.Field, e.Detail) }

func invalid(field, format string, args ...any) *Invalid {
	return &Invalid{Field: field, Code: CodeInvalid, Detail: fmt.Sprintf(format, args...)}
}
