package sallyport

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxAnswer bounds what is read of an answer: the largest page, with room for fields to come.
const maxAnswer = 32 << 20

// transport makes calls over HTTP.
type transport struct {
	base    string // ends in a slash: paths are resolved against it
	token   string
	agent   string
	http    *http.Client
	retry   retry
	observe func(Exchange)
}

// call makes a request that one of the generated builders has made, and reads the answer into into unless that is nil.
// repeatable says whether making it twice is the same as once.
func (t *transport) call(ctx context.Context, repeatable bool, into any, req *http.Request, err error) (http.Header, error) {
	if err != nil {
		return nil, fmt.Errorf("sallyport: build a request: %w", err)
	}
	req = req.WithContext(ctx)
	req.Header.Set("Authorization", "Bearer "+t.token)
	req.Header.Set("Accept", "application/json, application/problem+json")
	req.Header.Set("User-Agent", t.agent)
	if req.Method == http.MethodPost && !repeatable {
		// Under a key, the caller's or one of its own, the request is carried out once however often it is sent.
		if req.Header.Get("Idempotency-Key") == "" {
			req.Header.Set("Idempotency-Key", rand.Text())
		}
		repeatable = true
	}
	for try := 1; ; try++ {
		header, err := t.once(req, try, into)
		if err == nil {
			return header, nil
		}
		wait, again := t.retry.after(try, err)
		if !again || !repeatable || ctx.Err() != nil {
			return nil, fmt.Errorf("sallyport: %s %s: %w", req.Method, req.URL.Path, err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("sallyport: %s %s: %w", req.Method, req.URL.Path, errors.Join(ctx.Err(), err))
		}
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, fmt.Errorf("sallyport: repeat a request: %w", err)
			}
		}
	}
}

// once makes a request one time.
func (t *transport) once(req *http.Request, try int, into any) (http.Header, error) {
	began := time.Now()
	res, err := t.http.Do(req)
	if t.observe != nil {
		x := Exchange{Method: req.Method, Path: req.URL.Path, Try: try, Took: time.Since(began), Err: err}
		if err == nil {
			x.Status, x.RequestID = res.StatusCode, res.Header.Get("X-Request-Id")
		}
		t.observe(x)
	}
	if err != nil {
		return nil, err // it names the method and the URL
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	switch {
	case res.StatusCode < 200 || res.StatusCode > 299:
		return nil, problemOf(res, body)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	case into == nil:
		return res.Header, nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return nil, &notAnAnswer{err}
	}
	return res.Header, nil
}

// notAnAnswer says that a 2xx is none of the gateway's; asking again would not help.
type notAnAnswer struct{ err error }

func (e *notAnAnswer) Error() string { return "the answer is not the gateway's: " + e.err.Error() }
func (e *notAnAnswer) Unwrap() error { return e.err }
