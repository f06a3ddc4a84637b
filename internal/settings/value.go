package settings

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is one setting's place in a Settings: it reads a text into it and prints what is there.
type value interface {
	set(text string) *flaw
	text() string // in the form that set takes
	form() string // for the docs
}

// flaw is what is wrong with a text, and what to write in its place. It never holds the text itself.
type flaw struct{ what, do string }

// field is a value of any type.
type field[T any] struct {
	to    *T
	parse func(text string) (T, *flaw)
	print func(T) string
	what  string
}

func (f field[T]) set(text string) *flaw {
	v, bad := f.parse(text)
	if bad == nil {
		*f.to = v
	}
	return bad
}

func (f field[T]) text() string { return f.print(*f.to) }
func (f field[T]) form() string { return f.what }

// between wraps a parser with bounds, both included.
func between[T cmp.Ordered](parse func(string) (T, *flaw), print func(T) string, low, high T) func(string) (T, *flaw) {
	return func(text string) (T, *flaw) {
		v, bad := parse(text)
		switch {
		case bad != nil:
			return v, bad
		case v < low:
			return v, &flaw{"is less than " + print(low), "Set it to " + print(low) + " or more."}
		case v > high:
			return v, &flaw{"is more than " + print(high), "Set it to " + print(high) + " or less."}
		}
		return v, nil
	}
}

// integer is a whole number from low to high.
func integer(to *int, low, high int) value {
	return field[int]{to, between(parseInt, strconv.Itoa, low, high), strconv.Itoa, "number"}
}

// share is a part of one.
func share(to *float64, low, high float64) value {
	return field[float64]{to, between(parseFloat, printFloat, low, high), printFloat, "share of 1"}
}

// span is a time longer than nothing.
func span(to *time.Duration) value {
	return field[time.Duration]{to, parseSpan, printSpan, "time"}
}

// spanUpTo is a time from nothing to high, both included.
func spanUpTo(to *time.Duration, high time.Duration) value {
	return field[time.Duration]{to, between(parseDuration, printSpan, 0, high), printSpan, "time"}
}

// spanRange is "2s..1m".
func spanRange(to *Range) value { return field[Range]{to, parseRange, printRange, "time..time"} }

// schedule is a list of gaps, "5s,5m,10h*12".
func schedule(to *[]time.Duration) value {
	return field[[]time.Duration]{to, parseSchedule, printSchedule, "list of times, `10h*3` is `10h,10h,10h`"}
}

func boolean(to *bool) value {
	return field[bool]{to, func(text string) (bool, *flaw) {
		switch strings.ToLower(text) {
		case "true", "yes", "on", "1":
			return true, nil
		case "false", "no", "off", "0":
			return false, nil
		}
		return false, &flaw{"is neither true nor false", "Write true or false."}
	}, strconv.FormatBool, "true or false"}
}

// word is one of a closed set.
func word(to *string, allowed ...string) value {
	return field[string]{to, func(text string) (string, *flaw) {
		if !slices.Contains(allowed, text) {
			return "", &flaw{"is not known", "Write one of " + strings.Join(allowed, ", ") + "."}
		}
		return text, nil
	}, func(s string) string { return s }, strings.Join(allowed, " or ")}
}

// words is a list of words out of a closed set, each once, at least one.
func words(to *[]string, allowed ...string) value {
	return field[[]string]{to, func(text string) ([]string, *flaw) {
		list := split(text)
		do := "Write one or more of " + strings.Join(allowed, ", ") + ", with commas between."
		if len(list) == 0 {
			return nil, &flaw{"names none", do}
		}
		for i, w := range list {
			if !slices.Contains(allowed, w) {
				return nil, &flaw{"has a word that is not known", do}
			}
			if slices.Contains(list[:i], w) {
				return nil, &flaw{"names one twice", do}
			}
		}
		return list, nil
	}, join, "list of " + strings.Join(allowed, ", ")}
}

// texts is a list that the package that uses it judges.
func texts(to *[]string, what string) value {
	return field[[]string]{to, func(text string) ([]string, *flaw) { return split(text), nil }, join, what}
}

// plain is a text that must not be empty.
func plain(to *string) value {
	return field[string]{to, func(text string) (string, *flaw) {
		if text == "" || strings.TrimSpace(text) != text {
			return "", &flaw{"is empty or begins or ends with a space", "Write a name."}
		}
		return text, nil
	}, func(s string) string { return s }, "text"}
}

// address is host:port to listen on; the host may be left out, port 0 is any free one.
func address(to *string) value {
	return field[string]{to, func(text string) (string, *flaw) {
		_, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return "", &flaw{"is not an address to listen on", "Write host:port, as 127.0.0.1:8080, or :8080 for every interface."}
		}
		return text, nil
	}, func(s string) string { return s }, "host:port"}
}

// addrPort is an IP address and a port, or nothing.
func addrPort(to *netip.AddrPort) value {
	return field[netip.AddrPort]{to, func(text string) (netip.AddrPort, *flaw) {
		if text == "" {
			return netip.AddrPort{}, nil
		}
		a, err := netip.ParseAddrPort(text)
		if err != nil || a.Port() == 0 {
			return a, &flaw{"is not an IP address and a port", "Write it as 10.0.0.2:53 or [fd00::2]:53; a name would need a resolver itself."}
		}
		return a, nil
	}, func(a netip.AddrPort) string {
		if !a.IsValid() {
			return ""
		}
		return a.String()
	}, "ip:port"}
}

// ports is a list of ports and ranges of them.
func ports(to *[]PortRange) value {
	return field[[]PortRange]{to, parsePorts, printPorts, "list of ports and ranges"}
}

// link is an absolute http or https URL without credentials, query or fragment, or nothing.
func link(to *string) value {
	return field[string]{to, func(text string) (string, *flaw) {
		if text == "" {
			return "", nil
		}
		u, err := url.Parse(text)
		if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" ||
			u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return "", &flaw{"is not a plain http or https URL", "Write it as https://hooks.example.com, without credentials, query or fragment."}
		}
		return strings.TrimSuffix(text, "/"), nil
	}, func(s string) string { return s }, "URL"}
}

// origins is a list of web origins.
func origins(to *[]string) value {
	return field[[]string]{to, func(text string) ([]string, *flaw) {
		list := split(text)
		for _, o := range list {
			u, err := url.Parse(o)
			if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.Scheme+"://"+u.Host != o {
				return nil, &flaw{"holds something that is not an origin", "Write each as https://app.example.com: scheme, host and port alone; * is not taken."}
			}
		}
		return list, nil
	}, join, "list of origins"}
}

func level(to *slog.Level) value {
	return field[slog.Level]{to, func(text string) (slog.Level, *flaw) {
		for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			if text == printLevel(l) {
				return l, nil
			}
		}
		return 0, &flaw{"is not a level", "Write one of debug, info, warn, error."}
	}, printLevel, "debug, info, warn or error"}
}

func printLevel(l slog.Level) string { return strings.ToLower(l.String()) }

// secret is a text that is never shown.
func secret(to *Secret) value {
	return field[Secret]{to, func(text string) (Secret, *flaw) { return NewSecret(text), nil }, Secret.String, "`id:base64` and so on"}
}

// database is a secret of which the host, the port and the name are shown.
func database(to *Secret) value {
	return field[Secret]{to, func(text string) (Secret, *flaw) { return NewSecret(text), nil },
		func(s Secret) string { return databaseSummary(s.Reveal()) }, "URL or DSN"}
}

// backlog is "1000,5m".
func backlog(to *BacklogAlert) value {
	return field[BacklogAlert]{to, func(text string) (v BacklogAlert, bad *flaw) {
		bad = parts(text, "rows,age, as 1000,5m",
			scan(&v.Events, between(parseInt, strconv.Itoa, 1, 1<<31-1)), scan(&v.Age, parseSpan))
		return v, bad
	}, func(v BacklogAlert) string { return fmt.Sprintf("%d,%s", v.Events, printSpan(v.Age)) }, "rows,age"}
}

// internalBackoff is "1m..1h,24h".
func internalBackoff(to *InternalBackoff) value {
	return field[InternalBackoff]{to, func(text string) (v InternalBackoff, bad *flaw) {
		bad = parts(text, "first..longest,give-up, as 1m..1h,24h", scan(&v.Range, parseRange), scan(&v.GiveUp, parseSpan))
		return v, bad
	}, func(v InternalBackoff) string { return printRange(v.Range) + "," + printSpan(v.GiveUp) }, "time..time,time"}
}

// outage is "20,0.9,1h".
func outage(to *EgressOutage) value {
	return field[EgressOutage]{to, func(text string) (v EgressOutage, bad *flaw) {
		bad = parts(text, "endpoints,share,window, as 20,0.9,1h",
			scan(&v.Endpoints, between(parseInt, strconv.Itoa, 1, 1<<31-1)),
			scan(&v.Share, between(parseFloat, printFloat, 0.01, 1)), scan(&v.Window, parseSpan))
		return v, bad
	}, func(v EgressOutage) string {
		return fmt.Sprintf("%d,%s,%s", v.Endpoints, printFloat(v.Share), printSpan(v.Window))
	}, "endpoints,share,window"}
}

// reconcile is "1m,2m".
func reconcile(to *Reconcile) value {
	return field[Reconcile]{to, func(text string) (v Reconcile, bad *flaw) {
		bad = parts(text, "every,overdue, as 1m,2m", scan(&v.Every, parseSpan), scan(&v.Overdue, parseSpan))
		return v, bad
	}, func(v Reconcile) string { return printSpan(v.Every) + "," + printSpan(v.Overdue) }, "time,time"}
}
