package api_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/internal/api"
)

// eventCase is a posted event of the corpus, and what becomes of it.
type eventCase struct {
	Name     string            `json:"name"`
	Body     string            `json:"body"`
	Hex      string            `json:"hex"`      // the body, where it is no UTF-8
	Expand   map[string][2]any `json:"expand"`   // what stands for many of a text in the body
	Code     string            `json:"code"`     // of the problem; empty: accepted
	Pointers []string          `json:"pointers"` // the fields that are told of, in this order
	Only     string            `json:"only"`     // "rest": the other ways in cannot be given it
	Data     string            `json:"data"`     // the bytes of the data, if accepted
	Type     string            `json:"type"`
	Subject  string            `json:"subject"`
}

func (c eventCase) body(t *testing.T) []byte {
	t.Helper()
	if c.Hex != "" {
		b, err := hex.DecodeString(c.Hex)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		return b
	}
	body := c.Body
	for mark, many := range c.Expand {
		body = strings.ReplaceAll(body, mark, strings.Repeat(many[0].(string), int(many[1].(float64))))
	}
	return []byte(body)
}

func eventCorpus(t testing.TB) []eventCase {
	t.Helper()
	text, err := os.ReadFile("testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []eventCase
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEventCorpus(t *testing.T) {
	t.Parallel()
	for _, c := range eventCorpus(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			post, err := api.ReadEvent(c.body(t))
			code, pointers := api.CodeOf(err)
			if code != c.Code || !slices.Equal(pointers, c.Pointers) {
				t.Fatalf("answered %q about %q, want %q about %q (%v)", code, pointers, c.Code, c.Pointers, err)
			}
			switch {
			case err != nil:
			case c.Data != "" && string(post.Data) != c.Data:
				t.Errorf("data is %s, want %s", post.Data, c.Data)
			case c.Type != "" && post.Type != c.Type:
				t.Errorf("type is %q, want %q", post.Type, c.Type)
			case c.Subject != "" && *post.Subject != c.Subject:
				t.Errorf("subject is %q, want %q", *post.Subject, c.Subject)
			}
		})
	}
}

func TestReadEventReadsEveryField(t *testing.T) {
	t.Parallel()
	post, err := api.ReadEvent([]byte(`{"type":"a.b","subject":"s","scopes":["x","y/z"],"previous_scopes":["w"],
		"occurred_at":"2026-07-01T12:00:00.1234567+02:00","uid":"u-1","data": {"n": 1.0} }`))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 7, 1, 10, 0, 0, 123456000, time.UTC)
	switch {
	case post.Type != "a.b", *post.Subject != "s", *post.UID != "u-1", !post.OccurredAt.Equal(at),
		!slices.Equal(post.Scopes, []string{"x", "y/z"}), !slices.Equal(post.PreviousScopes, []string{"w"}),
		string(post.Data) != `{"n": 1.0}`:
		t.Errorf("read %+v", post)
	}
}

// A text of one megabyte that is refused at its first byte must not be told back whole.
func TestReadEventKeepsItsErrorsShort(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`"`+strings.Repeat("k", 200)+`":1,`, 1000)
	_, err := api.ReadEvent([]byte(`{` + many + `"type":"a","data":1}`))
	if code, pointers := api.CodeOf(err); code != "validation_failed" || len(pointers) != 20 || len(pointers[0]) > 100 {
		t.Errorf("answered %q about %d fields, the first of %d bytes", code, len(pointers), len(pointers[0]))
	}
}

func FuzzReadEvent(f *testing.F) {
	for _, c := range eventCorpus(f) {
		if c.Expand == nil && c.Hex == "" {
			f.Add([]byte(c.Body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		post, err := api.ReadEvent(bytes.Clone(body))
		code, _ := api.CodeOf(err)
		valid := json.Valid(body) && utf8.Valid(body)
		switch {
		case err != nil && code == "":
			t.Fatalf("an error without a code: %v", err)
		case err == nil && !valid:
			t.Fatalf("accepted what is no JSON: %q", body)
		case code == "malformed_json" && valid:
			t.Fatalf("refused JSON as none: %q: %v", body, err)
		case code == "validation_failed" && !valid && json.Valid(body):
			t.Fatalf("judged fields of a text that is no UTF-8: %q", body)
		}
		if err != nil {
			return
		}
		if !json.Valid(post.Data) || !bytes.Contains(body, post.Data) {
			t.Fatalf("data %q is not the value in %q", post.Data, body)
		}
		var twin struct {
			Type, Subject, UID string
			Data               json.RawMessage
			Scopes             []string
		}
		if err := json.Unmarshal(body, &twin); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", body, err)
		}
		if twin.Type != post.Type || !bytes.Equal(twin.Data, post.Data) || !slices.Equal(twin.Scopes, post.Scopes) ||
			post.Subject != nil && *post.Subject != twin.Subject || post.UID != nil && *post.UID != twin.UID {
			t.Fatalf("encoding/json reads %+v, we %+v", twin, post)
		}
	})
}

func BenchmarkReadEvent(b *testing.B) {
	body := []byte(`{"type":"invoice.paid","subject":"invoice/991","scopes":["project/42"],"data":{"text":"` + strings.Repeat("x", 900) + `"}}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := api.ReadEvent(body); err != nil {
			b.Fatal(err)
		}
	}
}
