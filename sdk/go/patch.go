package sallyport

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Field is a field of a change: the zero value leaves it as it is, Set changes it, Clear puts it back to its default.
type Field[T any] struct {
	set   bool
	clear bool
	value T
}

// Set changes a field.
func Set[T any](value T) Field[T] { return Field[T]{set: true, value: value} }

// Clear puts a field back to its default.
func Clear[T any]() Field[T] { return Field[T]{clear: true} }

// IsZero says whether the field stays as it is.
func (f Field[T]) IsZero() bool { return !f.set && !f.clear }

// MarshalJSON writes the value, or null.
func (f Field[T]) MarshalJSON() ([]byte, error) {
	if !f.set {
		return []byte("null"), nil
	}
	return json.Marshal(f.value)
}

// Condition makes a change depend on the state of a thing.
type Condition struct{ etag string }

// IfMatch lets a change happen only if the thing still has the ETag that was read; else it fails with
// ErrPreconditionFailed.
func IfMatch(etag string) Condition { return Condition{etag} }

func ifMatch(conditions []Condition) *string {
	if len(conditions) == 0 {
		return nil
	}
	return &conditions[len(conditions)-1].etag
}

// encode writes a body. Unlike json.Marshal it leaves <, > and & as they are.
func encode(body any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		return nil, fmt.Errorf("sallyport: write JSON: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
