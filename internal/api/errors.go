package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/sallyport-dev/sallyport/internal/delivery"
	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/idempotency"
	"github.com/sallyport-dev/sallyport/internal/outbox"
	"github.com/sallyport-dev/sallyport/internal/postgres"
	"github.com/sallyport-dev/sallyport/internal/tenant"
)

// sentinel is an error of the domain and the problem that it becomes.
type sentinel struct {
	err    error
	code   code
	detail string
}

// sentinels is the one table of them. What is not here, and is no error with a type of its own, is internal.
func sentinels() []sentinel {
	return []sentinel{
		{outbox.ErrNotFound, codeNotFound, nothingHere},
		{delivery.ErrNotFound, codeNotFound, nothingHere},
		{endpoint.ErrNotFound, codeNotFound, nothingHere},
		{tenant.ErrNotFound, codeNotFound, nothingHere},
		{outbox.ErrUIDConflict, codeEventUIDConflict, "An event with this uid and other content was accepted before. It is unchanged."},
		{endpoint.ErrUIDTaken, codeUIDConflict, "Another endpoint has this uid."},
		{tenant.ErrUIDTaken, codeUIDConflict, "Another tenant has this uid."},
		{endpoint.ErrRotationLimit, codeRotationLimit, "Three secrets of the endpoint sign already."},
		{endpoint.ErrLimit, codeEndpointLimit, "The tenant has as many endpoints as it may have."},
		{idempotency.ErrReused, codeIdempotencyKeyReused, "The Idempotency-Key was used for another request."},
		{echo.ErrNotFound, codeNotFound, "There is no such path."},
		{errBodyCut, codeMalformedJSON, "The body ended before it was whole."},
	}
}

// nothingHere is said of an id that does not exist and of one that is another tenant's.
const nothingHere = "There is nothing here that this token can see."

func notFound() *refusal { return refuse(codeNotFound, nothingHere) }

// retryAfter is how many seconds a client is asked to wait while the database is away.
const retryAfter = 2

// refusalOf turns any error into the problem that the client is told.
func refusalOf(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	if errors.Is(err, idempotency.ErrInProgress) {
		return refuse(codeRequestInProgress, "A request with this Idempotency-Key is in progress.").with("Retry-After", "1")
	}
	for _, s := range sentinels() {
		if errors.Is(err, s.err) {
			return refuse(s.code, s.detail)
		}
	}
	if e, ok := errors.AsType[*tenant.TokenError](err); ok {
		return refuseToken(e)
	}
	if e, ok := errors.AsType[*tenant.VersionError](err); ok {
		return refuse(codePreconditionFailed, "The If-Match that you sent is not its version of now.").with("ETag", etag(e.Current))
	}
	if e, ok := errors.AsType[*tenant.Invalid](err); ok {
		return refuseInvalid(e)
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		return refuseHTTP(e)
	}
	if _, ok := errors.AsType[*panicked](err); !ok && postgres.Away(err) {
		detail := "The database cannot be reached."
		if errors.Is(err, context.DeadlineExceeded) {
			detail = "The database did not answer in time."
		}
		return refuse(codeUnavailable, detail).with("Retry-After", strconv.Itoa(retryAfter))
	}
	return &refusal{code: codeInternal}
}

// refuseInvalid words what a package of the domain finds wrong with a field. Its codes are the API's own.
func refuseInvalid(e *tenant.Invalid) *refusal {
	r := refuseFields(code(e.Code), []FieldError{fieldError("/"+e.Field, e.Code, e.Detail)})
	r.hint = e.Hint
	return r
}

// refuseHTTP words echo's own errors: a method that the path does not have, a parameter that the generated code could
// not read although the contract let it pass.
func refuseHTTP(e *echo.HTTPError) *refusal {
	switch e.Code {
	case http.StatusMethodNotAllowed:
		return refuse(codeMethodNotAllowed, "The path does not have this method.")
	case http.StatusBadRequest:
		return refuse(codeParameterInvalid, "A parameter cannot be read.")
	}
	return &refusal{code: codeInternal}
}

// etag is the entity tag of a version.
func etag(version int64) string { return fmt.Sprintf(`"%d"`, version) }
