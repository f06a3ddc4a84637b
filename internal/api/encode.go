package api

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/sallyport-dev/sallyport/internal/typeid"
)

// stamp writes a time as the API has it: RFC 3339 in UTC, with all six digits of the microseconds that are kept.
func stamp(at time.Time) Time { return at.UTC().Format("2006-01-02T15:04:05.000000Z") }

func stampOf(at *time.Time) *Time {
	if at == nil {
		return nil
	}
	text := stamp(*at)
	return &text
}

// listOf is a list that is never null.
func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// namesOf turns words of the domain into those of the contract, or back: they are the same texts.
func namesOf[To, From ~string](list []From) []To {
	out := make([]To, len(list))
	for i, s := range list {
		out[i] = To(s)
	}
	return out
}

func nameOf[To, From ~string](word *From) *To {
	if word == nil {
		return nil
	}
	out := To(*word)
	return &out
}

// deref is the value of a pointer, or the zero value.
func deref[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// idOf reads an id from a path. One that is malformed names nothing, so it is answered as one that is unknown; and so is
// the nil id, which in the domain stands for the absence of a thing.
func idOf(prefix typeid.Prefix, text string) (uuid.UUID, error) {
	id, err := typeid.Parse(prefix, text)
	if err != nil || id == uuid.Nil {
		return uuid.Nil, notFound()
	}
	return id, nil
}

// decode reads JSON into a type; what the type doesn't know was refused by the contract.
func decode(body []byte, into any) error { return json.Unmarshal(body, into) }
