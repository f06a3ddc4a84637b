package egresstest

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// Answer is what the resolver says to one query.
type Answer struct {
	Addrs []netip.Addr
	Err   error // instead
	Hang  bool  // instead: answers nothing until the asker gives up
}

// Addrs is an answer of addresses, written as text.
func Addrs(addrs ...string) Answer {
	var a Answer
	for _, text := range addrs {
		a.Addrs = append(a.Addrs, netip.MustParseAddr(text))
	}
	return a
}

// NXDomain is the answer that a name doesn't exist.
func NXDomain() Answer {
	return Answer{Err: &net.DNSError{Err: "no such host", IsNotFound: true}}
}

// Servfail is the answer of a server that failed.
func Servfail() Answer {
	return Answer{Err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}}
}

// Resolver answers as scripted, for names in .test alone: a query for any other fails the test. A name that
// it wasn't told doesn't exist.
type Resolver struct {
	t testing.TB

	mu      sync.Mutex
	answers map[string][]Answer
	queries []string
}

// NewResolver returns a resolver that knows nothing yet.
func NewResolver(t testing.TB) *Resolver {
	return &Resolver{t: t, answers: map[string][]Answer{}}
}

// Script sets what is said to the first, second, … query for a name; the last answer is repeated for ever.
func (r *Resolver) Script(name string, answers ...Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[name] = answers
}

// Queries returns the names that were asked for, in order.
func (r *Resolver) Queries() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.queries...)
}

// LookupNetIP makes it an egress.Resolver.
func (r *Resolver) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	a := r.next(strings.TrimSuffix(host, "."))
	if a.Hang {
		<-ctx.Done()
		return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
	}
	return a.Addrs, a.Err
}

func (r *Resolver) next(name string) Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries = append(r.queries, name)
	if !strings.HasSuffix(name, ".test") {
		r.t.Errorf("egresstest: a query for %q, which is not in .test", name)
	}
	answers := r.answers[name]
	switch len(answers) {
	case 0:
		return NXDomain()
	case 1:
	default:
		r.answers[name] = answers[1:]
	}
	return answers[0]
}
