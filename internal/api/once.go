package api

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sallyport-dev/sallyport/internal/idempotency"
)

// kept are the headers of an answer that a repeat gets too.
var kept = [...]string{"Content-Type", "ETag", "Location"}

// once carries a request out in one transaction with its idempotency key, if it has one; a repeat gets the stored answer.
// Nothing is sent before the transaction has committed: the handler's answer is caught and sent after it.
func (c *call) once(wait time.Duration, body []byte, handle handler) error {
	key, err := idempotencyKey(c.x.Request().Header)
	if err != nil {
		return err
	}
	r := c.x.Request()
	answer, replayed, err := c.cfg.Keys.Do(r.Context(), idempotency.Request{
		Tenant: c.caller.Tenant, Key: key, Wait: wait, Fingerprint: idempotency.Fingerprint(r.Method, r.URL.RequestURI(), body),
	}, func(_ context.Context, tx idempotency.Tx) (idempotency.Answer, error) {
		c.tx = tx
		return c.caught(handle)
	})
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
