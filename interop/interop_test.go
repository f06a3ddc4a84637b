//go:build interop

// Package interop_test holds the running gateway against what others wrote: real payloads in, and the official Standard
// Webhooks library to verify what comes out. `make interop` runs it.
package interop_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// receiver is one of those that verify, and what it wants.
type receiver interface {
	url() string
	// secret gives it the secret of its endpoint.
	secret(t *testing.T, text string)
	// seen returns the SHA-256 of data of each delivery that verified, by webhook-id, and what did not verify.
	seen() (sums map[string][]string, refused []string)
}

// official verifies with the official Go library.
type official struct {
	server *httptest.Server

	mu       sync.Mutex
	verifier *standardwebhooks.Webhook
	sums     map[string][]string
	refused  []string
}

func newOfficial(t *testing.T) *official {
	r := &official{sums: make(map[string][]string)}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

func (r *official) url() string { return r.server.URL }

func (r *official) secret(t *testing.T, text string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	if r.verifier, err = standardwebhooks.NewWebhook(text); err != nil {
		t.Fatalf("the official library refuses the secret: %v", err)
	}
}

func (r *official) seen() (map[string][]string, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.sums), slices.Clone(r.refused)
}

func (r *official) ServeHTTP(w http.ResponseWriter, req *http.Request) {
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
	r.sums[id] = append(r.sums[id], sum(event.Data))
	w.WriteHeader(http.StatusNoContent)
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// node verifies in Node, with the npm library.
type node struct {
	at    string
	stdin io.WriteCloser
	ready chan struct{}

	mu      sync.Mutex
	sums    map[string][]string
	refused []string
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{sums: make(map[string][]string), ready: make(chan struct{})}
	cmd := exec.Command("node", "receiver.mjs")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if n.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start Node: %v", err)
	}
	port := make(chan int, 1)
	go n.read(stdout, port)
	t.Cleanup(func() {
		n.stdin.Close()
		cmd.Wait()
	})
	select {
	case p := <-port:
		n.at = fmt.Sprintf("http://127.0.0.1:%d", p)
	case <-time.After(20 * time.Second):
		t.Fatal("the receiver in Node does not listen")
	}
	return n
}

func (n *node) read(stdout io.Reader, port chan<- int) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var line struct {
			Port   int    `json:"port"`
			Ready  bool   `json:"ready"`
			ID     string `json:"id"`
			SHA256 string `json:"sha256"`
			Error  string `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			line.Error = err.Error()
		}
		n.mu.Lock()
		switch {
		case line.Port != 0:
			port <- line.Port
		case line.Ready:
			close(n.ready)
		case line.Error != "":
			n.refused = append(n.refused, line.ID+": "+line.Error)
		default:
			n.sums[line.ID] = append(n.sums[line.ID], line.SHA256)
		}
		n.mu.Unlock()
	}
}

func (n *node) url() string { return n.at }

func (n *node) secret(t *testing.T, text string) {
	t.Helper()
	fmt.Fprintln(n.stdin, text)
	select {
	case <-n.ready:
	case <-time.After(20 * time.Second):
		t.Fatal("the npm library does not take the secret")
	}
}

func (n *node) seen() (map[string][]string, []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.sums), slices.Clone(n.refused)
}

// route is a receiver with what it wants, as a glob and in words of our own.
type route struct {
	receiver
	name  string
	types string
	wants func(typ string) bool
}

func TestRealPayloads(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	installation := gatewaytest.Install(t)
	g := installation.Start()
	_, token := installation.Tenant("interop")

	routes := []route{
		{newOfficial(t), "Go, all", "github.**", func(string) bool { return true }},
		{newOfficial(t), "Go, p*", "github.p*", func(typ string) bool { return strings.HasPrefix(typ, "github.p") }},
		{newNode(t), "Node, *_comment and check_*", "github.*_comment\",\"github.check_*", func(typ string) bool {
			return strings.HasSuffix(typ, "_comment") || strings.HasPrefix(typ, "github.check_")
		}},
	}
	for _, r := range routes {
		status, answer, err := g.Call(ctx, token, http.MethodPost, "/v1/endpoints", []byte(`{"url":"`+r.url()+`","types":["`+r.types+`"]}`))
		var endpoint struct {
			Secret string `json:"secret"`
		}
		if err != nil || status != http.StatusCreated || json.Unmarshal(answer, &endpoint) != nil || endpoint.Secret == "" {
			t.Fatalf("create the endpoint of %s: %d %s %v", r.name, status, answer, err)
		}
		r.secret(t, endpoint.Secret)
	}

	posted := make(map[string]sample)
	for _, s := range samples(t) {
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
	// Once nothing is open, what would have arrived twice has.
	gatewaytest.Settled(ctx, t, func() []*gatewaytest.Gateway { return []*gatewaytest.Gateway{g} }, token)

	delivered := 0
	for _, r := range routes {
		want := 0
		for _, s := range posted {
			if r.wants(s.typ) {
				want++
			}
		}
		sums, refused := r.seen()
		for tick := time.NewTicker(10 * time.Millisecond); len(sums)+len(refused) < want && ctx.Err() == nil; sums, refused = r.seen() {
			<-tick.C // what another process has seen comes through a pipe
		}
		for _, text := range refused {
			t.Errorf("%s: not verified: %s", r.name, text)
		}
		for id, s := range posted {
			got := sums[id]
			delete(sums, id)
			switch {
			case !r.wants(s.typ):
				if len(got) != 0 {
					t.Errorf("%s: %s arrived, and is not wanted", r.name, s.name)
				}
				continue
			case len(got) != 1:
				t.Errorf("%s: %s arrived %d times", r.name, s.name, len(got))
			case got[0] != sum(s.data):
				t.Errorf("%s: data of %s has other bytes", r.name, s.name)
			}
			delivered += len(got)
		}
		for id := range sums {
			t.Errorf("%s: %s arrived and was not posted", r.name, id)
		}
	}
	if !t.Failed() {
		fmt.Printf("interop: %d payloads posted to %d receivers, %d deliveries, each once, all verified by the official Go and npm libraries, data byte-identical\n",
			len(posted), len(routes), delivered)
	}
}
