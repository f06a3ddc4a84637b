package endpoint_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/endpoint"
)

// globTable is testdata/globs.json, the table that the docs show.
type globTable struct {
	Types, Scopes []struct {
		Glob            string
		Admits, Refuses []string
	}
	Refused []struct {
		Grammar, Glob string
		At            int
	}
}

func readGlobTable(t testing.TB) globTable {
	t.Helper()
	raw, err := os.ReadFile("testdata/globs.json")
	if err != nil {
		t.Fatal(err)
	}
	var table globTable
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	return table
}

func TestGlobsKeepToThePublishedTable(t *testing.T) {
	t.Parallel()
	table := readGlobTable(t)
	for _, row := range table.Types {
		g, err := endpoint.CompileTypes([]string{row.Glob})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range slices.Concat(row.Admits, row.Refuses) {
			if err := endpoint.ValidType(text); err != nil {
				t.Errorf("the table holds what is no type: %v", err)
			}
			if got, want := g.Match(text), slices.Contains(row.Admits, text); got != want {
				t.Errorf("does %s admit the type %s? got %v", row.Glob, text, got)
			}
		}
	}
	for _, row := range table.Scopes {
		g, err := endpoint.CompileScopes([]string{row.Glob})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range slices.Concat(row.Admits, row.Refuses) {
			if err := endpoint.ValidScope(text); err != nil {
				t.Errorf("the table holds what is no scope: %v", err)
			}
			if got, want := g.Match(text), slices.Contains(row.Admits, text); got != want {
				t.Errorf("does %s admit the scope %s? got %v", row.Glob, text, got)
			}
		}
	}
	for _, row := range table.Refused {
		compile := endpoint.CompileTypes
		if row.Grammar == "scopes" {
			compile = endpoint.CompileScopes
		}
		_, err := compile([]string{row.Glob})
		var e *endpoint.GlobError
		if !errors.As(err, &e) || e.Offset != row.At {
			t.Errorf("%q: %v; want it refused at byte %d", row.Glob, err, row.At)
		}
	}
}

func TestGlobs(t *testing.T) {
	t.Parallel()

	t.Run("one of a list is enough, and they are stored once each", func(t *testing.T) {
		t.Parallel()
		g := types(t, "user.*", "user.created", "user.*", "a.**")
		if got, want := g.Texts(), []string{"user.*", "user.created", "a.**"}; !slices.Equal(got, want) {
			t.Errorf("stored as %q, want %q", got, want)
		}
		for text, want := range map[string]bool{"user.created": true, "user.gone": true, "a": true, "b": false} {
			if g.Match(text) != want {
				t.Errorf("Match(%q) = %v", text, !want)
			}
		}
	})

	t.Run("no glob at all admits nothing", func(t *testing.T) {
		t.Parallel()
		var g endpoint.Globs
		if g.Match("a") || g.Match("") || endpoint.Admits(g, []string{"a"}, nil) {
			t.Error("the zero value admits something")
		}
	})

	// The library's * matches the empty text, so order.* would admit "order.". No type looks so.
	t.Run("a type with an empty segment is none, whatever the library thinks of it", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"order.", ".order", "a..b", "", "."} {
			if endpoint.ValidType(text) == nil {
				t.Errorf("%q is a valid type", text)
			}
		}
	})
}

func TestMatchingAllocatesNothing(t *testing.T) { // not parallel: it counts the process's allocations
	g := types(t, "a.**.b", "user.*", "x")
	if n := testing.AllocsPerRun(100, func() { g.Match("a.c.d.e") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAdmits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		globs            []string
		scopes, previous []string
		want             bool
	}{
		{"** admits an event without scopes", []string{"**"}, nil, nil, true},
		{"* is **", []string{"*"}, nil, nil, true},
		{"** among others admits everything", []string{"a", "**"}, []string{"b"}, nil, true},
		{"another glob admits no event without scopes", []string{"*/**"}, nil, nil, false},
		{"one scope of several is enough", []string{"project/1"}, []string{"published", "project/1"}, nil, true},
		{"one glob of several is enough", []string{"x", "project/*"}, []string{"project/1"}, nil, true},
		{"no scope matches", []string{"project/1"}, []string{"project/2", "published"}, nil, false},
		{"what has just left is told", []string{"published"}, []string{"draft"}, []string{"published"}, true},
		{"what has left elsewhere is not", []string{"published"}, []string{"draft"}, []string{"hidden"}, false},
		{"previous scopes alone are enough", []string{"published"}, nil, []string{"published"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g, err := endpoint.CompileScopes(c.globs)
			if err != nil {
				t.Fatal(err)
			}
			if got := endpoint.Admits(g, c.scopes, c.previous); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// What the grammar lets through must stay cheap in a library that backtracks. These are the worst texts and globs we
// know: stars beside the letter that all texts consist of, around a block that fits nowhere. They take microseconds;
// given to the library whole they take a millisecond, and a second star in a segment would take minutes.
func TestTheWorstGlobsStayCheap(t *testing.T) {
	t.Parallel()
	var globs []string
	for _, unit := range []string{"*", "*a", "a*", "a*a", "*aaaa", "aaaa*", "a"} {
		for _, head := range []string{"", "**.", "**.a.**.", "**." + unit + ".**.", "**.a.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*." + unit + ".**."} {
			for _, tail := range []string{"", ".**", ".z", ".*z", ".**.z"} {
				body := strings.Repeat(unit+".", 128)
				n := 128 - len(head) - len(tail)
				g := strings.TrimRight(head+body[:n-n%(len(unit)+1)], ".") + tail
				if strings.Count(g, "**") <= 2 {
					globs = append(globs, g)
				}
			}
		}
	}
	texts := []string{
		strings.Repeat("a", 128), strings.Repeat("a.", 63) + "a", strings.Repeat("aa.", 42) + "aa", strings.Repeat("aaaaaaa.", 15) + "a",
		strings.Repeat("a.", 63) + "y", strings.Repeat("a", 126) + ".y", strings.Repeat("aaaaaaaaaaaaaaa.", 7) + "y",
	}
	var worst time.Duration
	var which string
	for _, g := range globs {
		compiled := types(t, g)
		for _, text := range texts {
			began := time.Now()
			compiled.Match(text)
			if took := time.Since(began); took > worst {
				worst, which = took, g+" on "+text
			}
		}
	}
	t.Logf("%d globs, the worst took %v: %s", len(globs), worst, which)
	if worst > 100*time.Millisecond {
		t.Errorf("matching took %v: %s", worst, which)
	}
}

// FuzzGlobs holds the library, behind our grammar, to a matcher that reads the grammar word for word.
func FuzzGlobs(f *testing.F) {
	table := readGlobTable(f)
	for _, row := range table.Types {
		for _, text := range slices.Concat(row.Admits, row.Refuses) {
			f.Add(row.Glob, text)
		}
	}
	for _, row := range table.Refused {
		f.Add(row.Glob, "a.b.c")
	}
	f.Fuzz(func(t *testing.T, text, typ string) {
		g, err := endpoint.CompileTypes([]string{text})
		if err != nil {
			var e *endpoint.GlobError
			if !errors.As(err, &e) {
				t.Fatalf("%q passes the grammar, but: %v", text, err)
			}
			if e.Offset < 0 || e.Offset > len(text) {
				t.Fatalf("%q: the place %d is not in it", text, e.Offset)
			}
			return
		}
		if endpoint.ValidType(typ) != nil {
			return
		}
		want := admits(strings.Split(text, "."), strings.Split(typ, "."))
		if text == "*" {
			want = true
		}
		if first, _, _ := strings.Cut(typ, "."); first == "gateway" && !strings.HasPrefix(text+".", "gateway.") {
			want = false
		}
		if got := g.Match(typ); got != want {
			t.Fatalf("does %s admit %s? got %v", text, typ, got)
		}
		scopes, err := endpoint.CompileScopes([]string{strings.ReplaceAll(text, ".", "/")})
		if err != nil {
			t.Fatalf("%q is a glob of types but not of scopes: %v", text, err)
		}
		if got := scopes.Match(strings.ReplaceAll(typ, ".", "/")); got != want && !endpoint.Reserved(typ) {
			t.Fatalf("does %s, with slashes, admit %s? got %v", text, typ, got)
		}
	})
}

func admits(glob, text []string) bool {
	switch {
	case len(glob) == 0:
		return len(text) == 0
	case glob[0] == "**":
		return admits(glob[1:], text) || len(text) > 0 && admits(glob, text[1:])
	case len(text) == 0:
		return false
	}
	prefix, suffix, star := strings.Cut(glob[0], "*")
	one := glob[0] == text[0]
	if star {
		one = len(text[0]) >= len(prefix)+len(suffix) && strings.HasPrefix(text[0], prefix) && strings.HasSuffix(text[0], suffix)
	}
	return one && admits(glob[1:], text[1:])
}

func types(t testing.TB, globs ...string) endpoint.Globs {
	t.Helper()
	g, err := endpoint.CompileTypes(globs)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
