package sallyport

import (
	"context"
	"iter"
	"net/http"
)

// page is one of a list.
type page[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"`
}

// list ranges over a list, page after page. An error ends it.
func list[T any](ctx context.Context, t *transport, build func(cursor *string) (*http.Request, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var cursor *string
		for {
			var p page[T]
			req, err := build(cursor)
			if _, err := t.call(ctx, true, &p, req, err); err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, element := range p.Data {
				if !yield(element, nil) {
					return
				}
			}
			if p.NextCursor == nil {
				return
			}
			cursor = p.NextCursor
		}
	}
}

// pageSize is how many things are fetched at once: the largest page, unless a filter says otherwise.
func pageSize(n int) *int {
	if n <= 0 {
		n = 200
	}
	return &n
}

// given is a pointer to a text that a filter names, or nil.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// several is the list that a filter names, in the type of the generated code, or nil.
func several[To, From ~string](values []From) *[]To {
	if len(values) == 0 {
		return nil
	}
	out := make([]To, len(values))
	for i, v := range values {
		out[i] = To(v)
	}
	return &out
}
