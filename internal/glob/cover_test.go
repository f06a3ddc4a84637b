package glob_test

import (
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/glob"
)

func TestCover(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outer, inner string
		want         bool
	}{
		{"**", "**", true},
		{"**", "project/42", true},
		{"*", "**", true},
		{"project/*", "project/42", true},
		{"project/*", "project/*", true},
		{"project/**", "project/*", true},
		{"project/*", "project/**", false},
		{"project/42", "project/*", false},
		{"project/*", "**", false},
		{"*/**", "**", false}, // an event without scopes
		{"**/*", "*/**", true},
		{"*/**", "**/*", true},
		{"**/a", "a", true},
		{"**/a", "b/**/a", true},
		{"a/**/b", "a/b", true},
		{"a/**/b", "a/**", false},
		{"a*", "ab*", true},
		{"ab*", "a*", false},
		{"a*b", "ab", true},
		{"a*ba", "aba", true},
		{"ab*ba", "aba", false},
		{"a*a", "a", false},
		{"*x", "a*x", true},
		{"a,b", "a,b,a", true},
		{"a,b", "a,c", false},
		{"a,a/*/**", "a/**", false}, // only together: refused, to be on the safe side
	} {
		if got := glob.Cover(list(t, c.outer), list(t, c.inner)); got != c.want {
			t.Errorf("does [%s] cover [%s]? got %v", c.outer, c.inner, got)
		}
	}

	t.Run("nothing covers something, and anything covers nothing", func(t *testing.T) {
		t.Parallel()
		if glob.Cover(nil, list(t, "a")) || !glob.Cover(nil, nil) || !glob.Cover(list(t, "a"), nil) {
			t.Error("an empty list is misread")
		}
	})
}

// The globs of up to three of these segments, over the texts of up to four of these: with a name (z) that no glob
// has, and one more segment than a glob, a text tells every two of them apart.
func TestCoverAgreesWithEveryText(t *testing.T) {
	t.Parallel()
	globs := combinations([]string{"**", "*", "a", "a*", "*b", "ab"}, 3)
	texts := combinations([]string{"a", "b", "ab", "azb", "z"}, 4)
	admits := make([][]bool, len(globs))
	patterns := make([][]glob.Pattern, len(globs))
	for i, g := range globs {
		patterns[i] = list(t, g)
		admits[i] = make([]bool, len(texts)+1)
		for k, text := range texts {
			admits[i][k] = admitsText(strings.Split(patterns[i][0].String(), "/"), strings.Split(text, "/"))
		}
		admits[i][len(texts)] = patterns[i][0].All() // an event without scopes
	}
	for o := range globs {
		for i := range globs {
			want := true
			for k := range admits[i] {
				if admits[i][k] && !admits[o][k] {
					want = false
					break
				}
			}
			if got := glob.Cover(patterns[o], patterns[i]); got != want {
				t.Fatalf("does %s cover %s? got %v, the texts say %v", globs[o], globs[i], got, want)
			}
		}
	}
}

// admitsText is the grammar read word for word.
func admitsText(segments, text []string) bool {
	if len(segments) == 0 {
		return len(text) == 0
	}
	if segments[0] == "**" {
		return admitsText(segments[1:], text) || len(text) > 0 && admitsText(segments, text[1:])
	}
	if len(text) == 0 {
		return false
	}
	prefix, suffix, star := strings.Cut(segments[0], "*")
	ok := segments[0] == text[0]
	if star {
		ok = len(text[0]) >= len(prefix)+len(suffix) && strings.HasPrefix(text[0], prefix) && strings.HasSuffix(text[0], suffix)
	}
	return ok && admitsText(segments[1:], text[1:])
}

func combinations(segments []string, most int) []string {
	all, last := []string(nil), []string{""}
	for range most {
		var next []string
		for _, head := range last {
			for _, s := range segments {
				next = append(next, strings.TrimPrefix(head+"/"+s, "/"))
			}
		}
		all, last = append(all, next...), next
	}
	kept := all[:0]
	for _, s := range all {
		if strings.Count(s, "**") <= 2 {
			kept = append(kept, s)
		}
	}
	return kept
}

func list(t *testing.T, text string) []glob.Pattern {
	t.Helper()
	ps, err := glob.ParseList(glob.Slash, strings.Split(text, ","))
	if err != nil {
		t.Fatal(err)
	}
	return ps
}
