package api

import "net/http"

// code is the stable name of a kind of problem. Clients switch on it, so none is ever renamed.
type code string

// The codes, by the status that they answer with.
const (
	codeMalformedJSON    code = "malformed_json"
	codeParameterInvalid code = "parameter_invalid"
	codeUnknownParameter code = "unknown_parameter"
	codeCursorMismatch   code = "cursor_mismatch"

	codeTokenMissing       code = "token_missing"
	codeTokenMalformed     code = "token_malformed"
	codeTokenExpired       code = "token_expired"
	codeTokenNotYetValid   code = "token_not_yet_valid"
	codeTokenWrongAudience code = "token_wrong_audience"
	codeTokenWrongIssuer   code = "token_wrong_issuer"
	codeTokenUnknownKey    code = "token_unknown_key"
	codeTokenRevoked       code = "token_revoked"

	codeScopeMissing      code = "scope_missing"
	codeScopeNotGrantable code = "scope_not_grantable"
	codeTenantSuspended   code = "tenant_suspended"

	codeNotFound         code = "not_found"
	codeMethodNotAllowed code = "method_not_allowed"

	codeEventUIDConflict code = "event_uid_conflict"
	codeUIDConflict      code = "uid_conflict"
	codeEndpointLimit    code = "endpoint_limit"
	codeRotationLimit    code = "rotation_limit"

	codeIdempotencyKeyReused code = "idempotency_key_reused"
	codeRequestInProgress    code = "request_in_progress"

	codePreconditionFailed   code = "precondition_failed"
	codePayloadTooLarge      code = "payload_too_large"
	codeUnsupportedMediaType code = "unsupported_media_type"

	codeValidationFailed    code = "validation_failed"
	codeTypeReserved        code = "type_reserved"
	codeGlobInvalid         code = "glob_invalid"
	codeEndpointURLBlocked  code = "endpoint_url_blocked"
	codeEndpointURLInsecure code = "endpoint_url_insecure"

	codeInternal    code = "internal"
	codeUnavailable code = "unavailable"
)

// kind is what is always the same of a problem. The problem documents, the pages under /problems and the check of
// openapi.yaml all come from here.
type kind struct {
	Code   code
	Status int
	Title  string
	Hint   string // what to do, in each document
	About  string // the whole story, on its page
}

// kinds is every kind of problem.
func kinds() []kind { return allKinds[:] }

// kindOf finds the kind of a code.
func kindOf(c code) (kind, bool) {
	for _, k := range allKinds {
		if k.Code == c {
			return k, true
		}
	}
	return kind{}, false
}

var allKinds = [...]kind{
	{codeMalformedJSON, http.StatusBadRequest, "The body is not valid JSON",
		"Send one JSON value in UTF-8. detail says at which byte it stops being one.",
		"The body must be a single JSON value (RFC 8259), in UTF-8 without a byte order mark, with nothing after it. The place in the detail counts bytes from 0."},
	{codeParameterInvalid, http.StatusBadRequest, "A parameter is not valid",
		"Correct the parameters that errors names. The parameters of each operation are in /openapi.yaml.",
		"A query parameter or a header has a value that the operation does not take, or is there twice although it takes one value."},
	{codeUnknownParameter, http.StatusBadRequest, "Unknown query parameter",
		"Look for a typing error. The parameters of each operation are in /openapi.yaml.",
		"Query parameters that an operation does not have are refused rather than ignored: a filter with a typing error would otherwise answer with everything."},
	{codeCursorMismatch, http.StatusBadRequest, "The cursor does not belong to this list",
		"Repeat the request of the page before with its next_cursor and change nothing but limit, or begin again without a cursor.",
		"A cursor marks a place in one list, with the filters that it was made with, of one tenant. It cannot be used for another list, and it is not made by hand."},

	{codeTokenMissing, http.StatusUnauthorized, "There is no token",
		"Send Authorization: Bearer <token>.",
		"Every operation but the public ones needs a token in the header Authorization, after the word Bearer. Tokens in the query are not read."},
	{codeTokenMalformed, http.StatusUnauthorized, "The token cannot be read",
		"Send the token exactly as it was shown when it was created.",
		"What follows Bearer is not a token of this gateway: it is cut off, has something around it, is signed in a way that is not accepted, or is something else, as the secret of an endpoint."},
	{codeTokenExpired, http.StatusUnauthorized, "The token has expired",
		"Create a new token, and compare the clocks if it should still be valid.",
		"A token is valid until the time that was set when it was created; 30 seconds of clock difference are allowed."},
	{codeTokenNotYetValid, http.StatusUnauthorized, "The token is not valid yet",
		"Compare the clocks of the machine that made the token and of the gateway.",
		"The token says that it is valid only from a time on that has not come; 30 seconds of clock difference are allowed."},
	{codeTokenWrongAudience, http.StatusUnauthorized, "The token is for something else",
		"Use a tenant's token under /v1, and an operator's under /admin/v1.",
		"A token speaks either for a tenant, under /v1, or for the operator of the gateway, under /admin/v1. Never for both."},
	{codeTokenWrongIssuer, http.StatusUnauthorized, "The token is from somewhere else",
		"Use a token of this gateway; it may be meant for another installation.",
		"The token was issued by somebody whom this gateway does not know."},
	{codeTokenUnknownKey, http.StatusUnauthorized, "The token's key is not known",
		"Use a token of this gateway; it may be meant for another installation.",
		"The token is signed with a key that this gateway does not have, or its signature does not fit."},
	{codeTokenRevoked, http.StatusUnauthorized, "The token is revoked",
		"Create a new token.",
		"The token was revoked, or is none that this gateway registered. This cannot be undone."},

	{codeScopeMissing, http.StatusForbidden, "The token lacks a scope",
		"Use a token that holds required_scope, or have one made.",
		"A token can do what its scopes say. Each operation names the scope that it needs, and so does the problem, as required_scope."},
	{codeScopeNotGrantable, http.StatusForbidden, "The token cannot grant that scope",
		"Ask for less, or use a token that holds it.",
		"Nobody can give away what they do not hold: a token cannot create one with more scopes or with more events, nor an endpoint that receives events which the token itself may not see."},
	{codeTenantSuspended, http.StatusForbidden, "The tenant is suspended",
		"Ask the operator of this gateway.",
		"The operator has suspended the tenant. Its tokens can still read, but change nothing, and its deliveries are held."},

	{codeNotFound, http.StatusNotFound, "Not found",
		"Check the path and the id with its prefix, and that the token is one of the tenant that owns it.",
		"The path does not exist, or there is no such thing, or it is another tenant's. The answer does not tell which."},
	{codeMethodNotAllowed, http.StatusMethodNotAllowed, "The method does not exist here",
		"Use one of the methods in the header Allow.",
		"The path exists, but not with this method."},

	{codeEventUIDConflict, http.StatusConflict, "The uid belongs to another event",
		"Give each event a uid of its own, and repeat a post with exactly the same content.",
		"An event with this uid was accepted before and its type, subject, scopes, time or data differ. The first one stands, unchanged."},
	{codeUIDConflict, http.StatusConflict, "The uid is taken",
		"Choose another uid, or change the one that has it.",
		"A uid is your own name for a thing and unique: among the endpoints of a tenant, and among the tenants."},
	{codeEndpointLimit, http.StatusConflict, "Too many endpoints",
		"Delete endpoints that are no longer used. The limit is in GET /v1/whoami.",
		"The tenant has as many endpoints as it may have."},
	{codeRotationLimit, http.StatusConflict, "Too many secrets",
		"End the previous ones with DELETE …/secrets/previous, or wait until the oldest retires.",
		"Three secrets of the endpoint sign already: the newest, and two in their grace."},

	{codeIdempotencyKeyReused, http.StatusUnprocessableEntity, "The key belongs to another request",
		"Make a key for each request, and repeat a request under its key with exactly the same method, path and body.",
		"The Idempotency-Key was used in the last 24 hours for a request with another path or content, or, where the answer can show a secret, by another token. Nothing was done."},
	{codeRequestInProgress, http.StatusConflict, "The first request is in progress",
		"Repeat it after the seconds that Retry-After tells: it then gets the answer of the first one.",
		"A request with this Idempotency-Key is being carried out. Nothing was done for this one."},

	{codePreconditionFailed, http.StatusPreconditionFailed, "It has changed since you read it",
		"Read it again, look at what changed, and repeat the change with the new ETag.",
		"The request had an If-Match that is not the version of now; the header ETag of the answer is. Nothing was changed."},
	{codePayloadTooLarge, http.StatusRequestEntityTooLarge, "Too large",
		"Send less, or send a link to the rest. The limits are in GET /v1/whoami.",
		"The request, or the data of an event, is larger than the limit that the detail names."},
	{codeUnsupportedMediaType, http.StatusUnsupportedMediaType, "Unsupported media type",
		"Send Content-Type: application/json, UTF-8, without a Content-Encoding.",
		"Bodies are JSON in UTF-8, said to be so by Content-Type: application/json, and not compressed."},

	{codeValidationFailed, http.StatusUnprocessableEntity, "The content is not valid",
		"Correct the fields that errors names.",
		"The body is JSON, but not what the operation takes: fields are missing, unknown, there twice, or have a wrong value. Each is named in errors, with a JSON pointer."},
	{codeTypeReserved, http.StatusUnprocessableEntity, "The type is one of the gateway's own",
		"Choose a type whose first segment is not gateway.",
		"Types whose first segment is gateway tell of the gateway itself. Nobody else can post them."},
	{codeGlobInvalid, http.StatusUnprocessableEntity, "A glob cannot be used",
		"Write segments of letters, digits, _ and -, at most one * in a segment, and ** only as a whole segment, at most twice.",
		"Globs of types have segments joined by dots, those of scopes by slashes. A star stands for a part of a segment, ** for any number of segments. Everything else is refused, and the detail says where."},
	{codeEndpointURLBlocked, http.StatusUnprocessableEntity, "The URL is not allowed",
		"Use a public https URL.",
		"Deliveries go to public addresses only. The addresses of private networks, of the gateway's own machine and of cloud metadata services are refused, in whatever way they are written."},
	{codeEndpointURLInsecure, http.StatusUnprocessableEntity, "The URL is not https",
		"Use https.",
		"Deliveries hold what your receivers must be able to trust, so they go over https alone. The operator can allow http for development."},

	{codeInternal, http.StatusInternalServerError, "Internal error",
		"Tell the operator the request id; the log has the rest.",
		"Something went wrong in the gateway, and it is not your fault. Nothing was promised: repeat the request, with a uid if it was the post of an event."},
	{codeUnavailable, http.StatusServiceUnavailable, "Unavailable for the moment",
		"Ask again after the time in Retry-After. A post may have been stored: give it a uid and repeat it.",
		"The gateway could not reach its database, or not in time."},
}
