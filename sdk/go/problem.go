package sallyport

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// The kinds of problems that programs tell apart, for errors.Is. Problem.Code is finer.
var (
	ErrInvalid            = errors.New("the request is not valid")          // 400, 405, 415, 422
	ErrUnauthorized       = errors.New("the token is not accepted")         // 401
	ErrForbidden          = errors.New("the token may not do that")         // 403
	ErrNotFound           = errors.New("not found")                         // 404: or another tenant's
	ErrConflict           = errors.New("it conflicts with what is there")   // 409: a uid is taken, a limit is reached
	ErrPreconditionFailed = errors.New("it has changed since it was read")  // 412
	ErrTooLarge           = errors.New("the request is too large")          // 413
	ErrRateLimited        = errors.New("too many requests")                 // 429
	ErrUnavailable        = errors.New("the gateway is not available")      // 502, 503, 504
	ErrInternal           = errors.New("something is wrong in the gateway") // 500
)

// Problem is an error of the API (RFC 9457), or an answer that is none of the gateway's, which then has no Code.
type Problem struct {
	Type          string       `json:"type"`   // a page about this kind of problem, on the gateway
	Title         string       `json:"title"`  // what kind of problem it is
	Status        int          `json:"status"` // of HTTP
	Detail        string       `json:"detail"` // what happened this time
	Instance      string       `json:"instance"`
	Code          string       `json:"code"`       // the kind of problem for programs; it does not change
	RequestID     string       `json:"request_id"` // finds the request in the gateway's log
	Hint          string       `json:"hint"`       // what to do
	RequiredScope string       `json:"required_scope"`
	Errors        []FieldError `json:"errors"` // the fields or parameters that are wrong

	RetryAfter time.Duration `json:"-"` // how long the gateway asks to wait; 0: it does not say
	ETag       string        `json:"-"` // with ErrPreconditionFailed, the one of now
}

// FieldError says what is wrong with a field of the body, or with a parameter.
type FieldError struct {
	Pointer   string `json:"pointer"`   // a JSON pointer (RFC 6901) into the body
	Parameter string `json:"parameter"` // or the name of a parameter
	Code      string `json:"code"`
	Detail    string `json:"detail"`
}

// Error is one line: what happened, what to do, and the request's id.
func (p *Problem) Error() string {
	what := p.Code
	if what == "" {
		what = p.Title
	}
	text := strconv.Itoa(p.Status) + " " + what
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	if p.Hint != "" {
		text += " " + p.Hint
	}
	if p.RequestID != "" {
		text += " (request " + p.RequestID + ")"
	}
	return text
}

// Is says whether a problem is of one of the kinds above.
func (p *Problem) Is(kind error) bool {
	switch p.Status {
	case http.StatusUnauthorized:
		return kind == ErrUnauthorized
	case http.StatusForbidden:
		return kind == ErrForbidden
	case http.StatusNotFound:
		return kind == ErrNotFound
	case http.StatusConflict:
		return kind == ErrConflict
	case http.StatusPreconditionFailed:
		return kind == ErrPreconditionFailed
	case http.StatusRequestEntityTooLarge:
		return kind == ErrTooLarge
	case http.StatusTooManyRequests:
		return kind == ErrRateLimited
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return kind == ErrUnavailable
	}
	return kind == ErrInvalid && p.Status >= 400 && p.Status < 500 || kind == ErrInternal && p.Status >= 500
}

// problemOf reads an answer that is not 2xx. What stands before the gateway may answer too, and not with a document.
func problemOf(res *http.Response, body []byte) *Problem {
	p := &Problem{}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind != "application/problem+json" || json.Unmarshal(body, p) != nil {
		*p = Problem{Title: http.StatusText(res.StatusCode)}
	}
	p.Status = res.StatusCode
	p.ETag = res.Header.Get("ETag")
	if p.RequestID == "" {
		p.RequestID = res.Header.Get("X-Request-Id")
	}
	p.RetryAfter = retryAfter(res.Header.Get("Retry-After"))
	return p
}

// retryAfter reads seconds or a date (RFC 9110, 10.2.3).
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
