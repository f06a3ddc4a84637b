package glob_test

import (
	"regexp"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/endpoint"
	"github.com/sallyport-dev/sallyport/internal/glob"
)

func TestRegexpAdmitsWhatTheGlobDoes(t *testing.T) {
	t.Parallel()
	parts := []string{"a", "b", "ab", "a*", "*b", "*", "**"}
	texts := []string{"a", "b", "ab", "aab", "abb", "a.a", "a.b", "b.a", "ab.a", "a.ab", "a.b.a", "a.b.b", "b.b.b", "a.ab.b", "b.a.b.a", "a.b.ab.a.b"}
	var globs []string
	for _, x := range parts {
		globs = append(globs, x)
		for _, y := range parts {
			globs = append(globs, x+"."+y)
			for _, z := range parts {
				globs = append(globs, x+"."+y+"."+z, x+"."+y+"."+z+".**")
			}
		}
	}
	tried := 0
	for _, text := range globs {
		p, err := glob.Parse(glob.Dot, text)
		if err != nil {
			continue // a third **
		}
		expression := regexp.MustCompile(p.Regexp())
		compiled, err := endpoint.CompileTypes([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range texts {
			if got, want := expression.MatchString(typ), compiled.Match(typ); got != want {
				t.Errorf("%s as %s: admits %s is %v, want %v", text, expression, typ, got, want)
			}
			tried++
		}
	}
	if tried < 5000 {
		t.Errorf("only %d pairs were tried", tried)
	}
}
