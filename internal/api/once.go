package api

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/sallyport-dev/sallyport/internal/idempotency"
)

// kept are the headers of an answer that a repeat gets too.
var kept = [...]string{"Content-Type", "ETag", "Location"}

// repeats says how the repeats of a request are met.
type repeats struct {
	wait    time.Duration // for the first one to commit; 0: they hear that it is in progress
	private bool          // the answer may show a secret, and is for the token alone that asked for it
}

// once carries a request out in one transaction with its idempotency key, if it has one; a repeat gets the stored answer.
// Nothing is sent before the transaction has committed: the handler's answer is caught and sent after it. The handler may
// be called again after a deadlock, and reaches the database through c.tx alone: with a second connection for each
// request, those that hold one could use up the pool and wait for one another.
func (c *call) once(how repeats, body []byte, handle handler) error {
	r := c.x.Request()
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	request := idempotency.Request{Tenant: c.caller.Tenant, Key: key, Wait: how.wait}
	if key != "" {
		by := uuid.Nil
		if how.private {
			by = c.caller.Token
		}
		request.Fingerprint = idempotency.Fingerprint(r.Method, r.URL.RequestURI(), body, by)
	}
	answer, replayed, err := c.cfg.Keys.Do(r.Context(), request, func(_ context.Context, tx idempotency.Tx) (idempotency.Answer, error) {
		c.tx = tx
		return c.caught(handle)
	})
	c.tx = nil
	if err != nil {
		return err
	}
	w := c.x.Response()
	for name, value := range answer.Header {
		w.Header().Set(name, value)
	}
	if replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(answer.Body)))
	w.WriteHeader(answer.Status)
	_, err = w.Write(answer.Body)
	return err
}

// caught calls a handler and catches what it answers.
func (c *call) caught(handle handler) (idempotency.Answer, error) {
	original, caught := c.x.Response(), &catcher{header: make(http.Header), status: http.StatusOK}
	c.x.SetResponse(echo.NewResponse(caught, c.x.Echo()))
	defer c.x.SetResponse(original)
	if err := handle(c); err != nil {
		return idempotency.Answer{}, err
	}
	answer := idempotency.Answer{Status: caught.status, Header: make(map[string]string), Body: caught.body.Bytes()}
	for _, name := range kept {
		if value := caught.header.Get(name); value != "" {
			answer.Header[name] = value
		}
	}
	return answer, nil
}

// catcher is a response that is not sent.
type catcher struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (c *catcher) Header() http.Header            { return c.header }
func (c *catcher) WriteHeader(status int)         { c.status = status }
func (c *catcher) Write(text []byte) (int, error) { return c.body.Write(text) }

// idempotencyKey reads the header; empty: there is none.
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	wrong := func(detail string) error {
		return refuseFields(codeParameterInvalid, []FieldError{parameterError("Idempotency-Key", fieldFormat, detail)})
	}
	key := values[0]
	switch {
	case len(values) > 1:
		return "", wrong("It is there twice.")
	case key == "" || len(key) > idempotency.MaxKey:
		return "", wrong("It must be 1 to 255 characters.")
	}
	for i := range len(key) {
		if key[i] < 0x21 || key[i] > 0x7e {
			return "", wrong("It must be printable ASCII without spaces.")
		}
	}
	return key, nil
}
