package egress_test

import (
	"bufio"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/egress"
)

// entry is a line of testdata/urls.txt.
type entry struct {
	line      int
	policy    egress.Policy
	verdict   string
	canonical string
	raw       string
}

func corpus(t testing.TB) []entry {
	file, err := os.Open("testdata/urls.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var entries []entry
	var policy egress.Policy
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case line == "" || line[0] == '#':
			continue
		case line[0] == '[':
			policy = egress.Policy{AllowHTTP: line == "[http]"}
			continue
		}
		verdict, rest, _ := strings.Cut(line, " ")
		e := entry{line: n, policy: policy, verdict: verdict}
		if verdict == "=" {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				t.Fatalf("line %d: %v", n, err)
			}
			e.canonical, rest = unquote(t, n, quoted), strings.TrimPrefix(rest[len(quoted):], " ")
		}
		e.raw = unquote(t, n, rest)
		if verdict == "ok" {
			e.canonical = e.raw
		}
		entries = append(entries, e)
	}
	if err := lines.Err(); err != nil || len(entries) < 200 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	return entries
}

func unquote(t testing.TB, line int, quoted string) string {
	s, err := strconv.Unquote(quoted)
	if err != nil {
		t.Fatalf("line %d: %s: %v", line, quoted, err)
	}
	return s
}

func TestParseURLAgreesWithTheCorpus(t *testing.T) {
	t.Parallel()
	codes := map[string]string{"blocked": egress.CodeURLBlocked, "insecure": egress.CodeURLInsecure, "invalid": egress.CodeURLInvalid}
	for _, e := range corpus(t) {
		u, err := egress.ParseURL(e.raw, e.policy)
		if e.canonical != "" {
			if err != nil || u.String() != e.canonical {
				t.Errorf("line %d: %q gives %v, %v, want %s", e.line, e.raw, u, err, e.canonical)
			}
			continue
		}
		var refused *egress.URLError
		if !errors.As(err, &refused) || refused.Code != codes[e.verdict] || u != nil {
			t.Errorf("line %d: %q gives %v, %v, want %s", e.line, e.raw, u, err, codes[e.verdict])
			continue
		}
		if refused.Detail == "" || strings.Contains(refused.Error()+refused.Hint, "s3cr3t") {
			t.Errorf("line %d: the texts are %q and %q", e.line, refused.Error(), refused.Hint)
		}
	}
}

func TestParseURLHintsAtAHeaderForCredentials(t *testing.T) {
	t.Parallel()
	_, err := egress.ParseURL("https://u:s3cr3t@r.example.test/", egress.Policy{})
	var refused *egress.URLError
	if !errors.As(err, &refused) || !strings.Contains(refused.Hint, "header") {
		t.Errorf("got %v, want a hint to use a header", err)
	}
}

func TestParseURLBoundsItsLength(t *testing.T) {
	t.Parallel()
	fill := func(prefix, unit string, n int) string {
		return prefix + strings.Repeat(unit, (n-len(prefix))/len(unit))
	}
	const prefix = "https://example.com/"
	for name, c := range map[string]struct {
		raw  string
		good bool
	}{
		"2048 bytes":                     {fill(prefix, "a", 2048), true},
		"2049 bytes":                     {fill(prefix, "a", 2049), false},
		"2048 bytes, 6 when encoded":     {fill(prefix, "é", 2048), false},
		"338 é, 2048 bytes when encoded": {fill(prefix, "é", 696), true},
		"339 é, 2054 bytes when encoded": {fill(prefix, "é", 698), false},
		"a host of 253 bytes":            {"https://" + strings.Repeat("a23456789.", 25) + "abc/", true},
		"a host of 254 bytes":            {"https://" + strings.Repeat("a23456789.", 25) + "abcd/", false},
		"253 bytes and a dot":            {"https://" + strings.Repeat("a23456789.", 25) + "abc./", true},
		"a label of 63 bytes":            {"https://" + strings.Repeat("a", 63) + ".test/", true},
		"a label of 64 bytes":            {"https://" + strings.Repeat("a", 64) + ".test/", false},
		"an encoded label past 63 once":  {"https://" + strings.Repeat("ü", 70) + ".test/", false},
	} {
		if u, err := egress.ParseURL(c.raw, egress.Policy{}); (err == nil) != c.good {
			t.Errorf("%s: got %v, %v, want good %v", name, u, err, c.good)
		}
	}
}

// What comes out goes in again unchanged, names a host that the policy judges the same, and can be sent.
func FuzzParseURL(f *testing.F) {
	for _, e := range corpus(f) {
		f.Add(e.raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, policy := range []egress.Policy{{AllowHTTP: true}, {AllowHTTP: true, AllowLoopback: true, Allow: []string{"10.0.0.0/8"}}} {
			u, err := egress.ParseURL(raw, policy)
			if err != nil {
				var refused *egress.URLError
				if !errors.As(err, &refused) || refused.Code == "" || refused.Detail == "" {
					t.Fatalf("%q: an error of another kind: %v", raw, err)
				}
				continue
			}
			canonical := u.String()
			again, err := egress.ParseURL(canonical, policy)
			if err != nil || again.String() != canonical {
				t.Fatalf("%q gives %q, which gives %v, %v", raw, canonical, again, err)
			}
			if u.User != nil || u.Fragment != "" || u.Opaque != "" || u.Path == "" || len(canonical) > egress.MaxURL {
				t.Fatalf("%q gives %#v", raw, u)
			}
			for _, text := range []string{canonical, u.RequestURI(), u.Host} {
				if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
					t.Fatalf("%q gives %q, which can't be sent", raw, text)
				}
			}
			if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
				if c := egress.Classify(addr); c != egress.ClassPublic && c != egress.ClassLoopback && c != egress.ClassPrivate {
					t.Fatalf("%q gives %s, which is %s", raw, addr, c)
				}
			}
		}
	})
}

func BenchmarkParseURL(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := egress.ParseURL("https://api.example.com/webhooks/incoming?token=abc", egress.Policy{}); err != nil {
			b.Fatal(err)
		}
	}
}
