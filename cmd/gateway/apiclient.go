package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// apiClient calls a gateway's API as any program would.
type apiClient struct {
	base  string // http://127.0.0.1:8080
	token string
	http  *http.Client
}

// newAPIClient returns a client of one gateway, which speaks for whom the token speaks for.
func newAPIClient(base, token string) *apiClient {
	return &apiClient{base: base, token: token, http: &http.Client{
		Timeout:   15 * time.Second,
		Transport: &http.Transport{Proxy: nil, DisableCompression: true},
	}}
}

// close lets go of idle connections.
func (a *apiClient) close() { a.http.CloseIdleConnections() }

// problem is what the API answers when it refuses.
type problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
}

func (p *problem) Error() string {
	text := fmt.Sprintf("the API answered %d %s: %s", p.Status, p.Code, p.Detail)
	if p.Hint != "" {
		text += ". " + p.Hint
	}
	return text
}

// call makes one call. A body other than nil is sent as JSON; the answer is read into out unless that is nil. An
// answer that is not 2xx is a *problem.
func (a *apiClient) call(ctx context.Context, method, path string, body, out any) error {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("write the body of %s %s: %w", method, path, err)
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, reader)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := a.http.Do(req)
	if err != nil {
		return err // it says the method and the URL
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	if res.StatusCode/100 != 2 {
		p := &problem{Status: res.StatusCode, Code: http.StatusText(res.StatusCode)}
		_ = json.Unmarshal(data, p) // an answer that is no problem document has its status to tell
		return fmt.Errorf("%s %s: %w", method, path, p)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("understand the answer to %s %s: %w", method, path, err)
	}
	return nil
}
