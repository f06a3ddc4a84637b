package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/internal/api"
)

func TestCheckTextFindsRepeatedKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}`: nil,
		`{"a":1,"a":1}`:                                 {"/a"},
		`{"a":1,"\u0061":1,"a":1}`:                      {"/a", "/a"},
		`[0,{"x/y~z":{"b":1,"c":2,"b":3}}]`:             {"/1/x~1y~0z/b"},
		`{"a":1,"A":1}`:                                 nil, // the contract refuses one of them
		`{"\ud83d\ude00":1,"😀":2}`:                      {"/😀"},
		`{"` + strings.Repeat("k", 100) + `":1,"x":{}}`: nil,
	} {
		err := api.CheckText([]byte(text))
		code, pointers := api.CodeOf(err)
		if !slices.Equal(pointers, want) || (err != nil) != (want != nil) || err != nil && code != "validation_failed" {
			t.Errorf("%s: %q about %q, want %q", text, code, pointers, want)
		}
	}
}

// What the scanner takes for JSON is what encoding/json does, so that what is checked is what is then decoded.
func FuzzCheckText(f *testing.F) {
	for _, c := range eventCorpus(f) {
		if c.Expand == nil && c.Hex == "" {
			f.Add([]byte(c.Body))
		}
	}
	f.Add([]byte(strings.Repeat("[", api.MaxNesting+1) + strings.Repeat("]", api.MaxNesting+1)))
	f.Fuzz(func(t *testing.T, body []byte) {
		code, _ := api.CodeOf(api.CheckText(body))
		valid := json.Valid(body) && utf8.Valid(body)
		if code == "malformed_json" && valid || code == "" && !valid {
			t.Fatalf("%q is judged %q, valid JSON is %v", body, code, valid)
		}
	})
}
