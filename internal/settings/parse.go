package settings

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// split takes a list apart at its commas. Spaces around an element, and an empty text, count for nothing.
func split(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

func join(list []string) string { return strings.Join(list, ",") }

// scan makes a parser into a step of parts.
func scan[T any](to *T, parse func(string) (T, *flaw)) func(string) *flaw {
	return func(text string) *flaw {
		v, bad := parse(text)
		*to = v
		return bad
	}
}

// parts reads a text of several values with commas between.
func parts(text, shape string, steps ...func(string) *flaw) *flaw {
	list := split(text)
	if len(list) != len(steps) {
		return &flaw{fmt.Sprintf("has %d parts of %d", len(list), len(steps)), "Write it as " + shape + "."}
	}
	for i, step := range steps {
		if bad := step(list[i]); bad != nil {
			return &flaw{fmt.Sprintf("is wrong in part %d, which %s", i+1, bad.what), "Write it as " + shape + "."}
		}
	}
	return nil
}

func parseInt(text string) (int, *flaw) {
	n, err := strconv.Atoi(strings.ReplaceAll(text, "_", ""))
	if err != nil {
		return 0, &flaw{"is not a whole number", "Write digits, as 1000."}
	}
	return n, nil
}

func parseFloat(text string) (float64, *flaw) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) {
		return 0, &flaw{"is not a number", "Write it as 0.1."}
	}
	return f, nil
}

func printFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func parseDuration(text string) (time.Duration, *flaw) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, &flaw{"is not a time", "Write it as 500ms, 90s, 15m or 168h."}
	}
	return d, nil
}

func parseSpan(text string) (time.Duration, *flaw) {
	d, bad := parseDuration(text)
	if bad == nil && d <= 0 {
		return d, &flaw{"is no time at all", "Write a time longer than 0."}
	}
	return d, bad
}

// printSpan leaves out the units that are zero: 168h, not 168h0m0s.
func printSpan(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func parseRange(text string) (Range, *flaw) {
	shape := "Write it as shortest..longest, as 2s..1m."
	low, high, ok := strings.Cut(text, "..")
	if !ok {
		return Range{}, &flaw{"is not a range", shape}
	}
	var r Range
	var bad *flaw
	if r.Min, bad = parseSpan(low); bad != nil {
		return r, &flaw{"begins with what " + bad.what, shape}
	}
	if r.Max, bad = parseSpan(high); bad != nil {
		return r, &flaw{"ends with what " + bad.what, shape}
	}
	if r.Min > r.Max {
		return r, &flaw{"begins with the longer one", shape}
	}
	return r, nil
}

func printRange(r Range) string { return printSpan(r.Min) + ".." + printSpan(r.Max) }

// longestSchedule bounds what `10h*N` may unfold to.
const longestSchedule = 1000

func parseSchedule(text string) ([]time.Duration, *flaw) {
	var gaps []time.Duration
	for _, part := range split(text) {
		one, times, many := strings.Cut(part, "*")
		n := 1
		var bad *flaw
		if many {
			if n, bad = between(parseInt, strconv.Itoa, 1, longestSchedule)(times); bad != nil {
				return nil, &flaw{"has a gap whose number of repeats " + bad.what, "Write it as 10h*12."}
			}
		}
		d, bad := parseSpan(one)
		if bad != nil {
			return nil, &flaw{"has a gap that " + bad.what, bad.do}
		}
		if len(gaps)+n > longestSchedule {
			return nil, &flaw{"has too many gaps", "Write 17 of them."}
		}
		gaps = append(gaps, slices.Repeat([]time.Duration{d}, n)...)
	}
	return gaps, nil
}

func printSchedule(gaps []time.Duration) string {
	var out []string
	for i := 0; i < len(gaps); {
		n := 1
		for i+n < len(gaps) && gaps[i+n] == gaps[i] {
			n++
		}
		text := printSpan(gaps[i])
		if n > 1 {
			text += "*" + strconv.Itoa(n)
		}
		out = append(out, text)
		i += n
	}
	return strings.Join(out, ",")
}

func parsePorts(text string) ([]PortRange, *flaw) {
	bad := &flaw{"holds something that is not a port or a range of ports", "Write it as 80,443,1024-65535."}
	var list []PortRange
	for _, part := range split(text) {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		low, err1 := strconv.ParseUint(from, 10, 16)
		high, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil || low == 0 || low > high {
			return nil, bad
		}
		list = append(list, PortRange{uint16(low), uint16(high)})
	}
	if len(list) == 0 {
		return nil, &flaw{"names no port, so nothing could be delivered", bad.do}
	}
	return list, nil
}

func printPorts(list []PortRange) string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = strconv.Itoa(int(p.From))
		if p.To != p.From {
			out[i] += "-" + strconv.Itoa(int(p.To))
		}
	}
	return strings.Join(out, ",")
}
