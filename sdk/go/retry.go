package sallyport

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net/http"
	"time"
)

// longestRetryAfter is how long a call waits because the gateway asked it to.
const longestRetryAfter = 30 * time.Second

// retry says whether and when what is safe to repeat is repeated.
type retry struct {
	times          int
	first, longest time.Duration
}

// after says how long to wait after a try that failed, or that it was the last one.
func (r retry) after(try int, err error) (time.Duration, bool) {
	if try > r.times || !passing(err) {
		return 0, false
	}
	wait := r.jitter(try)
	var p *Problem
	if errors.As(err, &p) {
		if p.RetryAfter > longestRetryAfter {
			return 0, false
		}
		wait += p.RetryAfter // and not together with all others who were told the same
	}
	return wait, true
}

// jitter is a random time: every client that failed in one moment comes back in one of its own.
func (r retry) jitter(try int) time.Duration {
	most := r.first
	for range try - 1 {
		if most >= r.longest/2 {
			most = r.longest
			break
		}
		most *= 2
	}
	most = min(most, r.longest)
	if most <= 0 {
		return 0
	}
	var random [8]byte
	rand.Read(random[:]) //nolint:errcheck // it never fails
	// Never less than a half: the gateway needs the time.
	return most/2 + time.Duration(binary.BigEndian.Uint64(random[:])%uint64(most/2+1))
}

// passing says whether a failure may be over when asked again.
func passing(err error) bool {
	var p *Problem
	var strange *notAnAnswer
	switch {
	case errors.As(err, &p):
		switch p.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return p.Code == "request_in_progress" // of an earlier try; its answer comes
	case errors.As(err, &strange), errors.Is(err, context.Canceled):
		return false
	}
	return true // no answer at all
}
