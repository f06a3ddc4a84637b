package glob_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/glob"
)

func TestParse(t *testing.T) {
	t.Parallel()

	t.Run("what keeps to the grammar is written down in one way", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]string{
			"a":             "a",
			"*":             "**",
			"**":            "**",
			"**.**":         "**",
			"a.**.**":       "a.**",
			"a.*":           "a.*",
			"a*.*b.c*d":     "a*.*b.c*d",
			"**.a.**":       "**.a.**",
			"Invoice-1._.9": "Invoice-1._.9",
			"*.**":          "*.**",
		} {
			p, err := glob.Parse(glob.Dot, text)
			if err != nil || p.String() != want {
				t.Errorf("Parse(%q) = %q, %v; want %q", text, p.String(), err, want)
			}
			again, err := glob.Parse(glob.Dot, p.String())
			if err != nil || again.String() != p.String() {
				t.Errorf("the stored form %q reads back as %q, %v", p, again, err)
			}
		}
	})

	t.Run("the rest is refused at its first wrong byte", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			sep    glob.Separator
			text   string
			offset int
			reason string
		}{
			{glob.Dot, "", 0, "empty"},
			{glob.Dot, ".", 0, "empty segment"},
			{glob.Dot, ".a", 0, "empty segment"},
			{glob.Dot, "a.", 2, "empty segment"},
			{glob.Dot, "a..b", 2, "empty segment"},
			{glob.Dot, "ab.**.", 6, "empty segment"},
			{glob.Dot, "a.b**", 3, "** within a segment"},
			{glob.Dot, "a.***", 2, "** within a segment"},
			{glob.Dot, "**a", 0, "** within a segment"},
			{glob.Dot, "a.*b*", 4, "a second *"},
			{glob.Dot, "*a*a*a*a*a*a*a*a*a*a*z", 2, "a second *"},
			{glob.Dot, "**.a.**.b.**", 10, "a third **"},
			{glob.Dot, "a/b", 1, "a slash"},
			{glob.Slash, "a.b", 1, "a dot"},
			{glob.Dot, "a.[bc]", 2, "'['"},
			{glob.Dot, "a.{b,c}", 2, "'{'"},
			{glob.Dot, "a?", 1, "'?'"},
			{glob.Dot, `a\*`, 1, `'\\'`},
			{glob.Dot, "!a", 0, "'!'"},
			{glob.Dot, "a b", 1, "' '"},
			{glob.Dot, "naïve.a", 2, "'ï'"},
			{glob.Dot, "a\x00", 1, `'\x00'`},
			{glob.Dot, "a.\xff", 2, "'�'"},
			{glob.Dot, strings.Repeat("a", 129), 128, "longer than 128"},
		} {
			_, err := glob.Parse(c.sep, c.text)
			var e *glob.Error
			if !errors.As(err, &e) {
				t.Errorf("Parse(%q) is accepted", c.text)
				continue
			}
			if e.Offset != c.offset || !strings.Contains(e.Reason, c.reason) {
				t.Errorf("Parse(%q): %q at %d; want %q at %d", c.text, e.Reason, e.Offset, c.reason, c.offset)
			}
			if len(e.Pattern) > glob.MaxBytes+len("…") {
				t.Errorf("the error repeats %d bytes", len(e.Pattern))
			}
		}
	})

	t.Run("a list keeps its order and loses what repeats", func(t *testing.T) {
		t.Parallel()
		ps, err := glob.ParseList(glob.Dot, []string{"user.*", "user.created", "*", "user.*", "**", "a.**.**", "a.**"})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := texts(ps), []string{"user.*", "user.created", "**", "a.**"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("an error in a list names the place, and so does the 51st", func(t *testing.T) {
		t.Parallel()
		var e *glob.Error
		if _, err := glob.ParseList(glob.Dot, []string{"a", "b..c"}); !errors.As(err, &e) || e.Index != 1 || e.Offset != 2 {
			t.Errorf("got %+v", e)
		}
		if _, err := glob.ParseList(glob.Dot, slices.Repeat([]string{"a"}, 50)); err != nil {
			t.Errorf("50 globs: %v", err)
		}
		if _, err := glob.ParseList(glob.Dot, slices.Repeat([]string{"a"}, 51)); !errors.As(err, &e) || e.Index != 50 {
			t.Errorf("51 globs: %v", err)
		}
	})
}

func TestCheckText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a", "a.b", "A-1._", "gateway.test", strings.Repeat("a", 128)} {
		if err := glob.CheckText(glob.Dot, text); err != nil {
			t.Errorf("type %q: %v", text, err)
		}
	}
	for text, offset := range map[string]int{
		"": 0, "a.*": 2, "**": 0, "a..b": 2, "a.": 2, ".a": 0, "a/b": 1, "a\r\nb": 1, "naïve.type": 2, "a b": 1,
		strings.Repeat("a", 300): 128,
	} {
		var e *glob.Error
		if err := glob.CheckText(glob.Dot, text); !errors.As(err, &e) || e.Offset != offset {
			t.Errorf("type %q: %v; want an error at byte %d", text, err, offset)
		}
	}
	if err := glob.CheckText(glob.Slash, "project/42"); err != nil {
		t.Error(err)
	}
	if err := glob.CheckText(glob.Slash, "project.42"); err == nil {
		t.Error("a dot in a scope is accepted")
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"a.b":       {"a.b"},
		"**":        {"", ""},
		"a.**":      {"a", ""},
		"**.a":      {"", "a"},
		"a.*.**.b":  {"a.*", "b"},
		"**.a.**":   {"", "a", ""},
		"a.**.b.**": {"a", "b", ""},
		"a.**.**.b": {"a", "b"},
	} {
		p, err := glob.Parse(glob.Dot, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Blocks(); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func texts(ps []glob.Pattern) []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.String()
	}
	return out
}
