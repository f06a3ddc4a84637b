package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// sink is the receiver: it answers at once and notes how long each event took, from the moment that stands in it.
type sink struct {
	url    string
	server *http.Server

	mu      sync.Mutex
	seen    map[string]int // by endpoint's path and event
	delays  []time.Duration
	at      time.Time
	arrived chan struct{}
}

func newSink() *sink {
	s := &sink{seen: make(map[string]int), arrived: make(chan struct{}, 1)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err) // no loopback: nothing can be measured
	}
	s.url = "http://" + l.Addr().String()
	s.server = &http.Server{Handler: s}
	go s.server.Serve(l)
	return s
}

func (s *sink) close() { s.server.Close() }

func (s *sink) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	now := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var event struct {
		Data struct {
			Due int64 `json:"due"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return
	}
	s.mu.Lock()
	s.seen[r.URL.Path+" "+r.Header.Get("webhook-id")]++
	s.delays = append(s.delays, now.Sub(time.Unix(0, event.Data.Due)))
	s.at = now
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

func (s *sink) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.seen)
	s.delays = nil
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

func (s *sink) duplicates() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.seen {
		n += times - 1
	}
	return n
}

func (s *sink) last() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s *sink) quantile(q float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.delays) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.delays))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
