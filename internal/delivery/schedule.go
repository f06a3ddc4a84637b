package delivery

import "time"

// Tries is how many tries a run has: the first and one after each of the schedule's delays.
func (p Policy) Tries(schedule []time.Duration) int {
	if len(schedule) == 0 {
		schedule = p.Schedule
	}
	return len(schedule) + 1
}

// DefaultSchedule is the delay after each failed try but the last: 18 tries over 127.6 hours.
func DefaultSchedule() []time.Duration {
	s := []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour}
	for len(s) < 17 {
		s = append(s, 10*time.Hour)
	}
	return s
}

// jittered moves a delay by up to ±share of it; at is a random number in [0, 1).
func jittered(d time.Duration, share, at float64) time.Duration {
	return d + time.Duration(float64(d)*share*(2*at-1))
}

// doubling is first, doubled n times, at most limit.
func doubling(first, limit time.Duration, n int) time.Duration {
	d := first
	for range n {
		if d >= limit/2 {
			return limit
		}
		d *= 2
	}
	return min(d, limit)
}
