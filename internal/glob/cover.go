package glob

import "strings"

// Cover says whether whatever one of the inner globs admits, one of the outer ones does. A true is certain. A false
// may be wrong where only several outer globs together admit what one inner glob does (a and a/*/** for a/**), so it
// errs towards refusing.
//
// "**" is covered by "**" only: among scopes it also admits events that have none.
func Cover(outer, inner []Pattern) bool {
	for _, in := range inner {
		covered := false
		for _, out := range outer {
			if covered = covers(out, in); covered {
				break
			}
		}
		if !covered {
			return false
		}
	}
	return true
}

// covers compares two globs from their ends: known[j] holds whether inner[i:] lies within outer[j:].
//
// In outer a run of "*" before a "**" stands for "that many segments or more". So a "**" of inner, wherever it
// stands within what the run takes up, is no obstacle.
func covers(out, in Pattern) bool {
	if out.separator != in.separator {
		return false
	}
	outer, inner := starsFirst(out.segments), starsFirst(in.segments)
	known, elastic := make([]bool, len(outer)+1), make([]bool, len(outer)+1)
	known[len(outer)] = true
	for j := len(outer) - 1; j >= 0; j-- {
		known[j] = outer[j] == deep && known[j+1]
		elastic[j] = outer[j] == deep || outer[j] == "*" && elastic[j+1]
	}
	for i := len(inner) - 1; i >= 0; i-- {
		after := known[len(outer)] // of inner[i+1:] and outer[j+1:]
		known[len(outer)] = false
		for j := len(outer) - 1; j >= 0; j-- {
			skipped := known[j] // of inner[i+1:] and outer[j:]
			switch {
			case outer[j] == deep:
				known[j] = known[j+1] || skipped
			case inner[i] == deep:
				known[j] = elastic[j] && skipped
			default:
				known[j] = after && segmentCovers(outer[j], inner[i])
			}
			after = skipped
		}
	}
	return known[0]
}

// starsFirst moves each "**" behind the segments "*" that follow it, which changes no meaning: "at least one" is then
// spelled in one way.
func starsFirst(segments []string) []string {
	moved := append([]string(nil), segments...)
	for i := len(moved) - 2; i >= 0; i-- {
		for j := i; j+1 < len(moved) && moved[j] == deep && moved[j+1] == "*"; j++ {
			moved[j], moved[j+1] = moved[j+1], moved[j]
		}
	}
	return moved
}

// segmentCovers compares two segments, neither of which is "**".
func segmentCovers(outer, inner string) bool {
	prefix, suffix, star := strings.Cut(outer, "*")
	if !star {
		return outer == inner
	}
	start, end, star := strings.Cut(inner, "*")
	if !star {
		return len(inner) >= len(prefix)+len(suffix) && strings.HasPrefix(inner, prefix) && strings.HasSuffix(inner, suffix)
	}
	return strings.HasPrefix(start, prefix) && strings.HasSuffix(end, suffix)
}
