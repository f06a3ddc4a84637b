//go:build interop

// Package interop_test holds the running gateway against what others wrote: real payloads in, and the official Standard
// Webhooks library to verify what comes out. `make interop` runs it.
package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/sallyport-dev/sallyport/internal/gatewaytest"
)

// sample is one payload.
type sample struct {
	name string
	typ  string
	data json.RawMessage
}

// samples reads every example of @octokit/webhooks-examples, its bytes as they are in the file.
func samples(t *testing.T) []sample {
	t.Helper()
	files, err := filepath.Glob("node_modules/@octokit/webhooks-examples/*/index.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no payloads (%v): run make interop, which installs them", err)
	}
	var list []sample
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []struct {
			Name     string            `json:"name"`
			Examples []json.RawMessage `json:"examples"`
		}
		if err := json.Unmarshal(text, &kinds); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, kind := range kinds {
			for i, data := range kind.Examples {
				list = append(list, sample{fmt.Sprintf("%s %s %d", filepath.Base(filepath.Dir(file)), kind.Name, i), "github." + kind.Name, data})
			}
		}
	}
	return list
}

// receiver verifies every request with the official library and keeps what was in it.
type receiver struct {
	mu       sync.Mutex
	verifier *standardwebhooks.Webhook
	data     map[string][]json.RawMessage // by webhook-id
	refused  []string
	arrived  chan struct{}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	id := req.Header.Get("webhook-id")
	if err == nil {
		err = r.verifier.Verify(body, req.Header)
	}
	var event struct {
		ID   string          `json:"id"`
		Data json.RawMessage `json:"data"`
	}
	if err == nil {
		err = json.Unmarshal(body, &event)
	}
	if err == nil && event.ID != id {
		err = fmt.Errorf("the body is of event %s", event.ID)
	}
	if err != nil {
		r.refused = append(r.refused, fmt.Sprintf("%s: %v", id, err))
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.data[id] = append(r.data[id], event.Data)
	w.WriteHeader(http.StatusNoContent)
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

func TestRealPayloads(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	installation := gatewaytest.Install(t)
	g := installation.Start()
	_, token := installation.Tenant("interop")

	r := &receiver{data: make(map[string][]json.RawMessage), arrived: make(chan struct{}, 1)}
	server := httptest.NewServer(r)
	defer server.Close()
	status, answer, err := g.Call(ctx, token, http.MethodPost, "/v1/endpoints", []byte(`{"url":"`+server.URL+`","types":["github.**"]}`))
	var endpoint struct {
		Secret string `json:"secret"`
	}
	if err != nil || status != http.StatusCreated || json.Unmarshal(answer, &endpoint) != nil || endpoint.Secret == "" {
		t.Fatalf("create the endpoint: %d %s %v", status, answer, err)
	}
	r.mu.Lock()
	r.verifier, err = standardwebhooks.NewWebhook(endpoint.Secret)
	r.mu.Unlock()
	if err != nil {
		t.Fatalf("the official library refuses the secret: %v", err)
	}

	all := samples(t)
	posted := make(map[string]sample, len(all))
	for _, s := range all {
		body := append([]byte(`{"type":"`+s.typ+`","data":`), s.data...)
		status, answer, err := g.Call(ctx, token, http.MethodPost, "/v1/events", append(body, '}'))
		var receipt struct {
			ID string `json:"id"`
		}
		if err != nil || status != http.StatusAccepted || json.Unmarshal(answer, &receipt) != nil {
			t.Fatalf("post %s: %d %s %v", s.name, status, answer, err)
		}
		posted[receipt.ID] = s
	}

	// Each delivery is there, and then nothing is left to be sent: what arrived twice would have arrived by then.
	for {
		status, answer, err := g.Call(ctx, token, http.MethodGet, "/v1/deliveries?limit=1&state=pending&state=retrying", nil)
		var page struct {
			Data []json.RawMessage `json:"data"`
		}
		if err != nil || status != http.StatusOK || json.Unmarshal(answer, &page) != nil {
			t.Fatalf("list open deliveries: %d %s %v", status, answer, err)
		}
		r.mu.Lock()
		n := len(r.data)
		r.mu.Unlock()
		if n >= len(posted) && len(page.Data) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d of %d events arrived", n, len(posted))
		case <-r.arrived:
		case <-time.After(50 * time.Millisecond):
		}
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.refused {
		t.Errorf("not verified: %s", text)
	}
	for id, s := range posted {
		switch got := r.data[id]; {
		case len(got) != 1:
			t.Errorf("%s arrived %d times", s.name, len(got))
		case !bytes.Equal(got[0], s.data):
			t.Errorf("%s: its data has other bytes", s.name)
		}
	}
	if len(r.data) != len(posted) {
		t.Errorf("%d events arrived, %d were posted", len(r.data), len(posted))
	}
	if !t.Failed() {
		fmt.Printf("interop: %d payloads posted, %d delivered once each, all verified by the official Standard Webhooks library, data byte-identical\n", len(posted), len(r.data))
	}
}
