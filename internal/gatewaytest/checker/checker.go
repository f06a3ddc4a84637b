// Package checker counts what became of a run: it holds what a client posted beside what receivers saw and what the API
// says, and counts every way in which the three can disagree.
//
// It is pure: it runs nothing and asks nobody. Whoever uses it brings the three journals.
package checker

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// Post is an event that a client posted, by the uid that it gave it.
type Post struct {
	UID      string
	Tenant   string
	Type     string
	Data     string    // the bytes of data
	EventID  string    // as it was answered; empty: no answer came, so the event may exist or not
	Answered time.Time // when the 2xx came
}

// Endpoint is a receiver as it was registered.
type Endpoint struct {
	ID     string
	Tenant string
	Wants  func(typ string) bool
}

// Request is a request as a receiver saw it.
type Request struct {
	EndpointID string
	UID        string // from the body
	EventID    string // the webhook-id
	Type       string
	Data       string
	Unverified string // why the signature was refused; empty: it verified
	Status     int    // that the receiver answered; 0: it answered nothing
	At         time.Time
}

// Delivery is a delivery as the API tells it.
type Delivery struct {
	ID, EventID, EndpointID, Tenant, State string
}

// Attempt is an attempt as the API tells it. Sent is yes, no or unknown.
type Attempt struct {
	EventID, EndpointID, Sent string
	Number                    int
}

// Run is everything that is known of a run.
type Run struct {
	Posts      []Post
	Endpoints  []Endpoint
	Requests   []Request
	Deliveries []Delivery
	Attempts   []Attempt
	Canaries   []string  // what listeners that must stay silent have heard
	LastFault  time.Time // the end of the last fault; zero: there was none
}

// Report is what was found. Everything but Duplicates must be zero; those may be as many as what was in flight.
type Report struct {
	Events, Requests int

	Lost         int // answered 2xx, wanted by an endpoint, never taken by it
	Phantom      int // arrived, but was not posted, or was not wanted
	Doubled      int // one post, several events
	Duplicates   int // taken by a receiver once more than once
	BadSignature int
	Altered      int // data has other bytes
	Rows         int // deliveries whose rows and requests disagree
	CrossTenant  int
	Canaries     int
	Unfinished   int // deliveries that are still open

	Heal     time.Duration // from the end of the last fault to the arrival of the last event that was answered before it
	Examples map[string][]string
}

// pair is an event, by its uid or id, and an endpoint.
type pair struct{ event, endpoint string }

// Check counts.
func Check(run Run) Report {
	r := Report{Events: len(run.Posts), Requests: len(run.Requests), Canaries: len(run.Canaries), Examples: make(map[string][]string)}
	posts := make(map[string]Post, len(run.Posts))
	for _, p := range run.Posts {
		posts[p.UID] = p
	}
	endpoints := make(map[string]Endpoint, len(run.Endpoints))
	for _, e := range run.Endpoints {
		endpoints[e.ID] = e
	}
	for _, text := range run.Canaries {
		r.example("canary", "%s", text)
	}
	taken, first := r.requests(run, posts, endpoints)
	r.lost(run, taken)
	r.rows(run)
	for _, d := range run.Deliveries {
		if d.State == "pending" || d.State == "retrying" {
			r.Unfinished++
			r.example("unfinished", "%s of %s is %s", d.ID, d.EventID, d.State)
		}
	}
	if !run.LastFault.IsZero() {
		for key, at := range first {
			if p := posts[key.event]; !p.Answered.IsZero() && p.Answered.Before(run.LastFault) {
				r.Heal = max(r.Heal, at.Sub(run.LastFault))
			}
		}
	}
	return r
}

// requests judges each request by itself, and returns how often each event was taken by each endpoint, and when first.
func (r *Report) requests(run Run, posts map[string]Post, endpoints map[string]Endpoint) (map[pair]int, map[pair]time.Time) {
	taken, first := make(map[pair]int), make(map[pair]time.Time)
	ids := make(map[string]string) // of each uid
	for _, q := range run.Requests {
		if q.Unverified != "" {
			r.BadSignature++
			r.example("bad signature", "%s at %s: %s", q.EventID, q.EndpointID, q.Unverified)
			continue // nothing that it says can be relied on
		}
		p, posted := posts[q.UID]
		e, known := endpoints[q.EndpointID]
		switch {
		case !posted || !known:
			r.Phantom++
			r.example("phantom", "%s (uid %q) at %s was not posted", q.EventID, q.UID, q.EndpointID)
			continue
		case p.Tenant != e.Tenant:
			r.CrossTenant++
			r.example("cross-tenant", "%s of tenant %s at %s of tenant %s", q.EventID, p.Tenant, e.ID, e.Tenant)
			continue
		case !e.Wants(p.Type) || p.Type != q.Type:
			r.Phantom++
			r.example("phantom", "%s of type %s at %s, which does not want it", q.EventID, q.Type, e.ID)
			continue
		}
		if p.Data != q.Data {
			r.Altered++
			r.example("altered", "%s: %.80q arrived, %.80q was posted", q.EventID, q.Data, p.Data)
		}
		if id, seen := ids[q.UID]; seen && id != q.EventID || p.EventID != "" && p.EventID != q.EventID {
			r.Doubled++
			r.example("doubled", "uid %s is event %s and another, %s", q.UID, cmp(id, p.EventID), q.EventID)
		}
		ids[q.UID] = q.EventID
		if q.Status < 200 || q.Status > 299 {
			continue
		}
		key := pair{q.UID, q.EndpointID}
		if taken[key]++; taken[key] > 1 {
			r.Duplicates++
			r.example("duplicate", "%s at %s", q.EventID, q.EndpointID)
		}
		if at, seen := first[key]; !seen || q.At.Before(at) {
			first[key] = q.At
		}
	}
	return taken, first
}

func (r *Report) lost(run Run, taken map[pair]int) {
	for _, p := range run.Posts {
		if p.EventID == "" {
			continue
		}
		for _, e := range run.Endpoints {
			if e.Tenant == p.Tenant && e.Wants(p.Type) && taken[pair{p.UID, e.ID}] == 0 {
				r.Lost++
				r.example("lost", "%s (uid %s), answered at %s, for %s", p.EventID, p.UID, p.Answered.Format(time.StampMicro), e.ID)
			}
		}
	}
}

// rows compares the attempts' rows with the requests of each delivery: yes ≤ requests ≤ yes + unknown.
func (r *Report) rows(run Run) {
	type count struct{ yes, unknown, requests int }
	counts := make(map[pair]*count)
	at := func(event, endpoint string) *count {
		key := pair{event, endpoint}
		if counts[key] == nil {
			counts[key] = new(count)
		}
		return counts[key]
	}
	for _, a := range run.Attempts {
		switch a.Sent {
		case "yes":
			at(a.EventID, a.EndpointID).yes++
		case "unknown":
			at(a.EventID, a.EndpointID).unknown++
		}
	}
	for _, q := range run.Requests {
		if q.Unverified == "" {
			at(q.EventID, q.EndpointID).requests++
		}
	}
	for key, c := range counts {
		if c.requests < c.yes || c.requests > c.yes+c.unknown {
			r.Rows++
			r.example("rows", "%s for %s: %d requests, rows with sent yes %d, unknown %d", key.event, key.endpoint, c.requests, c.yes, c.unknown)
		}
	}
}

func cmp(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// examples is how many of each kind are kept.
const examples = 5

func (r *Report) example(kind, format string, args ...any) {
	if len(r.Examples[kind]) < examples {
		r.Examples[kind] = append(r.Examples[kind], fmt.Sprintf(format, args...))
	}
}

// Bounds are what a run may show.
type Bounds struct {
	Duplicates int           // at most
	Heal       time.Duration // at most; 0: not looked at
}

// Wrong says in a line each what is not as it must be.
func (r Report) Wrong(b Bounds) []string {
	var wrong []string
	for _, c := range []struct {
		name string
		n    int
		most int
	}{
		{"lost", r.Lost, 0}, {"phantom", r.Phantom, 0}, {"doubled", r.Doubled, 0}, {"duplicate", r.Duplicates, b.Duplicates},
		{"bad signature", r.BadSignature, 0}, {"altered", r.Altered, 0}, {"rows", r.Rows, 0}, {"cross-tenant", r.CrossTenant, 0},
		{"canary", r.Canaries, 0}, {"unfinished", r.Unfinished, 0},
	} {
		if c.n > c.most {
			wrong = append(wrong, fmt.Sprintf("%s: %d, at most %d; as %s", c.name, c.n, c.most, strings.Join(r.Examples[c.name], "; ")))
		}
	}
	if b.Heal > 0 && r.Heal > b.Heal {
		wrong = append(wrong, fmt.Sprintf("healed after %s, at most %s", r.Heal.Round(time.Millisecond), b.Heal))
	}
	return wrong
}

// Hold fails the test where a report is out of bounds.
func (r Report) Hold(t testing.TB, b Bounds) {
	t.Helper()
	for _, text := range r.Wrong(b) {
		t.Error(text)
	}
}

// Table writes reports as rows of a table, by their names in order.
func Table(w io.Writer, reports map[string]Report) {
	names := make([]string, 0, len(reports))
	for name := range reports {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(w, "%-44s %7s %8s %5s %8s %7s %5s %7s %8s %5s %8s %7s %10s %8s\n", "run", "events", "requests", "lost", "phantom", "doubled",
		"dup", "bad sig", "altered", "rows", "x-tenant", "canary", "unfinished", "heal")
	for _, name := range names {
		r := reports[name]
		fmt.Fprintf(w, "%-44s %7d %8d %5d %8d %7d %5d %7d %8d %5d %8d %7d %10d %8s\n", name, r.Events, r.Requests, r.Lost, r.Phantom, r.Doubled,
			r.Duplicates, r.BadSignature, r.Altered, r.Rows, r.CrossTenant, r.Canaries, r.Unfinished, r.Heal.Round(10*time.Millisecond))
	}
}
